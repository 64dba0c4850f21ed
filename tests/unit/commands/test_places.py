"""Files of the state folder, and what ``--sim`` means."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.commands.bootstrap import pool_amounts, queues_default
from millpond.commands.places import (
    Pool,
    ServerFile,
    file_write,
    folders_make,
    pool_read,
    pool_resolve,
    pool_write,
    server_forget,
    server_read,
    server_write,
)
from millpond.commands.pool import pool_specs
from millpond.commands.start import server_argv, settings_environ, start_error_raise, start_error_write
from millpond.config import Settings
from millpond.domain.errors import Conflict, InvalidInput, Refused, Unavailable
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(state_dir=tmp_path / "state")
    folders_make(settings)
    return settings


def test_folders_are_closed_but_for_the_jobs(settings: Settings) -> None:
    modes = {folder.name: folder.stat().st_mode & 0o777 for folder in settings.state_dir.iterdir()}
    assert modes == {"run": 0o700, "engine": 0o711, "logs": 0o700, "jobs": 0o755}


def test_a_state_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"cannot use .*/file as state folder"):
        folders_make(Settings(state_dir=tmp_path / "file"))


def test_server_file(settings: Settings) -> None:
    assert server_read(settings) is None
    server_write(settings, ServerFile("http://127.0.0.1:1", 2**22 + 1, 5))
    found = server_read(settings)
    assert found == ServerFile("http://127.0.0.1:1", 2**22 + 1, 5)
    assert not found.alive
    server_forget(settings)
    server_forget(settings)
    assert server_read(settings) is None
    (settings.run_dir / "server.json").write_text("[]")
    assert server_read(settings) is None


def test_what_sim_means(tmp_path: Path) -> None:
    stored = Pool("2x8xA800-80GB", "2x8xA800-80GB")
    assert pool_resolve("", stored) == stored
    assert pool_resolve("none", stored) == Pool()
    assert pool_resolve("1x1xL4", stored) == Pool("1x1xL4", "1x1xL4")
    file = tmp_path / "pool.yaml"
    file.write_text('nodes: [{name: "n[1-3]", cards: {model: L4, count: 2}}]')
    pool = pool_resolve(str(file), stored)
    assert pool.label == "pool.yaml"
    assert [spec.name for spec in pool_specs(pool)] == ["n1", "n2", "n3"]
    assert pool_specs(Pool()) == ()
    with pytest.raises(InvalidInput, match="there is no file"):
        pool_resolve("missing.yaml", stored)


def test_the_pool_is_remembered(settings: Settings) -> None:
    assert pool_read(settings) == Pool()
    pool_write(settings, Pool("x", "一"))
    assert pool_read(settings) == Pool("x", "一")


def test_files_are_written_whole_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    file_write(path, "one", 0o600)
    file_write(path, "two", 0o600)
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["secret"]


def test_the_server_gets_every_setting_and_no_token(settings: Settings) -> None:
    env = settings_environ(settings, {"PATH": "/bin", "MILLPOND_TOKEN": "mp_x", "MILLPOND_SERVER": "http://x"})
    assert env["MILLPOND_STATE_DIR"] == str(settings.state_dir)
    assert env["MILLPOND_PORT"] == "8900"
    assert "MILLPOND_TOKEN" not in env
    assert "MILLPOND_SERVER" not in env
    assert server_argv(replace_pool=True)[-1] == "--replace-pool"


def test_why_the_server_did_not_start_reaches_up(settings: Settings) -> None:
    start_error_raise(settings)
    start_error_write(settings, Conflict("the port is taken", hint="another", code="PORT_TAKEN"))
    with pytest.raises(Refused, match="the port is taken") as found:
        start_error_raise(settings)
    assert (found.value.reason, found.value.hint) == ("PORT_TAKEN", "another")
    start_error_write(settings, Unavailable("no database"))
    with pytest.raises(Unavailable, match="no database"):
        start_error_raise(settings)


def test_default_queues_deserve_the_pool() -> None:
    specs = (NodeSpec("n1", cards=CardKind("A", count=2)), NodeSpec("n2", cards=CardKind("B", count=1)), NodeSpec("n3"))
    assert pool_amounts(specs) == {CARDS: 3000, "A": 2000, "B": 1000}
    assert [queue.name for queue in queues_default(specs)] == ["default/prod", "default/batch", "default/besteffort"]
    assert queues_default(specs)[1].deserved == pool_amounts(specs)
