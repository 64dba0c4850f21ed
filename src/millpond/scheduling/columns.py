"""Scores of many nodes in one go: `score.cell_score` over NumPy columns, with the same integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from millpond.domain.amounts import CARD
from millpond.scheduling.fit import Ask
from millpond.scheduling.prices import CPU_MAX, CURVE_END, CURVE_STEP, GROUPS_MAX, Book
from millpond.scheduling.score import (
    CARD_SHIFT,
    CPU_SHIFT,
    IDLE_MAX,
    IDLE_SHIFT,
    NEVER,
    REST_MAX,
    SHARE_IDLE_MAX,
    SHARE_IDLE_SHIFT,
    SHARE_PARTIAL_MAX,
    TIE_BITS,
    Cell,
)

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_IDLE, _PARTIAL, _CPU, _MEMORY, _WORTH, _CARDS, _NONE, _FREE = range(8)
"""Rows of `Columns`: idle cards, what opened cards have left, CPU, memory, worth of the cards, worth of the node before
to jobs with cards and to jobs without; from the last on, what is free on each card."""

_LAST: Final = (CURVE_END >> CURVE_STEP) - 1


class Tables:
    """The tables of a book as arrays."""

    __slots__ = ("book", "curve_cards", "curve_none", "groups", "worth")

    def __init__(self, book: Book) -> None:
        self.book = book
        self.worth: Ints = np.array(book.worth, dtype=np.int64)
        self.groups: Ints = np.array(book.groups, dtype=np.int64)
        self.curve_cards: Ints = np.array(book.curve_cards, dtype=np.int64)
        self.curve_none: Ints = np.array(book.curve_none, dtype=np.int64)


class Columns:
    """The cells of a board as rows of numbers, one column for each node; brought up to date when asked."""

    def __init__(self, width: int, cells: list[Cell]) -> None:
        self._cells = cells
        self._width = width
        self._numbers: Ints = np.zeros((_FREE + width, len(cells)), dtype=np.int64)
        self._stale: set[int] = set(range(len(cells)))
        self._tables: Tables | None = None

    def stale(self, changed: Sequence[int]) -> None:
        """These cells have changed."""
        self._stale.update(changed)

    def scores(self, where: Ints, ask: Ask, book: Book) -> Ints:
        """The scores of an ask on the nodes `where`."""
        if self._stale:
            self._load(sorted(self._stale))
            self._stale.clear()
        if self._tables is None or self._tables.book is not book:
            self._tables = Tables(book)
        numbers = self._numbers[:, where]
        cpu = numbers[_CPU] - ask.cpu
        if ask.milli >= CARD:
            found, fits = _whole(numbers, ask.milli // CARD, cpu, self._tables)
        elif ask.milli:
            found, fits = _share(numbers, ask.milli, cpu, self._tables)
        else:
            found, fits = _none(numbers, cpu, self._tables)
        if ask.cpu:
            fits &= cpu >= 0
        if ask.memory:
            fits &= numbers[_MEMORY] >= ask.memory
        return np.where(fits, found, NEVER)

    def _load(self, indexes: list[int]) -> None:
        width = self._width
        rows = [
            (
                cell.idle, cell.partial, cell.cpu, cell.memory, cell.worth, cell.before_cards, cell.before_none,
                *cell.free, *[0] * (width - len(cell.free)),
            )
            for cell in [self._cells[index] for index in indexes]
        ]  # fmt: skip
        self._numbers[:, np.array(indexes, dtype=np.int64)] = np.array(rows, dtype=np.int64).T


def _usable(curve: Ints, ratio: int, cpu: Ints, worth: Ints) -> Ints:
    """As `score.usable`."""
    if not ratio:
        return worth
    place = np.minimum(np.maximum(cpu, 0), CPU_MAX) * ratio // np.maximum(worth, 1)
    step = np.minimum(place >> CURVE_STEP, _LAST)
    low = curve[step]
    part = low + ((curve[step + 1] - low) * (place & ((1 << CURVE_STEP) - 1)) >> CURVE_STEP)
    served: Ints = np.where((worth <= 0) | (place >= CURVE_END), worth, worth * part >> 24)
    return served


def _cards_value(tables: Tables, worth: Ints, idle: Ints, cpu: Ints) -> Ints:
    served = _usable(tables.curve_cards, tables.book.ratio_cards, cpu, worth)
    value: Ints = served + tables.groups[np.minimum(np.maximum(idle, 0), GROUPS_MAX)]
    return value


def _whole(numbers: Ints, whole: int, cpu: Ints, tables: Tables) -> tuple[Ints, Flags]:
    idle = numbers[_IDLE]
    worth = numbers[_WORTH] - whole * int(tables.worth[CARD])
    value = _cards_value(tables, worth, idle - whole, cpu) - numbers[_CARDS]
    tie = (np.minimum(idle, IDLE_MAX) << IDLE_SHIFT) + np.minimum(numbers[_PARTIAL], REST_MAX)
    return (value << TIE_BITS) - tie, idle >= whole


def _none(numbers: Ints, cpu: Ints, tables: Tables) -> tuple[Ints, Flags]:
    worth = numbers[_WORTH]
    value = _usable(tables.curve_none, tables.book.ratio_none, cpu, worth) - numbers[_NONE]
    rest = np.minimum(np.maximum(numbers[_CPU], 0) >> CPU_SHIFT, REST_MAX)
    tie = (np.minimum(numbers[_IDLE], IDLE_MAX) << IDLE_SHIFT) + rest
    return (value << TIE_BITS) - tie, np.ones(len(worth), dtype=np.bool_)


def _share(numbers: Ints, milli: int, cpu: Ints, tables: Tables) -> tuple[Ints, Flags]:
    idle = numbers[_IDLE]
    partial = np.minimum(numbers[_PARTIAL], SHARE_PARTIAL_MAX)
    tie = (np.minimum(idle, SHARE_IDLE_MAX) << SHARE_IDLE_SHIFT) + partial
    best: Ints = np.full(len(idle), NEVER, dtype=np.int64)
    for free in numbers[_FREE:]:
        fits = free >= milli
        if not fits.any():
            continue
        left = np.where(fits, free, milli)
        worth = numbers[_WORTH] - tables.worth[left] + tables.worth[left - milli]
        value = _cards_value(tables, worth, idle - (left == CARD), cpu) - numbers[_CARDS]
        score = (value << TIE_BITS) - (left << CARD_SHIFT) - tie
        best = np.maximum(best, np.where(fits, score, NEVER))
    return best, best != NEVER
