"""``millpond wait``: until jobs have ended; exits as they did."""

from __future__ import annotations

from collections.abc import Sequence

import click

from millpond.cli.lazy import argument, command, option
from millpond.cli.session import Session
from millpond.cli.waiting import GOALS, jobs_wait
from millpond.domain.amounts import duration_parse


@command("wait")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
@option("--for", "goal", type=click.Choice(GOALS), default="ended", show_default=True, help="wait.for")
@option("--timeout", metavar="TIME", default=None, help="wait.timeout_option")
def wait(session: Session, jobs: Sequence[str], goal: str, timeout: str | None) -> int:
    """Exit code 0, or 1 when one failed, or 3 when one was cancelled."""
    return jobs_wait(session, jobs, goal, duration_parse(timeout) if timeout else None)
