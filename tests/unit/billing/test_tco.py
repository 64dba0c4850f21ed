"""Three-year cost of an 8-card server: figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from millpond.billing.currencies import currency_find
from millpond.billing.money import Money, money_parse
from millpond.billing.tco import TcoGiven, tco
from millpond.domain.errors import InvalidInput

CNY = currency_find("CNY")


def money(text: str) -> Money:
    return money_parse(text, CNY)


GIVEN = TcoGiven(
    server=money("2400000"), cards=8, energy=money("0.65"), yearly=money("120000"), power_kw=Decimal("10.2"),
    rental=money("21.77"),
)  # fmt: skip


def test_three_years_of_an_eight_card_server() -> None:
    """2.4 M less 10 %; 10.2 kW x 1.3 x 26 280 h x 0.65; 120 000 a year."""
    made = tco(GIVEN)
    assert [part.text() for part in (made.depreciation, made.power, made.running, made.total)] == [
        "2160000.00",
        "226507.32",
        "360000.00",
        "2746507.32",
    ]
    assert made.card_hours == 210_240
    assert made.hour_cost(Fraction(1)).text() == "13.06"
    assert made.hour_cost(Fraction(60, 100)).text() == "21.77"


def test_break_even_is_the_share_at_which_nothing_is_left() -> None:
    made = tco(GIVEN)
    assert made.break_even is not None
    assert round(made.break_even, 3) == Fraction(6, 10)
    assert made.margin(made.break_even, money("21.77")) == money("0.00")
    assert made.margin(Fraction(1), money("21.77")).amount > 0
    assert tco(replace(GIVEN, rental=money("10.00"))).break_even > 1  # type: ignore[operator]
    assert tco(replace(GIVEN, rental=None)).break_even is None


@pytest.mark.parametrize(
    "fields",
    [{"cards": 0}, {"years": 0}, {"residual": Decimal("1.1")}, {"pue": Decimal("0.9")}, {"energy": money("-1")}],
)
def test_what_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(GIVEN, **fields)  # type: ignore[arg-type]


def test_nothing_sold_has_no_cost_of_an_hour() -> None:
    with pytest.raises(InvalidInput):
        tco(GIVEN).hour_cost(Fraction(0))
