"""Why a job waits, who is ahead, and when it may start."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.api.schemas.placements import Seat
from millpond.domain.jobs import JobState
from millpond.domain.reasons import Code


class Reason(Schema):
    """One limit that binds now.  Numbers are in the unit of the code: milli-cards, milli-CPU, MiB, milli-card-hours."""

    code: Code = Field(description="Stable code.")
    text: str = Field(description="One sentence.")
    need: int | None = Field(default=None, description="What the job needs.")
    have: int | None = Field(default=None, description="What there is.")
    limit: int | None = Field(default=None, description="The limit.")
    free: int | None = Field(default=None, description="What the whole pool has free.")
    jobs: list[str] = Field(default_factory=list, description="Jobs that it waits for, as far as the caller may see.")
    queue: str = Field(default="", description="The queue whose limit it is.")
    until: datetime | None = Field(default=None, description="A deadline, such as of victims that are leaving.")


class Ahead(Schema):
    """A job that stands before this one.  Of other tenants' jobs a member sees only size and since when."""

    job: str = Field(description="Id; empty if hidden.")
    name: str = Field(default="", description="Name; empty if hidden.")
    user: str = Field(description="Owner; empty if hidden.")
    tenant: str = Field(description="Tenant; empty if hidden.")
    queue: str = Field(description="Leaf; empty if hidden.")
    milli: int = Field(description="Milli-cards.")
    since: datetime = Field(description="Since when it runs or waits.")


class Hold(Schema):
    """Cards that are kept for the job."""

    placement: list[Seat] = Field(description="The cards kept.")
    until: datetime = Field(description="When the hold lapses.")
    victims: list[str] = Field(description="Jobs still leaving, as far as the caller may see.")


class Counterfactual(Schema):
    """A change that was tried on the planner."""

    change: str = Field(description="What would be different, as one sentence.")
    starts_now: bool = Field(description="Whether it would start now; otherwise at `at`, when others have left.")
    kind: str = Field(
        default="",
        description="`amount`, `nodes`, `model`, `queue`, `duration`, `preemptible`, `topology`, `cpu` or `memory`.",
    )
    value: str = Field(default="", description="What it would be, as one writes it in a job file.")
    at: datetime | None = Field(default=None, description="When it would start.")


class Eta(Schema):
    """A promised start: of ten such jobs one starts before `p10`, five before `p50`, nine before `p90`."""

    p10: datetime = Field(description="One of ten starts before.")
    p50: datetime = Field(description="The middle.")
    p90: datetime | None = Field(description="Nine of ten start before; null: too far ahead to say.")
    made_at: datetime = Field(description="When this was promised.")


class Reservation(Schema):
    """Cards that others may not be in the way of when the job's turn comes."""

    at: datetime = Field(description="The earliest moment at which it fits, if nobody ends sooner.")
    placement: list[Seat] = Field(description="Where it would sit then.")


class Explanation(Schema):
    """Everything that keeps a job from starting now, or the answer to an offer."""

    at: datetime = Field(description="When this was true: on a large, busy pool up to some seconds ago.")
    job: str = Field(description="Id of the job; empty for an offer.")
    name: str = Field(description="Name of the job.")
    queue: str = Field(description="Leaf that it is or would be in.")
    state: JobState = Field(description="State of the job; `queued` for an offer.")
    rank: str | None = Field(description="Rank of the claim or of the running job.")
    position: int | None = Field(description="Place in its leaf, 1-based.")
    pool_position: int | None = Field(description="Place in the whole pool, 1-based.")
    starts_now: bool = Field(description="Whether it would start in a planning pass made now.")
    eta: datetime | None = Field(description="Expected start, if known: the certain one, else the forecast's middle.")
    forecast: Eta | None = Field(default=None, description="The promised start with its interval, while it waits.")
    reasons: list[Reason] = Field(description="All limits that bind now; empty if it runs or starts now.")
    ahead: list[Ahead] = Field(description="Jobs that stand before it.")
    hold: Hold | None = Field(description="Cards kept for it, if any.")
    reservation: Reservation | None = Field(default=None, description="Cards reserved for it, if any.")
    counterfactuals: list[Counterfactual] = Field(description="Changes that would let it start sooner.")
    simulated: bool = Field(description="Whether some of the pool's cards are simulated.")
