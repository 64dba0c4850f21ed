"""What is loaded for a quick command, and help."""

import subprocess
import sys

import click
import pytest

from millpond.cli.errors import Exit, ExtraMissing
from millpond.cli.lazy import command_load
from millpond.cli.main import SECTIONS
from tests.replay.calls import CommandLine

HEAVY = ("httpx2", "rich", "yaml", "websockets", "pydantic", "sqlalchemy", "fastapi", "numpy")
COMMANDS = {name: target for section in SECTIONS.values() for name, target in section.items()}


def test_help_loads_nothing_heavy() -> None:
    """Not even the client: it is loaded when a server is asked."""
    code = (
        "import sys; from millpond.cli.main import command_run; "
        "assert command_run(['ps', '--help']) == 0; assert command_run(['--help']) == 0; "
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]; assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "millpond ps" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str) -> None:
    command = command_load(name, COMMANDS[name])
    assert isinstance(command, click.Command)
    assert command.name == name


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(millpond: CommandLine, name: str, lang: str) -> None:
    result = millpond(name, "--help", "--lang", lang)
    assert (result.code, result.err) == (Exit.OK, "")
    assert "--help" in result.out
    assert "help." not in result.out


def test_missing_part_says_how_to_get_it() -> None:
    with pytest.raises(ExtraMissing) as caught:
        command_load("up", "no_such_library.main:up")
    assert "no_such_library" in caught.value.message
    assert caught.value.hint == "pip install 'millpond[server]'"


def test_global_options_may_stand_anywhere(millpond: CommandLine) -> None:
    millpond.server.page("/v1/nodes")
    for args in (("--json", "nodes", "list"), ("nodes", "--json", "list"), ("nodes", "list", "--json")):
        assert millpond(*args).out == '{\n  "items": []\n}\n'


def test_no_arguments_show_help(millpond: CommandLine) -> None:
    result = millpond()
    assert result.code == Exit.OK
    assert "Usage: millpond" in result.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(millpond: CommandLine, shell: str) -> None:
    result = millpond("completion", shell)
    assert result.code == Exit.OK
    assert "_MILLPOND_COMPLETE" in result.out
    assert "_POND_COMPLETE" in result.out
