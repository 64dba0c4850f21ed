"""A job in the scheduler's hands: who it is, what it takes, where it sits, how it stands in its leaf."""

from __future__ import annotations

from enum import IntEnum

from millpond.scheduling.decisions import Rank
from millpond.scheduling.quota import Dims, Queue
from millpond.scheduling.snapshot import Job, RunState, Seat

OrderKey = tuple[bool, int, int, str]


class Kind(IntEnum):
    """How a task occupies its seats."""

    RUNNING = 0
    DRAINING = 1
    HELD = 2
    """Holds cards for a claim whose victims are leaving, or for a job that moves and has not left its old cards."""
    PLACED = 3
    """Starts with this plan."""


class Task:
    """``milli`` is the whole job's; ``admitted`` orders it in its leaf; ``stands`` says that it is among the ranked.

    ``key`` is its place in its leaf.  Who leaves does so by ``until``; a hold awaits that its ``victims`` do.  ``id``
    is the job's, but for the new place of one that is still on its old cards: that is a task beside the one there.
    """

    __slots__ = (
        "admitted", "counted", "dims", "id", "job", "key", "kind", "leaf", "milli", "overdue", "seats", "stands",
        "until", "victims",
    )  # fmt: skip

    def __init__(
        self, job: Job, leaf: Queue, kind: Kind, milli: int, dims: Dims, seats: tuple[Seat, ...], admitted: int
    ) -> None:
        self.job = job
        self.leaf = leaf
        self.kind = kind
        self.milli = milli
        self.dims = dims
        self.seats = seats
        self.admitted = admitted
        self.counted = True
        self.victims: tuple[str, ...] = ()
        self.until = 0
        self.overdue = False
        self.stands = False
        self.id = moving_id(job.id) if kind is Kind.HELD and job.state is not RunState.QUEUED else job.id
        self.key: OrderKey = (job.preemptible, -job.priority, admitted, job.id)

    @property
    def moving(self) -> bool:
        """Whether it is the new place of a job that is still on its old cards."""
        return self.kind is Kind.HELD and self.job.state is not RunState.QUEUED

    @property
    def ranked(self) -> bool:
        """Whether it has a rank: who leaves has none, though it counts as usage until it is gone or replaced."""
        return self.counted and self.kind is not Kind.DRAINING and not self.overdue


def moving_id(job_id: str) -> str:
    """The name of a job's new place while it is still on its old cards; no job can be called so."""
    return f"{job_id}\n"


def seats_milli(seats: tuple[Seat, ...]) -> int:
    """Milli-cards of a placement in all."""
    return sum(seat.milli * len(seat.cards) for seat in seats)


def claim_key(job: Job) -> tuple[int, int, str]:
    """Leaf order of waiting jobs (§5): priority descending, submit time, id."""
    return (-job.priority, job.submitted, job.id)


def behind(victim: Job, claim: Job) -> bool:
    """Whether `victim` stands behind `claim` in one leaf (§3): preemptible behind not, then lower priority."""
    return (claim.preemptible, -claim.priority) < (victim.preemptible, -victim.priority)


def reclaimable(rank: Rank, claim: Rank, *, family: bool) -> bool:
    """Whether a claim of another leaf may evict somebody of `rank` (§3); ``family``: both are of one tenant."""
    return rank > claim and (rank is not Rank.FAMILY or family or claim is Rank.GUARANTEED)
