"""One clock for start and end: an engine's times are moved into the server's before anything is counted."""

from __future__ import annotations

from typing import Final

from millpond.metering.alarms import Alarm, AlarmCode

SKEW_ALLOWED: Final = 2
"""Seconds that a clock may differ before it is an alarm."""


def time_align(time: int, engine_now: int, server_now: int) -> int:
    """`time` of an engine whose clock showed `engine_now` when the server's showed `server_now`."""
    return time - (engine_now - server_now)


def skew_judge(engine: str, engine_now: int, server_now: int) -> Alarm | None:
    """An alarm if the clocks differ by more than `SKEW_ALLOWED`; the times are aligned all the same."""
    skew = engine_now - server_now
    if abs(skew) <= SKEW_ALLOWED:
        return None
    return Alarm(
        server_now, AlarmCode.SKEW, "", 0, f"the clock of {engine} differs by {skew} s; check its time service"
    )
