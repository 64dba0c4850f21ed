"""What is wrong with facts.  An alarm is shown and what it is about is not billed; nothing is bent until it fits."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class AlarmCode(StrEnum):
    """Stable names."""

    OVERLAP = "OVERLAP"
    """More than one card's worth on one card; none of the attempts involved is billed."""
    NEGATIVE = "NEGATIVE"
    """An end before its start; the attempt is not billed."""
    GAP = "GAP"
    """An end, checkpoint or change without its start or outside its attempt, or a time that nobody accounts for."""
    TWICE = "TWICE"
    """A second start of an attempt; the first one counts."""
    SKEW = "SKEW"
    """A clock that differs from the server's."""


class Alarm(NamedTuple):
    """``time`` is that of the fact ``fact``; ``others`` are the attempts that share ``card`` with this one."""

    time: int
    code: AlarmCode
    job: str
    attempt: int
    text: str
    fact: str = ""
    card: str = ""
    others: tuple[tuple[str, int], ...] = ()
