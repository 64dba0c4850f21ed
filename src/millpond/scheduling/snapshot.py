"""The world as the scheduler sees it: everything a plan depends on, and nothing else.

All times are whole seconds of one clock (Unix time in production, relative to ``now`` in a file); amounts are
milli-cards, milli-CPU and MiB.  A snapshot is a value: lists in any order give the same plan (scheduling.md, preface).

What is made for every start has a constructor of its own: compiled, that of a frozen dataclass is twenty times slower.
Its fields are as final.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from millpond.domain.cards import CardRequest
from millpond.domain.nodes import NodeSpec
from millpond.domain.queues import QueueConfig


class RunState(StrEnum):
    """``queued`` waits; ``running`` also covers starting; ``draining`` is leaving and still occupies its cards."""

    QUEUED = "queued"
    RUNNING = "running"
    DRAINING = "draining"


@dataclass(slots=True, init=False, unsafe_hash=True)
class Seat:
    """Where a job sits on one node: card indexes, and milli-cards taken of *each* of them (1000 = whole).

    A slice names its MIG profile and the memory slot where it begins.  A job without cards has no indexes.
    """

    node: Final[str]
    cards: Final[tuple[int, ...]]
    milli: Final[int]
    slice: Final[str]
    slot: Final[int | None]

    def __init__(
        self,
        node: str,
        cards: tuple[int, ...] = (),
        milli: int = 1000,
        slice: str = "",  # noqa: A002
        slot: int | None = None,
    ) -> None:
        self.node = node
        self.cards = cards
        self.milli = milli
        self.slice = slice
        self.slot = slot


@dataclass(slots=True, init=False, unsafe_hash=True)
class Job:
    """A live job.  ``queue`` is its leaf.  ``gpu``, ``cpu``, ``memory`` are per node.

    ``started``: when the present attempt was admitted.  ``checkpointed``: last saved moment of the present attempt.
    ``saves_on_signal``: it has shown that it saves on its warning signal.  ``until``: of a draining job, when it is
    gone for certain.  ``blocked_by`` carries reasons that are not the scheduler's to judge (code, sentence): held,
    backoff, dependency, start time; such a job is not considered.
    """

    id: Final[str]
    queue: Final[str]
    gpu: Final[CardRequest]
    nodes: Final[int]
    cpu: Final[int]
    memory: Final[int]
    priority: Final[int]
    preemptible: Final[bool]
    submitted: Final[int]
    state: Final[RunState]
    seats: Final[tuple[Seat, ...]]
    started: Final[int | None]
    checkpointed: Final[int | None]
    max_duration: Final[int | None]
    grace: Final[int]
    saves_on_signal: Final[bool]
    until: Final[int | None]
    user: Final[str]
    name: Final[str]
    service: Final[bool]
    require: Final[str]
    prefer: Final[str]
    checkpoint_every: Final[int | None]
    blocked_by: Final[tuple[tuple[str, str], ...]]

    def __init__(
        self,
        id: str,  # noqa: A002
        queue: str,
        gpu: CardRequest = CardRequest(),
        nodes: int = 1,
        cpu: int = 0,
        memory: int = 0,
        priority: int = 50,
        preemptible: bool = True,
        submitted: int = 0,
        state: RunState = RunState.QUEUED,
        seats: tuple[Seat, ...] = (),
        started: int | None = None,
        checkpointed: int | None = None,
        max_duration: int | None = None,
        grace: int = 20,
        saves_on_signal: bool = False,
        until: int | None = None,
        user: str = "",
        name: str = "",
        service: bool = False,
        require: str = "",
        prefer: str = "",
        checkpoint_every: int | None = None,
        blocked_by: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.id = id
        self.queue = queue
        self.gpu = gpu
        self.nodes = nodes
        self.cpu = cpu
        self.memory = memory
        self.priority = priority
        self.preemptible = preemptible
        self.submitted = submitted
        self.state = state
        self.seats = seats
        self.started = started
        self.checkpointed = checkpointed
        self.max_duration = max_duration
        self.grace = grace
        self.saves_on_signal = saves_on_signal
        self.until = until
        self.user = user
        self.name = name
        self.service = service
        self.require = require
        self.prefer = prefer
        self.checkpoint_every = checkpoint_every
        self.blocked_by = blocked_by


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node and what is wrong with it.  ``bad_cards`` are quarantined indexes.  Cordoned: nothing new starts there."""

    spec: NodeSpec
    cordoned: bool = False
    draining: bool = False
    lost: bool = False
    bad_cards: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Hold:
    """Cards kept for a job whose eviction is under way (scheduling §4).  ``victims`` still leaving."""

    job: str
    seats: tuple[Seat, ...]
    until: int
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PastEviction:
    """For the cool-down: when which leaf evicted from which, and whether the claim was borrowed."""

    claimant: str
    victim: str
    time: int
    borrowed: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """Policy numbers, in seconds; but ``hold_back`` counts jobs: so many may wait although they fit."""

    min_runtime: int = 0
    cooldown: int = 60
    hold_timeout: int = 60
    lost_work_cap: int = 3600
    consolidate_after: int | None = None
    assumed_limit: int = 86_400
    reserve_after: int = 3600
    regroup_after: int | None = None
    hold_back: int = 0
    hold_back_for: int = 600


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of `plan`.  ``now`` in the clock of every other time."""

    now: int
    nodes: tuple[NodeState, ...] = ()
    queues: tuple[QueueConfig, ...] = ()
    jobs: tuple[Job, ...] = ()
    holds: tuple[Hold, ...] = ()
    evictions: tuple[PastEviction, ...] = ()
    settings: Settings = Settings()
    mix: Mapping[str, int] = field(default_factory=dict)


def job_started(job: Job, seats: tuple[Seat, ...], now: int) -> Job:
    """The job as it is once its attempt has been admitted.  Written out, since this is done for every start."""
    return Job(
        id=job.id,
        queue=job.queue,
        gpu=job.gpu,
        nodes=job.nodes,
        cpu=job.cpu,
        memory=job.memory,
        priority=job.priority,
        preemptible=job.preemptible,
        submitted=job.submitted,
        state=RunState.RUNNING,
        seats=seats,
        started=now,
        checkpointed=None,
        max_duration=job.max_duration,
        grace=job.grace,
        saves_on_signal=job.saves_on_signal,
        until=None,
        user=job.user,
        name=job.name,
        service=job.service,
        require=job.require,
        prefer=job.prefer,
        checkpoint_every=job.checkpoint_every,
        blocked_by=job.blocked_by,
    )


def job_requeued(job: Job) -> Job:
    """The job as it is once an attempt is over and it waits again."""
    return replace(job, state=RunState.QUEUED, seats=(), started=None, checkpointed=None, until=None)
