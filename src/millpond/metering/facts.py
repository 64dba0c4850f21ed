"""Facts: what happened to an attempt, each told once or many times under one id.

Instants are whole seconds since 1970 UTC, parts of a second cut off.  Amounts are milli-cards.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import Final, NamedTuple

from millpond.domain.jobs import EndReason

MICRO: Final = 1_000_000
"""Millionths of a card in one card: shares of named cards, so that a third of a card is exact enough to add up."""


class Event(IntEnum):
    """What happened.  The numbers are the order in which facts of one second are taken: who leaves makes room first."""

    CHECKPOINTED = 0
    CHANGED = 1
    ENDED = 2
    STARTED = 3
    STARTED_AGAIN = 4
    """A start of an attempt that had started before, under another id; made by `seen.facts_fresh` only."""


class Shape(NamedTuple):
    """What an attempt takes and who pays, from a start or change on.  Texts are snapshots: history outlives deletes.

    ``milli``: all its cards together.  ``cards``: names and shares in millionths, for the check of overlaps.
    ``tenant``: whose billing account it is; empty where facts are of one account anyway.
    """

    milli: int
    sku: str
    klass: str
    project: str
    user: str
    service: bool = False
    cards: tuple[tuple[str, int], ...] = ()
    tenant: str = ""


class Fact(NamedTuple):
    """One fact.  The order of the fields is the order in which facts are taken.

    ``shape`` belongs to `STARTED` and `CHANGED`, ``reason`` to `ENDED`.
    """

    time: int
    event: Event
    id: str
    job: str
    attempt: int
    reason: EndReason | None = None
    shape: Shape | None = None


def shares_even(names: tuple[str, ...], milli: int) -> tuple[tuple[str, int], ...]:
    """Cards with even shares of `milli`, each at most whole: names may be fewer than the cards that are taken."""
    if not names:
        return ()
    share = min(MICRO, milli * 1000 // len(names))
    return tuple((name, share) for name in names)


def share_of_memory(reported: int, whole: int) -> int | None:
    """Milli-cards of a slice by the MiB that the card reports for it, rounded up: 9728 of 81920 → 119.

    None where nothing is reported: the usage is held until somebody knows, never billed as a whole card.
    """
    if reported <= 0 or whole <= 0 or reported > whole:
        return None
    return -(-reported * 1000 // whole)


def fact_id(source: str, job: str, attempt: int, event: str, number: int = 0) -> str:
    """The id of a fact, made of the fact: telling it again gives the same one.  ``number`` counts checkpoints."""
    text = "\x1f".join((source, job, str(attempt), event, str(number)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
