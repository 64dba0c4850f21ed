"""Seats for a claim by the board's scores (scheduling §6): one node, or a gang of distinct ones.

What only some claims may not use, such as reserved cards, is not on the board: those few nodes are scored as the claim
sees them, and the best of both is taken.  Topology across nodes and slices are chosen by `fit.place`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from millpond.domain.cards import CardRequest
from millpond.domain.links import LINK_LEVELS
from millpond.scheduling.board import Board, Row
from millpond.scheduling.fit import Ask
from millpond.scheduling.mix import mix_demands
from millpond.scheduling.pool import Pool, Room, View
from millpond.scheduling.prices import Book, Kinds, book_make
from millpond.scheduling.score import NEVER
from millpond.scheduling.snapshot import Seat

_BOOKS: Final = 16
"""Books kept: a pass for every event must not solve the same mix again."""

Placement = tuple[tuple[Seat, ...], str]
"""Seats, and the card model that they are on (``""`` for an ask without cards)."""


class Placer:
    """Places on the open nodes of a pool.  The board is made when it is first needed."""

    def __init__(self, pool: Pool, mix: Mapping[str, int]) -> None:
        self._pool = pool
        self._book = book_of(tuple(sorted(mix.items())), pool_kinds(pool))
        self._board: Board | None = None

    def mix_set(self, mix: Mapping[str, int]) -> None:
        """Place by another mix from now on."""
        self._book = book_of(tuple(sorted(mix.items())), pool_kinds(self._pool))
        if self._board is not None:
            self._board.book_set(self._book)

    def room_set(self, room: Room) -> None:
        """A node is in another state."""
        if self._board is not None:
            self._board.room_set(room)

    def board(self) -> Board:
        if self._board is None:
            self._board = Board(self._pool, self._book)
        return self._board

    def find(self, gpu: CardRequest, ask: Ask, models: Sequence[str], views: Mapping[int, View]) -> Placement | None:
        """Where an ask is best placed on one of `models`; None if it fits none.  A gang stays on one model.

        ``views``: what the claim sees of the nodes, by index, that others have reserved cards on.
        """
        board = self.board()
        if ask.nodes == 1:
            row = board.row(gpu, tuple(sorted(models)), ask)
            found = self._top(row, views)
            return self._seated(row, found, views) if found else None
        best: tuple[int, Row, list[tuple[int, int]]] | None = None
        for model in sorted(models):
            row = board.row(gpu, (model,), ask)
            found = self._top(row, views)
            worth = -sum(negative for negative, _ in found)
            if found and (best is None or worth > best[0]):
                best = (worth, row, found)
        return None if best is None else self._seated(best[1], best[2], views)

    def row(self, gpu: CardRequest, ask: Ask, model: str) -> Row:
        """What the board knows of an ask on one model, for `spot`."""
        return self.board().row(gpu, (model,), ask)

    def spot(self, row: Row, views: Mapping[int, View]) -> tuple[Seat, ...] | None:
        """As `find`, for an ask that may use one model only."""
        if views:
            found = self._top(row, views)
            return self._seated(row, found, views)[0] if found else None
        board, ask = self.board(), row.ask
        if ask.nodes == 1:
            index = board.best(row)
            return None if index is None else (board.seat(row, index),)
        chosen = board.many(row, ask.nodes)
        return None if chosen is None else tuple([board.seat(row, index) for index in chosen])

    def _top(self, row: Row, views: Mapping[int, View]) -> list[tuple[int, int]]:
        """The best nodes, as (score with its sign turned, index); empty if there are not enough."""
        board, ask = self.board(), row.ask
        if not views:
            chosen = board.many(row, ask.nodes)
            return [] if chosen is None else [(-board.score(row, index), index) for index in chosen]
        without = frozenset(views)
        found = [(-board.score(row, index), index) for index in board.top(row, ask.nodes, without=without)]
        for index, view in views.items():
            score = board.view_score(view, ask) if row.allowed[index] else NEVER
            if score != NEVER:
                found.append((-score, index))
        found.sort()
        return found[: ask.nodes] if len(found) >= ask.nodes else []

    def _seated(self, row: Row, found: list[tuple[int, int]], views: Mapping[int, View]) -> Placement:
        board, rooms = self.board(), self._pool.rooms
        seats = tuple(board.view_seat(views.get(index) or rooms[index].now, row.ask) for _, index in found)
        return seats, rooms[found[0][1]].kind.model if row.ask.milli else ""


def scored(ask: Ask) -> bool:
    """Whether the board places such an ask: no slices, and no wish that concerns which nodes go together."""
    return not ask.slice and not ask.prefer and (not ask.require or ask.require in LINK_LEVELS)


def pool_kinds(pool: Pool) -> tuple[Kinds, ...]:
    """The configured cards by kind, in order."""
    found: dict[tuple[str, str, int], int] = {}
    for room in pool.rooms:
        kind = room.kind
        if kind.count:
            key = (kind.vendor, kind.model, kind.memory)
            found[key] = found.get(key, 0) + len(room.whole.free) * 1000
    return tuple(Kinds(*key, milli) for key, milli in sorted(found.items()))


@lru_cache(maxsize=_BOOKS)
def book_of(mix: tuple[tuple[str, int], ...], kinds: tuple[Kinds, ...]) -> Book:
    """The book of a mix in a pool."""
    return book_make(mix_demands(dict(mix)), kinds)
