from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.burning import Demand
from millpond.billing.currencies import currency_find
from millpond.billing.prices import PriceBook, PriceVersion
from millpond.billing.quotes import Quote, Terms, quote_decide
from millpond.billing.rating import Rules, amount_of
from millpond.domain.errors import InvalidInput
from millpond.metering.hours import month_period
from tests.unit.billing.books import CNY, yuan

NOVEMBER = month_period("2026-11", ZoneInfo("Asia/Shanghai"))
DECEMBER = NOVEMBER.end
BOOK = PriceBook(
    [
        PriceVersion("v1", "A800-80GB", "prod", yuan("12.00"), 0, DECEMBER),
        PriceVersion("v2", "A800-80GB", "*", yuan("10.50"), DECEMBER),
    ]
)
TERMS = Terms(CNY, cuts=(DECEMBER,))


def quote(begin: int, end: int, *, milli: int = 8000, rules: Rules = Rules(), terms: Terms = TERMS) -> Quote:  # noqa: B008
    """Seconds from the first of December."""
    return quote_decide(BOOK, rules, terms, "A800-80GB", "prod", milli, (DECEMBER + begin, DECEMBER + end))


def test_invariant_11_a_quote_has_the_prices_of_its_moments() -> None:
    """8 cards from 14:20 to 02:20: 928.00 in November and 196.00 in December."""
    found = quote(-(9 * 3600 + 2400), 2 * 3600 + 1200)
    assert [demand.cost(demand.milli_seconds).text() for demand in found.demands] == ["928.00", "196.00"]
    assert found.cost == yuan("1124.00")
    assert not found.unpriced


def test_a_month_ends_a_line() -> None:
    later = quote_decide(
        BOOK, Rules(), Terms(CNY, cuts=(DECEMBER + 600,)), "A800-80GB", "x", 1000, (DECEMBER, DECEMBER + 900)
    )
    assert [demand.milli_seconds for demand in later.demands] == [600_000, 300_000]


def test_the_minimum_is_held_too() -> None:
    """20 s at 10.50 with a minimum of 60 s."""
    assert quote(0, 20, milli=1000, rules=Rules(minimum_seconds=60)).cost == yuan("0.18")
    assert quote(0, 20, milli=1000).cost == yuan("0.06")
    assert quote(0, 0, rules=Rules(minimum_seconds=60)).demands == ()


def test_tax_is_held_where_prices_are_net() -> None:
    found = quote(0, 3600, milli=1000, terms=replace(TERMS, tax_rate=Decimal("0.06")))
    assert found.demands == (Demand(3_600_000, yuan("11.13")),)


def test_time_without_a_price_holds_nothing() -> None:
    found = quote_decide(BOOK, Rules(), TERMS, "A800-80GB", "batch", 1000, (DECEMBER - 60, DECEMBER + 60))
    assert found.unpriced == 60_000
    assert [demand.milli_seconds for demand in found.demands] == [60_000]


def test_quotes_that_make_no_sense() -> None:
    for bad in ((5, 0), (0, 5)):
        with pytest.raises(InvalidInput):
            quote(*bad, milli=1000 if bad[0] else -1)
    with pytest.raises(InvalidInput) as caught:
        quote(0, 60, terms=replace(TERMS, currency=currency_find("EUR")))
    assert caught.value.reason == "CURRENCY_MISMATCH"


@given(st.lists(st.integers(1, 10**8), min_size=1, max_size=6), st.integers(0, 5000))
def test_what_is_charged_in_parts_is_the_line_of_the_bill(parts: list[int], fen: int) -> None:
    price = yuan(f"{fen // 100}.{fen % 100:02d}")
    total, before = yuan("0"), 0
    for part in parts:
        total += Demand(part, price, before).cost(part)
        before += part
    assert total == amount_of(sum(parts), price)
