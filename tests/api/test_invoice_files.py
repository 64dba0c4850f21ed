"""An issued invoice, fetched in every format: what was billed is what every file says."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from decimal import Decimal

import pytest
from openpyxl import load_workbook
from pypdf import PdfReader

from tests.api.house import House
from tests.api.test_invoices import issue, prices, till
from tests.api.till import Till
from tests.unit.metering.builders import at, ended, started

pytestmark = pytest.mark.postgres
__all__ = ["prices", "till"]


@pytest.fixture
def number(house: House, till: Till) -> str:
    """Eight cards for nine hours and 40 minutes of November at 12.00: 928.00 net."""
    till.used("trade", [started(at("11-30 14:20"), milli=8000), ended(at("12-01 02:20"))])
    answer = issue(house, "2026-11")
    assert answer.status_code < 300, answer.text
    return str(answer.json()["invoice"]["number"])


def fetched(house: House, number: str, form: str, user: str = "root", lang: str = "zh") -> bytes:
    answer = house.ask(user, "GET", f"/v1/invoices/{number}/file", params={"format": form, "lang": lang})
    assert answer.status_code == 200, answer.text
    assert number in answer.headers["content-disposition"]
    return answer.content


def test_every_format_says_what_was_billed(house: House, number: str) -> None:
    text = PdfReader(io.BytesIO(fetched(house, number, "pdf", "boss"))).pages[0].extract_text()
    assert all(word in text for word in ("账单", number, "Trading Ltd", "928.00", "55.68", "983.68"))
    book = load_workbook(io.BytesIO(fetched(house, number, "xlsx", "auditor", "en")), data_only=True)
    assert [row[2:] for row in book["Reconciliation"].iter_rows(min_row=3, max_row=4, values_only=True)] == [
        (928, 928, 0),
        (55.68, 55.68, 0),
    ]
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in csv.DictReader(io.StringIO(fetched(house, number, "focus").decode())):
        sums[row["InvoiceId"]] += Decimal(row["BilledCost"])
    assert sums == {number: Decimal("983.68")}
    assert b'"net":"928.00"' in fetched(house, number, "json")
    assert fetched(house, number, "csv").startswith(b"\xef\xbb\xbf")


def test_a_file_never_changes(house: House, number: str) -> None:
    before = {form: fetched(house, number, form) for form in ("pdf", "xlsx", "csv", "focus")}
    assert {form: fetched(house, number, form) for form in before} == before


def test_who_may_not_read_it_gets_nothing(house: House, number: str) -> None:
    assert house.ask("ann", "GET", f"/v1/invoices/{number}/file").status_code in (403, 404)
    assert house.ask("eve", "GET", f"/v1/invoices/{number}/file").status_code in (403, 404)
    assert house.ask("root", "GET", f"/v1/invoices/{number}/file", params={"format": "docx"}).status_code == 422
