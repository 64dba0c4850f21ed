"""Priorities that follow service: shortest remaining, least attained, learnt."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.traces import TraceJob

TOP = 1_000_000
_STEP = math.log(1.02)


@dataclass(frozen=True, slots=True)
class Service:
    """How far a job is: seconds of useful work that are left and that are done."""

    cards: int
    remaining: int
    attained: int


class Policy(Protocol):
    """Priorities from service."""

    renewed: bool
    """Whether the priority of a waiting job may change while it waits."""

    def priority(self, service: Service) -> int:
        """The larger, the sooner."""
        ...

    def change(self, service: Service) -> int | None:
        """Attained seconds at which the priority of a running job falls next; None: it does not."""
        ...

    def ended(self, job: TraceJob) -> None:
        """A job has ended, so that its duration is known now."""
        ...


class Known:
    """Shortest remaining service first."""

    renewed = False

    def priority(self, service: Service) -> int:
        return TOP - int(math.log(max(1, service.remaining * service.cards)) / _STEP)

    def change(self, service: Service) -> int | None:
        """It only rises while a job runs."""

    def ended(self, job: TraceJob) -> None:
        """Nothing is learnt: durations are known before."""


class Blind:
    """Least attained service first, in levels: below 60 card-seconds, then doubling."""

    BASE = 60
    renewed = False

    def priority(self, service: Service) -> int:
        return TOP - self._level(service)

    def change(self, service: Service) -> int | None:
        return -(-(self.BASE << self._level(service)) // service.cards)

    def _level(self, service: Service) -> int:
        return (service.attained * service.cards // self.BASE).bit_length()

    def ended(self, job: TraceJob) -> None:
        """Nothing is learnt."""


@dataclass(slots=True)
class Learnt:
    """The Gittins index of a job of this size and age over all jobs of that size that have ended so far.

    The index is the best chance of ending for the service spent: max over d of P(ends within d) / E(service until
    then), per card.  Before anybody ended, a job is expected to double its age.  Ages count in steps of ×1.4.
    """

    grid: list[int] = field(default_factory=lambda: [0, *(int(60 * 1.4**step) for step in range(40))])
    durations: dict[int, list[int]] = field(default_factory=dict)
    table: dict[tuple[int, int, int], int] = field(default_factory=dict)

    renewed: bool = True

    def priority(self, service: Service) -> int:
        known = self.durations.get(service.cards, [])
        step = bisect_right(self.grid, service.attained) - 1
        key = (service.cards, step, len(known) // 5)
        found = self.table.get(key)
        if found is None:
            index = self._index(known, self.grid[step]) / service.cards
            found = self.table[key] = TOP + int(math.log(index) / _STEP)
        return found

    def _index(self, known: Sequence[int], age: int) -> float:
        left = known[bisect_right(known, age) :]
        weight, spent, best = 0.0, 0.0, 0.0
        guess = max(600, age)
        total = len(left) + 1
        for duration in sorted([*(value - age for value in left), guess]):
            weight += 1
            spent += duration
            best = max(best, weight / (spent + (total - weight) * duration))
        return best

    def change(self, service: Service) -> int | None:
        step = bisect_right(self.grid, service.attained)
        return self.grid[step] if step < len(self.grid) else None

    def ended(self, job: TraceJob) -> None:
        insort(self.durations.setdefault(job.cards, []), job.duration)


POLICIES: dict[str, type[Known | Blind | Learnt]] = {"known": Known, "blind": Blind, "learnt": Learnt}
