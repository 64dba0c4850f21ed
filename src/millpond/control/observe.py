"""What the engine saw becomes what the records say.

Facts and the cursor that acknowledges them are stored in one transaction, so each fact counts exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from millpond.authz.actors import SYSTEM
from millpond.control.context import ENGINE_SOURCE, EVENT_SOURCE, Control
from millpond.control.transitions import (
    Moved,
    attempt_checkpointed,
    attempt_drain,
    attempt_ended,
    attempt_ready,
    attempt_started,
    end_reason,
    event_make,
)
from millpond.db.leader import Fenced, fence
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_live, attempts_lock, attempts_save
from millpond.db.stores.cursors import cursor_get, cursor_set
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.jobs import jobs_lock, jobs_save
from millpond.db.stores.nodes import card_mark, node_list, node_mark
from millpond.domain.jobs import AttemptState, EndReason
from millpond.domain.names import attempt_split
from millpond.domain.records import AttemptRecord, JobRecord
from millpond.engines.base import Fact, FactKind, Observed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a batch of facts leads to: changed records by id, events in order, and trouble with nodes and cards."""

    jobs: Mapping[str, JobRecord]
    attempts: Mapping[str, AttemptRecord]
    events: tuple[NewEvent, ...]
    lost_nodes: tuple[str, ...]
    bad_cards: tuple[tuple[str, int, str], ...]
    ended: int


def fact_time(fact: Fact) -> datetime:
    """The engine's time of a fact, exact to the millisecond."""
    return _EPOCH + timedelta(milliseconds=fact.time_ms)


def observe_decide(
    facts: Sequence[Fact],
    jobs: Mapping[str, JobRecord],
    attempts: Mapping[str, AttemptRecord],
    *,
    lost_work_cap: int,
    now: datetime,
) -> Seen:
    """Facts in order, on locked records.

    `attempts` holds those that the facts name and the live ones on nodes that the facts call lost or faulty; facts
    about attempts that are not there (another control plane's) are passed over.
    """
    jobs_now, attempts_now = dict(jobs), dict(attempts)
    events: list[NewEvent] = []
    lost: list[str] = []
    bad: list[tuple[str, int, str]] = []
    for fact in facts:
        if fact.kind in (FactKind.NODE_LOST, FactKind.CARD_FAULT):
            if fact.kind is FactKind.NODE_LOST:
                lost.append(fact.node)
            elif fact.card is not None:
                bad.append((fact.node, fact.card, fact.detail or "fault"))
            moves = _trouble_moves(fact, jobs_now, attempts_now, now)
            events.append(_trouble_event(fact))
        else:
            attempt = attempts_now.get(fact.attempt)
            job = jobs_now.get(attempt.job) if attempt is not None else None
            if attempt is None or job is None:
                continue
            moves = (_attempt_move(fact, job, attempt, lost_work_cap),)
        for moved in moves:
            jobs_now[moved.job.id] = moved.job
            attempts_now[moved.attempt.id] = moved.attempt
            events.extend(moved.events)
    changed = {key: value for key, value in attempts_now.items() if value != attempts[key]}
    return Seen(
        jobs={key: value for key, value in jobs_now.items() if value != jobs[key]},
        attempts=changed,
        events=tuple(events),
        lost_nodes=tuple(dict.fromkeys(lost)),
        bad_cards=tuple(dict.fromkeys(bad)),
        ended=sum(value.state is AttemptState.ENDED for value in changed.values()),
    )


def _attempt_move(fact: Fact, job: JobRecord, attempt: AttemptRecord, lost_work_cap: int) -> Moved:
    time = fact_time(fact)
    match fact.kind:
        case FactKind.STARTED:
            return attempt_started(job, attempt, time)
        case FactKind.READY:
            return attempt_ready(job, attempt, time)
        case FactKind.CHECKPOINTED:
            return attempt_checkpointed(job, attempt, time, fact.detail)
        case FactKind.START_FAILED:
            reason = attempt.drain_reason or EndReason.START_FAILED
            message = "" if attempt.drain_reason is not None else (fact.detail or "the engine could not start it")
            return attempt_ended(job, attempt, reason, fact.code, time, lost_work_cap, message)
        case FactKind.EVICTED:
            reason = attempt.drain_reason or EndReason.PREEMPTED
            return attempt_ended(job, attempt, reason, fact.code, time, lost_work_cap)
        case _:
            reason = end_reason(job, attempt, fact.code, fact.natural)
            return attempt_ended(job, attempt, reason, fact.code, time, lost_work_cap)


def _trouble_moves(
    fact: Fact, jobs: Mapping[str, JobRecord], attempts: Mapping[str, AttemptRecord], now: datetime
) -> tuple[Moved, ...]:
    """Attempts on a lost node leave at once; those on a faulty card get their grace to save."""
    moves: list[Moved] = []
    for attempt in sorted(attempts.values(), key=lambda item: item.id):
        seats = [seat for seat in attempt.seats if seat.node == fact.node]
        if attempt.state is AttemptState.ENDED or attempt.job not in jobs or not seats:
            continue
        job = jobs[attempt.job]
        if fact.kind is FactKind.NODE_LOST:
            # A lost node outweighs an eviction under way: the job did not get its grace.
            final = attempt.drain_reason in (EndReason.CANCELLED, EndReason.MAX_DURATION)
            if attempt.state is AttemptState.DRAINING and not final:
                attempt = replace(attempt, drain_reason=EndReason.NODE_LOST)
            moves.append(attempt_drain(job, attempt, EndReason.NODE_LOST, now, now))
        elif any(fact.card in seat.cards for seat in seats) and attempt.state is not AttemptState.DRAINING:
            deadline = now + timedelta(seconds=job.spec.checkpoint.grace)
            moves.append(attempt_drain(job, attempt, EndReason.CARD_FAULT, deadline, now))
    return tuple(moves)


def _trouble_event(fact: Fact) -> NewEvent:
    data: dict[str, object] = {"node": fact.node}
    if fact.detail:
        data["detail"] = fact.detail
    if fact.kind is FactKind.NODE_LOST:
        return event_make("node.lost", fact_time(fact), data=data)
    return event_make("card.quarantined", fact_time(fact), data=data | {"card": fact.card})


def observe_run(control: Control, epoch: int, cursor: int, wait_s: float) -> tuple[int, int]:
    """Wait for facts after `cursor` and store them: the new cursor, and how many facts call for a planning pass."""
    observed = control.engine.observe(cursor, wait_s)
    if observed.cursor == cursor and not observed.facts:
        return cursor, 0
    now = control.clock()
    ended = control.database.run("facts", lambda tx: _observed_store(tx, control, observed, epoch, cursor, now))
    for fact in observed.facts:
        control.metrics.facts.labels(fact.kind.value).inc()
    return observed.cursor, ended


def cursor_load(control: Control) -> int:
    """Up to where the engine's facts have been stored."""
    return control.database.run("cursor", lambda tx: cursor_get(tx, SYSTEM, ENGINE_SOURCE))


def _observed_store(tx: Tx, control: Control, observed: Observed, epoch: int, cursor: int, now: datetime) -> int:
    fence(tx, epoch)
    if cursor_get(tx, SYSTEM, ENGINE_SOURCE) != cursor:
        raise Fenced("another server has stored these facts")
    attempts, jobs = _records_lock(tx, observed.facts)
    seen = observe_decide(observed.facts, jobs, attempts, lost_work_cap=control.policy.lost_work_cap, now=now)
    jobs_save(tx, SYSTEM, list(seen.jobs.values()))
    attempts_save(tx, SYSTEM, list(seen.attempts.values()))
    if seen.lost_nodes or seen.bad_cards:
        _trouble_store(tx, seen)
    if seen.events:
        events_append(tx, EVENT_SOURCE, seen.events)
    cursor_set(tx, SYSTEM, ENGINE_SOURCE, observed.cursor)
    return seen.ended + len(seen.lost_nodes) + len(seen.bad_cards)


def _trouble_store(tx: Tx, seen: Seen) -> None:
    """Nodes and cards that are no longer configured are passed over: nothing can start there anyway."""
    counts = {node.spec.name: node.spec.cards.count if node.spec.cards else 0 for node in node_list(tx, SYSTEM)}
    for node in seen.lost_nodes:
        if node in counts:
            node_mark(tx, SYSTEM, node, lost=True)
    for node, card, cause in seen.bad_cards:
        if card < counts.get(node, 0):
            card_mark(tx, SYSTEM, node, card, cause)


def _records_lock(tx: Tx, facts: Sequence[Fact]) -> tuple[Mapping[str, AttemptRecord], Mapping[str, JobRecord]]:
    """Jobs before attempts, as everywhere: one order of locks, no deadlock."""
    wanted = {fact.attempt for fact in facts if fact.attempt}
    places = {fact.node for fact in facts if fact.kind in (FactKind.NODE_LOST, FactKind.CARD_FAULT)}
    if places:
        live = attempts_live(tx, SYSTEM)
        wanted |= {attempt.id for attempt in live if any(seat.node in places for seat in attempt.seats)}
    jobs = jobs_lock(tx, SYSTEM, sorted({attempt_split(name)[0] for name in wanted}))
    return attempts_lock(tx, SYSTEM, sorted(wanted)), jobs
