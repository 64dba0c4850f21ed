"""Billing accounts: what is refused, and what stays as it is once something was booked or closed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from millpond.billing.accounts import AccountRecord, account_changed, account_opened
from millpond.billing.currencies import currency_find
from millpond.domain.errors import Conflict, InvalidInput

OPENED = datetime(2026, 11, 1, tzinfo=UTC)


def account(**fields: Any) -> AccountRecord:
    given = {"opened_at": OPENED, "sealed_until": OPENED, **fields}
    return AccountRecord("alpha", currency_find("CNY"), "Asia/Shanghai", **given)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tax_rate": Decimal("1.5")}, "out of range"),
        ({"tax_rate": Decimal("-0.01")}, "out of range"),
        ({"tax_rate": Decimal("NaN")}, "out of range"),
        ({"tax_rate": Decimal("0.0000001")}, "too many decimals"),
        ({"minimum_seconds": -1}, "a minimum"),
        ({"increment_seconds": 0}, "a minimum"),
        ({"stretch": 59}, "stretch"),
        ({"notice": -1}, "notice"),
        ({"title": "x" * 501}, "too long"),
        ({"sealed_until": OPENED - timedelta(seconds=1)}, "sealed"),
    ],
)
def test_a_setting_out_of_range_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        account(**fields)


def test_prices_with_tax_inside_are_quoted_without_it() -> None:
    rate = Decimal("0.06")
    assert account(tax_rate=rate).terms().tax_rate == rate
    assert account(tax_rate=rate, inclusive=True).terms((5,)).tax_rate == 0
    assert account(minimum_seconds=60).rules.beyond(20) == 40


def test_a_new_account_is_sealed_until_it_was_opened() -> None:
    later = account(sealed_until=OPENED + timedelta(days=3))
    assert account_opened(later).sealed_until == OPENED


def test_the_currency_stays_once_something_is_booked() -> None:
    dollars = replace(account(), currency=currency_find("USD"))
    assert account_changed(account(), dollars, booked=False) == dollars
    with pytest.raises(Conflict, match="for life") as refused:
        account_changed(account(), dollars, booked=True)
    assert refused.value.reason == "ACCOUNT_BOOKED"


def test_the_zone_stays_once_a_month_is_closed() -> None:
    closed = account(sealed_until=OPENED + timedelta(days=30))
    moved = replace(account(), zone="Europe/Berlin")
    assert account_changed(account(), moved, booked=True) == moved
    with pytest.raises(Conflict, match="closed in Asia/Shanghai"):
        account_changed(closed, moved, booked=True)


def test_a_change_of_settings_does_not_unseal() -> None:
    closed = account(sealed_until=OPENED + timedelta(days=30))
    assert account_changed(closed, account(notice=60), booked=True).sealed_until == closed.sealed_until
    with pytest.raises(Conflict, match="open since"):
        account_changed(closed, account(opened_at=OPENED - timedelta(days=1)), booked=True)
