"""``millpond report``: reports on the terminal, or as PDF, XLSX, CSV and JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from millpond.cli.file_write import file_write_check, pieces_write
from millpond.cli.lazy import group, option, verb
from millpond.cli.output import Column
from millpond.cli.session import Session

FORMATS = ("json", "csv", "xlsx", "pdf")
GROUPS = ("team", "project", "user", "model", "job", "day")
SUFFIX = {"json": "jsonl", "focus": "focus.csv"}
RIGHT = frozenset({"count", "card_hours", "milli", "money", "price", "ratio", "seconds"})
SHOWN = 200
"""Rows of a table that are shown to people; files have them all."""

report = group("report", default="usage")


def filed(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Options of every report: how it is written, and where to."""
    made = option("-o", "--output", "path", metavar="FILE", default="", help="report.output")(function)
    return option("--format", "form", type=click.Choice(FORMATS), default=None, help="report.format")(made)  # type: ignore[no-any-return]


def dated(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Options of reports that are about a month."""
    made = option("--zone", metavar="ZONE", default="", help="report.zone")(filed(function))
    return option("--month", metavar="MONTH", default="", help="report.month")(made)  # type: ignore[no-any-return]


@verb(report, "usage")
@option("--by", type=click.Choice(GROUPS), default="project", help="report.by")
@dated
def report_usage(session: Session, form: str | None, path: str, by: str, **wish: str) -> None:
    """Card-hours by team, project, user, model, job or day."""
    _report(session, "usage", form, path, by=by, **wish)


@verb(report, "metering")
@dated
def report_metering(session: Session, form: str | None, path: str, **wish: str) -> None:
    """The report that people sign."""
    _report(session, "metering", form, path, **wish)


@verb(report, "waits")
@dated
def report_waits(session: Session, form: str | None, path: str, **wish: str) -> None:
    """P50 and P95 by queue."""
    _report(session, "waits", form, path, **wish)


@verb(report, "burndown")
@filed
def report_burndown(session: Session, form: str | None, path: str) -> None:
    """Budgets with their forecast."""
    _report(session, "burndown", form, path)


@verb(report, "idle")
@dated
def report_idle(session: Session, form: str | None, path: str, **wish: str) -> None:
    """Allocated, idle and down: the audit of the month."""
    _report(session, "idle", form, path, **wish)


@verb(report, "health")
@dated
def report_health(session: Session, form: str | None, path: str, **wish: str) -> None:
    """Nodes, cards, and how attempts ended."""
    _report(session, "health", form, path, **wish)


@verb(report, "inventory")
@filed
def report_inventory(session: Session, form: str | None, path: str) -> None:
    """Every card."""
    _report(session, "inventory", form, path)


@verb(report, "policy")
@filed
def report_policy(session: Session, form: str | None, path: str) -> None:
    """The configuration that is in force, as a document."""
    _report(session, "policy", form, path)


@verb(report, "tco")
@option("--server-price", metavar="AMOUNT", required=True, help="report.server_price")
@option("--power-kw", metavar="KW", required=True, help="report.power_kw")
@option("--energy", metavar="AMOUNT", required=True, help="report.energy")
@option("--yearly", metavar="AMOUNT", required=True, help="report.yearly")
@option("--cards", type=click.IntRange(1, 1_000_000), default=8, help="report.cards")
@option("--years", type=click.IntRange(1, 30), default=3, help="report.years")
@option("--residual", metavar="PART", default="0.10", help="report.residual")
@option("--pue", metavar="NUMBER", default="1.3", help="report.pue")
@option("--rental", metavar="AMOUNT", default="", help="report.rental")
@option("--currency", metavar="CODE", default="CNY", help="report.currency")
@filed
def report_tco(session: Session, form: str | None, path: str, server_price: str, **given: object) -> None:
    """Own cards beside rented ones."""
    _report(session, "tco", form, path, server=server_price, **given)


def _report(session: Session, kind: str, form: str | None, path: str, **wish: object) -> None:
    wish["lang"] = session.texts.lang
    if kind not in ("tco", "inventory", "policy", "health", "idle"):
        wish["tenant"] = session.tenant
    if form is None and not path:
        _shown(session, session.client.reports.lines(kind, **wish))
        return
    form = form or form_of(path)
    pieces_put(session, path or _name(kind, form, wish), lambda: session.client.reports.file(kind, form, **wish))


def form_of(path: str) -> str:
    """The format that a file's name says; a usage error for one that says none."""
    for form in ("focus", *FORMATS):
        if path.lower().endswith("." + SUFFIX.get(form, form)):
            return form
    return "json"


def pieces_put(session: Session, path: str, pieces: Callable[[], Iterable[bytes]]) -> None:
    """Write a file that is whole or not at all; ``-`` is the standard output."""
    if path == "-":
        for piece in pieces():
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    file_write_check(path)
    size = pieces_write(path, pieces())
    if session.json:
        session.output.data({"file": path, "bytes": size})
    else:
        session.output.note(session.texts("report.written", path=path, size=size))


def _name(kind: str, form: str, wish: dict[str, object]) -> str:
    if form in ("csv", "json"):
        return "-"
    parts = [kind, *(str(wish[key]) for key in ("tenant", "month") if wish.get(key))]
    return f"{'-'.join(parts)}.{form}"


def _shown(session: Session, lines: Iterator[dict[str, Any]]) -> None:
    """Tables for people, the lines as they are for machines."""
    if session.json:
        for line in lines:
            session.output.record(line)
        return
    columns: list[tuple[str, Column]] = []
    rows: list[dict[str, Any]] = []
    hidden = 0
    for line in lines:
        if "report" in line:
            _head(session, line)
        elif "row" in line and "total" not in line:
            if len(rows) < SHOWN:
                rows.append(line["row"])
            else:
                hidden += 1
        elif "total" in line and len(rows) > 1:
            # Its first column has a name in every other row, and no sum.
            rows.append({**line["row"], columns[0][0]: line.get("label", "")})
        if "section" in line or "end" in line:
            _table(session, columns, rows, hidden)
            columns, rows, hidden = [], [], 0
        if "section" in line:
            session.output.line()
            session.output.heading(line["title"])
            columns = [
                (field["key"], Column(field["key"], right=field["kind"] in RIGHT, fold=field["kind"] == "text",
                                      title=field["label"]))
                for field in line["fields"]
            ]  # fmt: skip


def _head(session: Session, line: dict[str, Any]) -> None:
    session.output.heading(f"{line['title']} {line['subject']}".strip())
    for fact in line["facts"]:
        session.output.line(f"{fact['label']}: {fact['text']}")
    for note in line["notes"]:
        session.output.note(note, "dim")


def _table(session: Session, columns: list[tuple[str, Column]], rows: list[dict[str, Any]], hidden: int) -> None:
    if not columns:
        return
    if not rows:
        session.output.note(session.texts("report.empty"))
        return
    # A column that nothing stands in is left out: nobody measures utilisation yet, and screens are narrow.
    kept = [(key, column) for key, column in columns if any(row.get(key) not in (None, "") for row in rows)]
    cells = [[_text(row.get(key)) for key, _ in kept] for row in rows]
    session.output.table([column for _, column in kept], cells)
    if hidden:
        session.output.note(session.texts("report.hidden", count=hidden))


def _text(value: object) -> str:
    return "" if value is None else str(value)
