import json
import os
from pathlib import Path

import pytest

from millpond.cli.errors import NoServer
from millpond.cli.login import config_write
from millpond.cli.session import Access, access_find, config_path, state_dir


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "MILLPOND_STATE_DIR": str(tmp_path / "state"),
    }


def local(environ: dict[str, str], content: str = "mp_local\n") -> None:
    run = Path(environ["MILLPOND_STATE_DIR"]) / "run"
    run.mkdir(parents=True)
    (run / "server.json").write_text(json.dumps({"address": "http://127.0.0.1:8900", "pid": 1}))
    if content:
        (run / "admin.token").write_text(content)


def saved(environ: dict[str, str]) -> None:
    config_write(config_path(environ), {"server": "https://pool", "token": "mp_saved"})


def test_nothing_is_known(environ: dict[str, str]) -> None:
    with pytest.raises(NoServer) as caught:
        access_find(environ)
    assert "millpond up" in caught.value.hint


def test_this_machine(environ: dict[str, str]) -> None:
    local(environ)
    access = access_find(environ)
    assert (access.server, access.token) == ("http://127.0.0.1:8900", "mp_local")


def test_token_of_this_machine_may_be_unreadable(environ: dict[str, str]) -> None:
    local(environ, content="")
    assert access_find(environ).token == ""


def test_login_comes_before_this_machine(environ: dict[str, str]) -> None:
    local(environ)
    saved(environ)
    assert access_find(environ) == Access("https://pool", "mp_saved", str(config_path(environ)))


def test_environment_and_options_win(environ: dict[str, str]) -> None:
    saved(environ)
    environ |= {"MILLPOND_SERVER": "http://e", "MILLPOND_TOKEN": "mp_e"}
    assert access_find(environ) == Access("http://e", "mp_e", "options")
    assert access_find(environ, "http://o", "mp_o") == Access("http://o", "mp_o", "options")


def test_an_address_takes_only_its_own_token(environ: dict[str, str]) -> None:
    local(environ)
    saved(environ)
    assert access_find(environ, "http://stranger").token == ""
    assert access_find(environ, "https://pool/").token == "mp_saved"
    assert access_find(environ, "127.0.0.1:8900").token == "mp_local"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"server": ""}'])
def test_broken_files_are_as_if_absent(environ: dict[str, str], text: str) -> None:
    path = config_path(environ)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(NoServer):
        access_find(environ)


def test_saved_file_is_private(environ: dict[str, str]) -> None:
    saved(environ)
    path = config_path(environ)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [item.name for item in path.parent.iterdir()] == ["config.json"]


def test_folders_without_hints() -> None:
    assert config_path({"HOME": "/home/a"}) == Path("/home/a/.config/millpond/config.json")
    expected = Path("/var/lib/millpond") if os.geteuid() == 0 else Path("/home/a/.local/state/millpond")
    assert state_dir({"HOME": "/home/a"}) == expected
