"""CSV: a table after the other, with a blank line between; the first bytes say UTF-8, or Excel would guess wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from millpond.reports.cells import cell_text
from millpond.reports.tables import Report, Section
from millpond.reports.texts import Texts

BOM = b"\xef\xbb\xbf"
_CHUNK = 65_536
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def report_csv(report: Report, lang: str) -> Iterator[bytes]:
    """RFC 4180 with a head line for each table.  Facts are not in it: CSV is for the figures.

    A text that a spreadsheet would run as a formula is written with an apostrophe before it.
    """
    texts = Texts(lang)
    yield BOM
    for index, section in enumerate(report.sections):
        if index:
            yield b"\r\n"
        if len(report.sections) > 1:
            yield _lines([[texts.section(section.key)]])
        yield _lines([[texts.field(field.key) for field in section.fields]])
        yield from _chunks(_cells(report, section))


def _cells(report: Report, section: Section) -> Iterator[list[str]]:
    for row in section.rows():
        cells = []
        for value, field in zip(row, section.fields, strict=True):
            text = cell_text(value, field.kind, report.zone)
            cells.append(f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text)
        yield cells


def _lines(rows: Iterable[list[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue().encode()


def _chunks(rows: Iterable[list[str]]) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    for row in rows:
        writer.writerow(row)
        if buffer.tell() >= _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()
