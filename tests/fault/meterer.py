"""Runs the meter's loop in child processes that are made to be killed.

python -m tests.fault.meterer URL; each line on standard input starts the next child.  Its process id is the answer,
once it has metered something and goes on; ``gone`` is, once somebody has killed it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from millpond.control.context import Control, Policy
from millpond.control.meter import SETTLE, MeterMemory, meter_run
from millpond.control.metrics import ControlMetrics
from millpond.db.leader import Leader
from millpond.db.session import Database
from millpond.engines.fake import Behaviour, FakeEngine

BEGIN = datetime(2026, 11, 30, 1, 0, tzinfo=UTC)


def clock_make(pace: timedelta) -> Callable[[], datetime]:
    """A clock that is `pace` further at each look, whatever the time is: running attempts are counted at every step."""
    looks = 0

    def clock() -> datetime:
        nonlocal looks
        looks += 1
        return BEGIN + pace * looks

    return clock


def control_make(url: str) -> Control:
    engine = FakeEngine((), lambda _: Behaviour(), clock=lambda: 0)
    metrics = ControlMetrics(CollectorRegistry())
    return Control(Database(url, pool_size=2), engine, Policy(Path("unused")), metrics, clock_make(SETTLE))


def meter_on(url: str) -> None:
    """Lead and meter until killed."""
    control = control_make(url)
    leader = Leader(control.database)
    epoch = None
    while epoch is None:
        epoch = leader.acquire(5.0)
    memory = MeterMemory()
    meter_run(control, epoch, memory)
    _say(os.getpid())
    while True:
        meter_run(control, epoch, memory)


def main(url: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # answers go to standard output
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            meter_on(url)
        os.waitpid(pid, 0)
        _say("gone")


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
