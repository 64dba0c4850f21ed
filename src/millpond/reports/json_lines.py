"""JSON lines: the whole report for machines, and what the command line draws its tables from.

First a line about the report, then for each section a line about it, its rows, and its sums; at last ``{"end": true}``,
so that whoever reads it knows that nothing was cut off.  Amounts and card-hours are strings; card time also comes as
the integer that it is made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from millpond.billing.money import Money
from millpond.reports.cells import cell_shown, cell_text
from millpond.reports.tables import Cell, Kind, Report, Row, Section, Sums
from millpond.reports.texts import Texts

_CHUNK = 65_536


def report_json(report: Report, lang: str) -> Iterator[bytes]:
    """One JSON object a line, in UTF-8."""
    texts = Texts(lang)
    yield _line(
        {
            "report": report.kind,
            "title": texts.title(report.kind),
            "subject": report.subject,
            "facts": [
                {
                    "key": fact.key,
                    "label": texts.fact(fact.key),
                    "value": _value(report, fact.value, fact.kind),
                    "text": cell_shown(fact.value, fact.kind, report.zone),
                }
                for fact in (*report.facts, *report.closing)
            ],
            "notes": [texts.note(key) for key in report.notes],
        }
    )
    rows = 0
    for section in report.sections:
        sums = Sums(section.fields)
        yield _line(
            {
                "section": section.key,
                "title": texts.section(section.key),
                "fields": [
                    {"key": field.key, "label": texts.field(field.key), "kind": field.kind.value}
                    for field in section.fields
                ],
            }
        )
        yield from _rows(report, section, sums)
        rows += sums.count
        total = sums.row()
        if total is not None:
            yield _line({"total": section.key, "label": texts("total"), "row": _object(report, section, total)})
    yield _line({"end": True, "rows": rows})


def _rows(report: Report, section: Section, sums: Sums) -> Iterator[bytes]:
    kept: list[bytes] = []
    size = 0
    for row in sums.passing(section.rows()):
        line = _line({"row": _object(report, section, row)})
        kept.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield b"".join(kept)
            kept, size = [], 0
    yield b"".join(kept)


def _object(report: Report, section: Section, row: Row) -> dict[str, object]:
    made: dict[str, object] = {}
    for value, field in zip(row, section.fields, strict=True):
        made[field.key] = _value(report, value, field.kind)
        if field.kind is Kind.CARD_HOURS:
            made[f"{field.key}_milli_seconds"] = value
        if isinstance(value, Money):
            made.setdefault("currency", value.currency.code)
    return made


def _value(report: Report, value: Cell, kind: Kind) -> object:
    if value is None or (isinstance(value, int) and kind not in (Kind.CARD_HOURS, Kind.MILLI)):
        return value
    return cell_text(value, kind, report.zone)


def _line(value: dict[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
