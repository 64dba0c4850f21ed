"""Who is on which named card, with which share: two attempts may not have more than the whole of one together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from millpond.metering.facts import MICRO

Key: TypeAlias = tuple[str, int]
"""Job and number of the attempt."""

Shares: TypeAlias = tuple[tuple[str, int], ...]
"""Names of cards with millionths of each."""


class Cards:
    """Shares of cards in use.  Within a second they may come and go in any order; `overlaps` looks at its end."""

    __slots__ = ("_on", "touched")

    def __init__(self) -> None:
        self._on: dict[str, dict[Key, int]] = {}
        self.touched: set[str] = set()
        """Cards that were given to somebody since the last look."""

    def add(self, key: Key, shares: Shares) -> None:
        for card, share in shares:
            on = self._on.get(card)
            if on is None:
                self._on[card] = {key: share}
            else:
                on[key] = share
                self.touched.add(card)

    def remove(self, key: Key, shares: Shares) -> None:
        for card, _ in shares:
            on = self._on.get(card)
            if on is not None and on.pop(key, None) is not None and not on:
                del self._on[card]

    def overlaps(self) -> Iterable[tuple[str, list[Key]]]:
        """Cards on which more than a whole card is taken, with all who are there, in the order of their names."""
        found = []
        for card in sorted(self.touched):
            on = self._on.get(card)
            if on is not None and len(on) > 1 and sum(on.values()) > MICRO:
                found.append((card, sorted(on)))
        self.touched.clear()
        return found
