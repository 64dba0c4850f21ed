"""What `rate` found: JSON with sorted keys, or tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from millpond.billing.money import decimal_round_text
from millpond.billing.pipeline import Pipeline
from millpond.billing.rating import Line, LineKey, Unrated, card_hours
from millpond.cli.output import Cell, Column, Row
from millpond.cli.session import Session
from millpond.metering.alarms import Alarm
from millpond.metering.buckets import Bucket
from millpond.metering.hours import Hours

MAX_ROWS = 5_000
"""More lines than this are for machines."""

OWNER = (Column("project"), Column("user"), Column("job", fold=True), Column("model"), Column("class"))
HOURS = (Column("card_hours", right=True),)
LINES = (*OWNER, Column("price_version"), *HOURS, Column("amount", right=True))
UNRATED = (*OWNER, *HOURS)
ALARMS = (Column("alarm"), Column("time"), Column("job"), Column("attempt", right=True), Column("detail", fold=True))


def rating_json(pipeline: Pipeline) -> Iterator[str]:
    """Lines of one JSON object, a row on each; rows are made as they are read."""
    hours = pipeline.hours
    yield '{"alarms": ['
    yield from _rows(_alarm_json(alarm, hours) for alarm in pipeline.alarms())
    yield '], "buckets": ['
    yield from _rows(_bucket_json(bucket, hours) for bucket in pipeline.buckets())
    totals = pipeline.totals()
    invoice = {
        "currency": totals.currency.code,
        "net": totals.net.text(),
        "tax": totals.tax.text(),
        "total": totals.total.text(),
    }
    yield f'], "invoice": {_json(invoice)}, "lines": ['
    yield from _rows(_line_json(line) for line in pipeline.lines())
    yield '], "unrated": ['
    yield from _rows(_unrated_json(line) for line in pipeline.unrated())
    yield "]}"


def _rows(values: Iterable[Mapping[str, object]]) -> Iterator[str]:
    before = None
    for value in values:
        if before is not None:
            yield before + ","
        before = _json(value)
    if before is not None:
        yield before


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _bucket_json(bucket: Bucket, hours: Hours) -> dict[str, object]:
    return {
        "hour": hours.text(bucket.hour),
        "job": bucket.job,
        "attempt": bucket.attempt,
        "sku": bucket.sku,
        "milli_seconds": bucket.milli_seconds,
        "lost_milli_seconds": bucket.lost_milli_seconds,
    }


def _key_json(key: LineKey, billed: int, minimum: int) -> dict[str, object]:
    value: dict[str, object] = {
        "project": key.project,
        "user": key.user,
        "job": key.job,
        "sku": key.sku,
        "class": key.klass,
        "billed_milli_seconds": billed,
        "card_hours": decimal_round_text(card_hours(billed), 4),
    }
    if minimum:
        value["minimum_milli_seconds"] = minimum
    return value


def _line_json(line: Line) -> dict[str, object]:
    value = _key_json(line.key, line.billed, line.minimum)
    return {**value, "price_version": line.key.version, "amount": line.amount.text()}


def _unrated_json(line: Unrated) -> dict[str, object]:
    return _key_json(line.key, line.billed, line.minimum)


def _alarm_json(alarm: Alarm, hours: Hours) -> dict[str, object]:
    value: dict[str, object] = {
        "code": alarm.code.value,
        "time": hours.text(alarm.time),
        "job": alarm.job,
        "attempt": alarm.attempt,
        "message": alarm.text,
    }
    if alarm.fact:
        value["fact"] = alarm.fact
    if alarm.card:
        value["card"] = alarm.card
    if alarm.others:
        value["others"] = [{"job": job, "attempt": attempt} for job, attempt in alarm.others]
    return value


def rating_write(session: Session, pipeline: Pipeline) -> None:
    """Lines, what has no price, alarms, the invoice; short lists only, the rest is for ``--json``."""
    output, texts = session.output, session.texts
    totals, currency = pipeline.totals(), pipeline.account.currency.code
    _table(session, LINES, ([*_owner(line.key), *_sums(line)] for line in pipeline.lines()), texts("rate.no_lines"))
    unrated = list(islice(pipeline.unrated(), MAX_ROWS + 1))
    if unrated:
        output.line()
        output.note(texts("rate.unrated", count=len(unrated)), "yellow")
        hours = ([*_owner(line.key), decimal_round_text(card_hours(line.billed), 4)] for line in unrated)
        _table(session, UNRATED, hours, "")
    if pipeline.alarms():
        output.line()
        output.note(texts("rate.alarms", count=len(pipeline.alarms())), "red")
        _table(session, ALARMS, (_alarm_row(alarm, pipeline.hours) for alarm in pipeline.alarms()), "")
    lost = sum(bucket.lost_milli_seconds for bucket in pipeline.buckets())
    output.line()
    output.fields(
        [
            ("period", pipeline.period.name),
            ("account", pipeline.account.name),
            ("lost_work", decimal_round_text(card_hours(lost), 4) if lost else ""),
            ("net", f"{totals.net.text()} {currency}"),
            ("tax", f"{totals.tax.text()} {currency}"),
            ("total", Cell(f"{totals.total.text()} {currency}", "bold")),
        ]
    )


def _table(session: Session, columns: tuple[Column, ...], rows: Iterable[Row], empty: str) -> None:
    shown = list(islice(rows, MAX_ROWS + 1))
    if not shown:
        session.output.note(empty)
        return
    session.output.table(columns, shown[:MAX_ROWS])
    if len(shown) > MAX_ROWS:
        session.output.note(session.texts("rate.rows_hidden", count=MAX_ROWS), "yellow")


def _owner(key: LineKey) -> list[str]:
    return [key.project, key.user, key.job, key.sku, key.klass]


def _sums(line: Line) -> list[str]:
    return [line.key.version, decimal_round_text(card_hours(line.billed), 4), line.amount.text()]


def _alarm_row(alarm: Alarm, hours: Hours) -> Row:
    return [Cell(alarm.code.value, "red"), hours.text(alarm.time), alarm.job, str(alarm.attempt), alarm.text]
