from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.jobs import job_insert, jobs_lock, jobs_save
from millpond.db.stores.queues import queue_get, queue_list, queues_replace
from millpond.domain.errors import Conflict, Forbidden, InvalidInput, NotFound, Refused
from millpond.domain.jobs import JobState, QueueClass
from millpond.domain.queues import CardHours, Dequeue, QueueConfig
from tests.unit.db.builders import ADMIN, ANN, LEAD, NOW, job

BATCH = QueueConfig("alpha/batch", QueueClass.BATCH)
FULL = QueueConfig(
    "alpha/prod",
    QueueClass.PROD,
    guarantee={"cards": 16_000, "A800-80GB": 8_000},
    deserved={"cards": 16_000},
    cap={"cards": 64_000},
    lend=False,
    dequeue=Dequeue.FIFO,
    card_hours=CardHours(1_000_000, 5),
    labels={"cost-centre": "42"},
)


def replaced(house: Database, *queues: QueueConfig) -> tuple[QueueConfig, ...]:
    house.run("replace", lambda tx: queues_replace(tx, ADMIN, queues))
    return house.run("list", lambda tx: queue_list(tx, ANN))


def test_the_whole_set_is_replaced_in_its_order(house: Database) -> None:
    inner = QueueConfig("alpha", cap={"cards": 64_000})
    assert replaced(house, FULL, inner, BATCH) == (FULL, inner, BATCH)
    changed = replace(BATCH, cap={"cards": 0})
    assert replaced(house, changed, FULL) == (changed, FULL)
    assert house.run("get", lambda tx: queue_get(tx, ANN, "alpha/prod")) == FULL
    with pytest.raises(NotFound):
        house.run("get", lambda tx: queue_get(tx, ANN, "alpha"))
    assert replaced(house) == ()


def test_bad_sets_change_nothing(house: Database) -> None:
    before = house.run("list", lambda tx: queue_list(tx, ADMIN))
    with pytest.raises(InvalidInput, match="twice"):
        replaced(house, BATCH, BATCH)
    with pytest.raises(NotFound, match="no tenant gamma"):
        replaced(house, BATCH, QueueConfig("gamma/batch", QueueClass.BATCH))
    with pytest.raises(Forbidden):
        house.run("replace", lambda tx: queues_replace(tx, LEAD, [BATCH]))
    assert house.run("list", lambda tx: queue_list(tx, ADMIN)) == before


def test_a_queue_with_live_jobs_stays(house: Database) -> None:
    house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1)))
    for rest in ([FULL], [FULL, QueueConfig("alpha/batch")]):
        with pytest.raises(Conflict) as caught:
            replaced(house, *rest)
        assert caught.value.reason == "QUEUE_IN_USE"
        assert caught.value.details == {"queues": {"alpha/batch": 1}}

    def finish(tx: Tx) -> None:
        record = jobs_lock(tx, SYSTEM, ["j1"])["j1"]
        jobs_save(tx, SYSTEM, [replace(record, state=JobState.CANCELLED, finished_at=NOW)])

    house.run("finish", finish)
    assert replaced(house, FULL) == (FULL,)


def test_a_job_cannot_slip_into_a_queue_that_goes(house: Database) -> None:
    inserted = threading.Event()
    answers: list[object] = []

    def submit(tx: Tx) -> None:
        job_insert(tx, SYSTEM, job(1))
        thread.start()
        inserted.set()
        thread.join(0.3)

    def apply() -> None:
        inserted.wait(20)
        try:
            answers.append(replaced(house, FULL))
        except Conflict as error:
            answers.append(error.reason)

    thread = threading.Thread(target=apply)
    house.run("submit", submit)
    thread.join(20)
    assert answers == ["QUEUE_IN_USE"]


def test_a_job_cannot_be_put_into_an_inner_queue(house: Database) -> None:
    inner = QueueConfig("alpha/lab", cap={"cards": 1})
    replaced(house, inner, BATCH)
    with pytest.raises(Refused):
        house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1, queue="alpha/lab")))
