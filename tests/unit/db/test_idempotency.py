from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.idempotency import StoredAnswer, idempotency_get, idempotency_prune, idempotency_put
from millpond.domain.errors import Conflict, InvalidInput
from tests.unit.db.builders import ANN, BOB


def test_the_same_request_gets_the_same_answer(database: Database) -> None:
    def work(tx: Tx) -> StoredAnswer | None:
        known = idempotency_get(tx, ANN, "k1", "hash")
        if known is None:
            idempotency_put(tx, ANN, "k1", "hash", 201, '{"id": "j1"}')
        return known

    assert database.run("first", work) is None
    assert database.run("again", work) == StoredAnswer(201, '{"id": "j1"}')
    assert database.run("other", lambda tx: idempotency_get(tx, BOB, "k1", "hash")) is None
    with pytest.raises(Conflict) as caught:
        database.run("different", lambda tx: idempotency_get(tx, ANN, "k1", "other"))
    assert caught.value.reason == "IDEMPOTENCY_KEY"


def test_two_at_once_do_the_work_once(database: Database) -> None:
    done: list[int] = []
    together = threading.Barrier(4, timeout=20)

    def work(tx: Tx) -> None:
        if idempotency_get(tx, ANN, "k1", "hash") is None:
            done.append(1)
            idempotency_put(tx, ANN, "k1", "hash", 201, "{}")

    def ask() -> None:
        together.wait()
        database.run("ask", work)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\x00b"])
def test_bad_keys_are_refused(database: Database, key: str) -> None:
    with pytest.raises(InvalidInput):
        database.run("get", lambda tx: idempotency_get(tx, ANN, key, "hash"))


def test_old_answers_are_forgotten(database: Database) -> None:
    database.run("put", lambda tx: idempotency_put(tx, ANN, "k1", "hash", 200, "{}"))
    now = datetime.now(UTC)
    assert database.run("prune", lambda tx: idempotency_prune(tx, SYSTEM, now - timedelta(hours=1))) == 0
    assert database.run("prune", lambda tx: idempotency_prune(tx, SYSTEM, now + timedelta(hours=1))) == 1
