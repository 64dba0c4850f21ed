"""Jobs and attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.api.schemas.explanations import Reason
from millpond.api.schemas.placements import Seat
from millpond.domain.jobs import AttemptState, EndReason, JobState, JobType, QueuedAs
from millpond.domain.records import AttemptRecord

Text = str | int | float | bool


class JobSubmit(Schema):
    """A job, with the keys and the grammar of a job file (scalars may be strings or numbers)."""

    type: JobType = Field(description="task, service or workspace.")
    name: str = Field(description="Label, unique among the project's live jobs.")
    commands: list[str] = Field(description="Shell lines, run under `sh -e`; the last one is the main process.")
    tenant: Text = Field(default="", description="Tenant; absent: the token's only one.")
    project: Text = Field(default="", description="Project inside the tenant.")
    queue: str = Field(default="batch", description="prod, batch or besteffort.")
    priority: Text = Field(default=50, description="0 to 100 inside the queue.")
    nodes: Text = Field(default=1, description="Gang size in nodes.")
    processes_per_node: Text = Field(default=1, description="Ranks per node.")
    resources: dict[str, Text] = Field(
        default_factory=dict, description="Per node: `gpu` (`A800:8`), `cpu` (16), `memory` (64GB), `shm` (16GB)."
    )
    env: list[str] = Field(default_factory=list, description="`NAME=value`; bare names are for clients to fill in.")
    image: str = Field(default="", description="Container image, on engines that have them.")
    working_dir: str = Field(default="", description="Directory relative to the job's own.")
    max_duration: Text | None = Field(default=None, description="Longest run of an attempt, such as 8h.")
    checkpoint: dict[str, Text] = Field(default_factory=dict, description="`signal`, `grace`, `every`.")
    retry: dict[str, Any] = Field(default_factory=dict, description="`exits` (`any` or codes), `limit`, `backoff`.")
    topology: dict[str, str] = Field(default_factory=dict, description="`require`, `prefer`.")
    preemptible: Text | None = Field(default=None, description="Absent: no for prod, yes for the others.")
    depends_on: list[str] = Field(default_factory=list, description="Jobs that must succeed first: ids or names.")
    start_at: str | None = Field(default=None, description="Not before this time (ISO 8601).")
    service: dict[str, Any] | None = Field(default=None, description="`port`, `ready: {http, timeout}`.")
    labels: dict[str, Text] = Field(default_factory=dict, description="Free labels.")


class Job(Schema):
    """A job as it stands."""

    id: str = Field(description="Id.")
    name: str = Field(description="Label, unique among the project's live jobs.")
    tenant: str = Field(description="Tenant.")
    project: str = Field(description="Project; empty: none.")
    user: str = Field(description="Owner.")
    queue: str = Field(description="Leaf, such as factor/batch.")
    type: JobType = Field(description="task, service or workspace.")
    state: JobState = Field(description="State.")
    queued_as: QueuedAs | None = Field(description="Sub-state while queued; null otherwise.")
    priority: int = Field(description="0 to 100 inside the queue.")
    nodes: int = Field(description="Gang size in nodes.")
    ranks: int = Field(description="Processes in all: nodes x processes per node.")
    gpu: str = Field(description="Card request per node; `0`: none.")
    milli: int = Field(description="Milli-cards that it takes now, or asks for while it waits.")
    submitted_at: datetime = Field(description="When it was submitted; a requeue does not change it.")
    started_at: datetime | None = Field(description="When an attempt of it first ran.")
    finished_at: datetime | None = Field(description="When it ended for good.")
    not_before: datetime | None = Field(description="End of a backoff, or its start time.")
    held: bool = Field(description="Held by its owner: it waits until it is released.")
    cancel: bool = Field(description="It was asked to stop and has not stopped yet.")
    attempts: int = Field(description="Attempts so far.")
    retries_spent: int = Field(description="Retries spent; evictions spend none.")
    checkpointed: bool = Field(description="It has a checkpoint to resume from.")
    reason: EndReason | None = Field(description="Why its last attempt ended.")
    exit_code: int | None = Field(description="Exit code of its last ended attempt.")
    message: str = Field(description="A sentence about the last thing that went wrong.")
    blocked: list[str] = Field(description="Dependencies that have not succeeded yet.")
    placement: list[Seat] = Field(description="Where its present attempt sits; empty: it has none.")
    deadline_at: datetime | None = Field(
        description="When its present attempt will be killed; null: it is not leaving."
    )
    spec: dict[str, Any] = Field(
        description="The job in the form of a job file.  `env` has only names: values never leave the server."
    )


class JobStop(Schema):
    """How to stop."""

    grace: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="Seconds from the warning to KILL; absent: the job's own; 0: at once.",
    )


class Attempt(Schema):
    """One run of a job."""

    id: str = Field(description="`<job id>-<number>`.")
    job: str = Field(description="Its job.")
    number: int = Field(description="1-based.")
    state: AttemptState = Field(description="State.")
    placement: list[Seat] = Field(description="Where it sits or sat.")
    milli: int = Field(description="Milli-cards in all.")
    planned_at: datetime = Field(description="When it was decided.")
    started_at: datetime | None = Field(description="When every rank ran.")
    ready_at: datetime | None = Field(description="When every rank was ready.")
    checkpointed_at: datetime | None = Field(description="When it last saved.")
    draining_at: datetime | None = Field(description="When it was asked to leave.")
    deadline_at: datetime | None = Field(description="When it will be, or would have been, killed.")
    drain_reason: EndReason | None = Field(description="Why it was asked to leave.")
    drain_for: str = Field(description="Job that it makes room for; empty if none, or hidden.")
    ended_at: datetime | None = Field(description="When it ended.")
    reason: EndReason | None = Field(description="Why it ended.")
    exit_code: int | None = Field(description="Exit code: 0, or that of the first rank that failed.")
    lost_milli_seconds: int = Field(description="Work lost at its end, milli-card-seconds.")
    message: str = Field(description="A sentence about what went wrong.")

    @classmethod
    def of(cls, record: AttemptRecord, drain_for: str) -> Attempt:
        """`drain_for` as far as the caller may see."""
        return cls(
            id=record.id,
            job=record.job,
            number=record.number,
            state=record.state,
            placement=[Seat.of(seat) for seat in record.seats],
            milli=record.milli,
            planned_at=record.planned_at,
            started_at=record.started_at,
            ready_at=record.ready_at,
            checkpointed_at=record.checkpointed_at,
            draining_at=record.draining_at,
            deadline_at=record.deadline_at,
            drain_reason=record.drain_reason,
            drain_for=drain_for,
            ended_at=record.ended_at,
            reason=record.reason,
            exit_code=record.exit_code,
            lost_milli_seconds=record.lost_milli_seconds,
            message=record.message,
        )


class LogText(Schema):
    """A piece of a rank's output."""

    attempt: str = Field(description="The attempt.")
    rank: int = Field(description="The rank.")
    offset: int = Field(description="Byte after this piece: pass it back to continue.")
    text: str = Field(description="Output; bytes that are not UTF-8 are replaced.  Empty: nothing new yet.")
    end: bool = Field(description="The attempt has ended and nothing follows.")


class JobChange(Schema):
    """Data of the SSE event `job`: a job after a change, with why it waits."""

    job: Job = Field(description="The job.")
    position: int | None = Field(description="Place in its leaf while it waits, 1-based.")
    reasons: list[Reason] = Field(description="All limits that bind now; empty unless it waits.")


class LogEvent(Schema):
    """Data of the SSE event `log`."""

    rank: int = Field(description="The rank.")
    offset: int = Field(description="Byte after this piece.")
    text: str = Field(description="Output.")


class AttemptEvent(Schema):
    """Data of the SSE events `attempt` (a new attempt's output follows) and `end` (nothing follows)."""

    attempt: str = Field(description="The attempt; empty if there never was one.")
    state: JobState = Field(description="State of the job.")
    reason: EndReason | None = Field(default=None, description="Why the last attempt ended.")
    exit_code: int | None = Field(default=None, description="Exit code of the last attempt.")
