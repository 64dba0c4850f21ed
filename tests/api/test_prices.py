"""Prices over the API: added once, all or none, and what cannot be is refused with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountRecord
from millpond.billing.currencies import currency_find
from millpond.db.stores.accounts import account_add
from millpond.db.stores.prices import price_book
from tests.api.house import House
from tests.api.till import Till

pytestmark = pytest.mark.postgres

OPENED = datetime(2026, 9, 30, 16, tzinfo=UTC)
TWELVE: dict[str, object] = {
    "version": "v1",
    "sku": "A800-80GB",
    "class": "prod",
    "price": "12.00",
    "from": "2026-01-01",
}


def account(house: House, tenant: str = "trade", sealed: datetime = OPENED, **more: Any) -> AccountRecord:
    record = AccountRecord(tenant, currency_find("CNY"), "Asia/Shanghai", OPENED, sealed, Decimal("0.06"), **more)
    house.database.run("account", lambda tx: account_add(tx, SYSTEM, record))
    return record


def add(house: House, *prices: Mapping[str, object], **more: object) -> Any:
    return house.ask("root", "POST", "/v1/prices", {"currency": "CNY", "prices": list(prices), **more})


def test_a_price_list_is_added_and_seen_by_every_tenant(house: House) -> None:
    account(house)
    answer = add(
        house, TWELVE, {"version": "v2", "sku": "A800-80GB", "class": "prod", "price": "10.50", "from": "2026-12-01"}
    )
    assert answer.status_code == 201, answer.text
    found = house.ask("eve", "GET", "/v1/prices").json()["items"]
    assert [(item["version"], item["price"], item["starts_at"], item["ends_at"]) for item in found] == [
        ("v1", "12.00", "2025-12-31T16:00:00Z", "2026-11-30T16:00:00Z"),
        ("v2", "10.50", "2026-11-30T16:00:00Z", None),
    ]


def test_what_was_agreed_goes_before_the_list_and_stays_between_two(house: House) -> None:
    record = account(house)
    assert add(house, TWELVE).status_code == 201
    agreed = {"version": "c1", "sku": "*", "price": "9.00", "from": "2026-11-01"}
    assert add(house, agreed, tenant="trade").status_code == 201
    book = house.database.run("book", lambda tx: price_book(tx, SYSTEM, record))
    moments = [int(datetime(2026, month, 15, tzinfo=UTC).timestamp()) for month in (10, 11)]
    found = [book.at("A800-80GB", "prod", moment) for moment in moments]
    assert [version.version for version in found if version] == ["v1", "c1"]
    assert {item["tenant"] for item in house.ask("boss", "GET", "/v1/prices").json()["items"]} == {"", "trade"}
    assert {item["tenant"] for item in house.ask("eve", "GET", "/v1/prices").json()["items"]} == {""}


def wrong(**more: object) -> dict[str, object]:
    return {"currency": "CNY", "zone": "Asia/Shanghai", "prices": [{**TWELVE, "version": "v9", **more}]}


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (wrong(price="-1.00"), "NEGATIVE_PRICE", "credit note"),
        ({**wrong(), "currency": "RMB"}, "UNKNOWN_CURRENCY", "did you mean CNY?"),
        (wrong(**{"from": "2026-06-01", "to": "2026-07-01"}), "PRICE_OVERLAP", "leave out its end"),
        (wrong(), "PRICE_OVERLAP", "give 'v1' an end"),
        (wrong(version="v1", **{"from": "2026-12-01"}), "PRICE_TWICE", "another name"),
        (wrong(**{"from": "2026-10-15"}), "CLOSED_PERIOD", "let it begin later"),
        (wrong(**{"from": "2026-12-01T00:30"}), "INVALID", "full hours"),
        ({**wrong(), "zone": "Asia/Peking"}, "INVALID", "Asia/"),
        ({**wrong(), "tenant": "nlp"}, "NO_SUCH_ACCOUNT", "accounts open"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(house: House, body: object, code: str, said: str) -> None:
    assert add(house, TWELVE, zone="Asia/Shanghai").status_code == 201
    account(house, sealed=datetime(2026, 10, 31, 16, tzinfo=UTC) if code == "CLOSED_PERIOD" else OPENED)
    answer = house.ask("root", "POST", "/v1/prices", body)
    assert answer.status_code in {404, 409, 422}, answer.text
    problem = answer.json()
    assert problem["code"] == code, problem
    assert said in problem["hint"], problem
    assert len(house.ask("root", "GET", "/v1/prices").json()["items"]) == 1


def insert(house: House, start: str) -> None:
    values = "'x', 'A800-80GB', 'prod', 'CNY', 1, 'me'"
    columns = "version, sku, class, currency, price, created_by"
    Till(house.database).statement(f"INSERT INTO prices ({columns}, starts_at) SELECT {values}, '{start}'")


def test_the_table_itself_refuses_overlaps_and_changes(house: House) -> None:
    assert add(house, {**TWELVE, "to": "2026-12-01"}, zone="Asia/Shanghai").status_code == 201

    for start in ("2026-11-15T00:00Z", "2025-12-31T16:00Z"):
        with pytest.raises(Exception, match="does not fit"):
            insert(house, start)
    for change in ("UPDATE prices SET price = 1", "DELETE FROM prices", "TRUNCATE prices"):
        with pytest.raises(Exception, match="does not fit"):
            Till(house.database).statement(change)
    account(house, sealed=datetime(2026, 12, 31, 16, tzinfo=UTC))
    with pytest.raises(Exception, match="does not fit"):
        insert(house, "2026-12-15T00:00Z")


def test_the_same_key_adds_once(house: House) -> None:
    for _ in range(2):
        answer = house.ask(
            "root",
            "POST",
            "/v1/prices",
            {"currency": "CNY", "zone": "Asia/Shanghai", "prices": [TWELVE]},
            headers={"Idempotency-Key": "one"},
        )
        assert answer.status_code == 201
    assert len(house.ask("root", "GET", "/v1/prices").json()["items"]) == 1
