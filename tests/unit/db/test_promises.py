"""Promised starts: the latest counts, a start judges them, and past runs say how long jobs take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import attempts_insert
from millpond.db.stores.jobs import job_insert, jobs_lock, jobs_save
from millpond.db.stores.promises import (
    promise_accuracy,
    promise_list,
    promise_results,
    promises_add,
    promises_prune,
    run_list,
)
from millpond.domain.jobs import AttemptState, EndReason, JobState
from millpond.domain.records import AccuracyRecord, PromiseRecord, RunRecord
from tests.unit.db.builders import ANN, EVE, NOW, ago, attempt, ended, job

LONG_AGO = ago(30 * 86_400)
FAR = timedelta(days=14)


def promise(number: int, made: int = 0, early: int = 60, middle: int = 120, late: int | None = 600) -> PromiseRecord:
    """For job ``j<number>``, made `made` seconds after `NOW`; the others are seconds from there."""
    at = NOW + timedelta(seconds=made)
    p10, p50 = at + timedelta(seconds=early), at + timedelta(seconds=middle)
    p90 = at + timedelta(seconds=late) if late is not None else None
    return PromiseRecord(f"j{number}", 1, at, "alpha", "alpha/batch", p10, p50, p90, p10, p50, p90)


def start(tx: Tx, number: int, seconds: int) -> None:
    """Job ``j<number>`` starts so many seconds after `NOW`."""
    record = jobs_lock(tx, SYSTEM, [f"j{number}"])[f"j{number}"]
    attempts_insert(tx, SYSTEM, [attempt(record, planned_at=NOW + timedelta(seconds=seconds))])
    jobs_save(tx, SYSTEM, [replace(record, state=JobState.STARTING, attempts=1)])


def test_the_latest_promise_of_a_waiting_job_counts(house: Database) -> None:
    def fill(tx: Tx) -> None:
        for number in (1, 2):
            job_insert(tx, SYSTEM, job(number))
        promises_add(tx, SYSTEM, [promise(1), promise(1, 30), promise(2)])
        start(tx, 2, 100)

    house.run("fill", fill)
    assert house.run("list", lambda tx: promise_list(tx, ANN)) == {"j1": promise(1, 30)}
    assert house.run("list", lambda tx: promise_list(tx, ANN, ["j2"])) == {}
    assert house.run("list", lambda tx: promise_list(tx, EVE)) == {}
    assert house.run("results", lambda tx: promise_results(tx, SYSTEM)) == [
        (promise(1, 30), None),
        (promise(1), None),
        (promise(2), NOW + timedelta(seconds=100)),
    ]


def test_promises_are_judged_by_the_start(house: Database) -> None:
    """In the interval, before it, overdue, still open, and cancelled."""

    def fill(tx: Tx) -> None:
        for number in range(1, 6):
            job_insert(tx, SYSTEM, job(number))
        promises_add(
            tx, SYSTEM, [promise(1), promise(2), promise(3, late=130), promise(4, late=None), promise(5, late=130)]
        )
        start(tx, 1, 100)
        start(tx, 2, 10)
        gone = jobs_lock(tx, SYSTEM, ["j5"])["j5"]
        jobs_save(tx, SYSTEM, [replace(gone, state=JobState.CANCELLED, finished_at=NOW)])

    house.run("fill", fill)
    later = NOW + timedelta(seconds=200)
    found = house.run("accuracy", lambda tx: promise_accuracy(tx, ANN, later, LONG_AGO, FAR))
    assert found == [AccuracyRecord("alpha/batch", judged=3, held=1, open=1, median_error=20, median_width=540)]
    assert house.run("accuracy", lambda tx: promise_accuracy(tx, EVE, later, LONG_AGO, FAR)) == []
    assert house.run("accuracy", lambda tx: promise_accuracy(tx, ANN, later, later, FAR)) == []
    assert house.run("prune", lambda tx: promises_prune(tx, SYSTEM, later)) == 5


def test_runs_that_ended_by_themselves_and_others(house: Database) -> None:
    """One was reclaimed and one runs still: they would have run on."""

    def fill(tx: Tx) -> None:
        for number, reason in enumerate((EndReason.COMPLETED, EndReason.FAILED, EndReason.RECLAIMED, None), 1):
            record = job(number)
            job_insert(tx, SYSTEM, record)
            run = attempt(record, milli=2000, state=AttemptState.RUNNING, started_at=ago(100 * number))
            if reason is not None:
                run = replace(ended(run), started_at=ago(100 * number), ended_at=NOW, reason=reason)
            attempts_insert(tx, SYSTEM, [run])
        job_insert(tx, SYSTEM, job(5))
        attempts_insert(tx, SYSTEM, [attempt(job(5))])  # planned only

    house.run("fill", fill)
    found = house.run("runs", lambda tx: run_list(tx, SYSTEM, NOW + timedelta(seconds=7)))
    assert sorted(found, key=lambda run: run.seconds) == [
        RunRecord("ann", "job-1", 2000, 100, ended=True),
        RunRecord("ann", "job-2", 2000, 200, ended=True),
        RunRecord("ann", "job-3", 2000, 300, ended=False),
        RunRecord("ann", "job-4", 2000, 407, ended=False),
    ]
