"""Views of the services as schemas, where more than a field-by-field copy is needed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from millpond.api.schemas.explanations import Ahead, Counterfactual, Eta, Explanation, Hold, Reason, Reservation
from millpond.api.schemas.jobs import Attempt, Job, JobChange
from millpond.api.schemas.nodes import Card, CardHealth, CardUse, Node, NodeCards, NodeCondition
from millpond.api.schemas.placements import Seat
from millpond.api.schemas.queues import (
    Accuracy,
    CardHoursBudget,
    PoolJob,
    PoolView,
    Queue,
    QueueAccuracy,
    QueueTree,
    QuotaChange,
    QuotaResult,
)
from millpond.api.schemas.queues import Change as QuotaWord
from millpond.domain import reasons as domain
from millpond.domain.jobs import JobState
from millpond.domain.queues import queue_parent
from millpond.domain.records import PromiseRecord
from millpond.domain.slices import cards_divide
from millpond.files.jobs import job_spec_json
from millpond.scheduling.decisions import Rank
from millpond.scheduling.snapshot import Seat as PlannedSeat
from millpond.services.explanations import Answer
from millpond.services.jobs import AttemptView
from millpond.services.nodes import CardUse as CardUseView
from millpond.services.nodes import CardView, NodeView
from millpond.services.promises import Accuracy as AccuracyView
from millpond.services.queues import PoolOverview, QueueView, Running, TreeView, Waiting, job_milli
from millpond.services.quotas import QuotaOutcome
from millpond.services.views import JobView


def job_shape(view: JobView) -> Job:
    """A job; the values of its variables stay here, only their names leave."""
    job, attempt, spec = view.job, view.attempt, view.job.spec
    return Job(
        id=job.id,
        name=job.name,
        tenant=job.tenant,
        project=job.project,
        user=job.user,
        queue=job.queue,
        type=spec.type,
        state=job.state,
        queued_as=job.queued_as if job.state is JobState.QUEUED else None,
        priority=spec.priority,
        nodes=spec.nodes,
        ranks=spec.ranks,
        gpu=str(spec.resources.gpu),
        milli=attempt.milli if attempt is not None else job_milli(job),
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        not_before=job.not_before or (spec.start_at if job.state is JobState.QUEUED else None),
        held=job.held,
        cancel=job.cancel,
        attempts=job.attempts,
        retries_spent=job.retries_spent,
        checkpointed=job.checkpointed,
        reason=job.reason,
        exit_code=job.exit_code,
        message=job.message,
        blocked=list(job.blocked),
        placement=[Seat.of(seat) for seat in attempt.seats] if attempt is not None else [],
        deadline_at=attempt.deadline_at if attempt is not None else None,
        spec=spec_shape(view),
    )


def spec_shape(view: JobView) -> dict[str, Any]:
    """The job in the form of a job file, with bare names in ``env``."""
    value = dict(job_spec_json(view.job.spec))
    value["tenant"] = view.job.tenant
    if view.job.spec.env:
        value["env"] = [name for name, _ in view.job.spec.env]
    return value


def job_json(view: JobView) -> object:
    return job_shape(view).model_dump(mode="json")


def change_shape(view: JobView, position: int | None, reasons: Iterable[domain.Reason]) -> JobChange:
    return JobChange(job=job_shape(view), position=position, reasons=[reason_shape(reason) for reason in reasons])


def attempt_shape(view: AttemptView) -> Attempt:
    return Attempt.of(view.attempt, view.drain_for)


def reason_shape(reason: domain.Reason) -> Reason:
    return Reason(
        code=reason.code,
        text=reason.text,
        need=reason.need,
        have=reason.have,
        limit=reason.limit,
        free=reason.free,
        jobs=list(reason.jobs),
        queue=reason.queue,
        until=_moment(reason.until) if reason.until is not None else None,
    )


def explanation_shape(answer: Answer) -> Explanation:
    found, promise = answer.explanation, answer.promise
    hold, reserved = found.hold, found.reservation
    return Explanation(
        at=answer.now,
        job="" if answer.offered else found.job,
        name=answer.name,
        queue=answer.queue,
        state=answer.state,
        rank=_rank(found.rank),
        position=found.position,
        pool_position=found.pool_position,
        starts_now=found.starts_now,
        eta=_moment(found.eta) if found.eta is not None else promise.p50 if promise is not None else None,
        forecast=_eta(promise),
        reasons=[reason_shape(reason) for reason in found.reasons],
        ahead=[
            Ahead(
                job=other.job,
                name=answer.names.get(other.job, ""),
                user=other.user,
                tenant=other.tenant,
                queue=other.queue,
                milli=other.milli,
                since=_moment(other.since),
            )
            for other in found.ahead
        ],
        hold=None
        if hold is None
        else Hold(
            placement=[_seat(seat) for seat in hold.seats], until=_moment(hold.until), victims=list(hold.victims)
        ),
        reservation=None
        if reserved is None
        else Reservation(at=_moment(reserved.time), placement=[_seat(seat) for seat in reserved.seats]),
        counterfactuals=[
            Counterfactual(
                change=other.change,
                starts_now=other.starts_now,
                kind=other.kind,
                value=other.value,
                at=_moment(other.at) if other.at is not None else None,
            )
            for other in found.counterfactuals
        ],
        simulated=answer.simulated,
    )


def queue_tree_shape(view: TreeView) -> QueueTree:
    return QueueTree(
        at=view.now,
        pool=view.pool,
        used=view.used,
        simulated=view.simulated,
        items=[_queue(queue) for queue in view.queues],
    )


def pool_view_shape(view: PoolOverview) -> PoolView:
    return PoolView(
        at=view.now,
        pool=view.pool,
        used=view.used,
        simulated=view.simulated,
        running=[_running(row) for row in view.running],
        waiting=[_waiting(row) for row in view.waiting],
    )


def accuracy_shape(view: AccuracyView) -> Accuracy:
    return Accuracy(
        at=view.now,
        since=view.since,
        items=[
            QueueAccuracy(
                queue=row.queue,
                judged=row.judged,
                held=row.held,
                open=row.open,
                median_error=row.median_error,
                median_width=row.median_width,
            )
            for row in view.queues
        ],
    )


def quota_shape(outcome: QuotaOutcome) -> QuotaResult:
    return QuotaResult(
        dry_run=outcome.dry_run,
        changes=[
            QuotaChange(
                name=change.name,
                change=QuotaWord.ADDED
                if change.before is None
                else QuotaWord.REMOVED
                if change.after is None
                else QuotaWord.CHANGED,
                before=change.before,
                after=change.after,
            )
            for change in outcome.changes
        ],
        unchanged=outcome.unchanged,
        warnings=list(outcome.warnings),
    )


def node_shape(view: NodeView) -> Node:
    node, spec = view.node, view.node.spec
    cards = spec.cards
    return Node(
        name=spec.name,
        engine=node.engine,
        simulated=spec.simulated,
        condition=_condition(view),
        cpu=spec.cpu,
        memory=spec.memory,
        cards=None
        if cards is None
        else NodeCards(
            model=cards.model,
            vendor=cards.vendor,
            memory=cards.memory,
            count=cards.count,
            islands=[list(island) for island in cards.islands],
            mig=cards_divide(cards),
        ),
        bad_cards=dict(node.bad_cards),
        used=view.used,
        used_cpu=view.cpu,
        used_memory=view.memory,
        jobs=view.jobs,
        labels=dict(spec.labels),
        taints=list(spec.taints),
        seen_at=node.seen_at,
    )


def card_shape(view: CardView) -> Card:
    kind = view.node.spec.cards
    assert kind is not None  # noqa: S101 - a card view is of a node with cards
    health = CardHealth.LOST if view.node.lost else CardHealth.QUARANTINED if view.cause else CardHealth.OK
    return Card(
        node=view.node.spec.name,
        index=view.index,
        uuid=kind.uuids[view.index] if view.index < len(kind.uuids) else "",
        vendor=kind.vendor,
        model=kind.model,
        memory=kind.memory,
        simulated=view.node.spec.simulated,
        health=health,
        cause=view.cause,
        used=view.used,
        uses=[_card_use(use) for use in view.uses],
    )


def _card_use(use: CardUseView) -> CardUse:
    return CardUse(
        job=use.job.id if use.job is not None else "",
        attempt=use.attempt.id if use.attempt is not None else "",
        tenant=use.job.tenant if use.job is not None else "",
        user=use.job.user if use.job is not None else "",
        milli=use.seat.milli,
        slice=use.seat.slice,
        slot=use.seat.slot,
        draining=use.draining,
    )


def _condition(view: NodeView) -> NodeCondition:
    node = view.node
    if node.lost:
        return NodeCondition.LOST
    if node.draining:
        return NodeCondition.DRAINING
    return NodeCondition.CORDONED if node.cordoned else NodeCondition.READY


def _queue(view: QueueView) -> Queue:
    config = view.config
    hours = config.card_hours
    return Queue(
        name=config.name,
        parent=queue_parent(config.name),
        klass=config.klass,
        guarantee=view.guarantee,
        deserved=view.deserved,
        cap=view.cap,
        used=view.used,
        pending=view.pending,
        running_jobs=view.running,
        waiting_jobs=view.waiting,
        lend=config.lend,
        dequeue=config.dequeue,
        card_hours=CardHoursBudget(limit=hours.limit, used=hours.used) if hours is not None else None,
        configured=view.configured,
    )


def _running(row: Running) -> PoolJob:
    job, attempt = row.job, row.attempt
    return PoolJob(
        job=job.id if job else "",
        name=job.name if job else "",
        tenant=job.tenant if job else "",
        project=job.project if job else "",
        user=job.user if job else "",
        queue=job.queue if job else "",
        type=job.spec.type if job else None,
        state=row.state,
        rank=_rank(row.rank),
        milli=row.milli,
        gpu=str(job.spec.resources.gpu) if job else "",
        nodes=row.nodes,
        priority=job.spec.priority if job else None,
        since=row.since,
        position=None,
        pool_position=None,
        reason=None,
        placed=list(dict.fromkeys(seat.node for seat in attempt.seats)) if attempt else [],
    )


def _waiting(row: Waiting) -> PoolJob:
    job = row.job
    return PoolJob(
        job=job.id if job else "",
        name=job.name if job else "",
        tenant=job.tenant if job else "",
        project=job.project if job else "",
        user=job.user if job else "",
        queue=job.queue if job else "",
        type=job.spec.type if job else None,
        state=JobState.QUEUED,
        rank=_rank(row.rank),
        milli=row.milli,
        gpu=str(job.spec.resources.gpu) if job else "",
        nodes=row.nodes,
        priority=job.spec.priority if job else None,
        since=row.since,
        position=row.position,
        pool_position=row.pool_position,
        reason=reason_shape(row.reason) if row.reason is not None else None,
        placed=[],
        forecast=_eta(row.promise),
    )


def _seat(seat: PlannedSeat) -> Seat:
    return Seat(node=seat.node, cards=list(seat.cards), milli=seat.milli, slice=seat.slice, slot=seat.slot)


def _eta(promise: PromiseRecord | None) -> Eta | None:
    if promise is None:
        return None
    return Eta(p10=promise.p10, p50=promise.p50, p90=promise.p90, made_at=promise.made_at)


def _rank(rank: Rank | None) -> str | None:
    return rank.word if rank is not None else None


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
