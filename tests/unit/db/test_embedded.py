"""The embedded PostgreSQL, started, killed and found again.  Real processes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from millpond.db.embedded import EmbeddedPostgres
from millpond.db.processes import processes_in
from millpond.db.programs import RunAs, programs_find, programs_readable
from millpond.db.schema import upgrade
from millpond.db.session import Database

OPTIONS = {"fsync": "off"}


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="millpond-embedded-"))
    yield folder
    EmbeddedPostgres(folder / "postgres", folder / "run").stop()
    shutil.rmtree(folder)


@pytest.fixture
def server(state: Path) -> EmbeddedPostgres:
    server = EmbeddedPostgres(state / "postgres", state / "run", OPTIONS)
    server.ensure()
    return server


def test_ensure_twice_adopts_what_runs(server: EmbeddedPostgres) -> None:
    pid, url = server.pid(), server.url()
    again = EmbeddedPostgres(server.data_dir, server.run_dir, OPTIONS)
    assert again.ensure() == url
    assert again.pid() == pid


def test_nobody_gets_in_without_the_password(server: EmbeddedPostgres) -> None:
    url = server.url()
    password = (server.data_dir / "password").read_text().strip()
    assert len(password) >= 43
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(f":{password}@", ":wrong@"))
    assert stat.S_IMODE((server.data_dir / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE(server.cluster.stat().st_mode) == 0o700
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        socket = connection.execute("SHOW unix_socket_directories").fetchone()
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert socket is not None
    assert stat.S_IMODE(Path(socket[0]).stat().st_mode) == 0o700


def test_nobody_else_can_hold_the_lock(server: EmbeddedPostgres) -> None:
    assert (server.data_dir / "lock").stat().st_mode & 0o077 == 0


def test_kill_9_loses_nothing_that_was_committed(server: EmbeddedPostgres) -> None:
    """The orphans of a killed server still hold its memory, one of them busy in a query."""
    writer = psycopg.connect(server.url(), autocommit=True)
    writer.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
    writer.execute("INSERT INTO kept VALUES (1)")
    busy = psycopg.connect(server.url(), autocommit=True)
    busy.execute("SELECT 1")
    with ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(_quietly, busy, "SELECT sum(n) FROM generate_series(1, 2000000000) n")
        pid = server.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        url = server.ensure()
        assert asleep.result(30) is False
    writer.close()
    busy.close()
    assert server.pid() != pid
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_work_goes_on_through_kills_each_thing_done_once(server: EmbeddedPostgres) -> None:
    """Writers see nothing of three kill -9 of the server, also when the kill falls into their commit."""
    upgrade(server.url())
    database = Database(server.url(), pool_size=4)
    database.run("table", lambda tx: tx.execute(text("CREATE TABLE IF NOT EXISTS done (key text)")))
    over = threading.Event()

    def write(writer: int) -> list[str]:
        keys: list[str] = []
        while not over.is_set():
            key = f"{writer}-{len(keys)}"
            database.run("write", lambda tx, key=key: tx.execute(text("INSERT INTO done VALUES (:key)"), {"key": key}))
            keys.append(key)
        return keys

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, writer) for writer in range(3)]
        try:
            for kill in range(3):
                reached = len(_done(database))
                while len(_done(database)) < reached + 20:
                    assert not any(writer.done() for writer in writers)
                pid = server.pid()
                assert pid is not None, kill
                os.kill(pid, signal.SIGKILL)
                server.ensure()
        finally:
            over.set()
    acknowledged = sorted(key for writer in writers for key in writer.result())
    assert sorted(_done(database)) == acknowledged
    database.close()


def test_a_server_without_its_socket_is_started_anew(server: EmbeddedPostgres) -> None:
    pid = server.pid()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE swept (id int)")
        folder = connection.execute("SHOW unix_socket_directories").fetchone()
        assert folder is not None
        (Path(folder[0]) / ".s.PGSQL.5432").unlink()
        assert not server.running()
        url = server.ensure()
    assert server.running()
    assert server.pid() != pid
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE swept")


def test_a_pid_file_of_somebody_else_is_seen_through(server: EmbeddedPostgres) -> None:
    """After a reboot the number may belong to another process."""
    server.stop()
    (server.cluster / "postmaster.pid").write_text(
        f"{os.getpid()}\n{server.cluster}\n1\n5432\n/nowhere\n\n  1  2\nready\n"
    )
    assert not server.running()
    assert server.pid() is None
    server.ensure()
    assert server.running()


def test_many_at_once_start_one(server: EmbeddedPostgres) -> None:
    server.stop()
    assert processes_in(server.cluster) == []
    others = [EmbeddedPostgres(server.data_dir, server.run_dir, OPTIONS) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        urls = set(pool.map(lambda other: other.ensure(), others))
    assert len(urls) == 1
    assert len({other.pid() for other in others}) == 1


def test_stop_and_start_again(server: EmbeddedPostgres) -> None:
    server.stop()
    server.stop()
    assert not server.running()
    assert server.pid() is None
    server.ensure()
    assert server.running()


def test_a_long_path_gets_a_short_socket() -> None:
    folder = Path(tempfile.mkdtemp(prefix="millpond-long-"))
    deep = folder / ("x" * 90)
    server = EmbeddedPostgres(deep / "postgres", deep / "run", OPTIONS)
    try:
        with psycopg.connect(server.ensure()) as connection:
            row = connection.execute("SHOW unix_socket_directories").fetchone()
        assert row is not None
        socket = Path(row[0])
        assert len(str(socket)) < 90
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    finally:
        server.stop()
        shutil.rmtree(folder)
    shutil.rmtree(socket)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run the server as another user")
def test_programs_below_a_closed_folder_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    installed = closed / "pginstall18"
    shutil.copytree(programs_find(), installed, symlinks=True, ignore=shutil.ignore_patterns("*.a", "include"))
    monkeypatch.setattr("millpond.db.programs.programs_find", lambda: installed)
    store = tmp_path / "store"
    store.mkdir()
    copied = programs_readable(store, RunAs(65534, 65534))
    assert copied.parent == store
    assert (copied / "bin" / "postgres").stat().st_mode & 0o005 == 0o005
    assert programs_readable(store, RunAs(65534, 65534)) == copied
    assert programs_readable(store, RunAs()) == installed


def _done(database: Database) -> list[str]:
    return database.run("read", lambda tx: list(tx.execute(text("SELECT key FROM done")).scalars()))


def _quietly(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> bool:
    try:
        connection.execute(statement)  # type: ignore[call-overload]
    except psycopg.Error:
        return False
    return True
