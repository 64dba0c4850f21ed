"""Ids count once, for ever.

Who remembers ids is an input: a set in memory here, a file for streams, a unique index in the server.  Claims are made
for many ids at a time, which is how all of them are fast, and are kept only together with what was made of the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from millpond.metering.facts import Event, Fact

_STARTED = Event.STARTED

BATCH = 16_384
"""Facts that are held while their ids are looked up."""


class Seen(Protocol):
    """A memory of keys."""

    def claim(self, keys: Sequence[str]) -> Sequence[bool]:
        """For each key whether it is new, in this order; from now on none of them is."""


class SeenInMemory:
    """A memory that lives as long as the process."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = set(keys)

    def claim(self, keys: Sequence[str]) -> list[bool]:
        known, new = self._keys, []
        for key in keys:
            before = len(known)
            known.add(key)
            new.append(len(known) > before)
        return new

    def copy(self) -> SeenInMemory:
        """For one unit of work: it replaces this one when the work was stored, and is dropped when it was not."""
        return SeenInMemory(self._keys)


def facts_fresh(facts: Iterable[Fact], seen: Seen, batch: int = BATCH) -> Iterator[list[Fact]]:
    """Lists of facts of one second each, in the order in which the meter takes them, repeats left out.

    `facts` come sorted by time; of those with the same id the earliest counts.  A second start of an attempt under
    another id becomes `STARTED_AGAIN`.
    """
    held: list[Fact] = []
    for fact in facts:
        if len(held) >= batch and fact.time != held[-1].time:
            yield from _seconds(_fresh(held, seen))
            held = []
        held.append(fact)
    yield from _seconds(_fresh(held, seen))


def start_key(job: str, attempt: int) -> str:
    """Under which the start of an attempt is claimed; no id has this character."""
    return f"{job}\x1f{attempt}"


def _fresh(held: list[Fact], seen: Seen) -> list[Fact]:
    held.sort()
    new = seen.claim([fact.id for fact in held])
    fresh = [fact for fact, first in zip(held, new, strict=True) if first]
    starts = [index for index, fact in enumerate(fresh) if fact.event is _STARTED]
    first_starts = seen.claim([start_key(fresh[index].job, fresh[index].attempt) for index in starts])
    for index, first in zip(starts, first_starts, strict=True):
        if not first:
            fresh[index] = fresh[index]._replace(event=Event.STARTED_AGAIN)
    return fresh


def _seconds(facts: Sequence[Fact]) -> Iterator[list[Fact]]:
    second: list[Fact] = []
    for fact in facts:
        if second and second[0].time != fact.time:
            yield second
            second = []
        second.append(fact)
    if second:
        yield second
