"""The lines and the invoice of `benchmarks.rating` as one SQL query, for DuckDB: the mark where it is installed.

The same rules as the product's: ids once, lost work, never-saving jobs, price versions, one rounding a line.  It makes
no hourly buckets and finds no alarms.  A test runs the query in SQLite against the product.
"""

from __future__ import annotations

import csv
import importlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from millpond.billing.prices import PriceBook
from millpond.metering.facts import Event, Fact
from millpond.metering.hours import Period
from millpond.metering.meter import FAULTS, LOSING

COLUMNS = "id, time, event, job, attempt, reason, milli, sku, class, project, owner"

TABLES = """
CREATE TABLE facts (id TEXT, time BIGINT, event TEXT, job TEXT, attempt BIGINT, reason TEXT, milli BIGINT, sku TEXT,
                    class TEXT, project TEXT, owner TEXT);
CREATE TABLE prices (version TEXT, sku TEXT, minor BIGINT, begins BIGINT, ends BIGINT)
"""

_QUERY = """
WITH once AS (
    SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY time) AS told FROM facts) AS numbered
    WHERE told = 1
), saves AS (
    SELECT job, attempt, max(time) AS saved FROM once WHERE event = 'checkpointed' GROUP BY job, attempt
), savers AS (
    SELECT DISTINCT job FROM saves
), ends AS (
    SELECT job, attempt, time, reason FROM once WHERE event = 'ended'
), runs AS (
    SELECT s.job, s.milli, s.sku, s.class, s.project, s.owner, s.time AS start,
           CASE WHEN e.reason IN ({losing}) AND (e.reason IN ({faults}) OR k.job IS NOT NULL)
                THEN coalesce(c.saved, s.time) ELSE coalesce(e.time, {end}) END AS good
    FROM once AS s
    LEFT JOIN ends AS e ON e.job = s.job AND e.attempt = s.attempt
    LEFT JOIN saves AS c ON c.job = s.job AND c.attempt = s.attempt
    LEFT JOIN savers AS k ON k.job = s.job
    WHERE s.event = 'started' AND coalesce(e.reason, '') <> 'start_failed'
), pieces AS (
    SELECT r.*, p.version, p.minor,
           {least}(r.good, p.ends, {end}) - {greatest}(r.start, p.begins, {begin}) AS seconds
    FROM runs AS r JOIN prices AS p ON p.sku = r.sku
), lines AS (
    SELECT project, owner, job, sku, class, version, sum(milli * seconds) AS billed,
           2 * sum(milli * seconds) * max(minor) + 3600000 AS doubled
    FROM pieces WHERE seconds > 0 GROUP BY project, owner, job, sku, class, version
)
SELECT count(*), sum(billed), sum((doubled - doubled % 7200000) / 7200000) FROM lines
"""


def query(period: Period, least: str = "least", greatest: str = "greatest") -> str:
    """Lines, milli-card-seconds and net amount in smallest units.  SQLite calls the two functions min and max."""
    return _QUERY.format(
        losing=_words(LOSING), faults=_words(FAULTS), begin=period.start, end=period.end, least=least, greatest=greatest
    )


def _words(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


def fact_rows(facts: Iterable[Fact]) -> Iterator[tuple[object, ...]]:
    """Facts as rows of `COLUMNS`."""
    names = {event: event.name.lower() for event in Event}
    for fact in facts:
        shape = fact.shape
        owner = (None,) * 5 if shape is None else (shape.milli, shape.sku, shape.klass, shape.project, shape.user)
        reason = None if fact.reason is None else fact.reason.value
        yield (fact.id, fact.time, names[fact.event], fact.job, fact.attempt, reason, *owner)


def price_rows(book: PriceBook) -> list[tuple[object, ...]]:
    """Versions for every class, whole smallest units an hour."""
    return [(item.version, item.sku, item.price.minor(), item.start, item.until) for item in book.versions]


def duckdb_rate(facts: Iterable[Fact], book: PriceBook, period: Period, threads: int = 2) -> tuple[float, int]:
    """(seconds, net in smallest units) of reading the facts from a CSV file and of the query, on `threads` cores."""
    duckdb: Any = importlib.import_module("duckdb")
    with tempfile.TemporaryDirectory(prefix="millpond-rating-") as folder:
        path = Path(folder) / "facts.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(fact_rows(facts))
        connection = duckdb.connect()
        connection.execute(f"SET threads TO {int(threads)}")
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.executemany("INSERT INTO prices VALUES (?, ?, ?, ?, ?)", price_rows(book))
        begin = time.perf_counter()
        connection.execute(f"COPY facts FROM '{path}' (FORMAT csv, HEADER false)")
        _, _, net = connection.execute(query(period)).fetchone()
        spent = time.perf_counter() - begin
        connection.close()
    return spent, int(net)
