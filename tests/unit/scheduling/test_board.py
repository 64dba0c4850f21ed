"""The board's choices on pools small enough to see why."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from millpond.domain.cards import card_request_parse
from millpond.scheduling.board import Board, Row
from millpond.scheduling.fit import Ask, ask_make
from millpond.scheduling.placing import Placer, scored
from millpond.scheduling.pool import RUN, Pool, view_make
from millpond.scheduling.score import NEVER
from millpond.scheduling.snapshot import Job, NodeState, Seat
from tests.builders import job, node, pool

FRACTIONS = {"0.7 cpu=2000": 10, "0.3 cpu=2000": 10, "1 cpu=8000": 5}
LINKS = ((0, 1, 2, 3), (4, 5, 6, 7))


def placer(*nodes: NodeState, mix: Mapping[str, int] | None = None) -> tuple[Pool, Placer]:
    made = Pool(nodes)
    return made, Placer(made, mix or {})


def place(rooms: Pool, by: Placer, wanted: Job) -> tuple[Seat, ...] | None:
    found = by.find(wanted.gpu, ask_make(wanted), tuple(rooms.models(wanted.gpu)), {})
    if found is None:
        return None
    rooms.put(wanted, found[0], RUN)
    return found[0]


def test_without_a_mix_the_fullest_card_and_the_tightest_node() -> None:
    rooms, by = placer(*pool(3))
    assert place(rooms, by, job("a", "t/batch", 5)) == (Seat("n1", (0, 1, 2, 3, 4)),)
    assert place(rooms, by, job("b", "t/batch", "0.25")) == (Seat("n1", (5,), 250),)
    assert place(rooms, by, job("c", "t/batch", "0.5")) == (Seat("n1", (5,), 500),)
    assert place(rooms, by, job("d", "t/batch", 2)) == (Seat("n1", (6, 7)),)
    assert place(rooms, by, job("e", "t/batch", 1)) == (Seat("n2", (0,)),)
    assert place(rooms, by, job("f", "t/batch", 0, cpu=1000)) == (Seat("n1"),)


def test_a_mix_spares_the_room_that_its_requests_need() -> None:
    """0.2 leaves alone what 0.4 can use, though that card is the fuller one."""
    rooms, by = placer(*pool(1, 2), mix={"0.4": 10, "0.6": 10})
    rooms.put(job("a", "t/batch", "0.6"), (Seat("n1", (0,), 600),), RUN)
    rooms.put(job("b", "t/batch", "0.35"), (Seat("n1", (1,), 350),), RUN)
    assert place(rooms, by, job("c", "t/batch", "0.2")) == (Seat("n1", (1,), 200),)
    assert place(rooms, by, job("d", "t/batch", "0.4")) == (Seat("n1", (0,), 400),)


def test_jobs_without_cards_go_where_cards_are_taken() -> None:
    rooms, by = placer(*pool(2), mix=FRACTIONS)
    rooms.put(job("a", "t/batch", 8), (Seat("n2", tuple(range(8))),), RUN)
    assert place(rooms, by, job("b", "t/batch", 0, cpu=16_000)) == (Seat("n2"),)


def test_gangs_take_distinct_nodes_of_one_model() -> None:
    rooms, by = placer(*pool(2), *(node(f"h{i}", model="H20-96GB") for i in range(3)))
    seats = place(rooms, by, job("g", "t/batch", 4, nodes=3))
    assert seats is not None
    assert [seat.node for seat in seats] == ["h0", "h1", "h2"]
    assert place(rooms, by, job("h", "t/batch", 8, nodes=3)) is None


def test_scarce_models_are_left_to_those_who_need_them() -> None:
    mix = {"H20:1": 50, "1": 50}
    rooms, by = placer(node("a1", model="H20-96GB"), node("b1", model="A800-80GB"), mix=mix)
    assert place(rooms, by, job("a", "t/batch", 1)) == (Seat("b1", (0,)),)
    assert place(rooms, by, job("b", "t/batch", "H20:1")) == (Seat("a1", (0,)),)


def test_links_inside_a_node() -> None:
    rooms, by = placer(*pool(1, islands=LINKS))
    rooms.put(job("a", "t/batch", 2), (Seat("n1", (0, 4)),), RUN)
    assert place(rooms, by, job("b", "t/batch", 4, require="nvlink")) is None
    assert place(rooms, by, job("c", "t/batch", 3, require="nvlink")) == (Seat("n1", (1, 2, 3)),)


def test_closed_and_broken() -> None:
    rooms, by = placer(node("n1", cordoned=True), node("n2", 2, bad=[0]))
    assert place(rooms, by, job("a", "t/batch", 2)) is None
    assert place(rooms, by, job("b", "t/batch", 1)) == (Seat("n2", (1,)),)


def test_what_a_claim_sees_differently_is_scored_as_it_sees_it() -> None:
    rooms, by = placer(*pool(3))
    rooms.put(job("x", "t/batch", 4), (Seat("n1", (0, 1, 2, 3)),), RUN)
    wanted = job("a", "t/batch", 3)
    shut = {0: view_make(rooms.rooms[0], [0] * 8, 128_000, 0)}
    found = by.find(wanted.gpu, ask_make(wanted), ("A800-80GB",), shut)
    assert found is not None
    assert found[0][0].node == "n2"
    partly = {0: view_make(rooms.rooms[0], [0] * 5 + [1000] * 3, 128_000, 2_097_152)}
    found = by.find(wanted.gpu, ask_make(wanted), ("A800-80GB",), partly)
    assert found == ((Seat("n1", (5, 6, 7)),), "A800-80GB")
    assert by.find(wanted.gpu, Ask(3000, 3, 0, 0), ("A800-80GB",), shut) is None


def rows(rooms: Pool, board: Board, count: int) -> list[Row]:
    """That many shapes, which differ in their CPU."""
    gpu = card_request_parse("1")
    return [board.row(gpu, ("A800-80GB",), Ask(1000, 1, cpu, 0)) for cpu in range(count)]


def test_rows_are_dropped_when_there_are_too_many_and_the_log_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.scheduling.board.ROWS", 4)
    monkeypatch.setattr("millpond.scheduling.board.LOG_MAX", 10)
    rooms, by = placer(*pool(2))
    board = by.board()
    one = job("a", "t/batch", 1)
    for turn in range(40):
        for row in rows(rooms, board, 6):
            assert board.best(row) == turn % 2
        rooms.put(one, (Seat("n2", (0,)),), RUN, -1 if turn % 2 else 1)
    assert len(rooms.changes) <= 10 + 16 * 2 + 1
    last = rows(rooms, board, 1)[0]
    assert board.equals(last) == [0, 1]
    assert board.score(last, 0) == board.score(last, 1) > NEVER


def test_no_node_is_taken_twice_when_fewer_are_left_than_asked_for() -> None:
    """The first node has been taken and the last must not be: both look equally bad, and the first one comes first."""
    rooms = Pool(pool(3, 1))
    board = Placer(rooms, {}).board()
    wanted = job("a", "t/batch", 1, nodes=3)
    row = board.row(wanted.gpu, tuple(rooms.models(wanted.gpu)), ask_make(wanted))
    assert board.top(row, 3, without=frozenset({2})) == [0, 1]
    assert board.many(row, 3, without=frozenset({2})) is None


def test_equals_are_all_the_best() -> None:
    _, by = placer(*pool(3))
    board = by.board()
    row = board.row(card_request_parse("1"), ("A800-80GB",), Ask(1000, 1, 0, 0))
    assert board.equals(row) == [0, 1, 2]
    assert board.equals(board.row(card_request_parse("9"), ("A800-80GB",), Ask(9000, 1, 0, 0))) == []
    assert Board(Pool([]), board.book).best(Row(1, Ask(1000, 1, 0, 0), (), [], np.zeros(0, bool))) is None


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (Ask(1000, 1, 0, 0), True),
        (Ask(1000, 1, 0, 0, require="nvlink"), True),
        (Ask(1000, 2, 0, 0, require="rack"), False),
        (Ask(1000, 2, 0, 0, prefer="rack"), False),
        (Ask(0, 1, 0, 0, slice="1g.5gb", slices=1), False),
    ],
)
def test_what_the_board_places(ask: Ask, answer: bool) -> None:
    assert scored(ask) is answer
