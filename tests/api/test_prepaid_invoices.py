"""Invoices of prepaid accounts: what holds have charged is paid, packs are lines without money, credit goes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountMode
from millpond.billing.burning import Demand
from millpond.billing.currencies import currency_find
from millpond.billing.grants import Grant, GrantKind, Use
from millpond.billing.holds import Held, HoldRequest, hold_capture, hold_decide
from millpond.billing.money import Money
from millpond.billing.transfers import Times, card_time
from millpond.db import maintenance
from millpond.db.session import Tx
from millpond.db.stores.grants import grant_add, grant_list
from millpond.db.stores.ledger import batch_store, books_read_owned
from tests.api.house import House
from tests.api.test_invoices import FAULT, TWELVE, issue, lines, prices
from tests.api.till import OPENED, Till
from tests.unit.metering.builders import HOUR, at, ended, started

pytestmark = pytest.mark.postgres

CNY = currency_find("CNY")
BEGAN = datetime(2026, 11, 3, 2, tzinfo=UTC)


def yuan(text: str) -> Money:
    return Money(Decimal(text), CNY)


@pytest.fixture
def till(house: House) -> Till:
    till = Till(house.database)
    till.account("trade", mode=AccountMode.PREPAID, tax_rate=Decimal(0))
    prices(house, TWELVE)
    house.clock.ahead = datetime(2027, 1, 2, tzinfo=UTC) - datetime.now(UTC)
    till.settled(house.clock())
    return till


def grant(house: House, kind: GrantKind, amount: Money, expires: datetime | None = None) -> None:
    cost = yuan("50.00") if kind is GrantKind.PACK else None
    made = Grant((kind.value, "1"), "trade", kind, amount, OPENED, expires, price=cost)
    house.database.run("grant", lambda tx: grant_add(tx, SYSTEM, made, OPENED))


def charged(house: House, job: str, card_hours: int) -> None:
    """What the platform does for a job: it holds before the start, and takes at the end what was used."""

    def work(tx: Tx) -> None:
        books, grants = books_read_owned(tx, SYSTEM, ["trade"]), grant_list(tx, SYSTEM, "trade")
        demands = (Demand(card_hours * HOUR, yuan("12.00")),)
        request = HoldRequest(("hold", job, "1", "1"), "trade", Use("A800-80GB", "prod", "alpha"), demands, CNY)
        held = hold_decide(books, grants, request, BEGAN)
        assert isinstance(held, Held)
        batch_store(tx, SYSTEM, held.batch, BEGAN)
        books.add(held.batch)
        over = BEGAN + timedelta(hours=1)
        capture = hold_capture(books, grants, held.hold, demands, Times(over, over, (BEGAN, over)))
        batch_store(tx, SYSTEM, capture.batch, over)

    house.database.run("charged", work)


def balance(house: House) -> dict[str, str]:
    sheet: dict[str, Any] = house.ask("root", "GET", "/v1/accounts/trade/balance").json()
    return {item["kind"]: item["available"] for item in sheet["grants"]}


def test_what_holds_have_charged_is_paid_and_trial_money_comes_back_as_trial_money(house: House, till: Till) -> None:
    grant(house, GrantKind.TRIAL, yuan("10.00"), datetime(2027, 6, 1, tzinfo=UTC))
    grant(house, GrantKind.PAID, yuan("100.00"))
    till.used("trade", [started(at("11-03 10:00"), milli=8000), ended(at("11-03 11:00"))])
    charged(house, "j1", 8)
    answer = issue(house, "2026-11")
    assert answer.status_code == 201, answer.text
    invoice = answer.json()["invoice"]
    assert (invoice["state"], invoice["total"]) == ("paid", "96.00")
    head = house.ask("boss", "GET", f"/v1/invoices/{invoice['number']}").json()
    assert (head["paid"], head["due"]) == ("96.00", "0.00")
    path = f"/v1/invoices/{invoice['number']}/lines/1/credit"
    assert house.ask("root", "POST", path, FAULT).json()["net"] == "24.00"
    assert balance(house) == {"paid": "38.00"}
    house.ask("root", "POST", path, {"reason": "the rest", "card_hours": "6"})
    assert balance(house) == {"trial": "10.00", "paid": "100.00"}
    assert house.ask("boss", "GET", f"/v1/invoices/{invoice['number']}").json()["due"] == "0.00"
    assert maintenance.check(house.database.url) == []


def test_what_a_pack_paid_is_a_line_without_money_and_goes_back_to_the_pack(house: House, till: Till) -> None:
    grant(house, GrantKind.PACK, card_time(5 * HOUR))
    grant(house, GrantKind.PAID, yuan("100.00"))
    till.used("trade", [started(at("11-03 10:00"), milli=8000), ended(at("11-03 11:00"))])
    charged(house, "j1", 8)
    answer = issue(house, "2026-11")
    assert answer.status_code == 201, answer.text
    invoice = answer.json()["invoice"]
    assert (invoice["state"], invoice["total"], invoice["card_hours"]) == ("paid", "36.00", "8.0000")
    found = [(line["kind"], line["card_hours"], line["net"]) for line in lines(house, invoice["number"])]
    assert found == [("pack", "5.0000", "0.00"), ("usage", "3.0000", "36.00")]
    path = f"/v1/invoices/{invoice['number']}/lines/1/credit"
    note = house.ask("root", "POST", path, {"reason": "fault", "card_hours": "2"})
    assert (note.json()["net"], note.json()["card_hours"]) == ("0.00", "2.0000")
    assert balance(house)["pack"] == "7200.000"
    walk = house.ask("boss", "GET", f"/v1/invoices/{invoice['number']}/lines/2/explain").json()
    assert walk["adds_up"]
