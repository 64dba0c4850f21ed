"""Conservation: at every moment, what is said of a card adds up to the whole card.

Every installed card is allocated, idle, kept for somebody, draining or down, in parts that sum to one.  A time that
nobody accounts for, or that is accounted for twice, is an alarm; nothing is clamped until it fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from millpond.metering.alarms import Alarm, AlarmCode
from millpond.metering.facts import MICRO


class CardUse(StrEnum):
    """What a card, or a part of it, was in a stretch of time."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    IDLE = "idle"
    DRAINING = "draining"
    DOWN = "down"


class Stretch(NamedTuple):
    """``share`` millionths of a card in [start, end)."""

    card: str
    start: int
    end: int
    use: CardUse
    share: int = MICRO


@dataclass(frozen=True, slots=True)
class Conservation:
    """Micro-card-seconds: all that was installed, by use, and where they differ."""

    installed: int
    by_use: Mapping[CardUse, int]
    alarms: tuple[Alarm, ...]

    @property
    def holds(self) -> bool:
        return not self.alarms and self.installed == sum(self.by_use.values())


def conservation(
    installed: Mapping[str, tuple[int, int]], stretches: Iterable[Stretch], start: int, end: int
) -> Conservation:
    """Judge [start, end).  `installed`: card → the time [from, to) in which it was there.

    Gaps and overlaps of a card are alarms with the moment at which they begin; use of a card that was not installed is
    an overlap.
    """
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    by_use: dict[CardUse, int] = dict.fromkeys(CardUse, 0)
    whole = 0
    for card, (begin, until) in installed.items():
        low, high = max(begin, start), min(until, end)
        if low < high:
            whole += (high - low) * MICRO
            changes[card][low] -= MICRO
            changes[card][high] += MICRO
    for item in stretches:
        low, high = max(item.start, start), min(item.end, end)
        if low < high:
            by_use[item.use] += (high - low) * item.share
            changes[item.card][low] += item.share
            changes[item.card][high] -= item.share
    alarms = [alarm for card in sorted(changes) for alarm in _differences(card, changes[card])]
    return Conservation(whole, by_use, tuple(alarms))


def _differences(card: str, changes: Mapping[int, int]) -> Iterable[Alarm]:
    moments = sorted(changes)
    level = 0
    for index, moment in enumerate(moments):
        level += changes[moment]
        if level:
            seconds = moments[index + 1] - moment
            code = AlarmCode.OVERLAP if level > 0 else AlarmCode.GAP
            what = "too much" if level > 0 else "unaccounted for"
            text = f"{abs(level)} millionths of {card} are {what} for {seconds} s"
            yield Alarm(moment, code, "", 0, text, "", card)
