from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import (
    attempt_list,
    attempts_insert,
    attempts_live,
    attempts_lock,
    attempts_save,
    attempts_unapplied,
)
from millpond.db.stores.jobs import job_insert
from millpond.domain.errors import Conflict, IllegalTransition
from millpond.domain.jobs import AttemptState, EndReason
from millpond.domain.records import AttemptRecord, SeatRecord
from tests.unit.db.builders import ANN, EVE, NOW, ago, attempt, ended, job


@pytest.fixture
def jobs(house: Database) -> Database:
    for number in range(1, 4):
        house.run("job", lambda tx, number=number: job_insert(tx, SYSTEM, job(number)))
    return house


def insert(jobs: Database, *records: AttemptRecord) -> None:
    jobs.run("insert", lambda tx: attempts_insert(tx, SYSTEM, records))


def change(jobs: Database, name: str, **more: object) -> None:
    def work(tx: Tx) -> None:
        attempts_save(tx, SYSTEM, [replace(attempts_lock(tx, SYSTEM, [name])[name], **more)])

    jobs.run("change", work)


def untold(jobs: Database) -> list[str]:
    return [record.id for record in jobs.run("untold", lambda tx: attempts_unapplied(tx, SYSTEM))]


FULL = attempt(
    job(1),
    state=AttemptState.DRAINING,
    seats=(SeatRecord("n1", (0, 1, 2)), SeatRecord("n2", (5,), 250), SeatRecord("n3", (0,), 0, "1g.5gb", 4)),
    epoch=7,
    milli=3250,
    applied=AttemptState.RUNNING,
    started_at=ago(30),
    ready_at=ago(29),
    checkpointed_at=ago(20),
    draining_at=ago(10),
    deadline_at=ago(-10),
    drain_reason=EndReason.RECLAIMED,
    drain_for="j2",
    borrowed=True,
    lost_milli_seconds=123_456,
    message="gives way",
)


def test_an_attempt_comes_back_as_it_went_in(jobs: Database) -> None:
    insert(jobs, FULL)
    assert jobs.run("list", lambda tx: attempt_list(tx, ANN, "j1")) == (FULL,)
    assert jobs.run("list", lambda tx: attempt_list(tx, EVE, "j1")) == ()
    assert jobs.run("live", lambda tx: attempts_live(tx, SYSTEM)) == (FULL,)


def test_a_save_writes_everything_that_may_change(jobs: Database) -> None:
    insert(jobs, attempt(job(1), seats=FULL.seats, epoch=7, milli=3250))
    fixed = {"id", "job", "number", "tenant", "seats", "epoch", "planned_at", "milli"}
    change(jobs, "j1-1", **{name: getattr(FULL, name) for name in FULL.__dataclass_fields__ if name not in fixed})
    assert jobs.run("list", lambda tx: attempt_list(tx, ANN, "j1")) == (FULL,)


def test_no_job_runs_twice(jobs: Database) -> None:
    insert(jobs, attempt(job(1)))
    for again in (attempt(job(1), 2), attempt(job(1), 1)):
        with pytest.raises(Conflict) as caught:
            insert(jobs, attempt(job(2)), again)
        assert caught.value.reason == "ATTEMPT_EXISTS"
    change(jobs, "j1-1", state=AttemptState.ENDED, ended_at=NOW, reason=EndReason.PREEMPTED)
    insert(jobs, attempt(job(1), 2))
    live = jobs.run("live", lambda tx: attempts_live(tx, SYSTEM))
    assert [record.id for record in live] == ["j1-2"]
    assert [record.number for record in jobs.run("list", lambda tx: attempt_list(tx, ANN, "j1"))] == [1, 2]


@pytest.mark.parametrize(
    ("more", "constraint"),
    [
        ({"id": "j1-2"}, "ck_attempts_id"),
        ({"state": AttemptState.ENDED, "ended_at": NOW}, "ck_attempts_ended_reason"),
        ({"state": AttemptState.ENDED, "reason": EndReason.FAILED}, "ck_attempts_ended_at"),
        ({"state": AttemptState.DRAINING, "draining_at": NOW}, "ck_attempts_draining"),
        ({"milli": -1}, "ck_attempts_amounts"),
        ({"number": 0, "id": "j1-0"}, "ck_attempts_number"),
    ],
)
def test_impossible_rows_are_impossible(jobs: Database, more: dict[str, object], constraint: str) -> None:
    with pytest.raises(Conflict) as caught:
        insert(jobs, attempt(job(1), **more))
    assert constraint in str(caught.value.__cause__)


def test_an_ended_attempt_stays_ended(jobs: Database) -> None:
    insert(jobs, ended(attempt(job(1))))
    with pytest.raises(IllegalTransition):
        change(jobs, "j1-1", state=AttemptState.RUNNING, ended_at=None, reason=None)
    with pytest.raises(RuntimeError, match="locked"):
        jobs.run("save", lambda tx: attempts_save(tx, SYSTEM, [ended(attempt(job(1)))]))


def test_what_the_engine_has_yet_to_hear(jobs: Database) -> None:
    insert(jobs, attempt(job(1), planned_at=ago(1)), attempt(job(2), planned_at=ago(2)))
    assert untold(jobs) == ["j2-1", "j1-1"]
    change(jobs, "j1-1", state=AttemptState.STARTING, applied=AttemptState.STARTING)
    change(jobs, "j2-1", state=AttemptState.STARTING, applied=AttemptState.STARTING)
    assert untold(jobs) == []
    change(jobs, "j1-1", state=AttemptState.RUNNING)
    assert untold(jobs) == []
    change(jobs, "j1-1", state=AttemptState.DRAINING, draining_at=NOW, deadline_at=NOW)
    assert untold(jobs) == ["j1-1"]
    change(jobs, "j1-1", applied=AttemptState.DRAINING)
    assert untold(jobs) == []
    change(jobs, "j2-1", state=AttemptState.ENDED, ended_at=NOW, reason=EndReason.NODE_LOST)
    assert untold(jobs) == ["j2-1"]
    change(jobs, "j2-1", applied=AttemptState.ENDED)
    change(jobs, "j1-1", state=AttemptState.ENDED, ended_at=NOW, reason=EndReason.SAVED, applied=AttemptState.ENDED)
    assert untold(jobs) == []
