"""Where an ask goes, over all nodes at once: rows of scores that follow the pool (scheduling §6).

For every *shape* (card request, models, ask) the board keeps a row of scores, one 64-bit integer for each node.  The
pool logs which nodes have changed; when a row is used, only the nodes that changed since its last use are scored
again: a placement costs one node, not a pool.  A few are scored one by one, many at once with NumPy, to the same
integers.
"""

from __future__ import annotations

from array import array
from types import FunctionType
from typing import Final

import numpy as np

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.scheduling.columns import Columns, Flags, Ints
from millpond.scheduling.fit import Ask, cards_enough, seat_make
from millpond.scheduling.pool import Pool, Room, View, room_may
from millpond.scheduling.prices import Book, scarcity_price
from millpond.scheduling.score import NEVER, TIE_BITS, Cell, card_choose, cell_card, cell_score, view_score
from millpond.scheduling.snapshot import Seat

ONE_BY_ONE: Final = 16 if isinstance(cell_score, FunctionType) else 200
"""Up to so many nodes are scored one by one: few in Python, more when this room is compiled."""

ROWS: Final = 512
"""Rows kept; the one unused for longest goes first."""

_PEAKS: Final = 16
"""Up to so many of the best are taken one by one; more by sorting all."""

LOG_MAX: Final = 1024
"""The log of changes is cut when it is longer than this and 16 changes a node."""


class Row:
    """The scores of one shape, which ``serial`` names, by ``book``.  ``seen``: how many changes they know; -1: none.

    ``missed`` is for whoever asks: when the shape fitted nowhere.
    """

    __slots__ = ("allowed", "ask", "book", "cells", "may", "missed", "models", "scores", "seen", "serial")

    def __init__(self, serial: int, ask: Ask, models: tuple[str, ...], allowed: list[bool], may: Flags) -> None:
        self.serial = serial
        self.book: Book | None = None
        self.ask = ask
        self.models = models
        self.allowed = allowed
        self.may = may
        self.cells = array("q", [NEVER]) * len(allowed)
        self.scores: Ints = np.frombuffer(self.cells, dtype=np.int64)
        self.seen = self.missed = -1


class Board:
    """The scores of a pool under one price book.  The pool is the truth; the board only follows its log."""

    def __init__(self, pool: Pool, book: Book, *, one_by_one: int = ONE_BY_ONE) -> None:
        self.book = book
        self._pool = pool
        self._one_by_one = one_by_one
        self._rows: dict[tuple[CardRequest, tuple[str, ...], Ask], Row] = {}
        self._cells = [Cell() for _ in pool.rooms]
        self._columns = Columns(max((room.kind.count for room in pool.rooms), default=0), self._cells)
        self._domains: dict[tuple[CardRequest, tuple[str, ...]], tuple[list[bool], Flags]] = {}
        """The nodes of a request on some models: rows that differ in CPU and memory share them."""
        self._free = [0] * len(pool.rooms)
        names = sorted({room.kind.model for room in pool.rooms})
        self._models = {name: place for place, name in enumerate(names)}
        self._model_of = [self._models[room.kind.model] for room in pool.rooms]
        self._model_column: Ints = np.array(self._model_of, dtype=np.int64)
        self._model_free = [0] * len(names)
        self._prices = [0] * len(names)
        self._seen = -1
        self._valued = True
        """Whether the cells are worth what the book says."""
        self._cut = 0
        """Changes that are no longer in the log."""
        self._serial = 0

    def book_set(self, book: Book) -> None:
        """Score by another book from now on."""
        if book is not self.book:
            self.book = book
            self._prices = [0] * len(self._models)
            self._valued = False

    def row(self, gpu: CardRequest, models: tuple[str, ...], ask: Ask) -> Row:
        """The shape of an ask on these models of open nodes; ``("",)`` where no cards are asked for."""
        key = (gpu, models, ask)
        found = self._rows.get(key)
        if found is not None:
            return found
        if len(self._rows) >= ROWS:
            oldest = min(self._rows, key=lambda other: self._rows[other].seen)
            del self._rows[oldest]
        allowed, may = self._domain(gpu, models)
        self._serial += 1
        found = self._rows[key] = Row(self._serial, ask, models, allowed, may)
        return found

    def _domain(self, gpu: CardRequest, models: tuple[str, ...]) -> tuple[list[bool], Flags]:
        found = self._domains.get((gpu, models))
        if found is None:
            if len(self._domains) >= ROWS:
                self._domains.clear()
            allowed = [False] * len(self._cells)
            rooms = self._pool.models(gpu)
            for model in models:
                for room in rooms[model]:
                    allowed[room.index] = True
            found = self._domains[gpu, models] = (allowed, np.array(allowed, dtype=np.bool_))
        return found

    def room_set(self, room: Room) -> None:
        """A node may have opened or closed."""
        index = room.index
        for (gpu, models), (allowed, flags) in self._domains.items():
            allowed[index] = flags[index] = _may(room, gpu, models)
        for (gpu, models, _), row in self._rows.items():
            row.allowed[index] = row.may[index] = _may(room, gpu, models)
            if not row.allowed[index]:
                row.cells[index] = NEVER

    # -- asking

    def best(self, row: Row, *, without: frozenset[int] = frozenset()) -> int | None:
        """The node on which the ask is best; the first of equals; None if it fits nowhere."""
        scores = self._scores(row, without)
        if not len(scores):
            return None
        index = int(scores.argmax())
        return None if index in without or row.cells[index] == NEVER else index

    def many(self, row: Row, count: int, *, without: frozenset[int] = frozenset()) -> list[int] | None:
        """`count` distinct nodes, the best first; None if it fits fewer."""
        chosen = self.top(row, count, without=without)
        return chosen if len(chosen) == count else None

    def top(self, row: Row, count: int, *, without: frozenset[int] = frozenset()) -> list[int]:
        """Up to `count` distinct nodes that the ask fits, the best first."""
        if count == 1:
            index = self.best(row, without=without)
            return [] if index is None else [index]
        scores = self._scores(row, without)
        if count > _PEAKS:
            order: list[int] = np.argsort(-scores, kind="stable")[:count].tolist()
            return [index for index in order if row.cells[index] != NEVER and index not in without]
        if scores is row.scores:
            scores = scores.copy()
        found: list[int] = []
        for _ in range(min(count, len(scores))):
            index = int(scores.argmax())
            if row.cells[index] == NEVER or index in without or index in found:
                break  # only those are left that do not fit, must not be, or have been taken
            found.append(index)
            scores[index] = NEVER + NEVER // 2
        return found

    def equals(self, row: Row) -> list[int]:
        """All nodes with the best score, in order: for rules that leave equals to chance."""
        index = self.best(row)
        if index is None:
            return []
        scores = self._scores(row, frozenset())
        found: list[int] = np.flatnonzero(scores == scores[index]).tolist()
        return found

    def score(self, row: Row, index: int) -> int:
        """The score of one node, the price of its model included; `NEVER` where it does not fit."""
        self._row_sync(row)
        score = row.cells[index]
        return score if score == NEVER else score - self._price(self._model_of[index], row.ask.milli)

    def view_score(self, view: View, ask: Ask) -> int:
        """As `score`, of a node as `view` shows it to somebody."""
        self._sync()
        score = view_score(view, ask, self.book)
        return score if score == NEVER else score - self._price(self._model_of[view.room.index], ask.milli)

    def seat(self, row: Row, index: int) -> Seat:
        """The cards of a node that the ask takes; it must fit there."""
        room, ask = self._pool.rooms[index], row.ask
        if 0 < ask.milli < CARD:
            self._sync()
            return Seat(room.name, (cell_card(self._cells[index], ask, self.book),), ask.milli)
        return seat_make(room.now, ask)

    def view_seat(self, view: View, ask: Ask) -> Seat:
        """As `seat`, of a node as `view` shows it to somebody."""
        if 0 < ask.milli < CARD:
            return Seat(view.room.name, (card_choose(view, ask, self.book),), ask.milli)
        return seat_make(view, ask)

    # -- scores

    def _scores(self, row: Row, without: frozenset[int]) -> Ints:
        self._row_sync(row)
        scores = row.scores
        if self.book.tied and row.ask.milli and len(row.models) > 1:
            prices = [self._price(model, row.ask.milli) for model in range(len(self._models))]
            scores = scores - np.array(prices, dtype=np.int64)[self._model_column]
        if without:
            scores = scores.copy()
            scores[list(without)] = NEVER + NEVER // 2
        return scores

    def _price(self, model: int, milli: int) -> int:
        """What the scarcity of a model takes from a score."""
        return self._prices[model] * milli // CARD << TIE_BITS

    def _row_sync(self, row: Row) -> None:
        self._sync()
        book, ask = self.book, row.ask
        anew = row.seen < self._cut or row.book is not book
        if not anew:
            allowed = row.allowed
            changed = [index for index in set(self._pool.changes[row.seen - self._cut :]) if allowed[index]]
        elif ask.linked or len(row.allowed) <= self._one_by_one:
            changed = [index for index, may in enumerate(row.allowed) if may]
        else:
            changed = []
        row.seen, row.book = self._seen, book
        if ask.linked:
            rooms, target = self._pool.rooms, row.cells
            for index in changed:
                fits = cards_enough(rooms[index].now, ask)
                target[index] = cell_score(self._cells[index], ask, book) if fits else NEVER
        elif len(changed) > self._one_by_one:
            may = np.zeros(len(row.allowed), dtype=np.bool_)
            may[changed] = True
            self._many_score(row, may)
        elif anew and not changed:
            self._many_score(row, row.may)
        else:
            self._cells_score(row, changed)

    def _many_score(self, row: Row, may: Flags) -> None:
        """Score many nodes of a row: first who fits at all."""
        fitting = self._columns.fitting(may, row.ask)
        row.scores[may] = NEVER
        if len(fitting) > self._one_by_one:
            row.scores[fitting] = self._columns.scores(fitting, row.ask, self.book)
        else:
            self._cells_score(row, fitting.tolist())

    def _cells_score(self, row: Row, indexes: list[int]) -> None:
        cells, target, ask, book = self._cells, row.cells, row.ask, self.book
        for index in indexes:
            target[index] = cell_score(cells[index], ask, book)

    def _sync(self) -> None:
        """Look again at the nodes that changed, and at all if there is another book."""
        log = self._pool.changes
        logged = self._cut + len(log)
        if self._seen == logged and self._valued:
            return
        if self._seen < 0:
            changed = list(range(len(self._cells)))
        elif self._seen + 1 == logged:
            changed = log[-1:]
        else:
            changed = list(set(log[self._seen - self._cut :]))
        rooms, cells, book = self._pool.rooms, self._cells, self.book
        if not self._valued:
            self._valued = True
            self._columns.book_forget()
            for cell in cells:
                cell.value(book)
        for index in changed:
            cell = cells[index]
            cell.load(rooms[index].now, book)
            free = cell.idle * CARD + cell.partial
            self._model_free[self._model_of[index]] += free - self._free[index]
            self._free[index] = free
        self._columns.stale(changed)
        self._seen = logged
        if book.tied:
            free_all = sum(self._model_free)
            for name, model in self._models.items():
                self._prices[model] = scarcity_price(book.tied.get(name, 0), self._model_free[model], free_all)
        if len(log) > LOG_MAX + 16 * len(cells):  # rows that have not read the older half start anew
            half = len(log) // 2
            del log[:half]
            self._cut += half


def _may(room: Room, gpu: CardRequest, models: tuple[str, ...]) -> bool:
    """Whether a request may use a node as one of these models."""
    return room.open and ("" in models or (room.kind.model in models and room_may(room, gpu)))
