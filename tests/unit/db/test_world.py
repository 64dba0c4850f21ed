"""What a planning pass reads, and how often it asks."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import attempts_insert
from millpond.db.stores.cursors import cursor_get, cursor_set
from millpond.db.stores.holds import eviction_add, hold_list, holds_replace
from millpond.db.stores.jobs import job_insert, jobs_save
from millpond.db.stores.nodes import node_list
from millpond.db.stores.queues import queue_list
from millpond.db.stores.settings import settings_get, settings_put
from millpond.db.stores.world import world_load
from millpond.domain.errors import Conflict, Forbidden
from millpond.domain.jobs import JobState
from millpond.domain.records import EvictionRecord, HoldRecord, SeatRecord, World
from tests.unit.db.builders import ADMIN, ANN, NOW, attempt, ended, job


def world(house: Database) -> World:
    return house.run("world", lambda tx: world_load(tx, SYSTEM), snapshot=True)


def test_the_world_is_what_is_live(house: Database) -> None:
    hold = HoldRecord("j2", (SeatRecord("n1", (0,)), SeatRecord("n2", (), 0)), NOW, ("j1",))
    eviction = EvictionRecord("alpha/prod", "beta/batch", NOW, True)

    def fill(tx: Tx) -> None:
        for number in (3, 1, 2):
            job_insert(tx, SYSTEM, job(number))
        jobs_save(tx, SYSTEM, [job(3, state=JobState.CANCELLED, finished_at=NOW)])
        attempts_insert(tx, SYSTEM, [attempt(job(1)), ended(attempt(job(2)))])
        holds_replace(tx, SYSTEM, [hold], ["j9"])
        eviction_add(tx, SYSTEM, [eviction])
        settings_put(tx, SYSTEM, {"cooldown": 5})

    house.run("fill", fill)
    assert world(house) == World(
        nodes=house.run("nodes", lambda tx: node_list(tx, SYSTEM)),
        queues=house.run("queues", lambda tx: queue_list(tx, SYSTEM)),
        jobs=(job(1), job(2)),
        attempts=(attempt(job(1)),),
        holds=(hold,),
        evictions=(eviction,),
        settings={"cooldown": 5},
    )


def test_a_thousand_jobs_take_as_many_queries_as_one(house: Database) -> None:
    def fill(tx: Tx) -> None:
        for number in range(1000):
            job_insert(tx, SYSTEM, job(number))
        attempts_insert(tx, SYSTEM, [attempt(job(number)) for number in range(0, 1000, 2)])

    house.run("fill", fill)
    with house.statements() as seen:
        loaded = world(house)
    assert len(seen) <= 8
    assert (len(loaded.jobs), len(loaded.attempts)) == (1000, 500)
    began = time.monotonic()
    world(house)
    assert time.monotonic() - began < 2, "a second pass finds the specs decoded"


def test_the_world_needs_one_moment(house: Database) -> None:
    with pytest.raises(RuntimeError, match="snapshot=True"):
        house.run("world", lambda tx: world_load(tx, SYSTEM))


def test_holds_are_replaced_and_dropped(house: Database) -> None:
    house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1)))
    first = HoldRecord("j1", (), NOW, ())
    second = replace(first, until=NOW + timedelta(seconds=5), victims=("j2", "j3"))
    house.run("put", lambda tx: holds_replace(tx, SYSTEM, [first], []))
    house.run("put", lambda tx: holds_replace(tx, SYSTEM, [second], ["j1"]))
    assert house.run("list", lambda tx: hold_list(tx, SYSTEM)) == (second,)
    house.run("drop", lambda tx: holds_replace(tx, SYSTEM, [], ["j1", "j9"]))
    assert house.run("list", lambda tx: hold_list(tx, SYSTEM)) == ()
    with pytest.raises(Conflict):
        house.run("put", lambda tx: holds_replace(tx, SYSTEM, [HoldRecord("j9", (), NOW, ())], []))


def test_the_last_eviction_of_a_pair_counts(house: Database) -> None:
    def evicted(seconds: int, *, borrowed: bool = True) -> EvictionRecord:
        return EvictionRecord("alpha/prod", "beta/batch", NOW + timedelta(seconds=seconds), borrowed)

    house.run("add", lambda tx: eviction_add(tx, SYSTEM, [evicted(5), evicted(1), evicted(3, borrowed=False)]))
    house.run("add", lambda tx: eviction_add(tx, SYSTEM, [evicted(2)]))
    assert world(house).evictions == (evicted(3, borrowed=False), evicted(5))


def test_settings_are_set_and_unset(house: Database) -> None:
    house.run("put", lambda tx: settings_put(tx, ADMIN, {"cooldown": 5, "min_runtime": 0}))
    house.run("put", lambda tx: settings_put(tx, ADMIN, {"cooldown": 7, "min_runtime": None}))
    assert house.run("get", lambda tx: settings_get(tx, ANN)) == {"cooldown": 7}
    with pytest.raises(Forbidden):
        house.run("put", lambda tx: settings_put(tx, ANN, {"cooldown": 0}))


def test_cursors_of_engines(house: Database) -> None:
    assert house.run("get", lambda tx: cursor_get(tx, SYSTEM, "local")) == 0
    for cursor in (5, 9):
        house.run("set", lambda tx, cursor=cursor: cursor_set(tx, SYSTEM, "local", cursor))
    assert house.run("get", lambda tx: cursor_get(tx, SYSTEM, "local")) == 9
