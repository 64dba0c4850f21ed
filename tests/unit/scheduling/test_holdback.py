"""Who goes first when a few jobs may be held back."""

from __future__ import annotations

from millpond.domain.cards import card_request_parse
from millpond.scheduling.board import Board, Row
from millpond.scheduling.fit import Ask
from millpond.scheduling.holdback import Holdback, Turn
from millpond.scheduling.mix import mix_demands
from millpond.scheduling.placing import pool_kinds
from millpond.scheduling.pool import RUN, Pool
from millpond.scheduling.prices import book_make
from tests.builders import job, pool


class Pond:
    """One node of two cards, for shares of 0.6 and 0.4 and some of 0.3, which waste what they leave."""

    def __init__(self, limit: int) -> None:
        self.rooms = Pool(pool(1, 2))
        book = book_make(mix_demands({"0.6": 10, "0.4": 10, "0.3": 1}), pool_kinds(self.rooms))
        self.board = Board(self.rooms, book)
        self.held = Holdback(self.board, limit)

    def row(self, gpu: str) -> Row:
        request = card_request_parse(gpu)
        return self.board.row(request, ("A800-80GB",), Ask(request.milli, 1, 0, 0))

    def come(self, name: str, gpu: str) -> list[str]:
        """A job comes; who goes then, in order."""
        self.held.put(self.row(gpu), name)
        gone = []
        while (turn := self.held.take()) is not None:
            gone.append(self._seat(turn))
        return gone

    def end(self) -> list[str]:
        gone = []
        while (turn := self.held.drain()) is not None:
            gone.append(self._seat(turn))
        return gone

    def _seat(self, turn: Turn) -> str:
        if turn.index is None:
            return f"{turn.name} does not fit"
        amount = str(turn.row.ask.milli / 1000)
        self.rooms.put(job(turn.name, "t/batch", amount), (self.board.seat(turn.row, turn.index),), RUN)
        return turn.name


def test_who_wastes_waits_until_too_many_do() -> None:
    pond = Pond(limit=1)
    assert pond.come("wasteful", "0.3") == []
    assert len(pond.held) == 1
    gone = [*pond.come("a", "0.6"), *pond.come("b", "0.4"), *pond.come("c", "0.6")]
    assert "wasteful" not in gone
    assert {"a", "b"} <= {*gone, *pond.end()}
    assert len(pond.held) == 0


def test_nobody_is_held_beyond_the_limit() -> None:
    pond = Pond(limit=0)
    assert pond.come("wasteful", "0.3") == ["wasteful"]
    assert pond.come("x", "0.9") == ["x"]
    assert pond.come("y", "0.9") == ["y does not fit"]


def test_equals_go_in_the_order_in_which_they_came() -> None:
    pond = Pond(limit=5)
    for name in ("a", "b", "c"):
        pond.held.put(pond.row("0.3"), name)
    assert pond.end() == ["a", "b", "c"]


def test_the_one_that_wastes_least_of_what_it_takes_goes() -> None:
    """0.95 leaves more unused than 0.35 does, but less of each card given out; and 0.35 finds room later."""
    pond = Pond(limit=1)
    assert pond.come("small", "0.35") == []
    assert pond.come("large", "0.95") == ["large"]
    assert pond.end() == ["small"]
