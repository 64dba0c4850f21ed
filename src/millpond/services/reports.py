"""Reports: read in one moment, written into a file of their own, and only then sent.

So a slow reader holds no transaction, an error is an error and not half a file, and a million rows need no memory.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import IO

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.billing.accounts import AccountRecord
from millpond.billing.tco import TcoGiven
from millpond.db.session import Tx
from millpond.db.stores import occupancy as occupancy_store
from millpond.db.stores import reports as store
from millpond.db.stores.accounts import account_get, accounts_get
from millpond.db.stores.attempts import attempts_live
from millpond.db.stores.nodes import node_list
from millpond.db.stores.prices import price_book, price_list
from millpond.domain.errors import InvalidInput
from millpond.domain.records import NodeRecord
from millpond.metering.conservation import conservation
from millpond.metering.hours import Period, days_of, instant, moment_of, month_period
from millpond.metering.occupancy import occupancy, occupancy_sum
from millpond.reports.budgets import burndown_report
from millpond.reports.costs import tco_report
from millpond.reports.idle import idle_report, list_prices
from millpond.reports.policy import policy_report
from millpond.reports.pool import Ended, health_report, inventory_report
from millpond.reports.rendering import MEDIA, SUFFIX, Format, invoice_render, report_render
from millpond.reports.tables import Fact, Kind, Report
from millpond.reports.usage import By, Counts, metering_report, usage_report
from millpond.reports.waits import Blocked, Waits, waits_report
from millpond.services.budgets import BudgetSheet, budget_list
from millpond.services.burndown import burning_read
from millpond.services.deps import Services
from millpond.services.invoices import invoice_document, month_bill
from millpond.services.planning import pool_of, pool_world
from millpond.services.queues import job_milli
from millpond.services.standing import Standings
from millpond.zones import zone_find

_CHUNK = 262_144
_IN_MEMORY = 1_048_576


class ReportKind(StrEnum):
    """``metering`` is of one tenant; ``idle``, ``health``, ``inventory``, ``policy`` and ``tco`` of the pool."""

    USAGE = "usage"
    METERING = "metering"
    WAITS = "waits"
    BURNDOWN = "burndown"
    IDLE = "idle"
    HEALTH = "health"
    INVENTORY = "inventory"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class ReportWish:
    """``month`` empty: this month; ``zone`` empty: the tenant's account's, else UTC; ``tenant`` empty: all visible."""

    kind: ReportKind
    form: Format
    month: str = ""
    tenant: str = ""
    zone: str = ""
    by: By = By.PROJECT
    lang: str = "en"


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A whole file, open at its beginning.  Reading `pieces` to the end, or dropping it, takes it away."""

    name: str
    media: str
    file: IO[bytes]

    def pieces(self) -> Iterator[bytes]:
        with self.file:
            while piece := self.file.read(_CHUNK):
                yield piece


@dataclass(frozen=True, slots=True)
class _Time:
    """The period of a report, and the facts that say so."""

    period: Period
    zone: tzinfo
    span: tuple[datetime, datetime]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class _Beside:
    """What is known before the report's transaction: jobs that wait now, and how budgets stand."""

    blocked: tuple[Blocked, ...]
    sheets: tuple[BudgetSheet, ...]


def report_file(deps: Services, standings: Standings, actor: Actor, wish: ReportWish) -> ReportFile:
    """A report in the format that was asked for."""
    store.report_tenants(actor, wish.tenant)
    blocked = _blocked(standings, actor, wish) if wish.kind is ReportKind.WAITS else ()
    sheets = budget_list(deps, actor, wish.tenant) if wish.kind is ReportKind.BURNDOWN else ()
    beside, now = _Beside(blocked, sheets), deps.clock()

    def work(tx: Tx) -> IO[bytes]:
        return _spooled(report_render(_report(tx, actor, wish, now, beside), wish.form, wish.lang))

    return _named(wish.kind.value, wish, deps.database.run("report_file", work, snapshot=True))


def tco_file(actor: Actor, given: TcoGiven, form: Format, lang: str) -> ReportFile:
    """Three-year cost and break-even of what is given; nothing is read."""
    store.report_tenants(actor, "")
    return ReportFile(f"tco.{SUFFIX[form]}", MEDIA[form], _spooled(report_render(tco_report(given, lang), form, lang)))


def invoice_file(deps: Services, actor: Actor, name: str, form: Format, lang: str) -> ReportFile:
    """An issued invoice as a file."""
    document = invoice_document(deps, actor, name)
    made = _spooled(invoice_render(document, form, lang))
    return ReportFile(f"{document.number}.{SUFFIX[form]}", MEDIA[form], made)


def _spooled(pieces: Iterable[bytes]) -> IO[bytes]:
    """In memory while it is small, on the disk without a name afterwards."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  whoever reads it closes it
    try:
        for piece in pieces:
            file.write(piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _named(kind: str, wish: ReportWish, file: IO[bytes]) -> ReportFile:
    parts = [kind, *([wish.tenant] if wish.tenant else []), *([wish.month] if wish.month else [])]
    return ReportFile(f"{'-'.join(parts)}.{SUFFIX[wish.form]}", MEDIA[wish.form], file)


def _report(tx: Tx, actor: Actor, wish: ReportWish, now: datetime, beside: _Beside) -> Report:
    time = _time(tx, actor, wish, now)
    if wish.kind is ReportKind.USAGE:
        return _usage(tx, actor, wish, time)
    if wish.kind is ReportKind.METERING:
        return _metering(tx, actor, wish, time)
    if wish.kind is ReportKind.WAITS:
        waits = [Waits(*row) for row in store.queue_waits(tx, actor, wish.tenant, time.span)]
        return waits_report(time.facts, time.zone, waits, beside.blocked)
    if wish.kind is ReportKind.BURNDOWN:
        facts = tuple(fact for fact in time.facts if fact.key != "period")
        made = Fact("made", now, Kind.MOMENT)
        return burndown_report((*facts, made), time.zone, burning_read(tx, beside.sheets, now))
    return _pool(tx, actor, wish, time, now)


def _pool(tx: Tx, actor: Actor, wish: ReportWish, time: _Time, now: datetime) -> Report:
    """Reports of the whole pool, for those who may read reports of the platform."""
    authorize(actor, Action.REPORT_READ)
    if wish.kind is ReportKind.POLICY:
        snapshot = pool_of(pool_world(tx), now).snapshot
        return policy_report(snapshot.queues, snapshot.settings, now, time.zone, wish.lang)
    nodes = node_list(tx, SYSTEM)
    if wish.kind is ReportKind.INVENTORY:
        return inventory_report(nodes, attempts_live(tx, SYSTEM), now, time.zone, wish.lang)
    if wish.kind is ReportKind.IDLE:
        return _idle(tx, actor, nodes, time, now)
    ended = [Ended(*row) for row in store.attempt_ends(tx, actor, time.span)]
    return health_report(nodes, ended, time.facts, now, time.zone, wish.lang)


def _idle(tx: Tx, actor: Actor, nodes: Sequence[NodeRecord], time: _Time, now: datetime) -> Report:
    """The audit: cards times time is what was allocated, idle and down; what contradicts itself is told."""
    began = occupancy_store.platform_began(tx, actor) or now
    start, end = max(time.span[0], began), min(time.span[1], now)
    span = (instant(start), instant(end))
    counts = {node.spec.name: node.spec.cards.count for node in nodes if node.spec.cards is not None}
    models = {
        f"{node.spec.name}/{index}": node.spec.cards.model
        for node in nodes if node.spec.cards is not None for index in range(node.spec.cards.count)
    }  # fmt: skip
    installed = dict.fromkeys(models, span)
    taken = list(occupancy_store.cards_taken(tx, actor, start, end, now))
    downs = list(occupancy_store.cards_down(tx, actor, counts, end))
    stretches = list(occupancy(installed, taken, downs, *span))
    known = [item for item in stretches if item.card in models]
    prices = list_prices(price_list(tx, SYSTEM), sorted(set(models.values())), span[1] - 1)
    facts = (*time.facts, Fact("since", start, Kind.MOMENT), Fact("until", end, Kind.MOMENT))
    sums = occupancy_sum(stretches, models, days_of(*span, time.zone))
    metered = occupancy_store.metered_sum(tx, actor, start, end)
    return idle_report(facts, time.zone, sums, prices, conservation(installed, known, *span), metered)


def _time(tx: Tx, actor: Actor, wish: ReportWish, now: datetime) -> _Time:
    store.report_tenants(actor, wish.tenant)
    name = wish.zone
    if not name and wish.tenant:
        account = accounts_get(tx, SYSTEM, [wish.tenant]).get(wish.tenant)
        name = account.zone if account is not None else ""
    name = name or "UTC"
    zone = zone_find(name)
    period = month_period(wish.month or now.astimezone(zone).strftime("%Y-%m"), zone)
    span = (moment_of(period.start), moment_of(period.end))
    facts = [
        Fact("period", period.name),
        Fact("zone", name),
        *([Fact("tenant", wish.tenant)] if wish.tenant else []),
    ]
    return _Time(period, zone, span, tuple(facts))


def _usage(tx: Tx, actor: Actor, wish: ReportWish, time: _Time) -> Report:
    def rows() -> Iterable[tuple[object, ...]]:
        return store.usage_groups(tx, actor, wish.by.value, wish.tenant, time.span, wish.zone or _zone_name(time))

    facts = (*time.facts, Fact("by", wish.by.value))
    return usage_report(wish.by, facts, time.zone, rows)  # type: ignore[arg-type]


def _zone_name(time: _Time) -> str:
    return next(str(fact.value) for fact in time.facts if fact.key == "zone")


def _metering(tx: Tx, actor: Actor, wish: ReportWish, time: _Time) -> Report:
    if not wish.tenant:
        raise InvalidInput("a metering report is of one tenant", hint="name it: --tenant NAME")
    authorize(actor, Action.REPORT_READ, wish.tenant)
    account: AccountRecord = account_get(tx, SYSTEM, wish.tenant)
    zone = zone_find(account.zone)
    period = month_period(time.period.name, zone)
    span = (moment_of(period.start), moment_of(period.end))
    bill = month_bill(tx, account, period, zone, price_book(tx, SYSTEM, account))
    counts: Mapping[tuple[str, str, str], Counts] = {
        (project, sku, klass): Counts(*rest)
        for project, sku, klass, *rest in store.attempt_counts(tx, actor, wish.tenant, span)
    }
    facts = (
        Fact("buyer", account.title or account.tenant),
        Fact("account", account.tenant),
        Fact("period", period.name),
        Fact("zone", account.zone),
        Fact("span", f"{span[0].astimezone(zone):%Y-%m-%d %H:%M} – {span[1].astimezone(zone):%Y-%m-%d %H:%M}"),
        Fact("currency", account.currency.code),
    )
    return metering_report(facts, zone, bill, counts, wish.lang)


def _blocked(standings: Standings, actor: Actor, wish: ReportWish) -> tuple[Blocked, ...]:
    """Jobs that wait now, by the first reason that they are given."""
    tenants = store.report_tenants(actor, wish.tenant)
    standing = standings.now(())
    jobs: Counter[str] = Counter()
    milli: Counter[str] = Counter()
    for wait in standing.plan.wait:
        job = standing.pool.by_id.get(wait.job)
        if job is not None and (tenants is None or job.tenant in tenants):
            jobs[wait.reasons[0].code.value] += 1
            milli[wait.reasons[0].code.value] += job_milli(job)
    return tuple(
        Blocked(code, count, milli[code]) for code, count in sorted(jobs.items(), key=lambda item: (-item[1], item[0]))
    )
