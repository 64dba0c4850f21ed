"""Minimal sets, against trying every subset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.scheduling.sets import bits_of, minimal_sets, spare


@given(st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=6))
def test_minimal_sets_are_exactly_the_minimal_ones(wanted: list[list[int]]) -> None:
    masks = [sum(1 << bit for bit in set(group)) for group in wanted]

    def enough(mask: int) -> bool:
        return any(option & ~mask == 0 for option in masks)

    good = [mask for mask in range(1 << 7) if enough(mask)]
    minimal = [mask for mask in good if not any(other != mask and other & ~mask == 0 for other in good)]
    assert minimal_sets([1 << bit for bit in range(7)], enough) == sorted(minimal)


def test_spare_tries_in_order() -> None:
    def enough(mask: int) -> bool:
        return bool(mask & 0b11) and bool(mask & 0b100)

    assert spare(0b111, [0b001, 0b010, 0b100], enough) == 0b110
    assert spare(0b111, [0b010, 0b001, 0b100], enough) == 0b101


def test_bits() -> None:
    assert bits_of(0b1011) == [1, 2, 8]
