"""Options of a node on which too many candidates sit to try every set of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millpond.scheduling.sets import Condition, bits_of, spare

Price = tuple[int, int]
"""(lost work, milli-cards).  All that is chosen from could not do with a lower rank, so ranks decide nothing here."""


def card_options(groups: Sequence[int], *, single: bool, price: Callable[[int], Price], enough: Condition) -> list[int]:
    """Options of a crowded node: clear the cheapest cards one after the other, then spare whom one can.

    ``groups`` are who sits on each card; ``single`` says that one card is enough, so that each is tried on its own.
    """
    options: set[int] = set()
    everybody = union(groups)
    for start in groups if single else [0]:
        mask = start
        while not enough(mask):
            left = [group & ~mask for group in groups if group & ~mask]
            mask |= min(left, key=lambda group: (price(group), group)) if left else everybody
        options.add(spare(mask, dearest(mask, price), enough))
    return sorted(options)


def dearest(mask: int, price: Callable[[int], Price]) -> list[int]:
    """The one-bit masks of `mask`, the dearest first."""
    return sorted(bits_of(mask), key=lambda bit: (price(bit), bit), reverse=True)


def union(masks: Sequence[int]) -> int:
    """Everybody in any of the masks."""
    total = 0
    for mask in masks:
        total |= mask
    return total
