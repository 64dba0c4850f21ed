"""Jobs and attempts: what a job file says, and the two state machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from millpond.domain.cards import CardRequest
from millpond.domain.errors import IllegalTransition


class JobType(StrEnum):
    TASK = "task"
    SERVICE = "service"
    WORKSPACE = "workspace"


class QueueClass(StrEnum):
    PROD = "prod"
    BATCH = "batch"
    BESTEFFORT = "besteffort"


@dataclass(frozen=True, slots=True)
class Resources:
    """Per node: cards, milli-CPU, MiB of memory, MiB of shared memory."""

    gpu: CardRequest = CardRequest()
    cpu: int = 0
    memory: int = 0
    shm: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """``signal`` is the warning; ``grace`` seconds pass from it to KILL; ``every`` seconds the job says it saves."""

    signal: str = "USR1"
    grace: int = 20
    every: int | None = None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Which failures are tried again.  ``exits`` empty with ``any`` false: none.  Backoff in seconds, doubling."""

    exits: frozenset[int] = frozenset()
    any: bool = False
    limit: int = 0
    backoff_min: int = 10
    backoff_max: int = 300

    def covers(self, code: int | None) -> bool:
        """Whether an end with `code` (None: nobody knows it) is tried again."""
        return self.limit > 0 and (self.any or code in self.exits)

    def backoff(self, spent: int) -> int:
        """Seconds to wait before retry number `spent` + 1."""
        return min(self.backoff_max, self.backoff_min * (1 << min(spent, 30)))


@dataclass(frozen=True, slots=True)
class TopologyWish:
    require: str = ""
    prefer: str = ""


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """``port`` is what the service listens on (`MILLPOND_PORT` on the local engine); ready when HTTP answers 2xx."""

    port: int = 0
    ready_path: str = ""
    ready_timeout: int = 60


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job file, understood.  Amounts as in `amounts`; names checked; nothing here was looked up in a database."""

    type: JobType
    name: str
    commands: tuple[str, ...]
    queue: QueueClass = QueueClass.BATCH
    tenant: str = ""
    project: str = ""
    priority: int = 50
    nodes: int = 1
    processes_per_node: int = 1
    resources: Resources = Resources()
    env: tuple[tuple[str, str], ...] = ()
    image: str = ""
    working_dir: str = ""
    max_duration: int | None = None
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    retry: RetryPolicy = RetryPolicy()
    topology: TopologyWish = TopologyWish()
    preemptible: bool | None = None
    depends_on: tuple[str, ...] = ()
    start_at: datetime | None = None
    service: ServicePolicy | None = None
    labels: tuple[tuple[str, str], ...] = field(default=())

    @property
    def may_be_preempted(self) -> bool:
        """Jobs of a prod leaf are non-preemptible unless they say otherwise; all others are preemptible (§1)."""
        if self.queue is QueueClass.PROD:
            return bool(self.preemptible)
        return self.preemptible is not False

    @property
    def ranks(self) -> int:
        return self.nodes * self.processes_per_node


class JobState(StrEnum):
    SUBMITTED = "submitted"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class QueuedAs(StrEnum):
    """Sub-state of a queued job."""

    READY = "ready"
    HELD = "held"
    BACKOFF = "backoff"


class AttemptState(StrEnum):
    PLANNED = "planned"
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    ENDED = "ended"


class EndReason(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    PREEMPTED = "preempted"
    RECLAIMED = "reclaimed"
    MOVED = "moved"
    NODE_LOST = "node_lost"
    CARD_FAULT = "card_fault"
    START_FAILED = "start_failed"
    CANCELLED = "cancelled"
    MAX_DURATION = "max_duration"
    LOST_LEASE = "lost_lease"
    SAVED = "saved"
    UNPAID = "unpaid"


SAVED_EXIT_CODE = 75
"""EX_TEMPFAIL: the job saved its state and asks to be queued again."""

JOB_TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
JOB_LIVE = frozenset(JobState) - JOB_TERMINAL

REQUEUE_REASONS = frozenset(
    {
        EndReason.PREEMPTED,
        EndReason.RECLAIMED,
        EndReason.MOVED,
        EndReason.NODE_LOST,
        EndReason.CARD_FAULT,
        EndReason.LOST_LEASE,
        EndReason.SAVED,
        EndReason.UNPAID,
    }
)
"""Ends that queue the job again by themselves, without spending a retry."""

JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.SUBMITTED: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.CANCELLED, JobState.FAILED}),
    JobState.STARTING: frozenset(
        {
            JobState.RUNNING,
            JobState.STOPPING,
            JobState.QUEUED,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.RUNNING: frozenset(
        {JobState.STOPPING, JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.STOPPING: frozenset({JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}

ATTEMPT_TRANSITIONS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.PLANNED: frozenset({AttemptState.STARTING, AttemptState.DRAINING, AttemptState.ENDED}),
    AttemptState.STARTING: frozenset({AttemptState.RUNNING, AttemptState.DRAINING, AttemptState.ENDED}),
    AttemptState.RUNNING: frozenset({AttemptState.DRAINING, AttemptState.ENDED}),
    AttemptState.DRAINING: frozenset({AttemptState.ENDED}),
    AttemptState.ENDED: frozenset(),
}


def job_step(current: JobState, wanted: JobState) -> JobState:
    """`wanted`, if a job may go there from `current`; otherwise `IllegalTransition`."""
    if wanted not in JOB_TRANSITIONS[current]:
        raise IllegalTransition(f"a job cannot go from {current} to {wanted}")
    return wanted


def attempt_step(current: AttemptState, wanted: AttemptState) -> AttemptState:
    """`wanted`, if an attempt may go there from `current`; otherwise `IllegalTransition`."""
    if wanted not in ATTEMPT_TRANSITIONS[current]:
        raise IllegalTransition(f"an attempt cannot go from {current} to {wanted}")
    return wanted


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a job when an attempt ends.

    ``wait`` is the seconds of backoff when it is queued again; ``retry`` whether that spends one.
    """

    state: JobState
    retry: bool = False
    wait: int = 0


def attempt_outcome(
    reason: EndReason,
    exit_code: int | None,
    spec: JobSpec,
    retries_spent: int,
    *,
    cancel: bool = False,
    ran: bool = False,
) -> Outcome:
    """Where an ended attempt leads (design §5, scheduling §4).

    A job that exits by itself with code 0 has succeeded, also while draining, unless it is a service: any exit of a
    service restarts it with backoff.  Evictions, lost nodes, card faults and `saved` queue it again; only a failure
    (and a failed start, which is tried like one) spends a retry.  ``ran``: an attempt of the job has run before, so a
    service is no longer given up for starts that fail.
    """
    service = spec.type is JobType.SERVICE
    if cancel or reason is EndReason.CANCELLED:
        return Outcome(JobState.CANCELLED)
    if reason is EndReason.COMPLETED and not service:
        return Outcome(JobState.SUCCEEDED)
    if reason is EndReason.MAX_DURATION:
        return Outcome(JobState.FAILED)
    if reason in REQUEUE_REASONS:
        return Outcome(JobState.QUEUED)
    if service and (ran or reason is not EndReason.START_FAILED):
        return Outcome(JobState.QUEUED, wait=spec.retry.backoff(retries_spent), retry=True)
    allowed = reason is EndReason.START_FAILED or spec.retry.covers(exit_code)
    limit = max(spec.retry.limit, 3) if reason is EndReason.START_FAILED else spec.retry.limit
    if allowed and retries_spent < limit:
        return Outcome(JobState.QUEUED, retry=True, wait=spec.retry.backoff(retries_spent))
    return Outcome(JobState.FAILED)
