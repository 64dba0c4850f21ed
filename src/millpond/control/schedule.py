"""The scheduling pass: load the world, let time have its way, plan, check the plan, store it in one fenced transaction.

Nothing here talks to the engine.  What a pass decides is in the database before anybody acts on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

from millpond.admission.admit import Admission
from millpond.authz.actors import SYSTEM
from millpond.billing.counter import FundsRead
from millpond.billing.holds import Held
from millpond.control.apply import Untold
from millpond.control.context import EVENT_SOURCE, Control
from millpond.control.expire import dependencies_wanted, expire_decide, moment_next
from millpond.control.funds import alerts_store, held_store
from millpond.control.orders import geometries
from millpond.control.steps import Begin, Drain, Stale, Step, Stored, steps_store
from millpond.control.transitions import event_make, seats_data
from millpond.db.funds import FundsReader
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.holds import eviction_add, holds_replace
from millpond.db.stores.jobs import jobs_get
from millpond.db.worlds import WorldRead, Worlds
from millpond.domain.jobs import AttemptState, EndReason, JobState, QueueClass
from millpond.domain.records import AttemptRecord, EvictionRecord, HoldRecord, JobRecord, SeatRecord, World
from millpond.scheduling.check import check_safety
from millpond.scheduling.decisions import Evict, HoldFor, Plan, Violation
from millpond.scheduling.desk import Desk, Judgement
from millpond.scheduling.guarded import Guarded
from millpond.scheduling.mix import MixMemory
from millpond.scheduling.snapshot import Seat, Snapshot
from millpond.scheduling.tasks import seats_milli
from millpond.scheduling.world import Snapshots

log = structlog.get_logger("millpond.control.schedule")

STALE_TRIES = 5
TICK = 1.0
REST = 30.0
REFUSED_PAUSE = 5.0
BRISK, BREATH = 0.1, 1.0
"""A pass that took less calls for no breath; and the longest one.  Seconds."""

LOOK_FIRST = 60.0
LOOK_REST = 50
"""On a large pool the guard looks for more than harm a minute after the first pass, and then a fiftieth of the time."""

OVERDUE = timedelta(seconds=10)
"""How long after its deadline an attempt that has not gone is an alarm."""


_WHY = {"preempt": EndReason.PREEMPTED, "reclaim": EndReason.RECLAIMED, "consolidate": EndReason.MOVED}


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did, what the engine must hear of it, and after how many seconds the next pass is due if nobody calls
    for it before; it takes a ``breath`` of some seconds in any case."""

    began: int = 0
    drained: int = 0
    refused: bool = False
    pause: float = REST
    untold: tuple[Untold, ...] = ()
    breath: float = 0.0


@dataclass(slots=True)
class PassMemory:
    """What one pass leaves for the next: the refusal and the overdue attempts already reported; ``begun`` is the moment
    of the first; ``requests`` are what jobs have asked for since.

    ``worlds``, ``snapshots`` and ``desk`` keep the pool, so that a pass costs what has changed since the last one.
    ``look_at``: when a large pool's plan is next looked at for more than harm, by `time.perf_counter`.
    """

    begun: datetime | None = None
    refused: tuple[Violation, ...] = ()
    overdue: frozenset[str] = frozenset()
    requests: MixMemory = field(default_factory=MixMemory)
    worlds: Worlds | None = None
    snapshots: Snapshots = field(default_factory=Snapshots)
    desk: Desk = field(default_factory=lambda: Desk(threading.Lock))
    funds: FundsReader = field(default_factory=FundsReader)
    admission: Admission = field(default_factory=Admission)
    look_at: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan as steps and rows to store."""

    steps: tuple[Step, ...]
    put_holds: tuple[HoldRecord, ...]
    drop_holds: tuple[str, ...]
    evictions: tuple[EvictionRecord, ...]
    events: tuple[NewEvent, ...]
    held: Mapping[str, Held] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.steps or self.put_holds or self.drop_holds)


def pass_run(control: Control, epoch: int, memory: PassMemory) -> PassResult:
    """One pass: first what time and trouble ask for, then the plan.  A decision gone stale is taken anew."""
    started = time.perf_counter()
    untold: list[Untold] = []
    memory.worlds = worlds = memory.worlds or Worlds(control.database)
    for _ in range(STALE_TRIES):
        began, now = time.perf_counter(), control.clock()
        read, (ended, money) = worlds.read_also(partial(_also_read, funds=memory.funds, now=now))
        world = read.world
        control.metrics.live.set(len(world.attempts))
        _overdue_report(control, epoch, world, now, memory)
        if money is not None and money.alerts:
            control.database.run("alerts", partial(alerts_store, read=money, epoch=epoch, now=now))
        due = expire_decide(world, ended, now)
        try:
            if due:
                stored = control.database.run("expire", partial(_due_store, due=due, epoch=epoch, now=now))
                untold.append(_untold(stored, world))
                continue
            judgement, held = _judge(control, read, money, now, began, memory)
            result = _plan_run(control, epoch, judgement, held, memory)
        except Stale as stale:
            control.metrics.passes.labels("stale").inc()
            log.debug("pass stale", because=str(stale))
            continue
        seconds = time.perf_counter() - started
        control.metrics.pass_seconds.observe(seconds)
        _look_again(control, judgement, memory)
        pause = max(result.pause, 20 * seconds)
        # While jobs come in one after the other, a slow pass leaves requests and the other loops as much as it took.
        breath = min(seconds, BREATH) if seconds > BRISK and not result.untold else 0.0
        return replace(result, pause=pause, untold=(*untold, *result.untold), breath=breath)
    return PassResult(pause=0.05, untold=tuple(untold))


def _also_read(
    tx: Tx, world: World, funds: FundsReader, now: datetime
) -> tuple[Mapping[str, JobRecord], FundsRead | None]:
    return _dependencies_read(tx, world), funds.read(tx, world, now)


def _dependencies_read(tx: Tx, world: World) -> Mapping[str, JobRecord]:
    wanted = dependencies_wanted(world)
    return jobs_get(tx, SYSTEM, sorted(wanted)) if wanted else {}


def _judge(
    control: Control, read: WorldRead, money: FundsRead | None, now: datetime, began: float, memory: PassMemory
) -> tuple[Judgement, Mapping[str, Held]]:
    """Plan, let the guard look at it, and leave the result for whoever asks; with what the starts hold, by job."""
    snapshot = memory.snapshots.make(read.world, int(now.timestamp()))
    snapshot = replace(snapshot, mix=memory.requests.observe(snapshot.jobs))
    guard = check_safety if _large(control, snapshot) else control.guard
    desk = memory.desk
    funded = memory.admission.judge(
        money, snapshot, read.world.jobs, partial(desk.judge, guard=guard), partial(desk.again, guard=guard)
    )
    judged = funded.judged
    judgement = Judgement(read.world, read.mark, now, timedelta(seconds=time.perf_counter() - began), judged)
    control.newest.put(judgement)
    return judgement, funded.held


def _large(control: Control, snapshot: Snapshot) -> bool:
    return len(snapshot.jobs) + len(snapshot.nodes) > control.policy.large


def _look_again(control: Control, judgement: Judgement, memory: PassMemory) -> None:
    """Look for what is merely worse than it could be in the plan for a large pool, now and then, once it is applied.

    That takes longer than the plan.  What would harm somebody has been looked for before.
    """
    judged, began = judgement.judged, time.perf_counter()
    if memory.look_at is None:
        memory.look_at = began + LOOK_FIRST
    plan = judged.guarded.plan
    if plan is None or judged.guarded.refused or not _large(control, judged.snapshot) or began < memory.look_at:
        return
    _weak_report(control, control.guard(judged.snapshot, plan))
    ended = time.perf_counter()
    memory.look_at = ended + LOOK_REST * (ended - began)


def _weak_report(control: Control, weak: tuple[Violation, ...]) -> None:
    for violation in weak:
        # Nobody is harmed by a plan that is merely worse than it could be: apply it, and say so.
        control.metrics.alarms.labels("plan.weak").inc()
        log.warning("plan is weaker than it must be", rule=violation.rule, text=violation.text)


def _overdue_report(control: Control, epoch: int, world: World, now: datetime, memory: PassMemory) -> None:
    """Say once of each attempt that it should long be dead: its cards stay taken, and somebody must look."""
    begun = memory.begun = memory.begun or now  # what ended while nobody led is still to be read
    late = {
        attempt.id: attempt
        for attempt in world.attempts
        if attempt.state is AttemptState.DRAINING and attempt.deadline_at is not None
        if now - max(attempt.deadline_at, begun) > OVERDUE
    }
    fresh = [attempt for name, attempt in late.items() if name not in memory.overdue]
    if fresh:
        log.error("attempts do not end", attempts=[attempt.id for attempt in fresh])
        control.metrics.alarms.labels("attempt.overdue").inc(len(fresh))
        events = [
            event_make("attempt.overdue", now, None, attempt, {"seats": seats_data(attempt.seats)}) for attempt in fresh
        ]
        control.database.run("overdue", partial(_events_store, events=events, epoch=epoch))
    memory.overdue = frozenset(late)


def _events_store(tx: Tx, events: list[NewEvent], epoch: int) -> None:
    fence(tx, epoch)
    events_append(tx, EVENT_SOURCE, events)


def _due_store(tx: Tx, due: tuple[Step, ...], epoch: int, now: datetime) -> Stored:
    fence(tx, epoch)
    stored = steps_store(tx, due, epoch, now)
    events_append(tx, EVENT_SOURCE, stored.events)
    return stored


def _plan_run(
    control: Control, epoch: int, judgement: Judgement, held: Mapping[str, Held], memory: PassMemory
) -> PassResult:
    world, now, guarded = judgement.world, judgement.now, judgement.judged.guarded
    if guarded.refused:
        _plan_refuse(control, epoch, guarded, now, memory)
    else:
        memory.refused = ()
    plan = guarded.plan
    if plan is None:
        return PassResult(refused=True, pause=REFUSED_PAUSE)
    _waiting_count(control, plan)
    _weak_report(control, guarded.weak)
    decision = replace(plan_decide(world, plan, control.policy.grace, now), held=held)
    if decision.empty:
        control.metrics.passes.labels("idle").inc()
        return PassResult(pause=pause_after(world, plan, now))
    stored = control.database.run("plan", lambda tx: decision_store(tx, decision, epoch, now))
    control.metrics.passes.labels("stored").inc()
    control.metrics.starts.inc(stored.began)
    for evict in plan.evict:
        control.metrics.evictions.labels(evict.why).inc()
    return PassResult(stored.began, stored.drained, pause=TICK, untold=(_untold(stored, world),))


def _untold(stored: Stored, world: World) -> Untold:
    told = {attempt.id for attempt in stored.attempts}
    live = (*stored.attempts, *(attempt for attempt in world.attempts if attempt.id not in told))
    specs = {node.spec.name: node.spec for node in world.nodes}
    return Untold(stored.attempts, stored.jobs, specs, geometries(live))


def decision_store(tx: Tx, decision: Decision, epoch: int, now: datetime) -> Stored:
    """Store all of a decision in this transaction, if `epoch` still leads; `Stale` if its ground has moved."""
    fence(tx, epoch)
    stored = steps_store(tx, decision.steps, epoch, now)
    holds_replace(tx, SYSTEM, decision.put_holds, decision.drop_holds)
    eviction_add(tx, SYSTEM, decision.evictions)
    if decision.held:
        held_store(tx, decision.held, decision.steps, now)
    events_append(tx, EVENT_SOURCE, (*stored.events, *decision.events))
    return stored


def _plan_refuse(control: Control, epoch: int, guarded: Guarded, now: datetime, memory: PassMemory) -> None:
    """A plan that breaks the rules is not applied: say so loudly (once for the same finding), keep what runs."""
    violations = guarded.refused
    control.metrics.passes.labels("refused").inc()
    control.metrics.alarms.labels("plan.refused").inc()
    if memory.refused == violations:
        return
    found: list[object] = [
        {"rule": item.rule, "text": item.text, "subjects": list(item.subjects)} for item in violations
    ]
    aside = list(guarded.aside[:20])
    log.error("plan refused", violations=found[:10], aside=aside, stopped=guarded.plan is None)
    event = event_make("plan.refused", now, data={"violations": found[:20], "aside": aside})
    control.database.run("plan_refused", partial(_events_store, events=[event], epoch=epoch))
    memory.refused = violations


def plan_decide(world: World, plan: Plan, grace: int, now: datetime) -> Decision:
    """Pure: a plan as steps on records, holds and evictions to store, and events that tell of the holds."""
    jobs = {job.id: job for job in world.jobs}
    running = {attempt.job: attempt for attempt in world.attempts if attempt.state is not AttemptState.ENDED}
    steps: list[Step] = []
    evictions: dict[tuple[str, str, bool], EvictionRecord] = {}
    for evict in plan.evict:
        steps.append(_drain_step(evict, jobs, running[evict.job], grace, now))
        pair = (jobs[evict.claimant].queue, jobs[evict.job].queue, evict.borrowed)
        evictions[pair] = EvictionRecord(pair[0], pair[1], now, evict.borrowed)
    nodes = world.nodes if plan.start else ()
    models = {node.spec.name: node.spec.cards.model for node in nodes if node.spec.cards is not None}
    for start in plan.start:
        milli = seats_milli(start.seats)
        seats = seats_record(start.seats)
        sku = models.get(seats[0].node, "") if milli else ""
        steps.append(Begin(start.job, jobs[start.job].attempts + 1, seats, milli, start.rank.word, sku))
    standing = {hold.job: hold for hold in world.holds}
    put: list[HoldRecord] = []
    events: list[NewEvent] = []
    for hold in plan.hold:
        record = _hold_record(hold)
        if standing.get(hold.job) != record:
            put.append(record)
        if hold.job not in standing or standing[hold.job].seats != record.seats:
            data: dict[str, object] = {"seats": seats_data(record.seats), "victims": list(record.victims)}
            events.append(event_make("hold.put", now, jobs[hold.job], data=data))
    waiting = {job.id for job in world.jobs if job.state is JobState.QUEUED}
    kept = waiting | {hold.job for hold in plan.hold}  # who moves has a hold while it leaves its old cards
    drop = tuple(name for name in standing if name in plan.drop_holds or name not in kept)
    return Decision(tuple(steps), tuple(put), drop, tuple(evictions.values()), tuple(events))


def _drain_step(
    evict: Evict, jobs: Mapping[str, JobRecord], attempt: AttemptRecord, grace: int, now: datetime
) -> Drain:
    """The grace of a victim: its own, at most `grace` when production is waiting (scheduling §4)."""
    own = jobs[evict.job].spec.checkpoint.grace
    limit = min(own, grace) if jobs[evict.claimant].spec.queue is QueueClass.PROD else own
    reason = _WHY[evict.why]
    deadline = now + timedelta(seconds=limit)
    return Drain(evict.job, attempt.id, reason, deadline, evict.claimant, evict.borrowed, evict.lost)


def _hold_record(hold: HoldFor) -> HoldRecord:
    until = datetime.fromtimestamp(hold.until, tz=UTC)
    return HoldRecord(hold.job, seats_record(hold.seats), until, hold.victims)


def seats_record(seats: tuple[Seat, ...]) -> tuple[SeatRecord, ...]:
    return tuple(SeatRecord(seat.node, seat.cards, seat.milli, seat.slice, seat.slot) for seat in seats)


def pause_after(world: World, plan: Plan, now: datetime) -> float:
    """Seconds until a pass may decide otherwise although nothing happens.

    A hold or an eviction under way needs the clock's attention; a queue that waits for others' time limits,
    cool-downs or reservations needs less of it; an idle pool none.
    """
    moment = moment_next(world, now)
    due = REST if moment is None else max((moment - now).total_seconds(), 0.01)
    draining = any(attempt.state is AttemptState.DRAINING for attempt in world.attempts)
    waiting = any(job.state is JobState.QUEUED and not job.held for job in world.jobs)
    if plan.hold or draining:
        return min(due, TICK)
    return min(due, 5 * TICK) if waiting else due


def _waiting_count(control: Control, plan: Plan) -> None:
    counts: dict[str, int] = {}
    for wait in plan.wait:
        code = wait.reasons[0].code.value if wait.reasons else "NONE"
        counts[code] = counts.get(code, 0) + 1
    control.metrics.waiting.clear()
    for code, count in counts.items():
        control.metrics.waiting.labels(code).set(count)
