"""A database with billing accounts for two tenants, and short ways to book on it."""

from __future__ import annotations

from typing import Any

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.billing.grants import Grant
from millpond.billing.holds import Held, Hold, Shortfall, hold_decide
from millpond.billing.ledger import Batch, Ledger
from millpond.billing.transfers import Account, AccountKind
from millpond.db.session import Database, Tx
from millpond.db.stores.accounts import account_add
from millpond.db.stores.grants import grant_add, grant_list
from millpond.db.stores.ledger import batch_store, books_read_owned
from tests.unit.billing.books import CNY, START, at, hours, request

RECEIVABLE = Account("alpha", AccountKind.RECEIVABLE, CNY)


def account(tenant: str = "alpha", **more: Any) -> AccountRecord:
    given = {"opened_at": START, "sealed_until": START, "mode": AccountMode.PREPAID, **more}
    return AccountRecord(tenant, CNY, "Asia/Shanghai", **given)


def accounted(house: Database) -> Database:
    def work(tx: Tx) -> None:
        for tenant in ("alpha", "beta"):
            account_add(tx, SYSTEM, account(tenant))

    house.run("accounts", work)
    return house


def given(bank: Database, *grants: Grant) -> None:
    for one in grants:
        bank.run("grant", lambda tx, one=one: grant_add(tx, SYSTEM, one, one.granted_at))


def owned(bank: Database, owner: str = "alpha") -> Ledger:
    return bank.run("books", lambda tx: books_read_owned(tx, SYSTEM, [owner]))


def store(bank: Database, batch: Batch, hour: int = 100) -> bool:
    return bank.run("store", lambda tx: batch_store(tx, SYSTEM, batch, at(hour)))


def hold(bank: Database, name: str, card_hours: str) -> Hold | Shortfall:
    def work(tx: Tx) -> Hold | Shortfall:
        answer = hold_decide(
            books_read_owned(tx, SYSTEM, ["alpha"]),
            grant_list(tx, SYSTEM, "alpha"),
            request(name, hours(card_hours)),
            at(1),
        )
        if isinstance(answer, Held):
            batch_store(tx, SYSTEM, answer.batch, at(1))
            return answer.hold
        return answer

    return bank.run("hold", work)
