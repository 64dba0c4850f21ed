"""Money and budgets in a planning pass: what is read with the world, and whom a plan may start.

A pool without budgets and without tenants that pay in advance costs one small query, and is planned as if there were
no money in the world.  Otherwise a waiting job that could not pay alone is set aside before the plan is made, with
the reason; what the plan starts is paid for one job after the other, and the first that no longer fits is set aside
for this pass, which plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.billing.budgets import Budget, Standing, budget_period
from millpond.billing.counter import Counter, Payer, Wish
from millpond.billing.holds import Held
from millpond.billing.ledger import Ledger
from millpond.billing.money import Money
from millpond.billing.rating import amount_of
from millpond.billing.standings import ORG, Run, Share, standing_make
from millpond.billing.transfers import CARD_SECONDS
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_list
from millpond.db.stores.budgets import Counted, Spent, budget_list, counted_read, funds_any, spent_mark, spent_read
from millpond.db.stores.grants import grants_list
from millpond.db.stores.ledger import books_read_owned
from millpond.db.stores.prices import price_books
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import AttemptState
from millpond.domain.nodes import CardKind
from millpond.domain.reasons import Reason
from millpond.domain.records import AttemptRecord, JobRecord, World
from millpond.domain.slices import slice_milli
from millpond.metering.hours import Period, instant
from millpond.scheduling.desk import Judged
from millpond.scheduling.snapshot import Job, RunState, Snapshot
from millpond.scheduling.tasks import seats_milli
from millpond.zones import zone_find

ROUNDS = 5
"""Plans of a pass in which only the first job that no longer fits is set aside; after them, everybody who waits."""

Judge = Callable[[Snapshot], Judged]
Window = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class FundsRead:
    """What a pass decides by, as of one moment."""

    standings: tuple[Standing, ...]
    payers: Mapping[str, Payer]
    books: Ledger
    now: datetime

    def counter(self) -> Counter:
        return Counter(self.standings, self.payers, self.books, self.now)

    def concerns(self, tenant: str) -> bool:
        """Whether anything could keep a job of the tenant from starting."""
        payer = self.payers.get(tenant)
        if payer is not None and payer.prepaid:
            return True
        return any(len(one.budget.node) == 1 or one.budget.node[1] in {"*", tenant} for one in self.standings)


@dataclass(frozen=True, slots=True)
class Funded:
    """A judgement whose starts are paid for.  ``held`` and ``reasons`` are by job."""

    judged: Judged
    held: Mapping[str, Held] = field(default_factory=dict)
    reasons: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)


class Funds:
    """What is kept between passes: sums that the meter has not added to, and jobs set aside for the same reason."""

    def __init__(self) -> None:
        self._mark: tuple[str, ...] = ()
        self._spent: dict[Window, list[Spent]] = {}
        self._aside: dict[str, tuple[Job, tuple[tuple[str, str], ...], Job]] = {}

    def read(self, tx: Tx, world: World, now: datetime) -> FundsRead | None:
        """None where nobody's money matters.  `tx` is the snapshot in which `world` was read."""
        budgets, prepaid = funds_any(tx, SYSTEM)
        if not budgets and not prepaid:
            self._spent.clear()
            return None
        accounts = {account.tenant: account for account in account_list(tx, SYSTEM)}
        records = [record.budget for record in budget_list(tx, SYSTEM)]
        priced = any(budget.limit.currency != CARD_SECONDS for budget in records)
        paying = [one for one in accounts.values() if priced or one.mode is AccountMode.PREPAID]
        advance = sorted(one.tenant for one in paying if one.mode is AccountMode.PREPAID)
        books = price_books(tx, SYSTEM, paying)
        grants = grants_list(tx, SYSTEM, advance)
        payers = {
            one.tenant: Payer(
                one,
                books[one.tenant],
                tuple(grant for grant in grants if grant.owner == one.tenant),
                months_end(one, now),
            )
            for one in paying
        }
        standings = self.standings(tx, world, records, accounts, payers, now) if records else ()
        return FundsRead(standings, payers, books_read_owned(tx, SYSTEM, advance), now)

    def standings(
        self,
        tx: Tx,
        world: World,
        budgets: Iterable[Budget],
        accounts: Mapping[str, AccountRecord],
        payers: Mapping[str, Payer],
        now: datetime,
    ) -> tuple[Standing, ...]:
        """How these budgets stand; those whose span is over, or has not begun, are left out."""
        mark = spent_mark(tx, SYSTEM)
        if mark != self._mark:
            self._mark, self._spent = mark, {}
        runs = _runs(world, counted_read(tx, SYSTEM), payers, now)
        found: list[Standing] = []
        for budget in budgets:
            period = budget_period(budget, now, zone_find(_zone(budget, accounts)))
            if period is not None:
                used = self._shares(tx, budget, period, payers)
                found.append(standing_make(budget, period, used, runs, instant(now)))
        return tuple(found)

    def judge(
        self, read: FundsRead | None, snapshot: Snapshot, records: Iterable[JobRecord], judge: Judge, again: Judge
    ) -> Funded:
        """A plan whose starts can be paid for.  ``again`` judges in place of the judgement that was made last."""
        if read is None:
            self._aside.clear()
            return Funded(judge(snapshot))
        jobs = {record.id: record for record in records if read.concerns(record.tenant)}
        reasons = _alone(read, snapshot, jobs)
        judged = judge(self._set_aside(snapshot, reasons))
        for number in range(2 * ROUNDS):
            counter = read.counter()
            fresh = _pay(counter, judged, snapshot, jobs, first=number < ROUNDS)
            if not fresh:
                judged.notes = reasons
                return Funded(judged, counter.held, reasons)
            if number >= ROUNDS - 1:
                fresh = {**_rest(judged, snapshot, jobs, fresh), **fresh}
            reasons = {**fresh, **reasons}
            judged = again(self._set_aside(snapshot, reasons))
        raise RuntimeError("a plan of jobs that were paid for did not stay the same")

    def _set_aside(self, snapshot: Snapshot, reasons: Mapping[str, tuple[Reason, ...]]) -> Snapshot:
        """The same objects again for who is set aside again, so that the planner need not look at them."""
        if not reasons:
            self._aside.clear()
            return snapshot
        kept: dict[str, tuple[Job, tuple[tuple[str, str], ...], Job]] = {}
        jobs: list[Job] = []
        for job in snapshot.jobs:
            found = reasons.get(job.id)
            if found is None:
                jobs.append(job)
                continue
            blocks = tuple((reason.code.value, reason.text) for reason in found)
            old = self._aside.get(job.id)
            if old is None or old[0] is not job or old[1] != blocks:
                old = (job, blocks, replace(job, blocked_by=(*job.blocked_by, *blocks)))
            kept[job.id] = old
            jobs.append(old[2])
        self._aside = kept
        return replace(snapshot, jobs=tuple(jobs))

    def _shares(self, tx: Tx, budget: Budget, period: Period, payers: Mapping[str, Payer]) -> list[Share]:
        priced = budget.limit.currency != CARD_SECONDS
        window = (period.start, period.end, priced)
        if window not in self._spent:
            self._spent[window] = spent_read(tx, SYSTEM, period.start, period.end, None, hours=priced)
        spent = self._spent[window]
        if not priced:
            return [Share((ORG, one.tenant, one.project, one.user), one.milli_seconds) for one in spent]
        return _priced(spent, payers)


def job_wish(record: JobRecord, kinds: Mapping[str, CardKind]) -> Wish:
    """The least that a waiting job asks for: its smallest size on the card models that it may get."""
    spec = record.spec
    gpu = spec.resources.gpu
    sizes = {model: _size(gpu, kind) for model, kind in kinds.items() if _matches(gpu, kind)}
    milli = min(sizes.values(), default=gpu.milli_min) * spec.nodes
    return _wish(record, tuple(sorted(sizes)) if milli else (), milli)


def kinds_of(snapshot: Snapshot) -> dict[str, CardKind]:
    """The card models of the pool."""
    return {node.spec.cards.model: node.spec.cards for node in snapshot.nodes if node.spec.cards is not None}


def months_end(account: AccountRecord, now: datetime) -> tuple[int, ...]:
    """When the months of the account end, a year on."""
    zone = zone_find(account.zone)
    local = now.astimezone(zone)
    first = 12 * local.year + local.month
    return tuple(instant(datetime(month // 12, month % 12 + 1, 1, tzinfo=zone)) for month in range(first, first + 13))


def _wish(record: JobRecord, skus: tuple[str, ...], milli: int) -> Wish:
    spec = record.spec
    path = (ORG, record.tenant, record.project, record.user)
    return Wish(record.id, record.attempts + 1, path, spec.queue.value, skus, milli, spec.max_duration)


def _size(gpu: CardRequest, kind: CardKind) -> int:
    if not gpu.slice:
        return gpu.milli_min
    return (slice_milli(kind.model, kind.memory, gpu.slice) or 0) * gpu.slices


def _matches(gpu: CardRequest, kind: CardKind) -> bool:
    fits = gpu.card_matches(kind.vendor, kind.model, kind.memory)
    return fits and (not gpu.slice or slice_milli(kind.model, kind.memory, gpu.slice) is not None)


def _alone(read: FundsRead, snapshot: Snapshot, jobs: Mapping[str, JobRecord]) -> dict[str, tuple[Reason, ...]]:
    """Who could not start even if nobody else did; those who ask for the same get the same answer."""
    counter, kinds = read.counter(), kinds_of(snapshot)
    known: dict[Wish, tuple[Reason, ...]] = {}
    found: dict[str, tuple[Reason, ...]] = {}
    for job in snapshot.jobs:
        record = jobs.get(job.id)
        if record is None or job.state is not RunState.QUEUED or job.blocked_by:
            continue
        same = replace(job_wish(record, kinds), job="", attempt=1)
        if same not in known:
            known[same] = counter.reasons(same)
        if known[same]:
            found[job.id] = known[same]
    return found


def _pay(
    counter: Counter, judged: Judged, snapshot: Snapshot, jobs: Mapping[str, JobRecord], *, first: bool
) -> dict[str, tuple[Reason, ...]]:
    """Pay for what the plan starts, in its order.  Those that cannot, or the first of them."""
    plan = judged.guarded.plan
    models = {node.spec.name: node.spec.cards.model for node in snapshot.nodes if node.spec.cards is not None}
    short: dict[str, tuple[Reason, ...]] = {}
    for start in plan.start if plan is not None else ():
        record = jobs.get(start.job)
        if record is None:
            continue
        milli = seats_milli(start.seats)
        sku = models.get(start.seats[0].node, "") if milli else ""
        reasons = counter.admit(_wish(record, (sku,) if sku else (), milli))
        if reasons:
            short[start.job] = reasons
            if first:
                break
    return short


def _rest(
    judged: Judged,
    snapshot: Snapshot,
    jobs: Mapping[str, JobRecord],
    short: Mapping[str, tuple[Reason, ...]],
) -> dict[str, tuple[Reason, ...]]:
    """All that the plan does not start, for the reason of the first that could not pay: they wait for the next pass."""
    plan = judged.guarded.plan
    starting = {start.job for start in plan.start} if plan is not None else set()
    reasons = next(iter(short.values()))
    return {
        job.id: reasons
        for job in snapshot.jobs
        if job.id in jobs and job.state is RunState.QUEUED and job.id not in starting and not job.blocked_by
    }


def _zone(budget: Budget, accounts: Mapping[str, AccountRecord]) -> str:
    """The tenant's zone; else the one that all accounts share, or UTC."""
    account = accounts.get(budget.node[1]) if len(budget.node) > 1 else None
    if account is not None:
        return account.zone
    zones = {one.zone for one in accounts.values()}
    return zones.pop() if len(zones) == 1 else "UTC"


def _runs(
    world: World, counted: Mapping[tuple[str, int], Counted], payers: Mapping[str, Payer], now: datetime
) -> list[Run]:
    jobs = {job.id: job for job in world.jobs}
    return [
        _run(attempt, jobs[attempt.job], counted.get((attempt.job, attempt.number)), payers.get(attempt.tenant), now)
        for attempt in world.attempts
        if attempt.state is not AttemptState.ENDED and attempt.milli and attempt.job in jobs
    ]


def _run(attempt: AttemptRecord, job: JobRecord, counted: Counted | None, payer: Payer | None, now: datetime) -> Run:
    begin = instant(counted.started if counted is not None else attempt.started_at or now)
    until: int | None = None
    if job.spec.max_duration is not None:
        until = instant(attempt.started_at or now) + job.spec.max_duration
    if attempt.deadline_at is not None:
        until = min(until, instant(attempt.deadline_at)) if until is not None else instant(attempt.deadline_at)
    price: Money | None = None
    if payer is not None:
        version = payer.book.at(attempt.sku, job.spec.queue.value, instant(now))
        price = version.price if version is not None else None
    done = counted.milli_seconds // attempt.milli if counted is not None else 0
    path = (ORG, attempt.tenant, job.project, job.user)
    return Run(path, attempt.milli, begin + done, until, price)


def _priced(spent: Iterable[Spent], payers: Mapping[str, Payer]) -> list[Share]:
    """Sums by price, each rounded once, as on a bill; without tax."""
    sums: dict[tuple[tuple[str, ...], Money], int] = {}
    for one in spent:
        payer = payers.get(one.tenant)
        version = payer.book.at(one.sku, one.klass, one.booked) if payer is not None else None
        if payer is None or version is None:
            continue
        charged = one.milli_seconds - (0 if payer.account.bill_lost_work else one.lost_milli_seconds)
        key = ((ORG, one.tenant, one.project, one.user), version.price)
        sums[key] = sums.get(key, 0) + charged
    return [Share(path, total, amount_of(total, price)) for (path, price), total in sums.items()]
