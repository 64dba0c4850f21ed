"""The command reference: ``python -m millpond.cli.reference > docs/guide/cli.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from millpond.cli.errors import ExtraMissing
from millpond.cli.lazy import LazyGroup, translate
from millpond.cli.main import root
from millpond.cli.session import Surroundings
from millpond.cli.texts import Texts

INTRODUCTION = """\
# Command line

This page is generated: `python -m millpond.cli.reference > docs/guide/cli.md`.

`millpond` and `pond` are the same program.

| | |
|---|---|
| **Output** | Tables on a terminal, aligned columns in a pipe (at least two spaces apart, `-` for nothing). `--json` \
prints the API's own JSON; lists are `{"items": [...]}`, followed output is one JSON value a line. |
| **Colours** | Only on a terminal, and not with `NO_COLOR`. |
| **Language** | English or Chinese: `--lang`, `MILLPOND_LANG`, or the locale (`LC_ALL`, `LANG`). Codes and names are \
never translated. |
| **Server** | `--server` and `--token`, else `MILLPOND_SERVER` and `MILLPOND_TOKEN`, else what `millpond login` \
saved, else the millpond that runs on this machine. |
| **Tenant** | `--tenant` and `--project`, else what the job file says, else `MILLPOND_TENANT` and \
`MILLPOND_PROJECT`, else the token's only tenant. |
| **Jobs** | By id, or by name among a project's live jobs. |

## Exit codes

| code | meaning |
|---|---|
| 0 | done; the job succeeded |
| 1 | the job failed (`run`, `wait`, `attach`, `apply --wait`) |
| 2 | usage: the command line or a file cannot be understood |
| 3 | cancelled by the user |
| 4 | refused: permission, quota, validation by the server |
| 5 | the server is unreachable, or it broke |

`exec` exits with the code of the command that it ran.
"""


def reference() -> str:
    """The whole page."""
    surroundings = Surroundings(environ={})
    lines = [INTRODUCTION]
    with click.Context(root, info_name="millpond", obj=surroundings, **root.context_settings) as ctx:
        lines.append(_options(ctx, "## Options of every command"))
        assert isinstance(root, LazyGroup)  # noqa: S101
        for heading, section in root.sections.items():
            lines.append(f"## {translate(ctx, heading).rstrip(':')}\n")
            for name in section:
                lines.extend(_command(ctx, root, name, 3))
    return "\n".join(lines).rstrip() + "\n"


def _options(ctx: click.Context, heading: str) -> str:
    rows = [record for param in ctx.command.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
    return "\n".join([heading, "", *_table(rows), ""])


def _command(parent: click.Context, group: click.Group, name: str, depth: int) -> Iterator[str]:
    try:
        command = group.get_command(parent, name)
    except ExtraMissing:
        command = None
    if command is None:
        yield f"{'#' * depth} millpond {name}\n\n{Texts('en')(f'help.{name}')}\n"
        return
    with click.Context(command, parent=parent, info_name=name, **command.context_settings) as ctx:
        text = translate(ctx, command.help)
        usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
        yield f"{'#' * depth} {ctx.command_path}\n\n{text}\n\n```\n{usage}\n```\n"
        rows = [record for param in command.params if (record := _own(param, ctx)) is not None]
        if rows:
            yield "\n".join([*_table(rows), ""])
        if isinstance(command, click.Group):
            for inner in command.list_commands(ctx):
                yield from _command(ctx, command, inner, depth + 1)


def _own(param: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    """The help of an option that is the command's own."""
    everywhere = {option.name for option in root.params}
    return param.get_help_record(ctx) if isinstance(param, click.Option) and param.name not in everywhere else None


def _table(rows: list[tuple[str, str]]) -> list[str]:
    escaped = [(names.replace("|", "\\|"), text.replace("|", "\\|")) for names, text in rows]
    return ["| option | meaning |", "|---|---|", *(f"| `{names}` | {text} |" for names, text in escaped)]


if __name__ == "__main__":
    sys.stdout.write(reference())
