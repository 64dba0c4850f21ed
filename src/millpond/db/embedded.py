"""The embedded PostgreSQL: a server of our own below the state folder.

No TCP; one unix socket in a folder that only its user (and root) can enter; scram with a random password.  It is
started by `ensure`, belongs to nobody's process tree, and outlives who started it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import conninfo, sql

from millpond.db.processes import process_in, processes_end
from millpond.db.programs import PG_MAJOR, RunAs, folders_open, program_run, programs_readable, run_as_for
from millpond.domain.errors import Unavailable

USER = "millpond"
DATABASE = "millpond"
START_S = 60
_SOCKET = ".s.PGSQL.5432"
_SUN_PATH = 107
_ORPHANS_S = 0.5
_TRIES = 3
_LOG_LIMIT = 10 * 1024 * 1024

# Small and quiet: no helpers that only large installations need, few wake-ups, but every commit is on the disk.
_CONFIG: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "512MB",
    "io_method": "sync",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_replication_slots": "0",
    "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "max_worker_processes": "2",
    "wal_compression": "on",
    "min_wal_size": "64MB",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    "autovacuum_max_workers": "2",
    "autovacuum_worker_slots": "2",
    "autovacuum_naptime": "60s",
    "bgwriter_delay": "1s",
    "wal_writer_delay": "1s",
    "jit": "off",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %q%a ",
    "log_statement": "none",
    "log_parameter_max_length_on_error": "0",
    "log_min_error_statement": "panic",
    "cluster_name": "millpond",
}


class EmbeddedPostgres:
    """A PostgreSQL in `data_dir`.  Any number of processes may make one for the same folder; a lock orders them.

    ``options`` are PostgreSQL settings on top of ours (tests turn fsync off).
    """

    def __init__(self, data_dir: Path, run_dir: Path, options: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self.run_dir = run_dir.absolute()
        self.cluster = self.data_dir / "cluster"
        self.log = self.data_dir / "server.log"
        self._password = self.data_dir / "password"
        self._options = {**_CONFIG, **(options or {})}

    def ensure(self) -> str:
        """Make it run, from nothing if need be, and return its URL.  Running already: returns at once.

        Raises `Unavailable` with the end of its log when it does not start.
        """
        with self._locked():
            run_as = run_as_for(self.cluster)
            programs = programs_readable(self.data_dir, run_as)
            if not (self.cluster / "PG_VERSION").exists():
                self._create(programs, run_as)
            self._version_check()
            for _ in range(_TRIES):
                if not self.running():
                    self._start(programs, run_as)
                url = self.url()
                if self._database_create(url):
                    return url
        raise self._start_error("it went away again each time that it was started")

    def url(self) -> str:
        """Where it listens; it must be running."""
        lines = self._postmaster_file()
        if len(lines) < 5 or not self._password.exists():
            raise Unavailable("the embedded database is not running", hint="millpond up starts it")
        password = self._password.read_text().strip()
        return f"postgresql://{USER}:{password}@/{DATABASE}?host={quote(lines[4], safe='')}"

    def running(self) -> bool:
        """Whether its server process is alive, ready for connections, and its socket still there."""
        lines = self._postmaster_file()
        return self._ready(lines) and (Path(lines[4]) / _SOCKET).exists()

    def _ready(self, lines: list[str]) -> bool:
        return (
            len(lines) >= 8
            and lines[7].strip() == "ready"
            and lines[0].isdigit()
            and process_in(int(lines[0]), self.cluster)
        )

    def pid(self) -> int | None:
        """The id of its server process, if it is alive."""
        lines = self._postmaster_file()
        alive = bool(lines) and lines[0].isdigit() and process_in(int(lines[0]), self.cluster)
        return int(lines[0]) if alive else None

    def stop(self) -> None:
        """Stop it: open transactions are rolled back, everything committed is kept.  Not running: does nothing."""
        if not self.cluster.exists():
            return
        with self._locked():
            run_as = run_as_for(self.cluster)
            if self.pid() is not None:
                self._server_stop(programs_readable(self.data_dir, run_as), run_as)
            processes_end(self.cluster, _ORPHANS_S)

    def _server_stop(self, programs: Path, run_as: RunAs) -> None:
        argv: list[str | Path] = [programs / "bin" / "pg_ctl", "stop", "-D", self.cluster]
        argv += ["-m", "fast", "-w", "-t", str(START_S)]
        program_run(argv, run_as=run_as, cwd=self.data_dir)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.geteuid() == 0:
            folders_open(self.data_dir)
        # Who may open the file may hold the lock, and then nobody starts or stops the server.
        with os.fdopen(os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as handle:
            os.fchmod(handle.fileno(), 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _create(self, programs: Path, run_as: RunAs) -> None:
        """initdb into a folder beside, then rename: a kill in between leaves nothing half made."""
        staged = self.data_dir / "cluster.new"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(mode=0o700)
        password = secrets.token_urlsafe(32)
        descriptor, name = tempfile.mkstemp(dir=self.data_dir, prefix="password.")
        with os.fdopen(descriptor, "w") as handle:
            handle.write(password + "\n")
        argv: list[str | Path] = [
            programs / "bin" / "initdb",
            "-D",
            staged,
            "-U",
            USER,
            f"--pwfile={name}",
            "--auth=scram-sha-256",
        ]
        argv += ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        # The password is 256 random bits: iterations would only make each connection slower.
        argv += ["--no-instructions", "-c", "scram_iterations=1"]
        try:
            for path in (staged, Path(name)):
                _own(path, run_as)
            done = program_run(argv, run_as=run_as, cwd=self.data_dir)
        finally:
            Path(name).unlink()
        if done.returncode != 0:
            raise Unavailable(f"initdb failed: {_last_line(done.stdout)}", code="DATABASE")
        with (staged / "postgresql.conf").open("a") as config:
            config.write("\ninclude_if_exists = 'millpond.conf'\n")
        _write_private(self._password, password + "\n")
        staged.rename(self.cluster)

    def _version_check(self) -> None:
        found = (self.cluster / "PG_VERSION").read_text().strip()
        if found != PG_MAJOR:
            raise Unavailable(
                f"the data in {self.cluster} was made by PostgreSQL {found}, and this program ships {PG_MAJOR}",
                hint="restore a backup (millpond db backup) into a new state folder",
            )

    def _start(self, programs: Path, run_as: RunAs) -> None:
        if self._settled():
            if self.running():
                return
            # Somebody swept its socket away: it works for those who are connected, and nobody else ever gets in.
            self._server_stop(programs, run_as)
        # A server killed with -9 leaves children that hold its shared memory; a new one would refuse to start.
        processes_end(self.cluster, _ORPHANS_S)
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)
        socket_dir = self._socket_dir(run_as)
        # Nothing works in the cluster now, so what it left goes too: an unreaped or reused id would pass for it.
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (socket_dir / name).unlink(missing_ok=True)
        self._configure(socket_dir, run_as)
        argv: list[str | Path] = [programs / "bin" / "pg_ctl", "start", "-D", self.cluster, "-l", self.log]
        argv += ["-w", "-s", "-t", str(START_S)]
        try:
            done = program_run(argv, run_as=run_as, cwd=self.data_dir, timeout_s=START_S + 10)
        except subprocess.TimeoutExpired as error:
            raise self._start_error("it did not become ready in time") from error
        if done.returncode != 0:
            raise self._start_error(_last_line(done.stdout))

    def _settled(self) -> bool:
        """Wait for a server that is still recovering or already stopping: whether it became ready."""
        deadline = time.monotonic() + START_S
        while self.pid() is not None:
            if self._ready(self._postmaster_file()):
                return True
            if time.monotonic() > deadline:
                raise self._start_error("it has been recovering or stopping for a minute")
            time.sleep(0.05)
        return False

    def _start_error(self, what: str) -> Unavailable:
        lines = self.log.read_text(errors="replace").splitlines()[-3:] if self.log.exists() else []
        return Unavailable(
            f"the embedded PostgreSQL does not start: {what}",
            hint=f"look at {self.log}",
            code="DATABASE",
            details={"log": lines},
        )

    def _configure(self, socket_dir: Path, run_as: RunAs) -> None:
        settings = {**self._options, "unix_socket_directories": str(socket_dir)}
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in sorted(settings.items())]
        path = self.cluster / "millpond.conf"
        path.write_text("# Written by millpond at each start; changes are lost.\n" + "\n".join(lines) + "\n")
        _own(path, run_as)
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.old"))
        self.log.touch(mode=0o600)
        _own(self.log, run_as)

    def _socket_dir(self, run_as: RunAs) -> Path:
        """Ours below the data (as root: `run_dir` is closed to the server's user) or run folder; a socket's path must
        be short, so else one in /tmp, which must be ours and closed."""
        near = (self.data_dir if run_as.uid is not None else self.run_dir) / "postgres-socket"
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        far = [Path(tempfile.gettempdir()) / f"millpond-{digest}{suffix}" for suffix in ("", "-1", "-2", "-3")]
        for folder in (near, *far):
            if len(os.fsencode(folder)) + 1 + len(_SOCKET) <= _SUN_PATH and _private_folder(folder, run_as):
                return folder
        raise Unavailable("no folder for the database's socket", hint="set MILLPOND_STATE_DIR to a shorter path")

    def _postmaster_file(self) -> list[str]:
        try:
            return (self.cluster / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []

    def _database_create(self, url: str) -> bool:
        """Connect, and create our database at the first time.  A server in recovery is waited for.

        False: it was dying while it still looked alive.
        """
        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(url, connect_timeout=5).close()
                return True
            except psycopg.OperationalError as error:
                if "does not exist" in str(error):
                    break
                if not self.running():
                    return False
                if time.monotonic() > deadline:
                    raise self._start_error(_last_line(str(error))) from error
                time.sleep(0.05)
        with psycopg.connect(conninfo.make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        return True


def _own(path: Path, run_as: RunAs) -> None:
    if run_as.uid is not None and run_as.gid is not None:
        os.chown(path, run_as.uid, run_as.gid)


def _private_folder(folder: Path, run_as: RunAs) -> bool:
    """Make it if it is missing; whether it is a real folder of the server's user that nobody else may enter."""
    uid = os.geteuid() if run_as.uid is None else run_as.uid
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        _own(folder, run_as)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it gave no message"
