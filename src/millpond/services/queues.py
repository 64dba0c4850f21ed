"""Queues: the tree with its usage, and the pool view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.stores.jobs import job_list
from millpond.db.stores.promises import promise_list
from millpond.domain.errors import NotFound
from millpond.domain.jobs import JobState
from millpond.domain.queues import QueueConfig
from millpond.domain.reasons import Reason
from millpond.domain.records import AttemptRecord, JobRecord, PromiseRecord
from millpond.scheduling.decisions import Rank
from millpond.scheduling.pool import pool_size
from millpond.scheduling.quota import FREE, Queue, Tree
from millpond.scheduling.state import State
from millpond.scheduling.usage import Usage
from millpond.services.deps import Services
from millpond.services.planning import Pool, Sight, pool_read, sight_of
from millpond.services.standing import Standing, Standings

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue with its limits in force and its usage, milli-cards.  ``configured``: it is in the quota document."""

    config: QueueConfig
    guarantee: Amounts
    deserved: Amounts
    cap: Amounts
    used: Amounts
    pending: int
    running: int
    waiting: int
    configured: bool


@dataclass(frozen=True, slots=True)
class TreeView:
    now: datetime
    pool: Amounts
    used: Amounts
    simulated: bool
    queues: tuple[QueueView, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting job.  ``job`` and ``promise`` are ``None`` if the caller may not see it."""

    job: JobRecord | None
    milli: int
    nodes: int
    since: datetime
    rank: Rank | None
    position: int | None
    pool_position: int
    reason: Reason | None
    promise: PromiseRecord | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A running job.  ``job`` and ``attempt`` are ``None`` if the caller may not see it."""

    job: JobRecord | None
    attempt: AttemptRecord | None
    state: JobState
    milli: int
    nodes: int
    since: datetime
    rank: Rank | None


@dataclass(frozen=True, slots=True)
class PoolOverview:
    now: datetime
    pool: Amounts
    used: Amounts
    simulated: bool
    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]


def queue_tree(deps: Services, actor: Actor) -> TreeView:
    """Every queue that the actor may see, parents first, as it takes effect now."""
    authorize(actor, Action.QUEUE_READ)
    sight = sight_of(actor, Action.QUEUE_READ)
    pool = pool_read(deps)
    state = State(pool.snapshot)
    tree, usage = state.tree, state.usage
    given = {config.name for config in pool.world.queues}
    counts = _counts(pool, tree)
    names = sorted(name for name in tree.queues if name and sight.sees(name.partition("/")[0]))
    views = tuple(
        QueueView(
            config=tree.queues[name].config,
            guarantee=_promised(tree, tree.queues[name].guarantee),
            deserved=_promised(tree, tree.queues[name].deserved),
            cap={dim: milli for dim, milli in zip(tree.dims, tree.queues[name].cap, strict=True) if milli != FREE},
            used=_used(tree, usage, tree.queues[name]),
            pending=counts[name].pending,
            running=counts[name].running,
            waiting=counts[name].waiting,
            configured=name in given,
        )
        for name in names
    )
    return TreeView(pool.now, _capacity(pool), _used(tree, usage, tree.root), pool.simulated, views)


def pool_view(deps: Services, standings: Standings, actor: Actor, leaf: str = "") -> PoolOverview:
    """Who runs and who waits, in order; with `leaf` only its jobs.  `NotFound` for a leaf that the actor cannot see."""
    authorize(actor, Action.QUEUE_READ)
    sight = sight_of(actor)
    latest = deps.database.run("pool_view", lambda tx: job_list(tx, actor, user=actor.user, limit=1).items)
    standing = standings.now(latest)
    pool = standing.pool
    if leaf and (leaf not in standing.judged.queues or not sight.sees(leaf.partition("/")[0])):
        raise NotFound(f"no queue {leaf[:200]!r}", code="NO_SUCH_QUEUE", hint="millpond quota lists them")
    promises = deps.database.run("promise_list", lambda tx: promise_list(tx, actor)) if standing.plan.wait else {}
    return PoolOverview(
        now=pool.now,
        pool=_capacity(pool),
        used={dim: milli for place, (dim, milli) in enumerate(standing.used.items()) if milli or not place},
        simulated=pool.simulated,
        running=tuple(_running(standing, sight, leaf)),
        waiting=tuple(_waiting(standing, sight, leaf, promises)),
    )


@dataclass(slots=True)
class _Count:
    pending: int = 0
    running: int = 0
    waiting: int = 0


def _counts(pool: Pool, tree: Tree) -> dict[str, _Count]:
    counts = {name: _Count() for name in tree.queues}
    for job in pool.world.jobs:
        leaf = tree.queues.get(job.queue)
        for queue in leaf.path if leaf is not None else ():
            if job.state is JobState.QUEUED:
                counts[queue.name].waiting += 1
                counts[queue.name].pending += job_milli(job)
            else:
                counts[queue.name].running += 1
    return counts


def job_milli(job: JobRecord) -> int:
    """Milli-cards that a job asks for in all (its largest size; slices count when they are placed)."""
    return job.spec.resources.gpu.milli * job.spec.nodes


def _running(standing: Standing, sight: Sight, leaf: str) -> list[Running]:
    pool, jobs = standing.pool, standing.pool.jobs()
    found: list[tuple[int, AttemptRecord, JobRecord]] = []
    for attempt in pool.world.attempts:
        job = jobs.get(attempt.job)
        if job is not None and _inside(job, leaf):
            rank = standing.ranks.get(job.id)
            found.append((rank if rank is not None else len(Rank), attempt, job))
    found.sort(key=lambda item: (item[0], item[1].planned_at, item[2].id))
    return [
        Running(
            job=job if sight.sees(job.tenant) else None,
            attempt=attempt if sight.sees(job.tenant) else None,
            state=job.state,
            milli=attempt.milli,
            nodes=len({seat.node for seat in attempt.seats}),
            since=attempt.planned_at,
            rank=standing.ranks.get(job.id),
        )
        for _, attempt, job in found
    ]


def _waiting(standing: Standing, sight: Sight, leaf: str, promises: Mapping[str, PromiseRecord]) -> list[Waiting]:
    """Jobs that start with the next pass first, then the others in the order in which they are considered."""
    jobs, plan = standing.pool.jobs(), standing.plan
    starts = [(start.job, start.rank, None, None) for start in plan.start]
    waits = [(wait.job, wait.rank, wait.position, wait.reasons[0] if wait.reasons else None) for wait in plan.wait]
    rows: list[Waiting] = []
    for place, (name, rank, position, reason) in enumerate([*starts, *waits], 1):
        job = jobs.get(name)
        if job is None or not _inside(job, leaf):
            continue
        seen = sight.sees(job.tenant)
        rows.append(
            Waiting(
                job=job if seen else None,
                milli=job_milli(job),
                nodes=job.spec.nodes,
                since=job.submitted_at,
                rank=rank,
                position=position if seen else None,
                pool_position=place,
                reason=sight.reason(reason, jobs) if reason is not None and seen else None,
                promise=promises.get(name) if seen else None,
            )
        )
    return rows


def _inside(job: JobRecord, leaf: str) -> bool:
    return not leaf or job.queue == leaf or job.queue.startswith(leaf + "/")


def _capacity(pool: Pool) -> Amounts:
    by_model = pool_size(pool.snapshot.nodes)
    return {"cards": sum(by_model.values()), **by_model}


def _promised(tree: Tree, vector: list[int]) -> Amounts:
    """Dimensions with an amount, `cards` always."""
    pairs = zip(tree.dims, vector, strict=True)
    return {dim: milli for index, (dim, milli) in enumerate(pairs) if index == 0 or 0 < milli < FREE}


def _used(tree: Tree, usage: Usage, queue: Queue) -> Amounts:
    amounts = {dim: usage.used(queue, index) for index, dim in enumerate(tree.dims)}
    return {dim: milli for dim, milli in amounts.items() if milli or dim == tree.dims[0]}
