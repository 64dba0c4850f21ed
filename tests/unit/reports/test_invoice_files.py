"""Invoices in every format: the words on the page, the figures on the sheet, and what they sum to."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from pypdf import PdfReader

from millpond.billing.documents import InvoiceDocument, InvoiceState
from millpond.billing.money import money_parse
from millpond.domain.errors import Conflict, Refused
from millpond.reports import pdf_file
from millpond.reports.invoices import invoice_report
from millpond.reports.rendering import Format, invoice_render
from millpond.reports.xlsx_file import report_xlsx
from tests.unit.billing.documents import CNY, credit, document, line

GOLDEN = Path(__file__).parents[2] / "golden" / "billing"


def invoice(**fields: Any) -> InvoiceDocument:
    return document(credits=(credit("22.64", "1.36"),), paid=money_parse("1000.00", CNY), **fields)


def made(form: Format, lang: str = "en", given: InvoiceDocument | None = None) -> bytes:
    return b"".join(invoice_render(given or invoice(), form, lang))


def page_text(data: bytes) -> str:
    pages = [page.extract_text().replace("\u200b", "") for page in PdfReader(io.BytesIO(data)).pages]
    return "\n".join(" ".join(text.split()) for page in pages for text in page.splitlines()) + "\n"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_says_what_the_golden_file_says(lang: str) -> None:
    assert page_text(made(Format.PDF, lang)) == (GOLDEN / f"invoice.{lang}.txt").read_text(encoding="utf-8")


def test_the_page_brings_its_fonts_along() -> None:
    page = PdfReader(io.BytesIO(made(Format.PDF, "zh"))).pages[0]
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]  # type: ignore[index]
    inner = [part.get_object() for font in fonts for part in font.get("/DescendantFonts", [])]
    assert any("CJK" in str(font["/BaseFont"]) for font in fonts)
    assert inner
    assert all({"/FontFile3", "/FontFile2"} & set(font["/FontDescriptor"].get_object()) for font in inner)


@pytest.mark.parametrize("form", [Format.PDF, Format.XLSX, Format.CSV, Format.FOCUS, Format.JSON])
def test_same_document_same_bytes(form: Format) -> None:
    assert made(form) == made(form)


def test_without_a_font_for_chinese_the_page_is_refused_and_the_sheet_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_file, "CHINESE", ("No Such Font",))
    with pytest.raises(Refused, match="fonts-noto-cjk"):
        made(Format.PDF)
    assert made(Format.XLSX)


def test_a_draft_says_so_and_has_no_number() -> None:
    text = page_text(made(Format.PDF, given=document(number="", state=InvoiceState.DRAFT, issued_at=None, due=None)))
    assert text.startswith("Draft invoice")
    assert "asks for no payment" in text
    assert "MP-2026" not in text


def test_the_sheet_has_typed_numbers_and_reconciles() -> None:
    given = invoice()
    book = load_workbook(io.BytesIO(made(Format.XLSX, given=given)), data_only=True)
    assert book.sheetnames == ["Summary", "Lines", "Tax", "Credit notes", "Reconciliation"]
    rows = list(book["Lines"].iter_rows(values_only=True))
    place = {name: index for index, name in enumerate(rows[0])}
    net = sum((Decimal(str(row[place["Net"]])) for row in rows[1:]), Decimal(0))
    assert net == given.net.amount
    assert all(isinstance(row[place["Card-hours"]], int | float) for row in rows[1:])
    assert rows[1][place["From"]].isoformat() == "2026-11-01T00:00:00"
    for row in list(book["Reconciliation"].iter_rows(values_only=True))[1:]:
        assert row[4] == pytest.approx(0, abs=0.0005), row
    formulas = load_workbook(io.BytesIO(made(Format.XLSX, given=given)))["Reconciliation"]
    assert formulas["D3"].value.startswith("=SUM('Lines'!")


def test_a_sheet_that_is_full_goes_on_on_the_next() -> None:
    from_sheets = load_workbook(io.BytesIO(b"".join(_narrow(invoice(), 3))), data_only=True)
    assert from_sheets.sheetnames[1:3] == ["Lines", "Lines (2)"]
    assert [from_sheets[name].max_row for name in ("Lines", "Lines (2)")] == [4, 2]
    formula = load_workbook(io.BytesIO(b"".join(_narrow(invoice(), 3))))["Reconciliation"]["D3"].value
    assert "'Lines'!" in formula
    assert "'Lines (2)'!" in formula


def _narrow(given: InvoiceDocument, rows: int) -> Any:
    return report_xlsx(invoice_report(given, "en"), "en", rows)


def test_csv_opens_in_excel_and_runs_nothing() -> None:
    given = document([line(1, 3_600_000, "12.00", user="=cmd|' /C calc'!A0"), line(2, 3_600_000, "12.00", job="-1")])
    data = made(Format.CSV, "zh", given)
    assert data.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    assert rows[0] == ["明细"]
    assert rows[1][:6] == ["行号", "类型", "项目", "用户", "作业", "卡型"]
    assert rows[2][3] == "'=cmd|' /C calc'!A0"
    assert rows[3][4] == "'-1"


def test_json_lines_end_with_an_end() -> None:
    given = [json.loads(text) for text in made(Format.JSON).splitlines()]
    assert given[0]["report"] == "invoice"
    assert given[-1] == {"end": True, "rows": 6}
    first = next(item["row"] for item in given if "row" in item)
    assert (first["net"], first["card_hours"], first["card_hours_milli_seconds"]) == (
        "1920.00",
        "160.0000",
        576_000_000,
    )
    assert first["currency"] == "CNY"
    assert first["list_price"] is None


@pytest.mark.parametrize("form", list(Format))
def test_nothing_is_written_of_a_document_that_does_not_sum(form: Format) -> None:
    with pytest.raises(Conflict, match=r"1944\.68"):
        invoice_render(replace(invoice(), net=money_parse("1944.68", CNY)), form, "en")
