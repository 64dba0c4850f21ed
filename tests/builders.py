"""Small builders of snapshots: say only what matters to the case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, CardHours, Dequeue, Dimensions, QueueConfig
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Hold, Job, NodeState, PastEviction, RunState, Seat, Settings, Snapshot

Amount = int | dict[str, int] | None
"""Cards, or cards per dimension; in whole cards."""


def node(
    name: str,
    count: int = 8,
    *,
    model: str = "A800-80GB",
    vendor: str = "nvidia",
    memory: int = 81_920,
    cpu: int = 128_000,
    ram: int = 2_097_152,
    islands: tuple[tuple[int, ...], ...] = (),
    labels: dict[str, str] | None = None,
    taints: tuple[str, ...] = (),
    cordoned: bool = False,
    draining: bool = False,
    lost: bool = False,
    bad: Iterable[int] = (),
) -> NodeState:
    """A node of `count` cards, 80 GB each; ``ram`` in MiB."""
    kind = CardKind(model, vendor, memory, count, islands) if count else None
    spec = NodeSpec(name, cpu, ram, kind, tuple(sorted((labels or {}).items())), taints)
    return NodeState(spec, cordoned, draining, lost, frozenset(bad))


def pool(nodes: int, count: int = 8, **more: object) -> tuple[NodeState, ...]:
    """n1, n2, … of `count` cards each."""
    return tuple(node(f"n{index}", count, **more) for index in range(1, nodes + 1))  # type: ignore[arg-type]


def queue(
    name: str,
    *,
    g: Amount = None,
    d: Amount = None,
    c: Amount = None,
    cap_milli: int | None = None,
    lend: bool = True,
    fifo: bool = False,
    hours: tuple[int, int] | None = None,
) -> QueueConfig:
    """A queue; the class is its last name if that is one, else it is an inner queue.  Amounts in cards."""
    word = name.rpartition("/")[2]
    return QueueConfig(
        name,
        QueueClass(word) if word in set(QueueClass) else None,
        _milli(g),
        _milli(d),
        {CARDS: cap_milli} if cap_milli is not None else _milli(c),
        lend,
        Dequeue.FIFO if fifo else Dequeue.TRAVERSE,
        CardHours(hours[0] * 1000, hours[1] * 1000) if hours else None,
    )


def _milli(amount: Amount) -> Dimensions | None:
    if amount is None:
        return None
    return {CARDS: amount * 1000} if isinstance(amount, int) else {name: n * 1000 for name, n in amount.items()}


def job(name: str, leaf: str, gpu: str | int | CardRequest = 1, **more: object) -> Job:
    """A waiting job.  In a prod leaf it is not preemptible unless said so."""
    more.setdefault("preemptible", not leaf.endswith("/prod"))
    request = gpu if isinstance(gpu, CardRequest) else card_request_parse(str(gpu))
    return Job(name, leaf, request, **more)  # type: ignore[arg-type]


def running(
    name: str,
    leaf: str,
    at: str | list[str],
    gpu: str | int = 8,
    *,
    cards: Iterable[int] | None = None,
    age: int = 3600,
    saved: int | None = None,
    now: int = 0,
    **more: object,
) -> Job:
    """A running job; ``at`` is its node or nodes, ``cards`` the indexes on each (default: the first ones).

    ``age`` seconds since its start, ``saved`` seconds since its last checkpoint.
    """
    names = [at] if isinstance(at, str) else at
    waiting = job(name, leaf, gpu, **more)
    milli = waiting.gpu.milli
    indexes = tuple(cards) if cards is not None else tuple(range(max(1, milli // 1000)) if milli else ())
    seats = tuple(Seat(place, indexes, milli if 0 < milli < 1000 else 1000) for place in names)
    return replace(
        waiting,
        nodes=len(names),
        seats=seats,
        state=RunState.RUNNING,
        started=now - age,
        submitted=more.get("submitted", now - age),  # type: ignore[arg-type]
        checkpointed=None if saved is None else now - saved,
    )


def draining(job_: Job, until: int) -> Job:
    return replace(job_, state=RunState.DRAINING, until=until)


def snapshot(
    nodes: Iterable[NodeState],
    queues: Iterable[QueueConfig],
    jobs: Iterable[Job],
    *,
    now: int = 0,
    holds: Iterable[Hold] = (),
    evictions: Iterable[PastEviction] = (),
    **settings: int,
) -> Snapshot:
    return Snapshot(now, tuple(nodes), tuple(queues), tuple(jobs), tuple(holds), tuple(evictions), Settings(**settings))


def started(result: Plan) -> list[str]:
    return [start.job for start in result.start]


def evicted(result: Plan) -> list[str]:
    return [evict.job for evict in result.evict]


def codes(result: Plan, name: str) -> list[str]:
    """The reason codes of a waiting job."""
    return [reason.code.value for wait in result.wait if wait.job == name for reason in wait.reasons]


def step(before: Snapshot, result: Plan | None = None, *, seconds: int = 20, more: Iterable[Job] = ()) -> Snapshot:
    """The snapshot after a plan was carried out and its victims have left, `seconds` later; `more` jobs arrive."""
    result = result or plan(before)
    seats = {start.job: start.seats for start in result.start}
    gone = set(evicted(result))
    jobs: list[Job] = []
    for old in before.jobs:
        if old.id in seats:
            old = replace(old, state=RunState.RUNNING, seats=seats[old.id], started=before.now)
        elif old.id in gone or old.state is RunState.DRAINING:
            old = replace(old, state=RunState.QUEUED, seats=(), started=None, checkpointed=None, until=None)
        jobs.append(old)
    holds = tuple(Hold(hold.job, hold.seats, hold.until, hold.victims) for hold in result.hold)
    past = tuple(
        PastEviction(_leaf(before, evict.claimant), _leaf(before, evict.job), before.now, evict.borrowed)
        for evict in result.evict
    )
    return replace(
        before,
        now=before.now + seconds,
        jobs=(*jobs, *more),
        holds=holds,
        evictions=(*before.evictions, *past),
    )


def _leaf(at: Snapshot, name: str) -> str:
    return next(job_.queue for job_ in at.jobs if job_.id == name)


__all__ = ["Rank", "codes", "draining", "evicted", "job", "node", "plan", "pool", "queue", "running", "snapshot"]
