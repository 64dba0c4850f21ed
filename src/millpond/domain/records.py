"""Records: rows as the rooms outside the database see them.  Frozen values with aware datetimes; no behaviour.

Stores return these; services and control pass them on; the API turns them into schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from millpond.domain.jobs import AttemptState, EndReason, JobSpec, JobState, QueuedAs
from millpond.domain.nodes import NodeSpec
from millpond.domain.queues import QueueConfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """``uid``: the unprivileged user id that this tenant's jobs run as on the local engine."""

    name: str
    title: str
    uid: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    tenant: str
    name: str
    created_at: datetime


class Role(StrEnum):
    """``platform-admin`` and ``auditor`` may be held for the whole platform; the others belong to a tenant."""

    PLATFORM_ADMIN = "platform-admin"
    TENANT_ADMIN = "tenant-admin"
    MEMBER = "member"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """`tenant` empty: a role for the whole platform."""

    user: str
    tenant: str
    role: Role
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """``scopes`` empty: everything its user may do; else names of actions.  The secret itself is never stored."""

    id: str
    user: str
    label: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    spec: NodeSpec
    engine: str
    cordoned: bool = False
    draining: bool = False
    lost: bool = False
    bad_cards: Mapping[int, str] = field(default_factory=dict)
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SeatRecord:
    """As `scheduling.snapshot.Seat`: one node of a placement."""

    node: str
    cards: tuple[int, ...] = ()
    milli: int = 1000
    slice: str = ""
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """``queue`` is the leaf; ``queued_as`` only means something while queued; ``not_before`` ends a backoff.

    ``cancel`` is asked for and not yet done.  ``saves_on_signal``: an earlier attempt saved after its warning.
    ``reason`` and ``exit_code`` are those of the last ended attempt.  ``blocked``: dependencies not yet succeeded.
    """

    id: str
    tenant: str
    project: str
    user: str
    queue: str
    spec: JobSpec
    state: JobState
    queued_as: QueuedAs
    submitted_at: datetime
    attempts: int = 0
    retries_spent: int = 0
    not_before: datetime | None = None
    held: bool = False
    cancel: bool = False
    saves_on_signal: bool = False
    checkpointed: bool = False
    reason: EndReason | None = None
    exit_code: int | None = None
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    blocked: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One run of a job.  ``drain_reason`` is why it was asked to leave and ``drain_for`` the job it makes room for.

    ``deadline_at``: when it will be killed.  ``applied``: the last of this attempt's states that the engine was told.
    ``lost_milli_seconds``: work lost at its end, milli-card-seconds.  ``epoch``: of the leader that planned it.
    ``sku``: the card model that it is billed as; empty without cards.
    """

    id: str
    job: str
    number: int
    tenant: str
    state: AttemptState
    seats: tuple[SeatRecord, ...]
    epoch: int
    planned_at: datetime
    milli: int = 0
    applied: AttemptState | None = None
    started_at: datetime | None = None
    ready_at: datetime | None = None
    checkpointed_at: datetime | None = None
    draining_at: datetime | None = None
    deadline_at: datetime | None = None
    drain_reason: EndReason | None = None
    drain_for: str = ""
    borrowed: bool = False
    ended_at: datetime | None = None
    reason: EndReason | None = None
    exit_code: int | None = None
    lost_milli_seconds: int = 0
    message: str = ""
    sku: str = ""


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """Cards kept for a job until ``until`` (scheduling §4)."""

    job: str
    seats: tuple[SeatRecord, ...]
    until: datetime
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    claimant: str
    victim: str
    time: datetime
    borrowed: bool


@dataclass(frozen=True, slots=True)
class PromiseRecord:
    """When attempt number ``attempt`` of a waiting job was said to start, as quantiles; ``None``: too far to say.

    ``raw_*``: what the forecast said before it was corrected by how earlier promises did.
    """

    job: str
    attempt: int
    made_at: datetime
    tenant: str
    queue: str
    p10: datetime
    p50: datetime
    p90: datetime | None
    raw_p10: datetime
    raw_p50: datetime
    raw_p90: datetime | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """An attempt of a job of `milli` milli-cards that went on for `seconds`; ``ended`` by itself, or cut short."""

    user: str
    name: str
    milli: int
    seconds: int
    ended: bool


@dataclass(frozen=True, slots=True)
class AccuracyRecord:
    """How the promises of one leaf did: of all ``judged``, so many ``held``; ``open`` ones cannot be judged yet.

    ``median_error`` is in seconds between the middle of the promise and the start; ``None`` if nothing has started.
    ``median_width`` is in seconds between P10 and P90 of what was judged; ``None`` if nothing was.
    """

    queue: str
    judged: int
    held: int
    open: int
    median_error: int | None
    median_width: int | None


@dataclass(frozen=True, slots=True)
class World:
    """All that a planning pass needs, read in one transaction: live jobs and attempts only."""

    nodes: tuple[NodeRecord, ...]
    queues: tuple[QueueConfig, ...]
    jobs: tuple[JobRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    holds: tuple[HoldRecord, ...]
    evictions: tuple[EvictionRecord, ...]
    settings: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event of a source's hash chain: ``hash`` covers the fields and ``previous``."""

    sequence: int
    source: str
    source_sequence: int
    time: datetime
    kind: str
    actor: str
    tenant: str
    job: str
    attempt: str
    data: Mapping[str, object]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list; ``next`` is the cursor of the following page, empty at the end."""

    items: tuple[T, ...]
    next: str = ""
