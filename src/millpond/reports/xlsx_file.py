"""XLSX: typed numbers, a sheet a table, and a sheet on which the sums are taken again by the reader's own program.

Rows are written as they come (XlsxWriter's constant memory).  A table that is longer than a sheet goes on on the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name

from millpond.billing.money import Money, decimal_round
from millpond.billing.rating import card_hours
from millpond.reports.cells import CARD_HOUR_PLACES
from millpond.reports.tables import Cell, Fact, Field, Kind, Report, Row, Section, Sums
from millpond.reports.texts import Texts

SHEET_ROWS: Final = 1_048_575
"""Rows below the head that fit on a sheet of Excel."""

_CHUNK: Final = 262_144
_WIDTHS: Final = {Kind.TEXT: 22, Kind.MOMENT: 19, Kind.MONEY: 16, Kind.CARD_HOURS: 14}
_BAD = str.maketrans("[]:*?/\\'", "        ")
_NAME: Final = 31


def report_xlsx(report: Report, lang: str, sheet_rows: int = SHEET_ROWS) -> Iterator[bytes]:
    """The workbook in pieces.  It is built in a file, which is gone when the last piece was read."""
    with tempfile.TemporaryDirectory(prefix="millpond-report-") as folder:
        path = Path(folder) / "report.xlsx"
        options = {
            "constant_memory": True, "tmpdir": folder, "strings_to_formulas": False, "strings_to_urls": False,
            "strings_to_numbers": False,
        }  # fmt: skip
        with xlsxwriter.Workbook(str(path), options) as book:
            _Book(book, report, Texts(lang), sheet_rows).write()
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece


class _Book:
    def __init__(self, book: Any, report: Report, texts: Texts, sheet_rows: int) -> None:
        # Same content, same bytes: the time of making is no content.
        book.set_properties({"title": texts.title(report.kind), "created": datetime(2000, 1, 1)})  # noqa: DTZ001
        self._book = book
        self._report = report
        self._texts = texts
        self._limit = sheet_rows
        self._formats: dict[str, Any] = {}
        self._checks: list[tuple[str, str, list[str], Cell, Cell]] = []

    def write(self) -> None:
        self._summary()
        for section in self._report.sections:
            self._section(section)
        if self._checks:
            self._reconciliation()

    def _format(self, name: str, **fields: object) -> Any:
        if name not in self._formats:
            self._formats[name] = self._book.add_format({"valign": "top", **fields})
        return self._formats[name]

    def _summary(self) -> None:
        sheet = self._book.add_worksheet(self._texts("sheet.summary"))
        sheet.set_column(0, 0, 26)
        sheet.set_column(1, 1, 60)
        sheet.hide_gridlines(2)
        title = self._texts.title(self._report.kind)
        subject = f" · {self._report.subject}" if self._report.subject else ""
        sheet.write_string(0, 0, title + subject, self._format("title", bold=True, font_size=16))
        row = 2
        for fact in (*self._report.facts, *self._report.closing):
            row = self._fact(sheet, row, fact)
        for key in self._report.notes:
            row += 1
            sheet.merge_range(row, 0, row, 1, self._texts.note(key), self._format("note", text_wrap=True, italic=True))
            sheet.set_row(row, 32)

    def _fact(self, sheet: Any, row: int, fact: Fact) -> int:
        sheet.write_string(row, 0, self._texts.fact(fact.key), self._format("label", font_color="#5B6670"))
        self._cell(sheet, row, 1, fact.value, fact.kind, align="left")
        return row + 1

    def _section(self, section: Section) -> None:
        sums = Sums(section.fields)
        sheet, names = self._sheet(section, 1), [self._name(section, 1)]
        lasts = [0]
        for row in sums.passing(section.rows()):
            if lasts[-1] == self._limit:
                self._filtered(sheet, section, lasts[-1])
                names.append(self._name(section, len(names) + 1))
                sheet = self._sheet(section, len(names))
                lasts.append(0)
            lasts[-1] += 1
            self._row(sheet, lasts[-1], section.fields, row)
        self._filtered(sheet, section, lasts[-1])
        self._check(section, sums, names, lasts)

    def _check(self, section: Section, sums: Sums, names: list[str], lasts: list[int]) -> None:
        said = dict(section.said)
        found = sums.row() or tuple(None for _ in section.fields)
        for place, field in enumerate(section.fields):
            if not field.sums:
                continue
            column = xl_col_to_name(place)
            ranges = [f"'{name}'!{column}2:{column}{last + 1}" for name, last in zip(names, lasts, strict=True) if last]
            self._checks.append((section.key, field.key, ranges, found[place], said.get(field.key, found[place])))

    def _filtered(self, sheet: Any, section: Section, last: int) -> None:
        if last:
            sheet.autofilter(0, 0, last, len(section.fields) - 1)

    def _sheet(self, section: Section, number: int) -> Any:
        sheet = self._book.add_worksheet(self._name(section, number))
        sheet.freeze_panes(1, 0)
        for place, field in enumerate(section.fields):
            sheet.set_column(place, place, _WIDTHS.get(field.kind, 13))
        head = self._format("head", bold=True, bottom=1, text_wrap=True, bg_color="#F3F5F7")
        for place, field in enumerate(section.fields):
            sheet.write_string(0, place, self._texts.field(field.key), head)
        return sheet

    def _name(self, section: Section, number: int) -> str:
        tail = f" ({number})" if number > 1 else ""
        return self._texts.section(section.key).translate(_BAD)[: _NAME - len(tail)] + tail

    def _row(self, sheet: Any, at: int, fields: tuple[Field, ...], row: Row) -> None:
        for place, (value, field) in enumerate(zip(row, fields, strict=True)):
            self._cell(sheet, at, place, value, field.kind)

    def _cell(self, sheet: Any, row: int, column: int, value: Cell, kind: Kind, align: str = "") -> None:
        if value is None:
            return
        if isinstance(value, str):
            sheet.write_string(row, column, value, self._format(f"text{align}", text_wrap=bool(align)))
            return
        number, pattern = self._number(value, kind)
        style = self._format(f"{pattern}{align}", num_format=pattern, **({"align": align} if align else {}))
        if isinstance(number, datetime):
            sheet.write_datetime(row, column, number, style)
        else:
            sheet.write_number(row, column, number, style)

    def _number(self, value: Cell, kind: Kind) -> tuple[Any, str]:
        """A number or naive local time as a sheet keeps it (a double), and its pattern."""
        if isinstance(value, Money):
            places = value.currency.minor_units
            return value.amount, "#,##0" + ("." + "0" * places if places else "")
        if isinstance(value, datetime):
            return value.astimezone(self._report.zone).replace(tzinfo=None), "yyyy-mm-dd hh:mm:ss"
        if isinstance(value, date):
            return datetime.combine(value, time()), "yyyy-mm-dd"
        if isinstance(value, Fraction):
            return float(value), "0.0%"
        if isinstance(value, int) and kind is Kind.CARD_HOURS:
            return decimal_round(card_hours(value), CARD_HOUR_PLACES), "#,##0.0000"
        if isinstance(value, int) and kind is Kind.MILLI:
            return Decimal(value).scaleb(-3), "#,##0.000"
        return value, "#,##0"

    def _reconciliation(self) -> None:
        """What we say, what the reader's program sums, and the difference; money and counts must give 0 exactly.

        Card-hours on a sheet have four decimals each, so that their sum may be off by half of the last one a row.
        """
        sheet = self._book.add_worksheet(self._texts("sheet.reconciliation"))
        sheet.set_column(0, 4, 22)
        head = self._format("head", bold=True, bottom=1, text_wrap=True, bg_color="#F3F5F7")
        for place, key in enumerate(("table", "column", "said", "summed", "difference")):
            sheet.write_string(0, place, self._texts(f"reconcile.{key}"), head)
        for at, (section, field, ranges, found, said) in enumerate(self._checks, start=1):
            sheet.write_string(at, 0, self._texts.section(section))
            sheet.write_string(at, 1, self._texts.field(field))
            kind = next(
                item.kind for part in self._report.sections if part.key == section for item in part.fields
                if item.key == field
            )  # fmt: skip
            value, pattern = self._number(0 if said is None else said, kind)
            summed, _ = self._number(0 if found is None else found, kind)
            style = self._format(pattern, num_format=pattern)
            places = len(pattern.partition(".")[2])
            sheet.write_number(at, 2, value, style)
            sheet.write_formula(at, 3, f"=SUM({','.join(ranges)})" if ranges else "=0", style, summed)
            sheet.write_formula(at, 4, f"=ROUND(C{at + 1}-D{at + 1},{places})", style, value - summed)
