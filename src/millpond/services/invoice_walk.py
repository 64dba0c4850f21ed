"""The auditor's walk: from a line of an issued invoice to its buckets, attempts, events and price version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from millpond.authz.actors import SYSTEM, Actor
from millpond.billing.documents import DocumentLine
from millpond.billing.prices import PriceRecord
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_get
from millpond.db.stores.events import event_list
from millpond.db.stores.invoices import invoice_get, invoice_line, invoice_line_whole
from millpond.db.stores.prices import price_list
from millpond.db.stores.usage import BucketRecord, attempt_list, job_buckets
from millpond.domain.names import attempt_id
from millpond.domain.records import EventRecord
from millpond.metering.attempts import AttemptUsage
from millpond.metering.hours import instant
from millpond.services.deps import Services

WalkBucket: TypeAlias = BucketRecord
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class LineWalk:
    """``adds_up``: whether the buckets sum to what the line bills, its minimum apart."""

    invoice: str
    line: DocumentLine
    price: PriceRecord | None
    buckets: tuple[BucketRecord, ...]
    attempts: tuple[AttemptUsage, ...]
    events: tuple[EventRecord, ...]
    adds_up: bool


def line_explain(deps: Services, actor: Actor, name: str, number: int) -> LineWalk:
    """All that a line was made of, of one moment."""

    def work(tx: Tx) -> LineWalk:
        record = invoice_get(tx, actor, name)
        line = invoice_line(tx, SYSTEM, record, number)
        account = account_get(tx, SYSTEM, record.account)
        buckets = job_buckets(
            tx,
            SYSTEM,
            record.account,
            line.job,
            (record.starts_at, record.ends_at),
            (line.start, line.end),
            (line.project, line.user, line.sku, line.klass),
        )
        attempts = attempt_list(tx, SYSTEM, record.account, line.job)
        met = {bucket.attempt for bucket in buckets}
        used = tuple(attempt for attempt in attempts if attempt.attempt in met)
        lost = 0 if account.bill_lost_work else sum(bucket.lost_milli_seconds for bucket in buckets)
        billed = sum(bucket.milli_seconds for bucket in buckets) - lost
        return LineWalk(
            record.number,
            line,
            _price(tx, record.account, line),
            buckets,
            used,
            _events(tx, record.account, line.job, used),
            billed == invoice_line_whole(tx, SYSTEM, record, line),
        )

    return deps.database.run("line_explain", work, snapshot=True)


def _price(tx: Tx, tenant: str, line: DocumentLine) -> PriceRecord | None:
    """The version that the line names, as it was added."""
    found = [
        record
        for record in price_list(tx, SYSTEM, tenant)
        if record.version.version == line.version
        and record.version.price.currency == line.net.currency
        and record.version.covers(line.sku, line.klass)
        and record.version.start <= instant(line.end)
    ]
    return max(found, key=lambda record: record.version.names) if found else None


def _events(tx: Tx, tenant: str, job: str, attempts: tuple[AttemptUsage, ...]) -> tuple[EventRecord, ...]:
    """Events of those attempts, between the first that the meter names and the last."""
    if not attempts:
        return ()
    wanted = {attempt_id(job, attempt.attempt) for attempt in attempts}
    named = {number for attempt in attempts for number in (attempt.start_event, attempt.end_event)}
    found: list[EventRecord] = []
    after = min(attempt.start_event for attempt in attempts) - 1
    while True:
        page = event_list(tx, SYSTEM, after, _PAGE, tenant=tenant, job=job)
        found += [event for event in page.items if event.attempt in wanted or event.sequence in named]
        if not page.next:
            return tuple(found)
        after = int(page.next)
