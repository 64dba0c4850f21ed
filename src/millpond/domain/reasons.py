"""Reason codes: why a job waits (design §9).  Codes never change; the sentences may."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    QUEUE_CAP = "QUEUE_CAP"
    TENANT_CAP = "TENANT_CAP"
    CARD_HOURS_EXHAUSTED = "CARD_HOURS_EXHAUSTED"
    BALANCE_HELD = "BALANCE_HELD"
    NO_SUCH_CARD = "NO_SUCH_CARD"
    TOO_LARGE = "TOO_LARGE"
    INSUFFICIENT_CARDS = "INSUFFICIENT_CARDS"
    FRAGMENTED = "FRAGMENTED"
    INSUFFICIENT_CPU = "INSUFFICIENT_CPU"
    INSUFFICIENT_MEMORY = "INSUFFICIENT_MEMORY"
    TOPOLOGY = "TOPOLOGY"
    BEHIND = "BEHIND"
    RESERVED_FOR = "RESERVED_FOR"
    PREEMPTING = "PREEMPTING"
    NEEDS_GUARANTEE = "NEEDS_GUARANTEE"
    DEPENDENCY = "DEPENDENCY"
    START_TIME = "START_TIME"
    HELD = "HELD"
    BACKOFF = "BACKOFF"
    CORDONED = "CORDONED"
    DRAINING = "DRAINING"
    ENGINE_REFUSED = "ENGINE_REFUSED"
    HELD_BACK = "HELD_BACK"


@dataclass(frozen=True, slots=True)
class Reason:
    """One limit that binds now.

    ``need``, ``have``, ``limit`` are in the unit of the code: milli-cards, milli-CPU, MiB or milli-card-hours.
    ``free`` is what the whole pool has (FRAGMENTED).  ``jobs`` are whom it waits for; ``queue`` whose limit it is;
    ``until`` a deadline in seconds of the snapshot's clock.
    """

    code: Code
    text: str
    need: int | None = None
    have: int | None = None
    limit: int | None = None
    free: int | None = None
    jobs: tuple[str, ...] = ()
    queue: str = ""
    until: int | None = None
