"""The machine of `test_ledger` on a real PostgreSQL, with actors that carry out their decisions at the same moment.

Whatever the database answers must be what the pure ledger answers for one order of the same batches, and afterwards
every balance and version is the same on both sides.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import permutations
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import consumes, invariant, rule, run_state_machine_as_test
from psycopg import sql

from millpond.authz.actors import SYSTEM
from millpond.billing.beancount import beancount_text
from millpond.billing.grants import Grant, GrantKind
from millpond.billing.holds import Held, hold_decide
from millpond.billing.ledger import Batch
from millpond.billing.money import money_of_minor
from millpond.billing.transfers import Account
from millpond.db.session import Database, Tx
from millpond.db.stores.accounts import account_add
from millpond.db.stores.grants import grant_add, grant_list
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.db.stores.statements import books_as_of, history_read, ledger_audit
from millpond.db.stores.tenants import tenant_create
from millpond.domain.errors import Conflict
from tests.properties.test_ledger import Draft, LedgerMachine, attempted
from tests.unit.billing.books import CNY, START, hours, request
from tests.unit.db.bank import account

EMPTIED = ("ledger_entries", "ledger_resolutions", "grants", "ledger_transfers", "ledger_accounts")


class PostgresMachine(LedgerMachine):
    """``database`` has the tenant alpha with an account; its ledger is emptied for each example."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        emptied(database)

    @rule(first=consumes(LedgerMachine.drafts), second=consumes(LedgerMachine.drafts))
    def two_at_once(self, first: Draft, second: Draft) -> None:
        self.raced([first, second])

    @rule(
        first=consumes(LedgerMachine.drafts),
        second=consumes(LedgerMachine.drafts),
        third=consumes(LedgerMachine.drafts),
    )
    def three_at_once(self, first: Draft, second: Draft, third: Draft) -> None:
        self.raced([first, second, third])

    def raced(self, drafts: list[Draft]) -> None:
        """There is an order in which the pure ledger answers the same."""
        line = Barrier(len(drafts))

        def actor(draft: Draft) -> str:
            line.wait(30)
            return stored(self.database, draft.batch)

        with ThreadPoolExecutor(len(drafts)) as pool:
            answers = list(pool.map(actor, drafts))
        for order in permutations(range(len(drafts))):
            ledger = deepcopy(self.ledger)
            if all(attempted(ledger, drafts[index].batch) == answers[index] for index in order):
                break
        else:
            pytest.fail(f"no order explains {answers}")
        for index in order:
            before = self.balances()
            assert attempted(self.ledger, drafts[index].batch) == answers[index]
            self.answered(drafts[index], answers[index], before)

    def attempt(self, batch: Batch) -> str:
        answer = attempted(self.ledger, batch)
        assert stored(self.database, batch) == answer
        return answer

    @rule(minutes=st.integers(0, 2000), known=st.booleans())
    def asked_about_the_past(self, minutes: int, known: bool) -> None:
        moment = START + timedelta(minutes=minutes)
        booked, seen = (None, moment) if known else (moment, None)
        past = self.database.run("past", lambda tx: books_as_of(tx, SYSTEM, "alpha", booked, seen))
        for one in self.mine():
            assert past.balance(one) == self.ledger.balance(one, booked_before=booked, known_before=seen)

    @invariant()
    def rows_say_what_the_ledger_says(self) -> None:
        rows = self.database.run("books", lambda tx: books_read_owned(tx, SYSTEM, ["alpha"]))
        for one in self.mine():
            assert rows.balance(one) == self.ledger.balance(one)
            assert rows.version(one) == self.ledger.version(one)
        assert self.database.run("audit", lambda tx: ledger_audit(tx, SYSTEM)) == []

    def mine(self) -> list[Account]:
        return [one for one in self.ledger.accounts.values() if one.owner]

    def written(self, midnight: datetime) -> str:
        """What beancount judges is what PostgreSQL holds, and the lines are those of the pure ledger."""
        history = self.database.run("history", lambda tx: history_read(tx, SYSTEM, "alpha"))
        text = "\n".join(beancount_text(history, UTC, midnight))
        assert sorted(text.splitlines()) == sorted(super().written(midnight).splitlines())
        return text


def emptied(database: Database) -> None:
    with database.connection() as connection, connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        for table in EMPTIED:
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))


def stored(database: Database, batch: Batch) -> str:
    """``added``, ``known``, or the code of the conflict, as the pure `attempted`."""
    times = [one.times.created_at for one in (*batch.transfers, *batch.resolutions)]
    try:
        added = database.run("store", lambda tx: batch_store(tx, SYSTEM, batch, max(times, default=START)))
    except Conflict as conflict:
        return conflict.reason
    return "added" if added else "known"


@pytest.fixture
def alpha(database: Database) -> Database:
    def work(tx: Tx) -> None:
        tenant_create(tx, SYSTEM, "alpha")
        early = START - timedelta(days=1)
        account_add(tx, SYSTEM, account(opened_at=early, sealed_until=early))

    database.run("alpha", work)
    return database


def test_postgres_is_the_pure_ledger(alpha: Database) -> None:
    run_state_machine_as_test(
        lambda: PostgresMachine(alpha), settings=settings(max_examples=25, stateful_step_count=30)
    )


@pytest.mark.long
def test_postgres_is_the_pure_ledger_for_long(alpha: Database) -> None:
    run_state_machine_as_test(
        lambda: PostgresMachine(alpha), settings=settings(max_examples=300, stateful_step_count=40)
    )


def placed(database: Database, name: str, card_hours: int) -> int:
    """What an actor does: read, decide, store; again when a balance has moved on.  What it could not hold, in fen."""

    def work(tx: Tx) -> int:
        books = books_read_owned(tx, SYSTEM, ["alpha"])
        answer = hold_decide(books, grant_list(tx, SYSTEM, "alpha"), request(name, hours(str(card_hours))), START)
        if not isinstance(answer, Held):
            return answer.need.minor()
        batch_store(tx, SYSTEM, answer.batch, START)
        return 0

    for _ in range(100):
        try:
            return database.run("hold", work)
        except Conflict as conflict:
            if conflict.reason != "STALE_BALANCE":
                raise
    pytest.fail("stale a hundred times")


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=6), fen=st.integers(240, 4000))
def test_actors_that_race_for_money_share_it(alpha: Database, sizes: list[int], fen: int) -> None:
    """Invariant 26: nobody holds what another has, and whoever got nothing asked for more than is left."""
    emptied(alpha)
    top_up = Grant(("test", "race"), "alpha", GrantKind.PAID, money_of_minor(fen, CNY), START)
    alpha.run("top up", lambda tx: grant_add(tx, SYSTEM, top_up, START))
    with ThreadPoolExecutor(len(sizes)) as pool:
        missed = list(pool.map(lambda pair: placed(alpha, f"h{pair[0]}", pair[1]), enumerate(sizes)))
    balance = alpha.run("books", lambda tx: books_read_owned(tx, SYSTEM, ["alpha"])).balance(top_up.account)
    held = sum(240 * size for size, need in zip(sizes, missed, strict=True) if not need)
    assert balance.held.minor() == held <= fen
    assert all(need > balance.available.minor() for need in missed if need)
    assert alpha.run("audit", lambda tx: ledger_audit(tx, SYSTEM)) == []


def test_two_that_race_for_nine_sixty(alpha: Database) -> None:
    """Invariant 26, with its numbers: 10.00, and two holds of 4 h at 2.40 at once; exactly one stands."""
    top_up = Grant(("test", "race"), "alpha", GrantKind.PAID, money_of_minor(1000, CNY), START)
    alpha.run("top up", lambda tx: grant_add(tx, SYSTEM, top_up, START))
    with ThreadPoolExecutor(2) as pool:
        missed = list(pool.map(lambda name: placed(alpha, name, 4), ("one", "two")))
    assert sorted(missed) == [0, 960]
