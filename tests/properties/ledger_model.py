"""A model of grants and holds that counts ticks: it knows nothing of prices, units and entries.

At 3.60 yuan a card-hour a tick is one fen of money and ten card-seconds of a pack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from millpond.billing.burning import Draw
from millpond.billing.grants import GrantKind
from millpond.billing.transfers import CARD_SECONDS
from tests.unit.billing.books import START, yuan

TICK = 10_000
"""Milli-card-seconds that a fen pays at this price."""

PRICE = yuan("3.60")
ORDER = [GrantKind.VOUCHER, GrantKind.TRIAL, GrantKind.PACK, GrantKind.PAID]


def ticks(draw: Draw) -> int:
    minor = draw.amount.minor()
    return minor // TICK if draw.amount.currency == CARD_SECONDS else minor


@dataclass
class Purse:
    """The model of a grant: so many ticks in it, and so many of those held."""

    kind: GrantKind
    priority: int
    granted: datetime
    expires: datetime | None
    ticks: int
    held: int = 0

    def live(self, now: datetime) -> bool:
        return self.granted <= now and (self.expires is None or now < self.expires)


@dataclass
class Model:
    purses: dict[str, Purse] = field(default_factory=dict)
    holds: dict[str, dict[str, int]] = field(default_factory=dict)
    debt: int = 0

    def order(self, names: list[str]) -> list[str]:
        far = datetime.max.replace(tzinfo=START.tzinfo)

        def key(name: str) -> tuple[int, int, datetime, datetime, str]:
            purse = self.purses[name]
            return ORDER.index(purse.kind), purse.priority, purse.expires or far, purse.granted, name

        return sorted(names, key=key)

    def burn(self, wanted: int, now: datetime) -> dict[str, int] | None:
        """Which ticks a hold takes; ``None``: there are not enough."""
        found: dict[str, int] = {}
        for name in self.order([name for name, purse in self.purses.items() if purse.live(now)]):
            take = min(wanted, self.purses[name].ticks - self.purses[name].held)
            if take:
                found[name] = take
                wanted -= take
        return None if wanted else found

    def capture(self, hold: str, used: int, now: datetime) -> tuple[dict[str, int], int]:
        """(ticks taken by grant, debt)."""
        taken: dict[str, int] = {}
        held = self.holds[hold]
        for name in self.order(list(held)):
            taken[name] = min(used, held[name])
            used -= taken[name]
        for name in self.order([name for name, purse in self.purses.items() if purse.live(now)]):
            more = min(used, self.purses[name].ticks - self.purses[name].held)
            taken[name] = taken.get(name, 0) + more
            used -= more
        return {name: take for name, take in taken.items() if take}, used
