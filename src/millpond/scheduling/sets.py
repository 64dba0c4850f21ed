"""Smallest sets: which victims are enough, as bit masks over numbered candidates.

A condition is monotone: with more victims it never turns false.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Condition = Callable[[int], bool]

EXACT = 16
"""Up to so many candidates every minimal set is looked at (scheduling §3)."""


def minimal_sets(bits: Sequence[int], enough: Condition) -> list[int]:
    """Every set of `bits` (each a one-bit mask) that is enough and from which nothing can be spared."""
    total = 0
    for bit in bits:
        total |= bit
    found: list[int] = []
    if not enough(total):
        return found
    memo: dict[int, bool] = {total: True}

    def test(mask: int) -> bool:
        known = memo.get(mask)
        if known is None:
            known = memo[mask] = enough(mask)
        return known

    def descend(mask: int, kept: int, index: int) -> None:
        # `mask` is enough; bits before `index` are decided, and `kept` holds those that stay.
        if test(kept):
            mask, index = kept, len(bits)
        if index == len(bits):
            if not any(mask & bit and test(mask & ~bit) for bit in bits):
                found.append(mask)
            return
        bit = bits[index]
        if test(mask & ~bit):
            descend(mask & ~bit, kept, index + 1)
        descend(mask, kept | bit, index + 1)

    descend(total, 0, 0)
    return sorted(set(found))


def spare(mask: int, order: Sequence[int], enough: Condition) -> int:
    """`mask` without the bits that can be spared, tried in `order` (the dearest first)."""
    for bit in order:
        if mask & bit and enough(mask & ~bit):
            mask &= ~bit
    return mask


def bits_of(mask: int) -> list[int]:
    """The one-bit masks of `mask`, lowest first."""
    found: list[int] = []
    while mask:
        bit = mask & -mask
        found.append(bit)
        mask ^= bit
    return found
