"""What every card was doing: allocated, down, or idle, in stretches that fill the time in which it was there.

Use comes from attempts, down time from the event log; what neither explains is idle.  So use that adds up to more than
a card shows as an overlap in `conservation`, and nothing is clamped until it fits.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from millpond.metering.conservation import CardUse, Stretch
from millpond.metering.facts import MICRO


class Taken(NamedTuple):
    """``share`` millionths of a card were an attempt's in [start, end)."""

    card: str
    start: int
    end: int
    share: int


class Down(NamedTuple):
    """A card could not be used in [start, end)."""

    card: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Part:
    """Micro-card-seconds of one group in one span."""

    allocated: int = 0
    idle: int = 0
    down: int = 0

    @property
    def installed(self) -> int:
        return self.allocated + self.idle + self.down

    def plus(self, use: CardUse, amount: int) -> Part:
        if use is CardUse.ALLOCATED:
            return Part(self.allocated + amount, self.idle, self.down)
        if use is CardUse.DOWN:
            return Part(self.allocated, self.idle, self.down + amount)
        return Part(self.allocated, self.idle + amount, self.down)


@dataclass(slots=True)
class _Card:
    begin: int
    end: int
    shares: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    downs: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def occupancy(
    installed: Mapping[str, tuple[int, int]], taken: Iterable[Taken], downs: Iterable[Down], start: int, end: int
) -> Iterator[Stretch]:
    """Stretches of all cards within [start, end), card after card.

    A card that is not in `installed` was there from its first to its last use.  Down and in use at a time (a job that
    saves on a card that failed) counts as in use.
    """
    cards = {
        name: _Card(max(begin, start), min(until, end)) for name, (begin, until) in installed.items()
        if max(begin, start) < min(until, end)
    }  # fmt: skip
    known = frozenset(cards)
    for use in taken:
        low, high = max(use.start, start), min(use.end, end)
        if low >= high:
            continue
        card = cards.setdefault(use.card, _Card(low, high))
        if use.card not in known:
            card.begin, card.end = min(card.begin, low), max(card.end, high)
        card.shares[low] += use.share
        card.shares[high] -= use.share
    for down in downs:
        found = cards.get(down.card)
        if found is not None and max(down.start, found.begin) < min(down.end, found.end):
            found.downs[max(down.start, found.begin)] += 1
            found.downs[min(down.end, found.end)] -= 1
    for name in sorted(cards):
        yield from _stretches(name, cards[name])


def _stretches(name: str, card: _Card) -> Iterator[Stretch]:
    moments = sorted({card.begin, card.end, *card.shares, *card.downs})
    share = down = 0
    for moment, following in itertools.pairwise(moments):
        share += card.shares.get(moment, 0)
        down += card.downs.get(moment, 0)
        if share:
            yield Stretch(name, moment, following, CardUse.ALLOCATED, share)
        inside = card.begin <= moment < card.end
        if inside and share < MICRO:
            yield Stretch(name, moment, following, CardUse.DOWN if down else CardUse.IDLE, MICRO - share)


def occupancy_sum(
    stretches: Iterable[Stretch], groups: Mapping[str, str], cuts: Sequence[int]
) -> dict[tuple[str, int], Part]:
    """By group of the card (its model) and by the span between two of `cuts`, named by where it begins.

    What lies before the first cut or behind the last one is left out.
    """
    sums: dict[tuple[str, int], Part] = defaultdict(Part)
    for item in stretches:
        group = groups.get(item.card, "")
        for low, high in itertools.pairwise(cuts):
            seconds = min(item.end, high) - max(item.start, low)
            if seconds > 0:
                sums[group, low] = sums[group, low].plus(item.use, seconds * item.share)
    return dict(sums)
