"""What each happening does to a job and its attempt: pure moves, from records to records and events.

Loops lock the rows, call a move, and store what it returns.  Every move checks the state machines of `domain.jobs`,
so an impossible step raises instead of being stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from millpond.db.stores.events import NewEvent
from millpond.domain.amounts import CARD
from millpond.domain.jobs import (
    SAVED_EXIT_CODE,
    AttemptState,
    EndReason,
    JobState,
    JobType,
    Outcome,
    QueuedAs,
    attempt_outcome,
    attempt_step,
    job_step,
)
from millpond.domain.names import attempt_id
from millpond.domain.records import AttemptRecord, JobRecord, SeatRecord
from millpond.metering.facts import MICRO

UNTOLD = (None, AttemptState.PLANNED)
"""`AttemptRecord.applied` of an attempt that the engine may never have heard of."""

_END_STATES = {
    JobState.SUCCEEDED: "job.succeeded",
    JobState.FAILED: "job.failed",
    JobState.CANCELLED: "job.cancelled",
}


@dataclass(frozen=True, slots=True)
class Moved:
    """A job and one attempt after a move, and the events that tell of it, in order."""

    job: JobRecord
    attempt: AttemptRecord
    events: tuple[NewEvent, ...] = ()


def event_make(
    kind: str,
    time: datetime,
    job: JobRecord | None = None,
    attempt: AttemptRecord | None = None,
    data: dict[str, object] | None = None,
) -> NewEvent:
    """An event of the control plane about a job, an attempt, or neither."""
    tenant = job.tenant if job is not None else attempt.tenant if attempt is not None else ""
    return NewEvent(
        kind=kind,
        time=time,
        actor="control",
        tenant=tenant,
        job=job.id if job is not None else attempt.job if attempt is not None else "",
        attempt=attempt.id if attempt is not None else "",
        data=data or {},
    )


def seats_data(seats: tuple[SeatRecord, ...]) -> list[dict[str, object]]:
    """Seats as plain values for an event."""
    values: list[dict[str, object]] = []
    for seat in seats:
        value: dict[str, object] = {"node": seat.node, "cards": list(seat.cards), "milli": seat.milli}
        if seat.slice:
            value |= {"slice": seat.slice, "slot": seat.slot}
        values.append(value)
    return values


def usage_data(job: JobRecord, attempt: AttemptRecord) -> dict[str, object]:
    """What an attempt takes and who pays, as it stands now: history outlives changes of teams, and deletes."""
    cards = [
        [f"{seat.node}/{index}", min(MICRO, seat.milli * MICRO // CARD)]
        for seat in attempt.seats
        for index in seat.cards
    ]
    return {
        "milli": attempt.milli,
        "sku": attempt.sku,
        "class": job.spec.queue.value,
        "project": job.project,
        "user": job.user,
        "service": job.spec.type is JobType.SERVICE,
        "cards": cards,
    }


def attempt_begin(
    job: JobRecord, seats: tuple[SeatRecord, ...], milli: int, rank: str, epoch: int, now: datetime, sku: str = ""
) -> Moved:
    """A queued job gets its next attempt on `seats`; the engine has not been told yet."""
    number = job.attempts + 1
    attempt = AttemptRecord(
        id=attempt_id(job.id, number),
        job=job.id,
        number=number,
        tenant=job.tenant,
        state=AttemptState.PLANNED,
        seats=seats,
        epoch=epoch,
        planned_at=now,
        milli=milli,
        sku=sku,
    )
    after = replace(
        job,
        state=job_step(job.state, JobState.STARTING),
        queued_as=QueuedAs.READY,
        attempts=number,
        not_before=None,
        message="",
    )
    data: dict[str, object] = {"seats": seats_data(seats), "milli": milli, "rank": rank}
    return Moved(after, attempt, (event_make("attempt.planned", now, after, attempt, data),))


def attempt_told(attempt: AttemptRecord, told: AttemptState, deadline: datetime | None = None) -> AttemptRecord:
    """The engine has taken the order `told` (STARTING, DRAINING by `deadline`, or ENDED) for this attempt."""
    if attempt.state is AttemptState.ENDED and told is not AttemptState.ENDED:
        return attempt
    if told is AttemptState.STARTING and attempt.state is AttemptState.PLANNED:
        attempt = replace(attempt, state=attempt_step(attempt.state, AttemptState.STARTING))
    if told is AttemptState.STARTING and attempt.applied not in UNTOLD:
        return attempt
    if told is AttemptState.DRAINING and attempt.deadline_at != deadline:
        return attempt  # hastened while the engine was told: it must hear of the earlier deadline, too
    return replace(attempt, applied=told)


def attempt_drain(
    job: JobRecord,
    attempt: AttemptRecord,
    reason: EndReason,
    deadline: datetime,
    now: datetime,
    claimant: str = "",
    borrowed: bool = False,
) -> Moved:
    """Ask an attempt to leave by `deadline`.

    One that is leaving already keeps its reason; an earlier deadline replaces the present one and is told again.
    """
    if attempt.state is AttemptState.DRAINING:
        if attempt.deadline_at is not None and attempt.deadline_at <= deadline:
            return Moved(job, attempt)
        applied = AttemptState.STARTING if attempt.applied is AttemptState.DRAINING else attempt.applied
        hastened = replace(attempt, deadline_at=deadline, applied=applied)
        data: dict[str, object] = {"reason": reason.value, "deadline": deadline.isoformat()}
        return Moved(job, hastened, (event_make("attempt.hastened", now, job, hastened, data),))
    attempt = replace(
        attempt,
        state=attempt_step(attempt.state, AttemptState.DRAINING),
        draining_at=now,
        deadline_at=deadline,
        drain_reason=reason,
        drain_for=claimant,
        borrowed=borrowed,
    )
    job = replace(job, state=job_step(job.state, JobState.STOPPING))
    data = {"reason": reason.value, "deadline": deadline.isoformat()}
    if claimant:
        data["for"] = claimant
    return Moved(job, attempt, (event_make("attempt.draining", now, job, attempt, data),))


def attempt_started(job: JobRecord, attempt: AttemptRecord, time: datetime) -> Moved:
    """Every rank's process runs."""
    if attempt.state is AttemptState.ENDED or attempt.started_at is not None:
        return Moved(job, attempt)
    if attempt.state is AttemptState.PLANNED:
        attempt = replace(attempt, state=attempt_step(attempt.state, AttemptState.STARTING))
    if attempt.state is AttemptState.STARTING:
        attempt = replace(attempt, state=attempt_step(attempt.state, AttemptState.RUNNING))
    if attempt.applied in UNTOLD:
        attempt = replace(attempt, applied=AttemptState.STARTING)
    attempt = replace(attempt, started_at=time)
    job = replace(job, started_at=time)
    if job.state is JobState.STARTING:
        job = replace(job, state=job_step(job.state, JobState.RUNNING))
    data: dict[str, object] = {"usage": usage_data(job, attempt)}
    return Moved(job, attempt, (event_make("attempt.started", time, job, attempt, data),))


def attempt_ready(job: JobRecord, attempt: AttemptRecord, time: datetime) -> Moved:
    """Every rank answers its probe."""
    if attempt.state is AttemptState.ENDED or attempt.ready_at is not None:
        return Moved(job, attempt)
    attempt = replace(attempt, ready_at=time)
    return Moved(job, attempt, (event_make("attempt.ready", time, job, attempt),))


def attempt_checkpointed(job: JobRecord, attempt: AttemptRecord, time: datetime, detail: str) -> Moved:
    """A new checkpoint was seen.  One written after the warning shows that the job saves on its signal."""
    if attempt.state is AttemptState.ENDED:
        return Moved(job, attempt)
    last = max(time, attempt.checkpointed_at or time)
    attempt = replace(attempt, checkpointed_at=last)
    saved = attempt.draining_at is not None and time >= attempt.draining_at
    job = replace(job, checkpointed=True, saves_on_signal=job.saves_on_signal or saved)
    data: dict[str, object] = {"file": detail} if detail else {}
    return Moved(job, attempt, (event_make("attempt.checkpointed", time, job, attempt, data),))


def end_reason(job: JobRecord, attempt: AttemptRecord, code: int | None, natural: bool) -> EndReason:
    """Why an attempt that exited with `code` ended (design §5, scheduling §4).

    75 means saved, but neither a cancelled job nor one past its `max_duration` comes back.  A service that leaves in
    good order while draining was still evicted: it has nothing to complete.
    """
    drained = attempt.drain_reason
    if drained is None:
        if code == SAVED_EXIT_CODE:
            return EndReason.SAVED
        return EndReason.COMPLETED if code == 0 else EndReason.FAILED
    if drained in (EndReason.CANCELLED, EndReason.MAX_DURATION) and (code != 0 or not natural):
        return drained
    if code == SAVED_EXIT_CODE:
        return EndReason.SAVED
    if code == 0 and natural and job.spec.type is not JobType.SERVICE:
        return EndReason.COMPLETED
    return drained


def work_lost(attempt: AttemptRecord, reason: EndReason, ended: datetime, cap: int) -> int:
    """Work lost when an attempt ends, in milli-card-seconds (scheduling §3): since its last saved moment, at most `cap`
    seconds; nothing for one that completed, and for one that saved (code 75) only what its drain took."""
    if attempt.started_at is None or reason is EndReason.COMPLETED:
        return 0
    since = attempt.checkpointed_at or attempt.started_at
    if reason is EndReason.SAVED:
        since = max(since, attempt.draining_at or ended)
    seconds_ms = max(0, (ended - since) // timedelta(milliseconds=1))
    return attempt.milli * min(seconds_ms, cap * 1000) // 1000


def retries_left_behind(job: JobRecord, ended: AttemptRecord) -> int:
    """The retries that still count when an attempt ends: a service that ran for as long as its longest backoff has
    recovered, and begins with the shortest again."""
    if job.spec.type is not JobType.SERVICE or ended.started_at is None or ended.ended_at is None:
        return job.retries_spent
    recovered = ended.ended_at - ended.started_at >= timedelta(seconds=job.spec.retry.backoff_max)
    return 0 if recovered else job.retries_spent


def _saves_in_circles(job: JobRecord, ended: AttemptRecord) -> bool:
    """Whether a job saved of its own accord, at once, and not for the first time running: it must not spin."""
    if job.reason is not EndReason.SAVED or ended.draining_at is not None or ended.ended_at is None:
        return False
    since = ended.started_at or ended.planned_at
    return ended.ended_at - since < timedelta(seconds=job.spec.retry.backoff_min)


def attempt_ended(
    job: JobRecord,
    attempt: AttemptRecord,
    reason: EndReason,
    code: int | None,
    time: datetime,
    lost_work_cap: int,
    message: str = "",
    told: bool = True,
) -> Moved:
    """An attempt is gone: close it, and queue its job again or finish it.

    `told` false: the engine does not know that it ended, and must still be forbidden to run it.
    """
    if attempt.state is AttemptState.ENDED:
        return Moved(job, attempt)
    time = max(time, attempt.started_at or attempt.planned_at)
    lost = work_lost(attempt, reason, time, lost_work_cap)
    draining = attempt.draining_at is not None
    attempt = replace(
        attempt,
        state=attempt_step(attempt.state, AttemptState.ENDED),
        applied=AttemptState.ENDED if told else attempt.applied,
        ended_at=time,
        reason=reason,
        exit_code=code,
        lost_milli_seconds=lost,
        message=message,
    )
    spent = retries_left_behind(job, attempt)
    outcome = attempt_outcome(reason, code, job.spec, spent, cancel=job.cancel, ran=job.started_at is not None)
    if reason is EndReason.SAVED and _saves_in_circles(job, attempt):
        outcome = replace(outcome, wait=outcome.wait or job.spec.retry.backoff_min)
    job = replace(
        job,
        retries_spent=spent,
        saves_on_signal=job.saves_on_signal or (draining and code == SAVED_EXIT_CODE),
        reason=reason,
        exit_code=code,
        message=message or end_message(reason, code),
    )
    ran = attempt.started_at is not None
    data: dict[str, object] = {"reason": reason.value, "code": code, "lost_milli_seconds": lost, "ran": ran}
    if attempt.drain_for:
        data["for"] = attempt.drain_for
    if message:
        data["message"] = message
    ended = event_make("attempt.ended", time, job, attempt, data)
    job, follow = _job_after(job, attempt, outcome, time)
    return Moved(job, attempt, (ended, follow))


def _job_after(job: JobRecord, attempt: AttemptRecord, outcome: Outcome, time: datetime) -> tuple[JobRecord, NewEvent]:
    if outcome.state is not JobState.QUEUED:
        done = replace(job, state=job_step(job.state, outcome.state), finished_at=time)
        data: dict[str, object] = {"reason": attempt.reason.value if attempt.reason else "", "code": attempt.exit_code}
        return done, event_make(_END_STATES[outcome.state], time, done, attempt, data)
    queued_as = QueuedAs.HELD if job.held else QueuedAs.BACKOFF if outcome.wait else QueuedAs.READY
    again = replace(
        job,
        state=job_step(job.state, JobState.QUEUED),
        queued_as=queued_as,
        not_before=time + timedelta(seconds=outcome.wait) if outcome.wait else None,
        retries_spent=job.retries_spent + int(outcome.retry),
    )
    return again, event_make("job.requeued", time, again, attempt, {"retry": outcome.retry, "wait": outcome.wait})


def job_finished(job: JobRecord, state: JobState, message: str, now: datetime) -> tuple[JobRecord, NewEvent]:
    """Finish a job that has no attempt running: cancelled by its owner, or by a dependency that failed."""
    done = replace(job, state=job_step(job.state, state), finished_at=now, message=message)
    return done, event_make(_END_STATES[state], now, done, None, {"message": message} if message else {})


def end_message(reason: EndReason, code: int | None) -> str:
    """One short sentence for people."""
    if reason is EndReason.FAILED:
        return "its exit code is not known" if code is None else f"exit code {code}"
    return _MESSAGES.get(reason, "")


_MESSAGES = {
    EndReason.PREEMPTED: "gave way to a job of its own queue, or its node is being emptied",
    EndReason.RECLAIMED: "gave its cards back to the queue that owns them",
    EndReason.MOVED: "moved to other cards to make room for a larger job",
    EndReason.NODE_LOST: "its node was lost",
    EndReason.CARD_FAULT: "a card reported a fault",
    EndReason.CANCELLED: "stopped on request",
    EndReason.MAX_DURATION: "ran as long as its max_duration allows",
    EndReason.LOST_LEASE: "the engine lost sight of it",
    EndReason.SAVED: "saved its state and asked to be queued again",
    EndReason.UNPAID: "its money or budget was used up",
}
