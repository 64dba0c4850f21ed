"""Every millpond command that a page shows exists, with those options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from millpond.cli.main import root
from millpond.cli.session import Surroundings

ROOT = Path(__file__).parents[3]
PAGES = [
    *(page for page in (ROOT / "docs" / "guide").glob("*.md") if page.name != "cli.md"),
    ROOT / "README.md",
    ROOT / "examples" / "broker" / "README.md",
]
_BLOCK = re.compile(r"^```sh\n(.*?)^```|((?:^    .*\n)+)", re.MULTILINE | re.DOTALL)
_ENDS = re.compile(r"\s(?:&&|\|\||[|>;#])(?:\s|$)|\s--\s|$")


def shown(page: Path) -> list[str]:
    """Command lines in the code blocks of a page, without comments, pipes and what a job itself runs."""
    found = []
    for block in re.findall(
        r"^```sh\n(.*?)^```|((?:^    .*\n)+)", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        for line in "".join(block).splitlines():
            for part in re.split(r"\s&&\s|;\s", line.strip()):
                command = re.sub(r"^(?:[A-Z_]+=\S+\s+)+", "", part.strip())
                if command.startswith("millpond "):
                    found.append(_ENDS.split(command, maxsplit=1)[0].strip())
    return found


COMMANDS = sorted({command for page in PAGES for command in shown(page)})


def test_pages_show_commands() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("line", COMMANDS)
def test_command_exists(line: str) -> None:
    command: click.Command = root
    context = click.Context(root, info_name="millpond", obj=Surroundings(environ={}), **root.context_settings)
    value_follows = False
    for word in shlex.split(re.sub(r"[\[\]]", "", line))[1:]:
        if value_follows:
            value_follows = False
        elif word.startswith("-"):
            parameters = {name: param for param in command.get_params(context) for name in param.opts}
            assert word in parameters, f"{command.name} has no {word}"
            value_follows = not getattr(parameters[word], "is_flag", False)
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            assert found is not None, f"{command.name} has no {word}"
            command, context = found, click.Context(found, parent=context, info_name=word)
