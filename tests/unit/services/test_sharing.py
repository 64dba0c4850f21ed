"""Callers of one moment share a value, and none gets one that began before it asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from millpond.services.sharing import Shared


def test_one_after_the_other_each_gets_a_new_value() -> None:
    shared: Shared[int] = Shared()
    numbers = iter(range(9))
    assert [shared.get(lambda: next(numbers)) for _ in range(3)] == [0, 1, 2]


def test_a_crowd_costs_two_makings() -> None:
    shared: Shared[int] = Shared()
    begun, go = threading.Event(), threading.Event()
    made: list[int] = []

    def make() -> int:
        begun.set()
        assert go.wait(10)
        made.append(len(made))
        return made[-1]

    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(shared.get, make)
        assert begun.wait(10)
        crowd = [pool.submit(shared.get, make) for _ in range(8)]
        while shared._making.locked() and sum(future.running() for future in crowd) < 8:
            pass
        go.set()
        assert first.result(10) == 0
        values = {future.result(10) for future in crowd}
    assert 0 not in values
    assert len(made) <= 3


def test_a_failure_is_the_callers_own() -> None:
    shared: Shared[int] = Shared()

    def fail() -> int:
        raise ValueError

    for _ in range(2):
        try:
            shared.get(fail)
        except ValueError:
            continue
        raise AssertionError
    assert shared.get(lambda: 7) == 7
