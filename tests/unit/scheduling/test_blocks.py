"""The ranked tasks of a leaf in blocks: whatever comes and goes, they say what one walk over all tasks says."""

from __future__ import annotations

import pytest

from millpond.domain.cards import card_request_parse
from millpond.scheduling.blocks import LeafStanding
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task
from tests.builders import pool, queue, snapshot

GUARANTEE, DESERVED = 20_000, 50_000
STATE = State(snapshot(pool(16), [queue("t/batch", g=20, d=50)], []))
LEAF = STATE.tree.queues["t/batch"]


def task(number: int, milli: int = 1000) -> Task:
    """The one admitted at second `number`; who is admitted earlier stands before."""
    job = Job(f"r{number}", "t/batch", card_request_parse("1"), started=number)
    seat = Seat("n1", tuple(range(milli // 1000)))
    return STATE.task_make(job, (seat,), Kind.RUNNING)


def agree(standing: LeafStanding, present: list[Task]) -> None:
    """One walk in leaf order (scheduling §2): who fits in what is left, whole jobs only; others are passed."""
    standing.settle()
    guarantee, deserved, passed = GUARANTEE, DESERVED, list[str]()
    for one in sorted(present, key=lambda one: one.key):
        if one.milli > deserved:
            passed.append(one.id)
            continue
        deserved -= one.milli
        guarantee -= one.milli if one.milli <= guarantee else 0
    cards = STATE.tree.dims.index("cards")
    assert [one.id for one in standing.rest()] == passed
    assert sum(standing.passed.values()) == len(passed)
    assert (standing.guarantee[cards], standing.deserved[cards]) == (guarantee, deserved)


class Crowd:
    """A leaf and who is in it."""

    def __init__(self, *tasks: Task) -> None:
        self.standing = LeafStanding(LEAF)
        self.present: list[Task] = []
        self.put(*tasks)

    def put(self, *tasks: Task) -> None:
        for one in tasks:
            self.standing.put(one)
            self.present.append(one)

    def drop(self, *names: str) -> None:
        for one in [one for one in self.present if one.id in names]:
            self.standing.drop(one)
            self.present.remove(one)

    def agree(self) -> None:
        agree(self.standing, self.present)


@pytest.mark.parametrize("backwards", [True, False])
def test_a_crowd_is_walked_in_leaf_order_however_it_came(backwards: bool) -> None:
    """Both ways it is more than a block holds."""
    numbers = range(150, 0, -1) if backwards else range(1, 151)
    crowd = Crowd()
    for number in numbers:
        crowd.put(task(number))
        if not backwards:
            crowd.standing.settle()
    crowd.agree()


def many() -> Crowd:
    """Some blocks, of which the first fits but for one large task, and the last does not."""
    crowd = Crowd(*(task(number) for number in range(150, 0, -1)), task(0, 51_000))
    crowd.agree()
    return crowd


def test_somebody_who_was_passed_goes_without_moving_others() -> None:
    crowd = many()
    crowd.drop("r0")
    crowd.agree()


def test_the_room_of_somebody_who_fitted_goes_to_the_first_of_those_behind() -> None:
    crowd = many()
    before = [one.id for one in crowd.standing.rest()]
    crowd.drop("r1")
    crowd.agree()
    assert [one.id for one in crowd.standing.rest()] == [name for name in before if name != "r51"]


def test_whoever_comes_in_the_middle_takes_the_room_of_the_last() -> None:
    crowd = many()
    crowd.put(task(49, 3000))
    crowd.agree()


@pytest.mark.parametrize("gone", [range(1, 60), range(40, 120), range(90, 151), range(1, 151)])
def test_whole_blocks_go(gone: range) -> None:
    crowd = many()
    crowd.drop("r0", *(f"r{number}" for number in gone))
    crowd.agree()
    crowd.put(task(200), task(75, 2000), task(-5))
    crowd.agree()


@pytest.mark.parametrize("last", range(28, 76, 4))
def test_what_the_first_leave_goes_to_those_behind_them(last: int) -> None:
    """Whether they fill their blocks or not."""
    for count in range(last, last + 4):
        crowd = many()
        crowd.drop("r0", *(f"r{number}" for number in range(1, count)))
        crowd.agree()
