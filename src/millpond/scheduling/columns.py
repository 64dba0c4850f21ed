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
    REST_MAX,
    SHARE_IDLE_MAX,
    SHARE_IDLE_SHIFT,
    SHARE_PARTIAL_MAX,
    TIE_BITS,
    Cell,
)

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_IDLE: Final = 0
_LARGEST: Final = 1
_PARTIAL: Final = 2
_CPU: Final = 3
_MEMORY: Final = 4
_WORTH: Final = 5
_CARDS: Final = 6
_NONE: Final = 7
"""Rows of `Columns`: idle cards, the largest share, what opened cards have left, CPU, memory, worth of the cards, worth
of the node before to jobs with cards and to jobs without."""
_ROWS: Final = 8

_LAST: Final = (CURVE_END >> CURVE_STEP) - 1
_REST: Final = (1 << CURVE_STEP) - 1


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
        self._numbers: Ints = np.zeros((_ROWS, len(cells)), dtype=np.int64)
        self._free: Ints = np.zeros((len(cells), width), dtype=np.int64)
        """What is free on each card, by node."""
        self._stale: set[int] = set(range(len(cells)))
        self._tables: Tables | None = None

    def stale(self, changed: Sequence[int]) -> None:
        """These cells have changed."""
        self._stale.update(changed)

    def book_forget(self) -> None:
        """The cells are worth something else now."""
        self._tables = None

    def fitting(self, may: Flags, ask: Ask) -> Ints:
        """Those of some nodes that the ask fits."""
        self._refresh()
        numbers = self._numbers
        if ask.milli >= CARD:
            may = may & (numbers[_IDLE] >= ask.milli // CARD)
        elif ask.milli:
            may = may & (numbers[_LARGEST] >= ask.milli)
        if ask.cpu:
            may = may & (numbers[_CPU] >= ask.cpu)
        if ask.memory:
            may = may & (numbers[_MEMORY] >= ask.memory)
        return np.flatnonzero(may)

    def scores(self, where: Ints, ask: Ask, book: Book) -> Ints:
        """The scores of an ask on the nodes `where`; it must fit there."""
        self._refresh()
        if self._tables is None or self._tables.book is not book:
            self._tables = Tables(book)
            self._value(self._tables)
        if ask.milli >= CARD:
            return self._whole(where, ask, self._tables)
        if ask.milli:
            return self._share(where, ask, self._tables)
        return self._none(where, ask, self._tables)

    def _refresh(self) -> None:
        if self._stale:
            self._load(sorted(self._stale))
            self._stale.clear()

    def _value(self, tables: Tables) -> None:
        """As `Cell.value`, of all nodes."""
        numbers = self._numbers
        worth = tables.worth.take(np.maximum(self._free, 0)).sum(axis=1)
        numbers[_WORTH] = worth
        numbers[_CARDS] = _cards_value(tables, worth, numbers[_IDLE], numbers[_CPU])
        numbers[_NONE] = _usable(tables.curve_none, tables.book.ratio_none, numbers[_CPU], worth)

    def _load(self, indexes: list[int]) -> None:
        cells = [self._cells[index] for index in indexes]
        where = np.array(indexes, dtype=np.int64)
        rows = [
            (
                cell.idle, cell.largest, cell.partial, cell.cpu, cell.memory,
                cell.worth, cell.before_cards, cell.before_none,
            )
            for cell in cells
        ]  # fmt: skip
        self._numbers[:, where] = np.array(rows, dtype=np.int64).T
        width = self._free.shape[1]
        self._free[where] = np.array([cell.free + [0] * (width - len(cell.free)) for cell in cells], dtype=np.int64)

    def _whole(self, where: Ints, ask: Ask, tables: Tables) -> Ints:
        numbers = self._numbers.take(where, axis=1)
        idle, whole = numbers[_IDLE], ask.milli // CARD
        worth = numbers[_WORTH] - whole * int(tables.worth[CARD])
        value = _cards_value(tables, worth, idle - whole, numbers[_CPU] - ask.cpu) - numbers[_CARDS]
        tie = (np.minimum(idle, IDLE_MAX) << IDLE_SHIFT) + np.minimum(numbers[_PARTIAL], REST_MAX)
        found: Ints = (value << TIE_BITS) - tie
        return found

    def _none(self, where: Ints, ask: Ask, tables: Tables) -> Ints:
        numbers = self._numbers.take(where, axis=1)
        cpu = numbers[_CPU]
        value = _usable(tables.curve_none, tables.book.ratio_none, cpu - ask.cpu, numbers[_WORTH]) - numbers[_NONE]
        rest = np.minimum(np.maximum(cpu, 0) >> CPU_SHIFT, REST_MAX)
        found: Ints = (value << TIE_BITS) - ((np.minimum(numbers[_IDLE], IDLE_MAX) << IDLE_SHIFT) + rest)
        return found

    def _share(self, where: Ints, ask: Ask, tables: Tables) -> Ints:
        """The best card of each node.  Of neighbours that have the same left one is looked at."""
        free, milli = self._free.take(where, axis=0), ask.milli
        fits = free >= milli
        fits[:, 1:] &= free[:, 1:] != free[:, :-1]
        cards = np.flatnonzero(fits)
        left = free.ravel().take(cards)
        place = cards // free.shape[1]
        numbers = self._numbers.take(where.take(place), axis=1)
        worth = numbers[_WORTH] - tables.worth.take(left) + tables.worth.take(left - milli)
        idle = numbers[_IDLE]
        value = _cards_value(tables, worth, idle - (left == CARD), numbers[_CPU] - ask.cpu) - numbers[_CARDS]
        tie = (np.minimum(idle, SHARE_IDLE_MAX) << SHARE_IDLE_SHIFT) + np.minimum(numbers[_PARTIAL], SHARE_PARTIAL_MAX)
        scores = (value << TIE_BITS) - (left << CARD_SHIFT) - tie
        first = np.flatnonzero(place[1:] != place[:-1]) + 1
        best: Ints = np.maximum.reduceat(scores, np.concatenate(([0], first)))
        return best


def _usable(curve: Ints, ratio: int, cpu: Ints, worth: Ints) -> Ints:
    """As `score.usable`, where nothing is worth less than 0."""
    if not ratio:
        return worth
    place = np.minimum(np.maximum(cpu, 0), CPU_MAX) * ratio // np.maximum(worth, 1)
    step = np.minimum(place >> CURVE_STEP, _LAST)
    low = curve.take(step)
    part = low + ((curve.take(step + 1) - low) * (place & _REST) >> CURVE_STEP)
    served: Ints = worth * part >> 24
    np.copyto(served, worth, where=place >= CURVE_END)
    return served


def _cards_value(tables: Tables, worth: Ints, idle: Ints, cpu: Ints) -> Ints:
    served = _usable(tables.curve_cards, tables.book.ratio_cards, cpu, worth)
    value: Ints = served + tables.groups.take(np.minimum(idle, GROUPS_MAX))
    return value
