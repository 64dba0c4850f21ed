"""Invoice documents: what does not sum is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.documents import InvoiceState, document_check
from millpond.billing.money import Money, money_parse
from millpond.domain.errors import Conflict
from tests.unit.billing.documents import CNY, HOUR, credit, document, line


def money(text: str) -> Money:
    return money_parse(text, CNY)


def test_a_document_sums() -> None:
    made = document()
    sums = document_check(made)
    assert (sums.count, sums.net, sums.tax) == (4, made.net, made.tax)
    assert made.net.text() == "1944.67"
    assert (made.tax.text(), made.total.text()) == ("116.68", "2061.35")


@pytest.mark.parametrize(
    "fields",
    [
        {"net": money("1944.66")},
        {"tax": money("116.67")},
        {"total": money("2061.36")},
        {"taxes": ()},
        {"credits": (credit("1944.67", "116.69"),)},
    ],
    ids=["net", "tax", "total", "tax rows", "credits"],
)
def test_what_does_not_sum_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Conflict) as refused:
        document_check(replace(document(), **fields))
    assert refused.value.reason == "DOES_NOT_RECONCILE"
    assert refused.value.hint


def test_a_line_more_than_the_totals_say_is_refused() -> None:
    made = document()
    with pytest.raises(Conflict, match=r"1956\.67 CNY, and the invoice says 1944\.67"):
        document_check(replace(made, lines=(*made.lines, line(5, HOUR, "12.00"))))


def test_what_is_left_to_pay() -> None:
    made = document(credits=(credit("22.64", "1.36"),), paid=money("1000.00"))
    assert made.credited == money("24.00")
    assert made.due_amount == money("1037.35")
    assert not replace(made, state=InvoiceState.VOIDED).due_amount


@given(st.lists(st.tuples(st.integers(-(10**9), 10**12), st.sampled_from(["12.00", "2.99", "0.01"])), max_size=30))
def test_any_lines_of_any_sign_reconcile_with_tax_spread_over_them(parts: list[tuple[int, str]]) -> None:
    made = document([line(index, amount, price) for index, (amount, price) in enumerate(parts)])
    assert document_check(made).count == len(parts)
