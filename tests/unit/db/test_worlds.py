"""A world read by its changes equals one read whole, whoever wrote and in whatever order transactions committed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import attempts_insert, attempts_lock, attempts_save
from millpond.db.stores.holds import eviction_add, holds_replace
from millpond.db.stores.jobs import job_insert, jobs_lock, jobs_save
from millpond.db.stores.nodes import node_mark
from millpond.db.stores.queues import queue_list, queues_replace
from millpond.db.stores.settings import settings_put
from millpond.db.stores.world import world_load
from millpond.db.worlds import Worlds
from millpond.domain.jobs import JobState
from millpond.domain.records import EvictionRecord, HoldRecord, World
from tests.unit.db.builders import NOW, attempt, ended, job


def whole(house: Database) -> World:
    return house.run("world", lambda tx: world_load(tx, SYSTEM), snapshot=True)


def test_an_unchanged_world_is_the_same_object_and_is_not_read_again(house: Database) -> None:
    house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1)))
    worlds = Worlds(house)
    first = worlds.read()
    with house.statements() as seen:
        second = worlds.read()
    assert second.world is first.world
    assert second.mark == first.mark
    assert len(seen) == 4, "head, changed jobs, changed attempts, mark"


def test_what_did_not_change_stays_the_same_object(house: Database) -> None:
    house.run("jobs", lambda tx: [job_insert(tx, SYSTEM, job(number)) for number in range(5)])
    worlds = Worlds(house)
    before = {record.id: record for record in worlds.read().world.jobs}
    house.run("hold", lambda tx: _change(tx, "j3", held=True))
    after = {record.id: record for record in worlds.read().world.jobs}
    assert after["j3"] == replace(before["j3"], held=True)
    assert all(after[name] is before[name] for name in before if name != "j3")


def test_who_commits_late_is_not_missed(house: Database) -> None:
    """A transaction that began before a read and is committed after it, while others come and go."""
    written, go = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        job_insert(tx, SYSTEM, job(1))
        written.set()
        assert go.wait(20)

    worlds = Worlds(house)
    worlds.read()
    thread = threading.Thread(target=lambda: house.run("slow", slow))
    thread.start()
    assert written.wait(20)
    house.run("quick", lambda tx: job_insert(tx, SYSTEM, job(2)))
    assert [record.id for record in worlds.read().world.jobs] == ["j2"]
    house.run("quick", lambda tx: job_insert(tx, SYSTEM, job(3)))
    go.set()
    thread.join()
    assert [record.id for record in worlds.read().world.jobs] == ["j1", "j2", "j3"]
    assert worlds.read().world == whole(house)


def test_what_was_written_by_hand_is_seen(house: Database) -> None:
    house.run("jobs", lambda tx: [job_insert(tx, SYSTEM, job(number)) for number in range(3)])
    worlds = Worlds(house)
    worlds.read()
    house.run("by hand", lambda tx: tx.exec_driver_sql("DELETE FROM jobs WHERE id = 'j1'"))
    house.run("by hand", lambda tx: tx.exec_driver_sql("UPDATE nodes SET cordoned = true"))
    assert worlds.read().world == whole(house)


def test_another_database_behind_the_same_address_is_read_whole(house: Database) -> None:
    """What a restart of the database looks like: its start is another one, and numbers count up anew."""
    house.run("jobs", lambda tx: [job_insert(tx, SYSTEM, job(number)) for number in range(3)])
    worlds = Worlds(house)
    first = worlds.read()
    kept = worlds._kept
    assert kept is not None
    for head in (replace(kept.head, started=NOW), replace(kept.head, horizon=1 << 60)):
        worlds._kept = replace(kept, head=head)
        found = worlds.read()
        assert found.world == first.world
        assert found.world is not first.world


def test_any_changes_in_any_order(house: Database) -> None:
    """Many small random transactions, read every now and then; one reader reads rarely, so that much has changed."""
    random = Random(7)
    often, seldom = Worlds(house), Worlds(house)
    for number in range(12):
        house.run("job", lambda tx, number=number: job_insert(tx, SYSTEM, job(number)))
    changes: tuple[Callable[[Tx, Random], None], ...] = (_submit, _begin, _end, _hold_put, _node, _queue, _setting)
    for step in range(120):
        house.run("change", lambda tx: random.choice(changes)(tx, random))
        if step % 3 == 0:
            assert often.read().world == whole(house)
        if step % 40 == 39:
            assert seldom.read().world == whole(house)


def _change(tx: Tx, name: str, **fields: object) -> None:
    found = jobs_lock(tx, SYSTEM, [name])
    jobs_save(tx, SYSTEM, [replace(record, **fields) for record in found.values()])  # type: ignore[arg-type]


def _submit(tx: Tx, random: Random) -> None:
    job_insert(tx, SYSTEM, job(random.randrange(100, 1 << 26)))


def _live(tx: Tx, state: JobState) -> list[str]:
    return list(tx.exec_driver_sql("SELECT id FROM jobs WHERE state = %s ORDER BY id", (state.value,)).scalars())


def _begin(tx: Tx, random: Random) -> None:
    waiting = _live(tx, JobState.QUEUED)
    if not waiting:
        return
    found = jobs_lock(tx, SYSTEM, [random.choice(waiting)])
    for record in found.values():
        started = replace(record, state=JobState.STARTING, attempts=record.attempts + 1)
        jobs_save(tx, SYSTEM, [started])
        attempts_insert(tx, SYSTEM, [attempt(started, number=started.attempts)])


def _end(tx: Tx, random: Random) -> None:
    going = _live(tx, JobState.STARTING)
    if not going:
        return
    found = jobs_lock(tx, SYSTEM, [random.choice(going)])
    for record in found.values():
        live = attempts_lock(tx, SYSTEM, [f"{record.id}-{record.attempts}"])
        attempts_save(tx, SYSTEM, [ended(one) for one in live.values()])
        holds_replace(tx, SYSTEM, [], [record.id])
        jobs_save(tx, SYSTEM, [replace(record, state=JobState.CANCELLED, finished_at=NOW)])


def _hold_put(tx: Tx, random: Random) -> None:
    waiting = _live(tx, JobState.QUEUED)
    if waiting:
        until = NOW + timedelta(seconds=random.randrange(100))
        holds_replace(tx, SYSTEM, [HoldRecord(random.choice(waiting), (), until, ())], [random.choice(waiting)])
    moment = NOW + timedelta(seconds=random.randrange(100))
    eviction_add(tx, SYSTEM, [EvictionRecord("alpha/prod", "beta/batch", moment, random.random() < 0.5)])


def _node(tx: Tx, random: Random) -> None:
    node_mark(tx, SYSTEM, "n1", cordoned=random.random() < 0.5, lost=random.random() < 0.5)


def _queue(tx: Tx, random: Random) -> None:
    queues = queue_list(tx, SYSTEM)
    place = random.randrange(len(queues))
    changed = replace(queues[place], cap={"cards": random.randrange(1, 9) * 1000})
    queues_replace(tx, SYSTEM, (*queues[:place], changed, *queues[place + 1 :]))


def _setting(tx: Tx, random: Random) -> None:
    settings_put(tx, SYSTEM, {"cooldown": random.choice([None, 5, 7])})
