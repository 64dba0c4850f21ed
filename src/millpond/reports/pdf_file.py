"""PDF by Typst: what is on the page is data, how it looks is ``document.typ``.

The fonts that a page needs are embedded, Chinese ones too.  Typst brings Latin ones; for Chinese the machine must have
a font (Debian and Ubuntu: ``fonts-noto-cjk``), and without one a page with Chinese on it is refused: boxes instead of
names are no bill.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Final

import typst

from millpond.domain.errors import Refused
from millpond.reports.cells import cell_shown
from millpond.reports.tables import Fact, Kind, Report, Row, Section, Sums
from millpond.reports.texts import Texts

CHINESE: Final = ("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Zen Hei")
"""Families that have the characters, the first one found is used."""

LATIN: Final = "Libertinus Serif"
PDF_ROWS: Final = 20_000
"""Rows that a PDF may have; a page holds about forty."""

_RIGHT = frozenset({Kind.COUNT, Kind.CARD_HOURS, Kind.MONEY, Kind.PRICE, Kind.RATIO, Kind.SECONDS, Kind.MILLI})


def report_pdf(report: Report, lang: str) -> Iterator[bytes]:
    """The pages.  `Refused` for more than `PDF_ROWS` rows, and where a font for Chinese is missing."""
    texts = Texts(lang)
    data = {
        "lang": lang,
        "title": texts.title(report.kind),
        "subject": report.subject,
        "facts": _facts(report, texts, report.facts),
        "closing": _facts(report, texts, report.closing),
        "sections": [_section(report, texts, section) for section in report.sections],
        "notes": [texts.note(key) for key in report.notes],
        "signed": [texts(f"sign.{key}") for key in ("prepared", "checked", "approved")] if report.signed else [],
        "page": texts("page"),
        "empty": texts("empty"),
    }
    text = json.dumps(data, ensure_ascii=False)
    fonts = [*font_families(chinese=_chinese(text))]
    template = files("millpond.reports").joinpath("document.typ").read_bytes()
    yield typst.compile(template, sys_inputs={"data": text, "fonts": json.dumps(fonts)}, format="pdf", timestamp=0)


def font_families(*, chinese: bool) -> tuple[str, ...]:
    """Families for a page, the Chinese one last.  `Refused` where `chinese` is needed and there is none."""
    found = [family for family in CHINESE if family in _families()]
    if chinese and not found:
        raise Refused(
            "this machine has no font for Chinese, which the PDF needs",
            hint="on Debian or Ubuntu: apt-get install fonts-noto-cjk; XLSX and CSV need none",
            code="FONT_MISSING",
        )
    return (LATIN, *found[:1])


@cache
def _families() -> frozenset[str]:
    return frozenset(typst.Fonts().families())


def _chinese(text: str) -> bool:
    return any(ord(character) > 0x2E7F and unicodedata.east_asian_width(character) in "WF" for character in text)


def _facts(report: Report, texts: Texts, facts: Sequence[Fact]) -> list[list[str]]:
    return [[texts.fact(fact.key), cell_shown(fact.value, fact.kind, report.zone)] for fact in facts]


def _section(report: Report, texts: Texts, section: Section) -> dict[str, object]:
    sums = Sums(section.fields)
    rows = list(islice(sums.passing(section.rows()), PDF_ROWS + 1))
    if len(rows) > PDF_ROWS:
        raise Refused(
            f"{texts.section(section.key)!r} has more than {PDF_ROWS} rows, too many for a PDF",
            hint="take it as xlsx or csv, or a shorter period",
            code="TOO_LONG",
        )
    total = sums.row()
    return {
        "title": texts.section(section.key),
        "heads": [texts.field(field.key) for field in section.fields],
        "right": [field.kind in _RIGHT for field in section.fields],
        "rows": [_row(report, section, row) for row in rows],
        "total": [texts("total"), *_row(report, section, total)[1:]] if total is not None and len(rows) > 1 else [],
    }


def _row(report: Report, section: Section, row: Row) -> list[str]:
    return [cell_shown(value, field.kind, report.zone) for value, field in zip(row, section.fields, strict=True)]
