"""Invoices over the API, on the numbers of the specification."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.documents import document_check
from millpond.db import maintenance
from millpond.domain.errors import Conflict
from millpond.metering.facts import Shape
from millpond.metering.sealing import Booking
from millpond.services.invoices import invoice_document
from tests.api.house import House
from tests.api.till import Till
from tests.unit.metering.builders import at, ended, started

pytestmark = pytest.mark.postgres

DECEMBER = datetime(2026, 11, 30, 16, tzinfo=UTC)
JANUARY = datetime(2026, 12, 31, 16, tzinfo=UTC)
TWELVE: dict[str, object] = {
    "version": "v1",
    "sku": "A800-80GB",
    "class": "prod",
    "price": "12.00",
    "from": "2026-11-01",
}
TEN_50: dict[str, object] = {**TWELVE, "version": "v2", "price": "10.50", "from": "2026-12-01"}


@pytest.fixture
def till(house: House) -> Till:
    """Two accounts, and the price of the specification, in January."""
    till = Till(house.database)
    till.account("trade", title="Trading Ltd")
    till.account("factor")
    prices(house, TWELVE, TEN_50)
    now = datetime.now(UTC)
    house.clock.ahead = datetime(2027, 1, 2, tzinfo=UTC) - now
    till.settled(house.clock())
    return till


def prices(house: House, *versions: dict[str, object], **more: object) -> None:
    body = {"currency": "CNY", "zone": "Asia/Shanghai", "prices": list(versions), **more}
    answer = house.ask("root", "POST", "/v1/prices", body)
    assert answer.status_code == 201, answer.text


def issue(house: House, period: str, tenant: str = "trade") -> Any:
    return house.ask("root", "POST", "/v1/invoices", {"tenant": tenant, "period": period})


def close(house: House, period: str) -> list[dict[str, Any]]:
    answer = house.ask("root", "POST", "/v1/invoices/close", {"period": period})
    assert answer.status_code == 201, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def lines(house: House, number: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.ask("boss", "GET", f"/v1/invoices/{number}/lines").json()["items"]
    return found


NIGHT = (
    started(at("11-30 14:20"), milli=8000, cards=[f"g{number}" for number in range(8)]),
    ended(at("12-01 02:20")),
)


def test_invariant_11_price_of_the_moment_of_use(house: House, till: Till) -> None:
    till.used("trade", NIGHT)
    november, december = (issue(house, period).json()["invoice"] for period in ("2026-11", "2026-12"))
    assert (november["net"], december["net"]) == ("928.00", "196.00")
    assert [line["price_version"] for line in lines(house, november["number"])] == ["v1"]
    assert [line["unit_price"] for line in lines(house, december["number"])] == ["10.50"]


def test_invariant_12_a_closed_month_is_byte_stable(house: House, till: Till) -> None:
    till.used("trade", NIGHT)
    number = issue(house, "2026-11").json()["invoice"]["number"]
    before = [house.ask("boss", "GET", f"/v1/invoices/{number}{part}").content for part in ("", "/lines")]
    late = {**TWELVE, "version": "v0", "price": "1.00", "from": "2026-11-15"}
    body = {"currency": "CNY", "zone": "Asia/Shanghai", "prices": [late]}
    refused = house.ask("root", "POST", "/v1/prices", body)
    assert refused.json()["code"] == "CLOSED_PERIOD"
    prices(house, {**TWELVE, "version": "v3", "price": "99.00", "from": "2027-01-01"})
    assert before == [house.ask("boss", "GET", f"/v1/invoices/{number}{part}").content for part in ("", "/lines")]
    for change in ("UPDATE invoices SET net = net + 1, total = total + 1", "UPDATE invoice_lines SET net = 0"):
        with pytest.raises(Conflict, match="does not fit"):
            till.statement(change)


def test_invariant_13_use_without_a_price_blocks_the_issue_and_may_be_priced_later(house: House, till: Till) -> None:
    facts = [started(at("11-03 10:00"), milli=5000, sku="H800-80GB"), ended(at("11-03 11:00"))]
    till.used("trade", facts)
    draft = house.ask("boss", "GET", "/v1/accounts/trade/draft?period=2026-11").json()
    assert draft["invoice"]["net"] == "0.00"
    assert [(one["sku"], one["card_hours"]) for one in draft["unpriced"]] == [("H800-80GB", "5.0000")]
    refused = issue(house, "2026-11")
    assert (refused.status_code, refused.json()["code"]) == (409, "UNRATED")
    assert "millpond price add" in refused.json()["hint"]
    prices(house, {**TWELVE, "sku": "H800-80GB", "price": "20.00"})
    assert issue(house, "2026-11").json()["invoice"]["net"] == "100.00"
    kinds = [event["kind"] for event in house.ask("root", "GET", "/v1/events?limit=1000").json()["items"]]
    assert kinds.count("prices.added") == 2


def test_invariants_14_and_19_what_is_found_late_is_taken_back_and_booked_anew(house: House, till: Till) -> None:
    prices(
        house,
        {**TWELVE, "version": "t1", "sku": "T4", "price": "10.00"},
        {**TWELVE, "version": "t2", "sku": "T8", "price": "5.00"},
    )
    till.used("trade", [started(at("11-03 00:00"), milli=1000, sku="T4"), ended(at("11-03 15:00"))])
    first = issue(house, "2026-11").json()["invoice"]
    assert first["net"] == "150.00"
    hour = at("11-03 00:00")
    sealed = at("12-01 00:00")

    def late(sku: str, hours: int) -> Booking:
        return Booking(sealed, hour, "j1", 1, Shape(0, sku, "prod", "alpha", "zhang3"), hours * 3_600_000, 0)

    house.database.run("late", lambda tx: till.bookings(tx, "trade", [late("T4", -15), late("T8", 16)]))
    second = issue(house, "2026-12").json()["invoice"]
    found = lines(house, second["number"])
    assert [(line["kind"], line["net"], line["service_from"]) for line in found] == [
        ("correction", "-150.00", "2026-11-02T16:00:00Z"),
        ("correction", "80.00", "2026-11-02T16:00:00Z"),
    ]
    assert house.ask("boss", "GET", f"/v1/invoices/{first['number']}").json()["net"] == "150.00"


def test_invariant_20_months_are_those_of_the_zone(house: House, till: Till) -> None:
    facts = [started(at("2026-11-30T15:30:00+00:00")), ended(at("2026-11-30T16:30:00+00:00"))]
    till.used("trade", facts)
    found = [issue(house, period).json()["invoice"] for period in ("2026-11", "2026-12")]
    assert [invoice["card_hours"] for invoice in found] == ["0.5000", "0.5000"]
    head = house.ask("boss", "GET", f"/v1/invoices/{found[0]['number']}").json()
    assert (head["starts_at"], head["ends_at"]) == ("2026-10-31T16:00:00Z", "2026-11-30T16:00:00Z")


@pytest.mark.parametrize(
    ("zone", "day", "hours", "net"),
    [("America/New_York", "2026-11-01", "25.0000", "60.00"), ("Europe/Berlin", "2027-03-28", "23.0000", "55.20")],
)
def test_invariant_21_days_of_changed_clocks_have_their_real_length(
    house: House, till: Till, zone: str, day: str, hours: str, net: str
) -> None:
    local = ZoneInfo(zone)
    begin = datetime.fromisoformat(day).replace(tzinfo=local)
    after = (begin + timedelta(days=1)).replace(tzinfo=local)
    till.account("nlp", zone=zone, opened_at=begin.replace(day=1), sealed_until=begin.replace(day=1))
    prices(house, {**TWELVE, "version": "d1", "class": "batch", "price": "2.40", "from": "2026-10-01"})
    till.used("nlp", [started(int(begin.timestamp()), klass="batch"), ended(int(after.timestamp()))])
    house.clock.ahead += timedelta(days=200)
    till.settled(house.clock())
    invoice = issue(house, day[:7], "nlp").json()["invoice"]
    assert (invoice["card_hours"], invoice["net"]) == (hours, net)


def test_invariant_22_a_line_is_rounded_once_half_up(house: House, till: Till) -> None:
    prices(
        house,
        {**TWELVE, "version": "r1", "class": "batch", "price": "2.40"},
        {**TWELVE, "version": "r2", "class": "besteffort", "price": "2.99"},
    )
    till.used("trade", [started(at("11-03 10:00"), milli=250, klass="batch"), ended(at("11-03 10:00") + 3990)])
    month = [
        started(at("11-01 00:00"), "j2", milli=125, klass="besteffort"),
        ended(at("12-01 00:00"), "completed", "j2"),
    ]
    till.used("trade", month)
    number = issue(house, "2026-11").json()["invoice"]["number"]
    assert [line["net"] for line in lines(house, number)] == ["0.67", "269.10"]


def test_invariant_23_tax_of_the_lines_sums_to_the_tax_of_the_invoice(house: House, till: Till) -> None:
    till.account("nlp", tax_rate=Decimal("0.20"))
    prices(house, {**TWELVE, "version": "x1", "class": "batch", "price": "1.00"})
    for number, net in enumerate((6833, 6833, 5750, 8500)):
        seconds = net * 36
        facts = [
            started(at("11-02 00:00"), f"j{number}", klass="batch"),
            ended(at("11-02 00:00") + seconds, job=f"j{number}"),
        ]
        till.used("nlp", facts)
    invoice = issue(house, "2026-11", "nlp").json()["invoice"]
    found = house.ask("root", "GET", f"/v1/invoices/{invoice['number']}/lines").json()["items"]
    assert [line["net"] for line in found] == ["68.33", "68.33", "57.50", "85.00"]
    assert [line["tax"] for line in found] == ["13.67", "13.66", "11.50", "17.00"]
    assert invoice["total"] == "334.99"


COPY_LINE = "INSERT INTO invoice_lines SELECT (jsonb_populate_record(l, '{\"line\": 2}')).* FROM invoice_lines l"
COPY_INVOICE = (
    'INSERT INTO invoices SELECT (jsonb_populate_record(i, \'{"id": "0123456789abcdef0123456789abcdef"}\')).*'
    " FROM invoices i"
)

FAULT = {"reason": "card fault", "faulty_from": "2026-11-03T10:20:00+08:00", "faulty_to": "2026-11-03T10:35:00+08:00"}


def test_invariant_28_a_fault_is_a_credit_note_and_never_an_edit(house: House, till: Till) -> None:
    till.used("trade", [started(at("11-03 10:00"), milli=8000), ended(at("11-03 11:00"))])
    number = issue(house, "2026-11").json()["invoice"]["number"]
    before = house.ask("boss", "GET", f"/v1/invoices/{number}/lines").content
    path = f"/v1/invoices/{number}/lines/1/credit"
    note = house.ask("root", "POST", path, FAULT)
    assert note.status_code == 201, note.text
    assert (note.json()["card_hours"], note.json()["net"], note.json()["tax"]) == ("2.0000", "24.00", "1.44")
    assert house.ask("root", "POST", path, FAULT).json() == note.json()
    over = house.ask("root", "POST", path, {"reason": "more", "card_hours": "6.0001"})
    assert (over.status_code, over.json()["code"]) == (422, "OVER_LINE")
    rest = house.ask("root", "POST", path, {"reason": "the rest", "card_hours": "6"}).json()
    assert (rest["number"], rest["net"], rest["tax"]) == ("CN-2027-000002", "72.00", "4.32")
    head = house.ask("boss", "GET", f"/v1/invoices/{number}").json()
    assert (head["total"], head["credited"], head["due"], head["state"]) == ("101.76", "101.76", "0.00", "paid")
    assert house.ask("boss", "GET", f"/v1/invoices/{number}/lines").content == before
    owed = house.ask("root", "GET", "/v1/accounts/trade/balance").json()
    assert "101.76" not in str(owed)


def test_invariant_28_with_tax_inside_the_price(house: House, till: Till) -> None:
    till.account("nlp", inclusive=True)
    till.used("nlp", [started(at("11-03 10:00"), milli=8000), ended(at("11-03 11:00"))])
    invoice = issue(house, "2026-11", "nlp").json()["invoice"]
    assert (invoice["net"], invoice["tax"], invoice["total"]) == ("90.57", "5.43", "96.00")
    note = house.ask("root", "POST", f"/v1/invoices/{invoice['number']}/lines/1/credit", FAULT).json()
    assert (note["net"], note["tax"]) == ("22.64", "1.36")


def test_invariant_29_closing_twice_and_in_parallel_gives_the_same_invoices(house: House, till: Till) -> None:
    for tenant in ("trade", "factor"):
        till.used(tenant, [started(at("11-03 10:00"), f"{tenant}-1"), ended(at("11-03 12:30"), job=f"{tenant}-1")])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: close(house, "2026-11"), range(8)))
    found = {tuple((one["tenant"], one["invoice"]["number"]) for one in items) for items in answers}
    assert found == {(("factor", "INV-2027-000001"), ("trade", "INV-2027-000002"))}
    assert sum(one["fresh"] for items in answers for one in items) == 2
    assert issue(house, "2026-11").json()["invoice"]["number"] == "INV-2027-000002"


def test_invariant_31_lines_payments_and_ledger_reconcile(house: House, till: Till) -> None:
    for number, seconds in enumerate((3601, 7199, 12345)):
        job = f"j{number}"
        till.used("trade", [started(at("11-05 08:00"), job, milli=250), ended(at("11-05 08:00") + seconds, job=job)])
    invoice = issue(house, "2026-11").json()["invoice"]
    document = invoice_document(house.services, SYSTEM, invoice["number"])
    assert document_check(document).count == 3
    owed = house.ask("root", "GET", "/v1/accounts/trade/balance").json()
    assert invoice["total"] in str(owed)
    path = f"/v1/invoices/{invoice['number']}/pay"
    assert house.ask("root", "POST", path, {"amount": "99999", "reference": "b0"}).json()["code"] == "OVERPAID"
    assert house.ask("root", "POST", path, {"amount": "1.00", "reference": "b1"}).json()["state"] == "issued"
    assert house.ask("root", "POST", path, {"amount": "1.00", "reference": "b1"}).json()["code"] == "PAYMENT_EXISTS"
    due = house.ask("boss", "GET", f"/v1/invoices/{invoice['number']}").json()["due"]
    assert house.ask("root", "POST", path, {"amount": due, "reference": "b2"}).json()["state"] == "paid"
    assert house.ask("root", "POST", path, {"amount": due, "reference": "b3"}).json()["code"] == "NOT_PAYABLE"
    assert maintenance.check(house.database.url) == []


def test_a_voided_number_stays_and_the_month_is_issued_again(house: House, till: Till) -> None:
    till.used("trade", NIGHT)
    first = issue(house, "2026-11").json()["invoice"]
    voided = house.ask("root", "POST", f"/v1/invoices/{first['number']}/void", {"reason": "wrong title"}).json()
    assert voided["state"] == "voided"
    second = issue(house, "2026-11").json()["invoice"]
    assert (second["number"], second["revision"], second["source_hash"]) == ("INV-2027-000002", 2, first["source_hash"])
    again = house.ask("root", "POST", f"/v1/invoices/{first['number']}/void", {"reason": "again"})
    assert again.json()["code"] == "NOT_VOIDABLE"
    listed = house.ask("boss", "GET", "/v1/invoices").json()["items"]
    assert {item["number"]: item["state"] for item in listed} == {
        "INV-2027-000001": "voided",
        "INV-2027-000002": "issued",
    }


def test_months_close_in_order_and_not_before_they_are_over(house: House, till: Till) -> None:
    assert issue(house, "2026-12").json()["code"] == "MONTHS_IN_ORDER"
    assert issue(house, "2027-01").json()["code"] == "MONTH_OPEN"
    assert issue(house, "2026-13").json()["code"] == "INVALID"
    assert issue(house, "2026-11", "nlp").json()["code"] == "NO_SUCH_ACCOUNT"
    till.settled(DECEMBER - timedelta(seconds=1))
    assert issue(house, "2026-11").json()["code"] == "METER_BEHIND"
    till.settled(DECEMBER)
    assert issue(house, "2026-11").json() == {"tenant": "trade", "invoice": None, "problem": None, "fresh": True}
    assert issue(house, "2026-11").json()["code"] == "MONTH_CLOSED"


def test_what_hinders_one_account_does_not_hinder_others(house: House, till: Till) -> None:
    till.used("factor", [started(at("11-03 10:00"), "f1", sku="new"), ended(at("11-03 11:00"), job="f1")])
    till.used("trade", NIGHT)
    found = {one["tenant"]: one for one in close(house, "2026-11")}
    assert found["factor"]["problem"]["code"] == "UNRATED"
    assert found["trade"]["invoice"]["number"] == "INV-2027-000001"


def test_a_contract_price_shows_the_list_price_beside_it(house: House, till: Till) -> None:
    prices(house, {**TWELVE, "version": "deal", "price": "9.00"}, tenant="trade")
    till.used("trade", NIGHT)
    number = issue(house, "2026-11").json()["invoice"]["number"]
    (line,) = lines(house, number)
    assert (line["price_version"], line["unit_price"], line["list_price"], line["net"]) == (
        "deal",
        "9.00",
        "12.00",
        "696.00",
    )


def test_the_auditors_walk_from_a_line_to_the_events(house: House, till: Till) -> None:
    till.used("trade", NIGHT)
    number = issue(house, "2026-11").json()["invoice"]["number"]
    walk = house.ask("boss", "GET", f"/v1/invoices/{number}/lines/1/explain").json()
    assert walk["adds_up"]
    assert sum(bucket["milli_card_seconds"] for bucket in walk["buckets"]) == walk["line"]["milli_card_seconds"]
    assert len(walk["buckets"]) == 10
    assert [event["kind"] for event in walk["events"]] == ["attempt.started", "attempt.ended"]
    assert all(len(event["hash"]) == 64 for event in walk["events"])
    assert (walk["price"]["version"], walk["price"]["created_by"]) == ("v1", "root")


def test_another_tenant_sees_nothing(house: House, till: Till) -> None:
    till.used("trade", NIGHT)
    number = issue(house, "2026-11").json()["invoice"]["number"]
    for path in (number, f"{number}/lines", f"{number}/lines/1/explain"):
        assert house.ask("eve", "GET", f"/v1/invoices/{path}").status_code in {403, 404}
    assert house.ask("boss", "POST", f"/v1/invoices/{number}/void", {"reason": "no"}).status_code == 403


def test_the_tables_keep_what_was_issued(house: House, till: Till) -> None:
    till.used("trade", NIGHT)
    issue(house, "2026-11")
    for change in (
        "DELETE FROM invoices",
        "TRUNCATE invoices CASCADE",
        "DELETE FROM invoice_lines",
        "UPDATE invoices SET number = 'INV-2027-000009', serial = 9",
        "UPDATE invoices SET state = 'draft'",
        COPY_LINE,
        COPY_INVOICE,
    ):
        with pytest.raises(Conflict, match="does not fit"):
            till.statement(change)
    assert issue(house, "2026-11").json()["invoice"]["number"] == "INV-2027-000001"
