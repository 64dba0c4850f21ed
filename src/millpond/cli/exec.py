"""``millpond exec``: a command beside a running rank."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from millpond.cli.lazy import argument, command, option, trailing_of
from millpond.cli.raw_terminal import raw_terminal
from millpond.cli.session import Session

if TYPE_CHECKING:
    from millpond.sdk.shells import Shell


@command("exec", trailing=True, context_settings={"allow_interspersed_args": False})
@argument("job")
@argument("words", nargs=-1, metavar="[COMMAND]...", type=click.UNPROCESSED)
@option("--rank", type=click.IntRange(0), default=0, show_default=True, help="exec.rank")
@option("-t", "--tty", is_flag=True, help="exec.tty")
def exec_command(session: Session, job: str, words: Sequence[str], rank: int, tty: bool) -> int:
    """Exits with the command's own code.  Without a command: a shell, on a terminal."""
    argv = [*words, *(trailing_of(click.get_current_context()) or ())]
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if tty and not terminal:
        raise click.UsageError(session.texts("exec.no_terminal"))
    if not argv:
        argv, tty = ["sh"], terminal
    columns, rows = shutil.get_terminal_size()
    size = (rows, columns) if tty else None
    shell = session.client.jobs.exec(job, argv, rank=rank, tty=tty, size=size, **session.place)
    try:
        if tty:
            with raw_terminal(sys.stdin.fileno(), shell.resize):
                return _converse(shell)
        return _converse(shell)
    finally:
        shell.close()


def _converse(shell: Shell) -> int:
    """Bytes both ways until the command ends; its exit code."""
    threading.Thread(target=_input, args=(shell,), daemon=True).start()
    while (data := shell.read()) is not None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return shell.exit_code if shell.exit_code is not None else 0


def _input(shell: Shell) -> None:
    descriptor = sys.stdin.fileno()
    while data := os.read(descriptor, 65536):
        shell.write(data)
    shell.finish_input()
