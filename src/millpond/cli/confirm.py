"""Asking before something is gone."""

from __future__ import annotations

import sys

import click

from millpond.cli.session import Session


def confirmed(session: Session, question: str, *, yes: bool) -> bool:
    """True with `yes` or after a yes on the terminal.  Without a terminal, a usage error that names ``--yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(session.texts("confirm.needs_yes"))
    if click.confirm(question, err=True):
        return True
    session.output.note(session.texts("confirm.nothing_done"))
    return False
