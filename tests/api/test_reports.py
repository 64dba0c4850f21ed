"""Reports over HTTP: what they say, in every format, and to whom."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx2
import pytest
from openpyxl import load_workbook
from pypdf import PdfReader
from sqlalchemy import insert

from millpond.authz.actors import SYSTEM
from millpond.billing.budgets import Budget, BudgetPeriod
from millpond.billing.transfers import card_time
from millpond.db.session import Tx
from millpond.db.stores.budgets import budget_add
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.tables.usage import ATTEMPT_USAGES, USAGE_BUCKETS
from tests.api.house import House, seats_of

pytestmark = pytest.mark.postgres

HOUR = datetime(2026, 11, 10, 2, tzinfo=UTC)
CARD_HOUR = 3_600_000
KINDS = ("usage", "metering", "waits", "burndown", "idle", "health", "inventory", "policy")
TCO = {"server": "2400000", "power_kw": "10.2", "energy": "0.65", "yearly": "120000", "rental": "21.77"}


def bucket(tenant: str, job: str, milli_seconds: int, lost: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "tenant": tenant, "job": job, "attempt": 1, "project": "", "username": "ann", "sku": "A800-80GB",
        "klass": "prod", "service": False, "booked": HOUR, "hour": HOUR, "milli_seconds": milli_seconds,
        "lost_milli_seconds": lost, **more,
    }  # fmt: skip


@pytest.fixture
def used(house: House) -> House:
    """Two tenants that used cards in November, one of them with an account."""
    return use(house)


def use(house: House) -> House:
    """As `used`, of any house."""
    rows = [
        bucket("trade", "j1", 8 * CARD_HOUR),
        bucket("trade", "j2", 4 * CARD_HOUR, CARD_HOUR, project="risk", username="bea"),
        bucket(
            "trade", "j3", CARD_HOUR, booked=HOUR + timedelta(days=14), hour=HOUR + timedelta(days=14), sku="H20-96GB"
        ),
        bucket("factor", "j4", 2 * CARD_HOUR, username="eve"),
        bucket("trade", "j1", 99 * CARD_HOUR, booked=HOUR + timedelta(days=30), hour=HOUR + timedelta(days=30)),
    ]
    attempts = [
        {
            **{key: row[key] for key in ("tenant", "job", "attempt", "project", "username", "sku", "klass", "service")},
            "milli": 8000, "started_at": row["hour"], "ended_at": row["hour"] + timedelta(hours=1),
            "reason": "preempted",
            "milli_seconds": row["milli_seconds"], "lost_milli_seconds": row["lost_milli_seconds"], "start_event": 1,
        }
        for row in rows[:4]
    ]  # fmt: skip
    house.database.run("buckets", lambda tx: tx.execute(insert(USAGE_BUCKETS), rows))
    house.database.run("attempts", lambda tx: tx.execute(insert(ATTEMPT_USAGES), attempts))
    account = {"tenant": "trade", "currency": "CNY", "zone": "Asia/Shanghai", "tax_rate": "0.06"}
    account |= {"opened_at": "2026-10-01T00:00:00+08:00"}
    assert house.ask("root", "POST", "/v1/accounts", account).status_code == 201
    return house


def get(house: House, kind: str, user: str = "root", **params: str) -> httpx2.Response:
    return house.ask(user, "GET", f"/v1/reports/{kind}", params={"month": "2026-11", **params})


def lines(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found = [json.loads(text) for text in answer.text.splitlines()]
    assert found[-1]["end"] is True
    return found


def table(answer: httpx2.Response) -> list[dict[str, Any]]:
    return [line["row"] for line in lines(answer) if "row" in line and "total" not in line]


def test_usage_by_everything(used: House) -> None:
    def hours(by: str, *keys: str) -> list[tuple[Any, ...]]:
        rows = table(get(used, "usage", by=by))
        return [(*(row[key] for key in keys), row["card_hours"], row["lost_hours"]) for row in rows]

    assert hours("team", "tenant") == [("factor", "2.0000", "0.0000"), ("trade", "13.0000", "1.0000")]
    assert hours("model", "sku") == [("A800-80GB", "14.0000", "1.0000"), ("H20-96GB", "1.0000", "0.0000")]
    assert hours("project", "tenant", "project")[1:] == [
        ("trade", "", "9.0000", "0.0000"),
        ("trade", "risk", "4.0000", "1.0000"),
    ]
    assert hours("user", "user") == [
        ("eve", "2.0000", "0.0000"),
        ("ann", "9.0000", "0.0000"),
        ("bea", "4.0000", "1.0000"),
    ]
    assert hours("day", "day") == [("2026-11-10", "14.0000", "1.0000"), ("2026-11-24", "1.0000", "0.0000")]
    assert len(hours("job", "job")) == 4


def test_measured_utilisation_is_blank_and_never_zero(used: House) -> None:
    assert {row["measured"] for row in table(get(used, "usage"))} == {None}


def test_a_tenant_sees_its_own(used: House) -> None:
    assert [row["tenant"] for row in table(get(used, "usage", "boss", by="team"))] == ["trade"]
    assert get(used, "usage", "ann").status_code == 403
    assert get(used, "usage", "boss", tenant="factor").status_code == 404
    assert get(used, "health", "boss").status_code == 403
    assert get(used, "inventory", "auditor").status_code == 200


def test_months_are_those_of_the_zone(used: House) -> None:
    december = table(get(used, "usage", by="team", month="2026-12"))
    assert [row["card_hours"] for row in december] == ["99.0000"]
    facts = {fact["key"]: fact["value"] for fact in lines(get(used, "usage", tenant="trade"))[0]["facts"]}
    assert facts["zone"] == "Asia/Shanghai"


def test_the_metering_report_has_amounts_and_says_what_has_no_price(used: House) -> None:
    price = {"version": "v1", "sku": "A800-80GB", "class": "*", "price": "12.00", "from": "2026-11-01"}
    answer = used.ask("root", "POST", "/v1/prices", {"currency": "CNY", "zone": "Asia/Shanghai", "prices": [price]})
    assert answer.status_code < 300, answer.text
    rows = table(get(used, "metering", "boss", tenant="trade", lang="zh"))
    assert [(row["project"], row["version"], row["card_hours"], row["amount"], row["attempts"], row["preemptions"])
            for row in rows] == [
        ("", "v1", "8.0000", "96.00", 1, 1),
        ("risk", "v1", "3.0000", "36.00", 1, 1),
        ("", "无价格", None, None, 1, 1),
    ]  # fmt: skip
    text = (
        PdfReader(io.BytesIO(get(used, "metering", tenant="trade", lang="zh", format="pdf").content))
        .pages[0]
        .extract_text()
    )
    assert all(word in text for word in ("计量报表", "制表", "审核", "批准", "132.00"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["json", "csv", "xlsx", "pdf"])
def test_every_report_in_every_format(used: House, kind: str, form: str) -> None:
    answer = get(used, kind, tenant="trade" if kind in ("usage", "metering", "waits") else "", format=form, lang="zh")
    assert answer.status_code == 200, answer.text
    assert f'filename="{kind}' in answer.headers["content-disposition"]
    begins = {"json": b'{"report"', "csv": b"\xef\xbb\xbf", "xlsx": b"PK", "pdf": b"%PDF"}
    assert answer.content.startswith(begins[form])
    if form == "xlsx":
        assert load_workbook(io.BytesIO(answer.content)).sheetnames[0] == "概要"


def test_inventory_health_and_policy_say_what_is_there(used: House) -> None:
    cards = [row for row in table(get(used, "inventory")) if "uuid" in row]
    models = [row for row in table(get(used, "inventory")) if "usable" in row]
    assert len(cards) == sum(row["cards"] for row in models) > 0
    used.ask("root", "POST", f"/v1/cards/{cards[0]['node']}/{cards[0]['index']}/fault", {"cause": "xid 79"})
    after = [row for row in table(get(used, "inventory")) if "usable" in row]
    assert sum(row["usable"] for row in models) - sum(row["usable"] for row in after) in (0, 1)
    policy = lines(get(used, "policy"))
    assert any(line.get("row", {}).get("queue", "").startswith("trade") for line in policy)
    digest = {fact["key"]: fact["value"] for fact in policy[0]["facts"]}["digest"]
    assert digest == {fact["key"]: fact["value"] for fact in lines(get(used, "policy"))[0]["facts"]}["digest"]


def test_waits_say_why_jobs_wait_now(used: House) -> None:
    found = lines(get(used, "waits", tenant="trade"))
    assert [line["section"] for line in found if "section" in line] == ["waits_queues", "waiting_now"]


def test_cost_of_own_cards(used: House) -> None:
    answer = used.ask("boss", "GET", "/v1/reports/tco", params=TCO)
    facts = {fact["key"]: fact["value"] for fact in lines(answer)[0]["facts"]}
    assert (facts["total_cost"], facts["card_hours"], facts["break_even"]) == ("2746507.32", "210240.0000", "60.0")
    assert [row["hour_cost"] for row in table(answer) if row.get("share_sold") == "100.0"] == ["13.06"]
    bad = used.ask("boss", "GET", "/v1/reports/tco", params={**TCO, "server": "-1"})
    assert bad.status_code == 422
    assert "negative" in bad.text


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"month": "2026-13"}, 422),
        ({"zone": "Moon/Base"}, 422),
        ({"by": "colour"}, 422),
        ({"format": "focus"}, 422),
        ({"tenant": "nobody"}, 200),
    ],
)
def test_bad_wishes(used: House, params: dict[str, str], status: int) -> None:
    assert get(used, "usage", **params).status_code == status


def test_metering_without_an_account_says_what_to_do(used: House) -> None:
    assert get(used, "metering").json()["hint"] == "name it: --tenant NAME"
    answer = get(used, "metering", tenant="factor")
    assert (answer.status_code, answer.json()["code"]) == (404, "NO_SUCH_ACCOUNT")


def test_installed_is_allocated_idle_and_down(staffed: House) -> None:
    """Four hours of 17 cards: a job on two cards, and a card that is out of order for the last two."""
    job = staffed.submit("ann", "train", tenant="trade")["id"]
    staffed.run(job, seats_of("n1", 0, 1))
    began = staffed.clock()
    staffed.clock.ahead += timedelta(hours=2)
    event = NewEvent("card.quarantined", staffed.clock(), "engine", data={"node": "n2", "card": 3})
    staffed.database.run("event", lambda tx: events_append(tx, "engine", [event]))
    staffed.clock.ahead += timedelta(hours=2)
    found = lines(staffed.ask("root", "GET", "/v1/reports/idle", params={"month": f"{began:%Y-%m}"}))
    facts = {fact["key"]: Decimal(fact["value"]) for fact in found[0]["facts"] if fact["key"] in PARTS}
    assert (
        facts["installed"]
        == facts["allocated"] + facts["idle"] + facts["down"]
        == pytest.approx(Decimal(68), abs=Decimal("0.1"))
    )
    assert facts["allocated"] == pytest.approx(Decimal(8), abs=Decimal("0.1"))
    assert facts["down"] == pytest.approx(Decimal(2), abs=Decimal("0.1"))
    assert facts["alarms"] == 0
    days = [line["row"] for line in found if "day" in line.get("row", {}) and "total" not in line]
    assert sum(Decimal(row["idle_hours"]) for row in days) == pytest.approx(facts["idle"], abs=Decimal("0.001"))


PARTS = ("installed", "allocated", "idle", "down", "alarms")


def test_budgets_burn_down(used: House) -> None:
    """Ten card-hours a day for two weeks, of a thousand."""
    now = used.clock()
    rows = [bucket("trade", f"k{day}", 10 * CARD_HOUR, booked=at, hour=at) for day in range(1, 15)
            if (at := (now - timedelta(days=day)).replace(hour=2, minute=0, second=0, microsecond=0))]  # fmt: skip
    budget = Budget("b1", ("org", "trade"), card_time(1_000 * CARD_HOUR), BudgetPeriod.YEAR)

    def work(tx: Tx) -> None:
        tx.execute(insert(USAGE_BUCKETS), rows)
        budget_add(tx, SYSTEM, budget, now - timedelta(days=20))

    used.database.run("budget", work)
    (row,) = table(used.ask("boss", "GET", "/v1/reports/burndown"))
    assert (row["scope"], row["limit"], row["held"], row["rate_p50"]) == ("trade", "1000.0000", "0.0000", "10.0000")
    assert Decimal(row["used"]) + Decimal(row["left"]) == Decimal(1000)
    assert row["used_share"] is not None
    assert used.ask("ann", "GET", "/v1/reports/burndown").status_code == 403
