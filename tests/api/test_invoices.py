"""Invoices over the API, on the numbers of the specification."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

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
