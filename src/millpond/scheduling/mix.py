"""The observed mix: which requests a pool sees, and how often (scheduling §6).

A mix is written as ``{request: count}``, where a request is a card request (``A800:8``, ``0.25``), followed by
`` cpu=<milli>`` where it also asks for CPU.  Whoever makes the snapshots counts running, waiting and recent requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.scheduling.snapshot import Job

_CPU: Final = " cpu="

_KNOWN: Final = 4096
"""Requests whose text is remembered: a pool sees the same ones again and again."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of request: what each node of a job asks for (``cpu`` in milli-CPU), and how often it was seen."""

    gpu: CardRequest
    cpu: int
    count: int

    @property
    def milli(self) -> int:
        """Milli-cards that it needs; the smallest size of an elastic one, 0 for slices."""
        return self.gpu.milli_min


@lru_cache(maxsize=_KNOWN)
def demand_key(gpu: CardRequest, cpu: int) -> str:
    """A request as it stands in a mix."""
    return f"{gpu}{_CPU}{cpu}" if cpu else str(gpu)


@lru_cache(maxsize=_KNOWN)
def demand_parse(key: str) -> tuple[CardRequest, int]:
    """Card request and milli-CPU of a key of a mix.  Raises `InvalidInput`."""
    text, separator, cpu = key.partition(_CPU)
    if separator and not cpu.isdecimal():
        raise InvalidInput(f"{key!r} is not a request", hint="write A800:8 or A800:8 cpu=16000, in milli-CPU")
    return card_request_parse(text), int(cpu or "0")


def mix_demands(mix: Mapping[str, int]) -> list[Demand]:
    """What a mix says, in a fixed order."""
    return [Demand(*demand_parse(key), count) for key, count in sorted(mix.items()) if count > 0]


class MixCounter:
    """Counts requests as they come, and says when prices should be made anew.

    Often at first (after 32, 64, 128 … requests), later every ``every`` requests: prices cost some milliseconds and
    change little.  What came long ago fades: all counts are halved when there are ``window`` of them.
    """

    FIRST = 32

    def __init__(self, known: Mapping[str, int] | None = None, every: int = 500, window: int = 20_000) -> None:
        self._every = every
        self._window = window
        self._counts = dict(known or {})
        self._seen = sum(self._counts.values())
        self._next = self.FIRST
        self.due()

    def add(self, gpu: CardRequest, cpu: int, count: int = 1) -> None:
        """`count` equal requests more; a gang is one for each of its nodes."""
        key = demand_key(gpu, cpu)
        self._counts[key] = self._counts.get(key, 0) + count
        self._seen += count

    def due(self) -> bool:
        """Whether enough was seen since the last time that this was true."""
        if self._seen < self._next:
            return False
        if self._seen >= self._window:
            self._counts = {key: half for key, count in self._counts.items() if (half := count // 2)}
            self._seen = self._next = sum(self._counts.values())
        while self._next <= self._seen:
            self._next = min(2 * self._next, self._next + self._every) if self._next else self.FIRST
        return True

    def mix(self) -> dict[str, int]:
        return dict(self._counts)


class MixMemory:
    """The mix that is in force while jobs come: it stays the same until enough others have come."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        self.mix: Mapping[str, int] = dict(known or {})
        self._counter = MixCounter(known)
        self._live: frozenset[str] = frozenset()

    def learn(self, job: Job) -> bool:
        """A job has come; whether the mix is another one now."""
        self._counter.add(job.gpu, job.cpu, job.nodes)
        if not self._counter.due():
            return False
        self.mix = self._counter.mix()
        return True

    def observe(self, jobs: Iterable[Job]) -> Mapping[str, int]:
        """These jobs wait or run now: learn from those that did not before, and tell the mix."""
        seen: set[str] = set()
        for job in jobs:
            seen.add(job.id)
            if job.id not in self._live:
                self.learn(job)
        self._live = frozenset(seen)
        return self.mix
