"""Money is exact, keeps its currency, and is rounded and split in one way."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.currencies import MINOR_UNITS, Currency, currency_find
from millpond.billing.money import (
    Money,
    decimal_round_text,
    money_of_minor,
    money_parse,
    money_round,
    money_split,
    money_sum,
    money_zero,
)
from millpond.domain.errors import InvalidInput

CNY = currency_find("CNY")
CODES = st.sampled_from(sorted(MINOR_UNITS)).map(currency_find)


def cny(text: str) -> Money:
    return money_parse(text, CNY)


@pytest.mark.parametrize(("code", "places"), [("CNY", 2), ("JPY", 0), ("KWD", 3)])
def test_smallest_units(code: str, places: int) -> None:
    assert currency_find(code).minor_units == places


def test_unknown_currency_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="did you mean CNY"):
        currency_find("CNYY")
    with pytest.raises(InvalidInput, match="ISO 4217"):
        currency_find("credits")


def test_arithmetic_is_exact_where_floats_are_not() -> None:
    assert cny("0.10") + cny("0.20") == cny("0.30")
    assert (cny("0.10") - cny("0.30")).text() == "-0.20"
    assert str(cny("12.00").times(3)) == "36.00 CNY"
    assert (-money_zero(CNY)).text() == "0.00"
    large = Money(Decimal("12345678901234567890123456789.01"), CNY)
    assert (large + cny("0.01")).text() == "12345678901234567890123456789.02"


def test_currencies_do_not_mix() -> None:
    usd = money_parse("1.00", currency_find("USD"))
    with pytest.raises(InvalidInput) as caught:
        cny("1.00") + usd
    assert caught.value.reason == "CURRENCY_MISMATCH"
    with pytest.raises(InvalidInput, match="cannot be added or compared"):
        assert cny("1.00") < usd


def test_comparisons() -> None:
    assert cny("1.00") < cny("1.01") <= cny("1.01") > cny("-1.00") >= cny("-1.00")
    assert not money_zero(CNY)
    assert cny("0.01")


@pytest.mark.parametrize("text", ["", "1e3", "NaN", "1,000.00", "１２", "0.001", "--1", "+1", "1."])
def test_bad_amounts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        cny(text)
    with pytest.raises(InvalidInput):
        Money(Decimal("Infinity"), CNY)


def test_rounding_is_half_up_away_from_zero() -> None:
    assert money_round(Fraction(665, 1000), CNY) == cny("0.67")
    assert money_round(Fraction(-665, 1000), CNY) == cny("-0.67")
    assert money_round(Fraction(6649, 10000), CNY) == cny("0.66")
    assert money_round(Fraction(1, 2), currency_find("JPY")).text() == "1"
    assert decimal_round_text(Fraction(7, 3), 4) == "2.3333"


def test_an_amount_finer_than_the_smallest_unit_keeps_its_places_until_rounded() -> None:
    fine = Money(Decimal("0.665"), CNY)
    assert fine.text() == "0.665"
    assert fine.rounded().text() == "0.67"
    with pytest.raises(InvalidInput, match="finer"):
        fine.minor()


def test_shares_are_fractions() -> None:
    assert cny("2.40").share(1000, 3_600_000) == Fraction(24, 36_000)


def test_largest_remainder_gives_the_left_unit_to_the_earlier_of_equals() -> None:
    assert [part.text() for part in money_split(cny("0.01"), [1, 1])] == ["0.01", "0.00"]
    assert [part.text() for part in money_split(cny("-1.00"), [1, 1, 1])] == ["-0.34", "-0.33", "-0.33"]
    assert [part.text() for part in money_split(cny("1.00"), [0, 0])] == ["0.50", "0.50"]
    assert money_split(money_zero(CNY), []) == ()
    with pytest.raises(InvalidInput, match="nobody"):
        money_split(cny("1.00"), [])
    with pytest.raises(InvalidInput, match="negative"):
        money_split(cny("1.00"), [1, -1])


@given(st.integers(-(10**12), 10**12), st.lists(st.integers(0, 10**9), min_size=1, max_size=9), CODES)
def test_parts_sum_to_the_whole_and_are_within_one_unit(minor: int, weights: list[int], currency: Currency) -> None:
    total = money_of_minor(minor, currency)
    parts = money_split(total, weights)
    assert money_sum(parts, currency) == total
    if any(weights):
        exact = [Fraction(minor) * weight / sum(weights) for weight in weights]
        assert all(abs(part.minor() - want) < 1 for part, want in zip(parts, exact, strict=True))


@given(st.fractions(-1000, 1000), CODES)
def test_rounding_moves_by_half_a_unit_at_most_and_is_odd(value: Fraction, currency: Currency) -> None:
    rounded = money_round(value, currency)
    assert abs(Fraction(rounded.amount) - value) * 10**currency.minor_units <= Fraction(1, 2)
    assert money_round(-value, currency) == -rounded
    assert money_parse(rounded.text(), currency) == rounded


def test_invariant_22_half_up_once_per_line() -> None:
    """0.25 card × 3990 s × 2.40 = 0.665 → 0.67; an eighth at 2.99 for 720 h is 269.10, not 266.40."""
    assert money_round(cny("2.40").share(250 * 3990, 3_600_000), CNY) == cny("0.67")
    eighth = cny("2.99").share(125 * 3600, 3_600_000)
    assert money_round(eighth, CNY).times(720) == cny("266.40")
    assert money_round(eighth * 720, CNY) == cny("269.10")


def test_invariant_23_tax_lines_sum_to_the_tax_total() -> None:
    nets = [cny(text) for text in ("68.33", "68.33", "57.50", "85.00")]
    net = money_sum(nets, CNY)
    tax = money_round(net.share(20, 100), CNY)
    lines = money_split(tax, [Fraction(amount.amount) for amount in nets])
    assert [line.text() for line in lines] == ["13.67", "13.66", "11.50", "17.00"]
    assert (net + tax).text() == "334.99"
