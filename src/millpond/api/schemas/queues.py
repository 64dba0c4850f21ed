"""Queues: the configured tree with its usage, the pool view and the quota document."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.api.schemas.explanations import Eta, Reason
from millpond.domain.jobs import JobState, JobType, QueueClass
from millpond.domain.queues import Dequeue

Amounts = dict[str, int]
"""Milli-cards per dimension: `cards` for all cards, or a card model."""


class CardHoursBudget(Schema):
    """A budget of card-hours."""

    limit: int = Field(description="Milli-card-hours in all.")
    used: int = Field(description="Milli-card-hours already used.")


class Queue(Schema):
    """One queue of the tree with its limits, as configured and as they take effect, and its usage now."""

    name: str = Field(description="`tenant`, `tenant/project`, `tenant/class` or `tenant/project/class`.")
    parent: str = Field(description="Name of the queue above; empty: the root.")
    klass: QueueClass | None = Field(
        serialization_alias="class", description="Class of a leaf; null for an inner queue."
    )
    guarantee: Amounts = Field(description="In force, milli-cards per dimension: kept for it, whatever others want.")
    deserved: Amounts = Field(description="In force, milli-cards per dimension: its fair share when all want cards.")
    cap: Amounts = Field(description="In force, milli-cards per dimension; an absent dimension is unlimited.")
    used: Amounts = Field(description="Milli-cards taken now per dimension, `cards` always present; holds included.")
    pending: int = Field(description="Milli-cards that its waiting jobs ask for.")
    running_jobs: int = Field(description="Jobs that run (starting and stopping included).")
    waiting_jobs: int = Field(description="Jobs that wait.")
    lend: bool = Field(description="Whether unused guarantee may be borrowed by others.")
    dequeue: Dequeue = Field(description="`traverse`: later jobs may pass a blocked one; `fifo`: they may not.")
    card_hours: CardHoursBudget | None = Field(default=None, description="Budget, if it has one.")
    configured: bool = Field(default=True, description="False for an inner queue that stands only for its children.")


class QueueTree(Schema):
    """All queues that the caller may see, parents before children."""

    at: datetime = Field(description="When this was true.")
    pool: Amounts = Field(description="Every configured card, milli-cards per dimension.")
    used: Amounts = Field(description="Taken now by all tenants together, milli-cards per dimension.")
    simulated: bool = Field(description="Whether some of the pool's cards are simulated.")
    items: list[Queue] = Field(description="The queues, parents before children.")


class PoolJob(Schema):
    """A live job in the pool view.  Of other tenants' jobs a member sees only size, since when and places."""

    job: str = Field(description="Id; empty if the caller may not see the job.")
    name: str = Field(description="Name; empty if hidden.")
    tenant: str = Field(description="Tenant; empty if hidden.")
    project: str = Field(description="Project; empty if hidden or none.")
    user: str = Field(description="Owner; empty if hidden.")
    queue: str = Field(description="Leaf; empty if hidden.")
    type: JobType | None = Field(description="Type; null if hidden.")
    state: JobState = Field(description="State.")
    rank: str | None = Field(description="Rank of the running job or of the claim (`guaranteed` … `opportunistic`).")
    milli: int = Field(description="Milli-cards that it takes, or asks for (slices count when placed).")
    gpu: str = Field(description="Card request per node; empty if hidden.")
    nodes: int = Field(description="Nodes.")
    priority: int | None = Field(description="Priority in its leaf; null if hidden.")
    since: datetime = Field(description="Running: when its attempt was planned; waiting: when it was submitted.")
    position: int | None = Field(description="Waiting: place in its leaf, 1-based; null if running or hidden.")
    pool_position: int | None = Field(description="Waiting: place in the whole pool, 1-based; null if running.")
    reason: Reason | None = Field(description="Waiting: the first reason that binds now; `why` has all.")
    placed: list[str] = Field(description="Running: its nodes; empty if hidden.")
    forecast: Eta | None = Field(default=None, description="Waiting: the promised start; null if none or hidden.")


class PoolView(Schema):
    """Who runs and who waits, in order."""

    at: datetime = Field(description="When this was true: on a large, busy pool up to some seconds ago.")
    pool: Amounts = Field(description="Every configured card, milli-cards per dimension.")
    used: Amounts = Field(description="Milli-cards taken now per dimension.")
    simulated: bool = Field(description="Whether some of the pool's cards are simulated.")
    running: list[PoolJob] = Field(description="Running jobs, the safest rank first.")
    waiting: list[PoolJob] = Field(description="Waiting jobs in the order in which they are considered.")


class QueueAccuracy(Schema):
    """How the promised starts of one leaf did."""

    queue: str = Field(description="The leaf.")
    judged: int = Field(description="Promises whose job has started, or should have and has not.")
    held: int = Field(description="Of these, started between P10 and P90.")
    open: int = Field(description="Promises that cannot be judged yet.")
    median_error: int | None = Field(description="Seconds between the promised middle and the start; null: no start.")
    median_width: int | None = Field(description="Seconds from P10 to P90 of those judged; null: none was.")


class Accuracy(Schema):
    """How promised starts did.  Of ten, eight should hold: fewer is too bold, more is too timid."""

    at: datetime = Field(description="When this was true.")
    since: datetime = Field(description="Promises made since then are counted.")
    items: list[QueueAccuracy] = Field(description="By leaf.")


class QueueInput(Schema):
    """One queue of a quota document (same keys as `queues` of a snapshot file)."""

    name: str = Field(description="`tenant`, `tenant/project`, `tenant/class` or `tenant/project/class`.")
    klass: QueueClass | None = Field(
        default=None, alias="class", description="Given for a leaf, absent for an inner queue."
    )
    guarantee: str | int | float | dict[str, str | int | float] | None = Field(
        default=None, description="Cards (0.5, 16), or cards per dimension: `{cards: 16, A800-80GB: 16}`."
    )
    deserved: str | int | float | dict[str, str | int | float] | None = Field(default=None, description="As guarantee.")
    cap: str | int | float | dict[str, str | int | float] | None = Field(default=None, description="As guarantee.")
    lend: bool = Field(default=True, description="Whether unused guarantee may be borrowed by others.")
    dequeue: Dequeue = Field(default=Dequeue.TRAVERSE, description="Whether later jobs may pass a blocked one.")
    card_hours: dict[str, str | int] | None = Field(default=None, description="`{limit, used}` in card-hours.")
    labels: dict[str, str] = Field(default_factory=dict, description="Free labels.")


class QuotaPut(Schema):
    """The whole set of queues: what is not in it is removed."""

    queues: list[QueueInput] = Field(description="Every queue of the platform.")


class Change(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class QuotaChange(Schema):
    """What happens to one queue."""

    name: str = Field(description="The queue.")
    change: Change = Field(description="What happens to it.")
    before: dict[str, object] | None = Field(description="As it was, in the form of a quota file; null if added.")
    after: dict[str, object] | None = Field(description="As it will be; null if removed.")


class QuotaResult(Schema):
    """The difference that a quota document makes."""

    dry_run: bool = Field(description="True: nothing was changed.")
    changes: list[QuotaChange] = Field(description="Differences, by name; empty: the document is already in force.")
    unchanged: int = Field(description="Queues that stay as they are.")
    warnings: list[str] = Field(description="What is allowed, but worth a second look.")
