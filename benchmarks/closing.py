"""Closing a month: how long it takes to issue the invoices of many tenants, on the embedded PostgreSQL.

    python -m benchmarks.closing [--full]

Each tenant has an account, and the jobs are spread over them, so that a few have many and most have few.  What the
meter would have stored is made with SQL and not counted: for each job an attempt, and a bucket for each clock hour that
it ran.  Then the month is closed through the service that the API calls, page after page: lock, read, rate, number,
book, store, seal, tell.  The clock runs from the first page to the last.  A second run, which finds everything issued,
is a figure apart.  Afterwards the lines are summed again and compared with the invoices.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from benchmarks.figures import Figure, Mode, benchmark_main, progress
from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountRecord
from millpond.billing.currencies import currency_find
from millpond.billing.documents import document_check
from millpond.billing.money import Money
from millpond.billing.prices import PriceVersion
from millpond.db.embedded import EmbeddedPostgres
from millpond.db.schema import upgrade
from millpond.db.session import Database, Tx
from millpond.db.stores.accounts import account_add
from millpond.db.stores.prices import prices_add
from millpond.db.stores.tenants import tenant_create
from millpond.domain.records import Page
from millpond.metering.hours import instant
from millpond.services.deps import Services
from millpond.services.idempotency import once_make
from millpond.services.invoices import Closed, invoice_document, invoices_close

TENANTS = {"short": 100, "full": 1_000}
JOBS = {"short": 10_000, "full": 100_000}
PAGE = 50
MONTH = "2026-11"
START = datetime(2026, 10, 31, 16, tzinfo=UTC)
END = datetime(2026, 11, 30, 16, tzinfo=UTC)
NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)
AIM = 60.0
"""Seconds for a thousand tenants and a hundred thousand jobs."""

_JOBS = """
CREATE TEMPORARY TABLE run AS
SELECT 'j' || n AS job,
    't' || lpad(floor(%(tenants)s * power((n * 7919 %% %(jobs)s)::float / %(jobs)s, 2))::int::text, 4, '0') AS tenant,
    'p' || n %% 7 AS project, 'u' || n %% 23 AS username,
    (ARRAY['A800-80GB', 'H800-80GB', '910B-64GB'])[(1 + n %% 3)::int] AS sku,
    (ARRAY['prod', 'batch', 'besteffort'])[(1 + n / 3 %% 3)::int] AS class,
    (ARRAY[250, 1000, 2000, 8000])[(1 + n %% 4)::int] AS milli,
    %(start)s::timestamptz + make_interval(secs => (n * 104729 %% 2505600)::float) AS started_at,
    make_interval(secs => (300 + n * 15485863 %% 36000)::float) AS lasted
FROM generate_series(1::bigint, %(jobs)s) n
"""
_BUCKETS = """
INSERT INTO usage_buckets (tenant, job, attempt, project, username, sku, class, service, booked, hour, milli_seconds,
    lost_milli_seconds)
SELECT tenant, job, 1, project, username, sku, class, false, hour, hour, milli * extract(epoch FROM
    least(started_at + lasted, hour + interval '1 hour') - greatest(started_at, hour))::bigint, 0
FROM run, generate_series(date_trunc('hour', started_at), started_at + lasted - interval '1 second', '1 hour') hour
WHERE least(started_at + lasted, hour + interval '1 hour') > greatest(started_at, hour)
"""
_MARK = "INSERT INTO meter_mark (id, cursor, settled_until) VALUES (1, 0, %s)"


def fill(database: Database, tenants: int, jobs: int) -> int:
    """Accounts, a price list, and a month of metered use; how many buckets."""
    unit = currency_find("CNY")
    versions = [
        PriceVersion("list", sku, klass, Money(Decimal(price), unit), instant(START))
        for sku, base in (("A800-80GB", 12), ("H800-80GB", 20), ("910B-64GB", 9))
        for klass, price in (("prod", f"{base}.00"), ("batch", f"{base - 3}.50"), ("besteffort", f"{base - 6}.00"))
    ]

    def people(tx: Tx) -> None:
        for number in range(tenants):
            tenant = f"t{number:04}"
            tenant_create(tx, SYSTEM, tenant)
            account_add(tx, SYSTEM, AccountRecord(tenant, unit, "Asia/Shanghai", START, START, Decimal("0.06")))
        prices_add(tx, SYSTEM, "", versions, START)

    def use(tx: Tx) -> int:
        tx.exec_driver_sql(_JOBS, {"tenants": tenants, "jobs": jobs, "start": START})
        count = tx.exec_driver_sql(_BUCKETS).rowcount
        tx.exec_driver_sql(_MARK, (NOW,))
        return count

    database.run("people", people)
    buckets = database.run("use", use)
    database.run("analyze", lambda tx: tx.exec_driver_sql("ANALYZE usage_buckets, accounts, prices"))
    return buckets


def close(services: Services) -> tuple[float, list[Closed]]:
    """Every page; seconds, and what became of each account."""
    done: list[Closed] = []
    after = ""

    def render(page: Page[Closed]) -> object:
        done.extend(page.items)
        return page.next

    begin = time.perf_counter()
    while True:
        before = len(done)
        once = once_make("", "close", after)
        invoices_close(services, SYSTEM, MONTH, (after, PAGE), once, render)
        if len(done) - before < PAGE:
            return time.perf_counter() - begin, done
        after = done[-1].tenant


def run(mode: Mode) -> list[Figure]:
    tenants, jobs = TENANTS[mode], JOBS[mode]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millpond-closing-")))
        server = EmbeddedPostgres(folder / "postgres", folder / "run")
        stack.callback(server.stop)
        url = server.ensure()
        upgrade(url)
        database = Database(url, statement_timeout_s=600)
        stack.callback(database.close)
        progress(f"filling {tenants:,} accounts with {jobs:,} jobs")
        buckets = fill(database, tenants, jobs)
        services = Services(database, None, lambda: NOW, os.urandom)
        seconds, done = close(services)
        records = [one.invoice for one in done if one.invoice is not None]
        lines = sum(record.lines for record in records)
        if any(one.problem for one in done) or lines != jobs:
            raise RuntimeError(f"{lines} lines of {jobs} jobs: {[one.problem for one in done if one.problem][:3]}")
        again, _ = close(services)
        largest = max(records, key=lambda record: record.lines)
        document_check(invoice_document(services, SYSTEM, largest.number))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    note = f"{len(records):,} invoices, {lines:,} lines, {buckets:,} buckets, {PAGE} accounts a transaction"
    return [
        Figure(
            "close",
            f"a month of {tenants:,} tenants, {jobs:,} jobs",
            seconds,
            "s",
            aim=AIM if mode == "full" else None,
            note=note,
        ),
        Figure("close", "lines issued", lines / seconds, "/s", better="more"),
        Figure("close", "the same again", again, "s", note="everything is issued already; nothing changes"),
        Figure(
            "close", "peak memory of the server", peak, "MiB", note=f"the largest invoice has {largest.lines:,} lines"
        ),
    ]


if __name__ == "__main__":
    sys.exit(benchmark_main("closing", run))
