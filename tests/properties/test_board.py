"""The board's rows follow the pool: after any changes they say what scoring anew says, one by one or at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.cards import CardRequest
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.scheduling.board import Board, Row
from millpond.scheduling.fit import Ask, place, view_fits
from millpond.scheduling.mix import mix_demands
from millpond.scheduling.pool import LEAVE, RUN, Pool
from millpond.scheduling.prices import Book, Kinds, book_make
from millpond.scheduling.score import NEVER
from millpond.scheduling.snapshot import Job, NodeState, Seat

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

AMOUNTS = (0, 100, 250, 333, 500, 700, 1000, 2000, 4000)
MODELS = ("A", "B")
MIXES: tuple[dict[str, int], ...] = (
    {},
    {"0.25": 3, "0.7 cpu=4000": 2, "0.333 cpu=500": 4, "1 cpu=9000": 3, "B:2 cpu=1000": 2, "8": 1, "0 cpu=4000": 9},
    {"0.5": 1, "A:4": 1},
)

BOOKS = [
    book_make(mix_demands(mix), (Kinds("nvidia", "A", 81_920, 16_000), Kinds("nvidia", "B", 81_920, 8_000)))
    for mix in MIXES
]


@st.composite
def pools(draw: Draw[object]) -> Pool:
    nodes = []
    for index in range(draw(st.integers(1, 6))):
        count = draw(st.sampled_from([0, 2, 4, 8]))
        kind = CardKind(draw(st.sampled_from(MODELS)), "nvidia", 81_920, count) if count else None
        spec = NodeSpec(f"n{index}", draw(st.sampled_from([0, 8_000, 96_000])), 1_000, kind)
        bad = frozenset({0}) if draw(st.integers(0, 5)) == 0 else frozenset()
        nodes.append(NodeState(spec, cordoned=draw(st.integers(0, 7)) == 0, bad_cards=bad))
    return Pool(nodes)


def shapes(pool: Pool) -> list[tuple[CardRequest, tuple[str, ...], Ask]]:
    found = []
    for milli in AMOUNTS:
        for cpu, memory in ((0, 0), (3_000, 200)):
            gpu = CardRequest(milli, milli)
            models = tuple(pool.models(gpu))
            found.append((gpu, models, Ask(milli, 1, cpu, memory)))
            found.extend((gpu, (model,), Ask(milli, 1, cpu, memory)) for model in models)
    return found


def placed(draw: Draw[object], pool: Pool, board: Board) -> None:
    """Put a random job where the board wants it, or on any node."""
    gpu, models, ask = draw(st.sampled_from(shapes(pool)))
    if not models:
        return
    row = board.row(gpu, models, ask)
    index = draw(st.integers(0, len(pool.rooms) - 1)) if draw(st.booleans()) else board.best(row)
    if index is None or board.score(row, index) == NEVER:
        return
    job = Job("j", "t/batch", gpu, 1, ask.cpu, ask.memory)
    layer = draw(st.sampled_from([RUN, LEAVE]))
    seat = board.seat(row, index)
    pool.put(job, (seat,), layer)
    if draw(st.integers(0, 3)) == 0:
        pool.put(job, (seat,), layer, -1)


@given(st.data(), pools(), st.sampled_from(BOOKS), st.sampled_from(BOOKS))
def test_rows_are_what_scoring_anew_gives(data: st.DataObject, pool: Pool, book: Book, other: Book) -> None:
    board, at_once = Board(pool, book, one_by_one=1 << 30), Board(pool, book, one_by_one=0)
    for turn in range(data.draw(st.integers(1, 12))):
        placed(data.draw, pool, board)
        if turn % 3 == 2:
            book, other = other, book
            board.book_set(book)
            at_once.book_set(book)
        for shape in data.draw(st.lists(st.sampled_from(shapes(pool)), max_size=3)):
            agree(pool, book, board.row(*shape), board, at_once.row(*shape), at_once)
    for shape in shapes(pool):
        agree(pool, book, board.row(*shape), board, at_once.row(*shape), at_once)


def agree(pool: Pool, book: Book, row: Row, board: Board, other: Row, at_once: Board) -> None:
    fresh = Board(pool, book)
    for room in pool.rooms:
        index = room.index
        fits = row.allowed[index] and view_fits(room.now, row.ask)
        expected = fresh.view_score(room.now, row.ask) if fits else NEVER
        assert board.score(row, index) == at_once.score(other, index) == expected
    scores = [board.score(row, room.index) for room in pool.rooms]
    best = max(scores, default=NEVER)
    assert board.best(row) == at_once.best(other) == (None if best == NEVER else scores.index(best))
    order = sorted((-score, index) for index, score in enumerate(scores) if score != NEVER)
    assert board.top(row, 3) == at_once.top(other, 3) == [index for _, index in order[:3]]


@given(st.data(), pools())
def test_without_a_mix_shares_and_cards_go_where_fit_puts_them(data: st.DataObject, pool: Pool) -> None:
    """The old rule: the fullest card for a share, the tightest node otherwise; only the last key, CPU, is not kept."""
    board = Board(pool, book_make([]))
    for _ in range(data.draw(st.integers(1, 12))):
        placed(data.draw, pool, board)
    for gpu, models, ask in shapes(pool):
        if not 0 < ask.milli <= 1000 or len(models) != 1:
            continue
        seats = place([room.now for room in pool.models(gpu)[models[0]] if not room.broken], ask)
        index = board.best(board.row(gpu, models, ask), without=frozenset(r.index for r in pool.rooms if r.broken))
        if seats is None:
            assert index is None
            continue
        assert index is not None
        mine = board.seat(board.row(gpu, models, ask), index)
        assert _tightness(pool, mine) == _tightness(pool, seats[0])


def _tightness(pool: Pool, seat: Seat) -> tuple[int, int, int]:
    view = pool.by_name[seat.node].now
    return (view.free[seat.cards[0]], view.idle, sum(view.free))
