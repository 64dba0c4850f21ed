"""Usage over HTTP: sums by every dimension, attempts of a job, contradictions; and whose of it who may see."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from millpond.authz.actors import SYSTEM
from millpond.db.stores.meter import Mark, meter_mark_set
from millpond.db.tables.usage import ATTEMPT_USAGES, METER_ALARMS, USAGE_BUCKETS
from tests.api.house import House

pytestmark = pytest.mark.postgres

HOUR = datetime(2026, 11, 10, 2, tzinfo=UTC)
CARD_HOUR = 3_600_000
NOVEMBER = {"month": "2026-11", "zone": "Asia/Shanghai"}
KEYS = {
    "tenant": ("tenant",),
    "project": ("tenant", "project"),
    "user": ("tenant", "user"),
    "sku": ("sku",),
    "class": ("class",),
    "job": ("tenant", "job", "project", "user", "sku", "class"),
    "day": ("day",),
}
ACCOUNT = {"tenant": "trade", "currency": "CNY", "zone": "Asia/Shanghai", "opened_at": "2026-10-01T00:00:00+08:00"}


def bucket(tenant: str, job: str, milli_seconds: int, lost: int = 0, **more: Any) -> dict[str, Any]:
    booked = more.pop("booked", HOUR)
    return {
        "tenant": tenant, "job": job, "attempt": 1, "project": "", "username": "ann", "sku": "A800-80GB",
        "klass": "prod", "service": False, "booked": booked, "hour": booked, "milli_seconds": milli_seconds,
        "lost_milli_seconds": lost, **more,
    }  # fmt: skip


def attempt(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The row of an attempt that used just this bucket."""
    keys = ("tenant", "job", "attempt", "project", "username", "sku", "klass", "service")
    keys += ("milli_seconds", "lost_milli_seconds")
    given = {key: row[key] for key in keys}
    over = {"ended_at": row["hour"] + timedelta(hours=1), "reason": "completed", "end_event": 2}
    return {**given, "milli": 1000, "lost": False, "started_at": row["hour"], "start_event": 1, **over, **more}


def alarm(name: str, tenant: str, job: str, second: int) -> dict[str, Any]:
    time = HOUR + timedelta(seconds=second)
    text = f"{job} overlaps with another"
    return {
        "id": name, "time": time, "code": "OVERLAP", "tenant": tenant, "job": job, "attempt": 1, "card": "n1/0",
        "text": text, "raised_at": time,
    }  # fmt: skip


@pytest.fixture
def used(house: House) -> House:
    """Two tenants that used cards in November; trade's clocks are Shanghai's."""
    late = datetime(2026, 11, 30, 15, tzinfo=UTC)  # the last hour of November in Shanghai
    rows = [
        bucket("trade", "j1", 8 * CARD_HOUR),
        bucket("trade", "j1", 2 * CARD_HOUR, booked=HOUR + timedelta(days=1)),
        bucket("trade", "j2", 4 * CARD_HOUR, CARD_HOUR, project="risk", username="bea"),
        bucket("trade", "j3", CARD_HOUR // 3, booked=late, sku="H20-96GB", klass="batch"),
        bucket("trade", "j4", 99 * CARD_HOUR, booked=late + timedelta(hours=1)),
        bucket("factor", "j5", 2 * CARD_HOUR, username="eve"),
    ]
    attempts = [attempt(rows[index]) for index in (0, 2, 3, 4, 5)]
    alarms = [alarm(f"a{index}", "trade", job, index) for index, job in enumerate(("j1", "j2", "j1"))]
    house.database.run("buckets", lambda tx: tx.execute(insert(USAGE_BUCKETS), rows))
    house.database.run("attempts", lambda tx: tx.execute(insert(ATTEMPT_USAGES), attempts))
    house.database.run("alarms", lambda tx: tx.execute(insert(METER_ALARMS), alarms))
    assert house.ask("root", "POST", "/v1/accounts", ACCOUNT).status_code == 201
    return house


def usage(house: House, user: str = "root", **wish: object) -> dict[str, Any]:
    answer = house.ask(user, "GET", "/v1/usage", params={**NOVEMBER, **wish})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def hours(found: dict[str, Any], *keys: str) -> dict[tuple[str, ...], tuple[str, str, int]]:
    return {
        tuple(row[key] for key in keys): (row["card_hours"], row["lost_card_hours"], row["attempts"])
        for row in found["items"]
    }


def test_card_hours_by_project_with_what_was_lost_and_the_sum_of_all(used: House) -> None:
    found = usage(used, tenant="trade")
    assert hours(found, "tenant", "project") == {
        ("trade", ""): ("10.3333", "0.0000", 2),
        ("trade", "risk"): ("4.0000", "1.0000", 1),
    }
    assert (found["total"]["card_hours"], found["total"]["milli_card_seconds"]) == (
        "14.3333",
        14 * CARD_HOUR + 1_200_000,
    )
    assert (found["from"], found["to"]) == ("2026-10-31T16:00:00Z", "2026-11-30T16:00:00Z")
    assert {row["measured"] for row in found["items"]} == {None}


def test_a_day_is_one_of_the_accounts_clocks(used: House) -> None:
    """The hour from 15:00 UTC is the last one of the 30th in Shanghai, and the next is December's."""
    found = used.ask("boss", "GET", "/v1/usage?by=day&month=2026-11").json()
    assert found["zone"] == "Asia/Shanghai"
    assert hours(found, "day") == {
        ("2026-11-10",): ("12.0000", "1.0000", 2),
        ("2026-11-11",): ("2.0000", "0.0000", 1),
        ("2026-11-30",): ("0.3333", "0.0000", 1),
    }
    assert usage(used, zone="UTC", tenant="trade", by="day")["items"][-1]["card_hours"] == "99.3333"


def test_a_time_from_and_to(used: House) -> None:
    wish = {"month": "", "from": "2026-11-10T10:00", "to": "2026-11-11", "by": "user"}
    assert hours(usage(used, **wish), "user") == {
        ("eve",): ("2.0000", "0.0000", 1),
        ("ann",): ("8.0000", "0.0000", 1),
        ("bea",): ("4.0000", "1.0000", 1),
    }


def test_without_an_end_the_time_goes_on_until_now(used: House) -> None:
    found = usage(used, month="", **{"from": "2026-11-01"})
    assert datetime.fromisoformat(found["to"]) - used.clock() <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"month": "2026-13"}, "not a month"),
        ({"from": "2026-11-01"}, "do not go together"),
        ({"month": "", "to": "2026-11-01"}, "none from"),
        ({"month": "", "from": "2026-11-01T10:30"}, "not a full clock hour"),
        ({"month": "", "from": "yesterday"}, "not a time"),
        ({"month": "", "from": "2026-11-02", "to": "2026-11-02"}, "is not after"),
        ({"zone": "Asia/Shangai"}, "not a time zone"),
        ({"cursor": "x"}, "not one of ours"),
        ({"cursor": "WyJhIl0"}, "not one of ours"),
        ({"by": "day", "cursor": "WyJhIl0"}, "not one of ours"),
    ],
)
def test_what_means_nothing_is_refused_with_what_to_write(used: House, wish: dict[str, str], says: str) -> None:
    answer = used.ask("root", "GET", "/v1/usage", params={**NOVEMBER, **wish})
    assert answer.status_code == 422, answer.text
    assert says in answer.json()["detail"]
    assert answer.json()["hint"]


def test_an_unknown_tenant_is_not_an_empty_one(used: House) -> None:
    for user in ("root", "boss"):
        answer = used.ask(user, "GET", "/v1/usage?tenant=nobody")
        assert (answer.status_code, answer.json()["code"]) == (404, "NO_SUCH_TENANT")


def test_members_see_their_own_and_no_more(used: House) -> None:
    assert hours(usage(used, "ann", tenant="trade", by="user"), "user") == {("ann",): ("10.3333", "0.0000", 2)}
    assert hours(usage(used, "bea", by="user"), "user") == {("bea",): ("4.0000", "1.0000", 1)}
    assert usage(used, "bea", by="user")["total"]["card_hours"] == "4.0000"
    assert hours(usage(used, "boss", by="tenant"), "tenant") == {("trade",): ("14.3333", "1.0000", 3)}
    assert usage(used, "two")["items"] == []
    assert set(hours(usage(used, "auditor", by="tenant"), "tenant")) == {("trade",), ("factor",)}


def test_csv_of_a_member_has_only_their_own(used: House) -> None:
    answer = used.ask("bea", "GET", "/v1/usage", params={**NOVEMBER, "by": "job", "format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["tenant", "job", "project", "user", "sku", "class", "name", "card_hours", "lost_card_hours", "attempts",
         "measured", "milli_card_seconds", "lost_milli_card_seconds"],
        ["trade", "j2", "risk", "bea", "A800-80GB", "prod", "", "4.0000", "1.0000", "1", "", "14400000", "3600000"],
    ]  # fmt: skip


def test_pages_go_through_all_once(used: House) -> None:
    for by, keys in KEYS.items():
        whole, seen, cursor = usage(used, by=by), [], ""
        while True:
            page = usage(used, by=by, limit=1, cursor=cursor)
            assert page["total"] == whole["total"]
            seen += page["items"]
            cursor = page["next"]
            if not cursor:
                break
        assert seen == whole["items"]
        assert len(hours(whole, *keys)) == len(seen)


def test_until_when_it_is_counted(used: House) -> None:
    assert usage(used)["counted_until"] is None
    used.database.run("mark", lambda tx: meter_mark_set(tx, SYSTEM, Mark(7, HOUR)))
    assert usage(used)["counted_until"] == "2026-11-10T02:00:00Z"


def test_contradictions_are_counted_and_listed_the_last_first(used: House) -> None:
    assert usage(used)["alarms"] == 3
    assert usage(used, "bea")["alarms"] == 1
    listed, cursor = [], ""
    while True:
        page = used.ask("boss", "GET", "/v1/usage/alarms", params={**NOVEMBER, "limit": 1, "cursor": cursor}).json()
        listed += [one["id"] for one in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert listed == ["a2", "a1", "a0"]
    own = used.ask("bea", "GET", "/v1/usage/alarms", params=NOVEMBER).json()["items"]
    assert [(one["job"], one["code"], one["text"]) for one in own] == [("j2", "OVERLAP", "j2 overlaps with another")]
    assert used.ask("boss", "GET", "/v1/usage/alarms?month=2026-10").json()["items"] == []


def test_the_attempts_of_a_job(house: House) -> None:
    job = house.submit("ann", "train", tenant="trade")["id"]
    first = bucket("trade", job, 4 * CARD_HOUR, CARD_HOUR)
    rows = [
        attempt(first, reason="preempted", lost=True),
        attempt({**first, "attempt": 2, "milli_seconds": 5, "lost_milli_seconds": 0}, ended_at=None, reason=None,
                end_event=None),
    ]  # fmt: skip
    house.database.run("attempts", lambda tx: tx.execute(insert(ATTEMPT_USAGES), rows))
    for name in (job, "train"):
        found = house.ask("ann", "GET", f"/v1/usage/jobs/{name}?tenant=trade").json()
        assert (found["job"], found["name"], found["user"]) == (job, "train", "ann")
        assert [(one["attempt"], one["reason"], one["lost"], one["card_hours"]) for one in found["attempts"]] == [
            (1, "preempted", True, "4.0000"),
            (2, None, False, "0.0000"),
        ]
        assert (found["total"]["milli_card_seconds"], found["total"]["attempts"]) == (4 * CARD_HOUR + 5, 2)
    assert house.ask("bea", "GET", f"/v1/usage/jobs/{job}").json()["code"] == "FORBIDDEN"
    assert house.ask("eve", "GET", f"/v1/usage/jobs/{job}").status_code == 404


def test_what_was_taken_back_whole_is_no_use_and_no_attempt(house: House) -> None:
    """A running attempt was counted to a moment, and its end turns out to have been before."""
    rows = [bucket("trade", "j1", CARD_HOUR), bucket("trade", "j1", -CARD_HOUR, booked=HOUR + timedelta(hours=1))]
    house.database.run("buckets", lambda tx: tx.execute(insert(USAGE_BUCKETS), rows))
    found = usage(house, by="job")
    assert (found["items"], found["total"]["attempts"], found["total"]["card_hours"]) == ([], 0, "0.0000")


def test_a_name_that_a_spreadsheet_would_run_is_text(house: House) -> None:
    row = bucket("trade", "j1", CARD_HOUR, sku="=1+1")
    house.database.run("buckets", lambda tx: tx.execute(insert(USAGE_BUCKETS), [row]))
    text = house.ask("root", "GET", "/v1/usage", params={**NOVEMBER, "by": "sku", "format": "csv"}).text
    assert text.splitlines()[1].startswith("'=1+1,1.0000,")


def _rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Buckets of any owner; keys of the table are made distinct by the job."""
    return [
        bucket(
            draw.choice(("trade", "factor")), f"j{draw.randint(1, 6)}", used, draw.choice((0, used, used // 3)),
            attempt=number, project=draw.choice(("", "risk", "alpha")), username=draw.choice(("ann", "bea", "eve")),
            sku=draw.choice(("A800-80GB", "H20-96GB")), klass=draw.choice(("prod", "batch")),
            booked=HOUR + timedelta(hours=draw.randint(-200, 480)),
        )
        for number in range(count)
        for used in (draw.randint(-CARD_HOUR, 8 * CARD_HOUR),)
    ]  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), count=st.integers(0, 40))
def test_sums_by_any_dimension_agree_with_the_buckets(house: House, seed: int, count: int) -> None:
    """Whoever asks, by whatever: the rows add up to the total, the total is what the buckets hold, and CSV says it."""
    rows = _rows(random.Random(seed), count)
    house.database.run("empty", lambda tx: tx.execute(delete(USAGE_BUCKETS)))
    if rows:
        house.database.run("buckets", lambda tx: tx.execute(insert(USAGE_BUCKETS), rows))
    sights = {
        "root": rows,
        "boss": [row for row in rows if row["tenant"] == "trade"],
        "ann": [row for row in rows if row["tenant"] == "trade" and row["username"] == "ann"],
    }
    for user, seen in sights.items():
        used, lost = sum(row["milli_seconds"] for row in seen), sum(row["lost_milli_seconds"] for row in seen)
        for by, keys in KEYS.items():
            found = usage(house, user, by=by, limit=1000)
            total = found["total"]
            assert (total["milli_card_seconds"], total["lost_milli_card_seconds"]) == (used, lost)
            assert sum(row["milli_card_seconds"] for row in found["items"]) == used
            assert sum(row["lost_milli_card_seconds"] for row in found["items"]) == lost
            text = house.ask(user, "GET", "/v1/usage", params={**NOVEMBER, "by": by, "format": "csv"}).text
            listed = Counter({tuple(row[key] for key in keys): 0 for row in csv.DictReader(io.StringIO(text))})
            for row in csv.DictReader(io.StringIO(text)):
                listed[tuple(row[key] for key in keys)] += int(row["milli_card_seconds"])
            assert listed == {tuple(row[key] for key in keys): row["milli_card_seconds"] for row in found["items"]}
