from __future__ import annotations

import threading

import psycopg
import pytest

from millpond.db.leader import Fenced, Leader, fence
from millpond.db.session import Database, Tx, url_for_libpq
from millpond.domain.errors import Unavailable


def test_one_leads_and_epochs_rise(database: Database) -> None:
    first, second = Leader(database), Leader(database)
    assert first.acquire(1) == 1
    assert second.acquire(0.05) is None
    assert first.holds()
    assert not second.holds()
    first.release()
    assert not first.holds()
    assert second.acquire(5) == 2
    second.release()


def test_a_leader_that_lost_its_connection_leads_no_more(database: Database) -> None:
    first, second = Leader(database), Leader(database)
    first.acquire(1)
    with psycopg.connect(url_for_libpq(database.url), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'")
    assert not first.holds()
    assert second.acquire(5) == 2
    with pytest.raises(Fenced):
        database.run("write", lambda tx: fence(tx, 1))
    database.run("write", lambda tx: fence(tx, 2))
    first.release()
    second.release()


def test_a_new_leader_waits_for_a_fenced_write_under_way(database: Database) -> None:
    leader, heir = Leader(database), Leader(database)
    epoch = leader.acquire(1)
    assert epoch is not None
    order: list[str] = []
    taken = threading.Event()

    def inherit() -> None:
        heir.acquire(20)
        order.append("new leader")
        taken.set()

    def work(tx: Tx) -> None:
        fence(tx, epoch)
        leader.release()
        thread.start()
        assert not taken.wait(0.3)
        order.append("write")

    thread = threading.Thread(target=inherit)
    database.run("write", work)
    thread.join(20)
    heir.release()
    assert order == ["write", "new leader"]
    assert heir.epoch == epoch + 1


def test_a_leader_exceeds_what_the_engine_has_seen(database: Database) -> None:
    leader, heir = Leader(database), Leader(database)
    first = leader.acquire(1)
    assert first is not None
    assert leader.exceed(first - 1) == first
    assert leader.exceed(first + 40) == first + 41 == leader.epoch
    database.run("fence", lambda tx: fence(tx, first + 41))
    leader.release()
    assert heir.acquire(1) == first + 42
    with pytest.raises(Unavailable):
        leader.exceed(first + 100)
    heir.release()
