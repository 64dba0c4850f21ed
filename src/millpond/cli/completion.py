"""``millpond completion``: a script that teaches the shell our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from millpond.cli.lazy import argument, command
from millpond.cli.session import Session

SHELLS = ("bash", "zsh", "fish")


@command("completion")
@argument("shell", type=click.Choice(SHELLS))
def completion(session: Session, shell: str) -> None:
    """For millpond and pond."""
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None, f"click knows {shell}"  # noqa: S101
    for name in ("millpond", "pond"):
        made = kind(root, {}, name, f"_{name.upper()}_COMPLETE")
        session.output.write(_script(made.source_template, made.func_name, name))


def _script(template: str, function: str, name: str) -> str:
    """The script without asking the shell for its version, which may not be installed here."""
    values = {"complete_func": function, "complete_var": f"_{name.upper()}_COMPLETE", "prog_name": name}
    return template % values
