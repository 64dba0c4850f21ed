"""Transactions against a server that misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import RootTransaction
from sqlalchemy.exc import OperationalError

from millpond.db.session import ATTEMPTS, Database, Tx, notify, notify_all, url_database, url_for_driver, url_for_libpq
from millpond.domain.errors import Conflict, InvalidInput, NotFound, Unavailable

TABLE = "CREATE TABLE numbers (id int PRIMARY KEY, n int NOT NULL)"
BREAK_AT_COMMIT = """
    CREATE SEQUENCE breaks;
    CREATE FUNCTION break_once() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('breaks') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER break_once AFTER INSERT ON numbers DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION break_once();
"""


@pytest.fixture
def numbers(database: Database) -> Iterator[Database]:
    database.run("table", lambda tx: tx.execute(text(TABLE)))
    yield database
    with psycopg.connect(url_for_libpq(database.url)) as connection:
        connection.execute("DROP TABLE numbers; DROP FUNCTION IF EXISTS break_once; DROP SEQUENCE IF EXISTS breaks")


def put(tx: Tx, key: int, n: int = 0) -> None:
    tx.execute(text("INSERT INTO numbers VALUES (:key, :n)"), {"key": key, "n": n})


def keys(database: Database) -> list[int]:
    return database.run("read", lambda tx: list(tx.execute(text("SELECT id FROM numbers ORDER BY id")).scalars()))


def backend_end(tx: Tx) -> None:
    """End the connection under the transaction, from outside."""
    pid = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with psycopg.connect(url_for_libpq(tx.engine.url.render_as_string(hide_password=False))) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_an_error_rolls_back_and_comes_out(numbers: Database) -> None:
    def work(tx: Tx) -> None:
        put(tx, 1)
        raise NotFound("no such thing")

    with pytest.raises(NotFound):
        numbers.run("fail", work)
    assert keys(numbers) == []


def test_a_connection_lost_before_the_commit_is_tried_again(numbers: Database) -> None:
    runs: list[int] = []

    def work(tx: Tx) -> str:
        runs.append(1)
        put(tx, len(runs))
        if len(runs) == 1:
            backend_end(tx)
        put(tx, 10)
        return "done"

    assert numbers.run("work", work) == "done"
    assert keys(numbers) == [2, 10]


def test_a_connection_lost_in_the_commit_is_tried_again_if_it_was_not_committed(numbers: Database) -> None:
    numbers.run("trigger", lambda tx: tx.exec_driver_sql(BREAK_AT_COMMIT))
    runs: list[int] = []

    def work(tx: Tx) -> int:
        runs.append(1)
        put(tx, len(runs))
        return len(runs)

    assert numbers.run("work", work) == 2
    assert keys(numbers) == [2]


def test_a_connection_lost_in_the_commit_is_not_tried_again_if_it_was_committed(
    numbers: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = RootTransaction.commit

    def lose_the_answer(transaction: RootTransaction) -> None:
        broken = len(runs) == 1 and not lost
        commit(transaction)
        if broken:
            lost.append(1)
            gone = psycopg.OperationalError("server closed the connection unexpectedly")
            raise OperationalError("COMMIT", None, gone, connection_invalidated=True) from gone

    monkeypatch.setattr(RootTransaction, "commit", lose_the_answer)
    runs: list[int] = []
    lost: list[int] = []

    def work(tx: Tx) -> int:
        runs.append(1)
        put(tx, len(runs))
        return len(runs)

    assert numbers.run("work", work) == 1
    assert lost == [1]
    assert keys(numbers) == [1]


def test_a_transaction_that_only_reads_leaves_no_mark(numbers: Database) -> None:
    marks = text("SELECT count(*), coalesce(sum(number), 0)::int FROM commits")
    before = numbers.run("marks", lambda tx: tuple(tx.execute(marks).one()))
    assert numbers.run("marks", lambda tx: tuple(tx.execute(marks).one())) == before
    numbers.run("write", lambda tx: put(tx, 1))
    assert numbers.run("marks", lambda tx: tuple(tx.execute(marks).one())) != before


def test_stale_connections_in_the_pool_are_replaced(numbers: Database) -> None:
    numbers.run("one", lambda tx: put(tx, 1))
    with psycopg.connect(url_for_libpq(numbers.url), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    numbers.run("two", lambda tx: put(tx, 2))
    assert keys(numbers) == [1, 2]


def test_a_deadlock_is_tried_again(numbers: Database) -> None:
    numbers.run("rows", lambda tx: (put(tx, 1), put(tx, 2)))
    together = threading.Barrier(2, timeout=20)
    runs = {1: 0, 2: 0}

    def bump(first: int, second: int) -> None:
        def work(tx: Tx) -> None:
            runs[first] += 1
            tx.execute(text("UPDATE numbers SET n = n + 1 WHERE id = :key"), {"key": first})
            if runs[first] == 1:
                together.wait()
            tx.execute(text("UPDATE numbers SET n = n + 1 WHERE id = :key"), {"key": second})

        numbers.run("bump", work)

    threads = [threading.Thread(target=bump, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sums = numbers.run("read", lambda tx: list(tx.execute(text("SELECT n FROM numbers ORDER BY id")).scalars()))
    assert sums == [2, 2]
    assert sum(runs.values()) == 3


def test_a_snapshot_sees_one_moment_and_cannot_write(numbers: Database) -> None:
    def look(tx: Tx) -> tuple[int, int]:
        count = text("SELECT count(*) FROM numbers")
        before = tx.execute(count).scalar_one()
        numbers.run("meanwhile", lambda other: put(other, 1))
        return before, tx.execute(count).scalar_one()

    assert numbers.run("look", look, snapshot=True) == (0, 0)
    with pytest.raises(Exception, match="read-only"):
        numbers.run("write", lambda tx: put(tx, 2), snapshot=True)
    numbers.run("afterwards", lambda tx: put(tx, 3))
    assert keys(numbers) == [1, 3]


@pytest.mark.parametrize("value", ["nul \x00 byte", "half a pair \ud800"])
def test_text_that_cannot_be_stored_is_invalid_input(database: Database, value: str) -> None:
    with pytest.raises(InvalidInput):
        database.run("read", lambda tx: tx.execute(text("SELECT CAST(:value AS text)"), {"value": value}).all())


def test_a_number_out_of_range_is_invalid_input(numbers: Database) -> None:
    with pytest.raises(InvalidInput):
        numbers.run("put", lambda tx: tx.execute(text("INSERT INTO numbers VALUES (99999999999, 0)")))


def test_a_broken_constraint_is_a_conflict_that_names_it(numbers: Database) -> None:
    numbers.run("one", lambda tx: put(tx, 1))
    with pytest.raises(Conflict) as caught:
        numbers.run("again", lambda tx: put(tx, 1))
    assert caught.value.details["constraint"] == "numbers_pkey"


def test_a_database_that_is_not_there_is_unavailable(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("millpond.db.session.time.sleep", pauses.append)
    missing = Database("postgresql://millpond:secret@/millpond?host=/nonexistent")
    with pytest.raises(Unavailable) as caught:
        missing.run("read", lambda tx: tx.execute(text("SELECT 1")))
    missing.close()
    assert "secret" not in str(caught.value)
    assert len(pauses) == ATTEMPTS - 1
    assert pauses == sorted(pauses)


def test_ping(database: Database) -> None:
    database.ping()
    missing = Database("postgresql://millpond@/millpond?host=/nonexistent")
    with pytest.raises(Unavailable):
        missing.ping()
    missing.close()


def test_notifications_arrive_once_and_only_after_the_commit(database: Database) -> None:
    with database.listen(["millpond_jobs", "millpond_work"]) as listener:

        def fail(tx: Tx) -> None:
            notify(tx, "millpond_jobs", "never")
            raise NotFound("")

        def work(tx: Tx) -> None:
            notify(tx, "millpond_jobs", "j1")
            notify(tx, "millpond_jobs", "j1")
            notify_all(tx, "millpond_jobs", ["j2", "j1"])
            notify_all(tx, "millpond_work", [])

        with pytest.raises(NotFound):
            database.run("fail", fail)
        database.run("work", work)
        found = listener.wait(5)
        while len(found) < 2:
            found += listener.wait(5)
        assert sorted(found) == [("millpond_jobs", "j1"), ("millpond_jobs", "j2")]
        assert listener.wait(0) == []


def test_a_listener_that_lost_its_connection_says_so(database: Database) -> None:
    with database.listen(["millpond_jobs"]) as listener:
        with psycopg.connect(url_for_libpq(database.url), autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'millpond-listen' AND datname = current_database()"
            )
        assert listener.wait(5) == [("reconnected", "")]
        database.run("work", lambda tx: notify(tx, "millpond_jobs", "j1"))
        assert listener.wait(5) == [("millpond_jobs", "j1")]


@pytest.mark.parametrize(
    ("url", "database", "wanted"),
    [
        ("postgres://u:p@h:5/a?sslmode=require", "b", "postgresql://u:p@h:5/b?sslmode=require"),
        ("postgresql://u:p@/a?host=%2Ftmp%2Fx", "b c", "postgresql://u:p@/b%20c?host=%2Ftmp%2Fx"),
    ],
)
def test_urls(url: str, database: str, wanted: Any) -> None:
    assert url_database(url, database) == wanted
    assert url_for_driver(url).startswith("postgresql+psycopg://u:p@")


def test_other_databases_are_refused() -> None:
    with pytest.raises(InvalidInput, match="postgresql://"):
        Database("sqlite:///here.db")


def test_a_lock_that_is_not_given_up_is_unavailable(numbers: Database) -> None:
    numbers.run("one", lambda tx: put(tx, 1))

    def wait(tx: Tx) -> None:
        tx.execute(text("SET LOCAL lock_timeout = '50ms'"))
        tx.execute(text("UPDATE numbers SET n = 1"))

    def hold(tx: Tx) -> None:
        tx.execute(text("UPDATE numbers SET n = 2"))
        with pytest.raises(Unavailable, match="lock timeout"):
            numbers.run("wait", wait)

    numbers.run("hold", hold)
