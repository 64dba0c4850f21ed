"""A trace and a pool as a world to simulate.

The pool comes from a snapshot file, or is derived: the trace's own nodes if it names them, else as many nodes of eight
cards as make the trace's work `TARGET` of all card-time between its first and its last submission.  Derived queues: one
``<tenant>/batch`` a tenant, its deserved share of the pool that of its card-seconds, and one ``<tenant>/besteffort``.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from millpond.domain.amounts import CARD
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig, queue_tenant
from millpond.files.nodes import MAX_CARDS_PER_NODE, MAX_NODES, model_facts
from millpond.files.snapshots import SnapshotFile
from millpond.files.traces.names import label_of, user_of
from millpond.files.traces.trace import DECADE, Trace, TraceJob
from millpond.scheduling.snapshot import Job, NodeState, Snapshot
from millpond.simulation.jobs import Work

TARGET = (4, 5)
"""Share of the derived pool that the trace's work fills on average."""

CARDS_PER_NODE = 8
ANY_MODEL = "GPU"
CLASS_ORDER = (QueueClass.BATCH, QueueClass.BESTEFFORT, QueueClass.PROD)


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a trace.  ``begin``, ``end``: submitted from there on, and before (None: all).

    ``limit`` counts jobs; ``speed`` in thousandths: 2000 lets jobs arrive twice as fast.
    """

    begin: int | None = None
    end: int | None = None
    limit: int | None = None
    speed: int = 1000


def trace_cut(trace: Trace, window: Window) -> Trace:
    """The jobs of a window, arriving at its speed.  Raises `InvalidInput` if none is left."""
    first = trace.jobs[0].submitted if window.begin is None else window.begin
    jobs = [job for job in trace.jobs if job.submitted >= first and (window.end is None or job.submitted < window.end)]
    if not jobs:
        last = trace.jobs[-1].submitted - trace.jobs[0].submitted
        raise InvalidInput(
            "no job of the trace was submitted in that time", hint=f"the last one came {last} s after the first"
        )
    first = jobs[0].submitted if window.begin is None else window.begin
    cut = [
        replace(job, submitted=first + (job.submitted - first) * 1000 // window.speed)
        for job in (jobs if window.limit is None else jobs[: window.limit])
    ]
    return replace(trace, jobs=tuple(cut))


def pool_derive(trace: Trace, nodes: tuple[NodeSpec, ...] = ()) -> Snapshot:
    """Nodes and queues for a trace that comes without; `nodes` if they are known."""
    known = nodes or trace.nodes or _nodes(trace.jobs)
    cards = sum(spec.cards.count for spec in known if spec.cards)
    return Snapshot(
        now=trace.jobs[0].submitted,
        nodes=tuple(NodeState(spec) for spec in known),
        queues=_queues(trace.jobs, cards),
    )


def world_make(trace: Trace, pool: SnapshotFile, queue: str = "", checkpoint_every: int | None = None) -> SnapshotFile:
    """The jobs of `trace` on the nodes and queues of `pool` (whose own jobs, holds and evictions are left out).

    A job goes to ``<tenant>/<its class>``, else to another leaf of its tenant, else to `queue`.  Raises `InvalidInput`
    with the job's line if there is none.  No trace says what its jobs save: they save every `checkpoint_every` seconds.
    """
    now = trace.jobs[0].submitted
    leaves = {config.name: config for config in pool.snapshot.queues if config.leaf}
    if queue and queue not in leaves:
        raise InvalidInput(f"there is no leaf {queue[:80]!r}", hint=_near(queue, leaves))
    found: dict[tuple[str, QueueClass], str] = {}
    widths = _widths(state.spec for state in pool.snapshot.nodes)
    jobs, work = [], {}
    for entry in trace.jobs:
        key = (entry.tenant, entry.klass)
        if key not in found:
            found[key] = _leaf(entry, leaves, queue)
        leaf = leaves[found[key]]
        jobs.append(_job(entry, leaf, widths, checkpoint_every))
        work[entry.id] = Work(entry.duration)
    return SnapshotFile(
        snapshot=replace(
            pool.snapshot, now=now, jobs=tuple(job for job in jobs if job.submitted <= now), holds=(), evictions=()
        ),
        arrivals=tuple(job for job in jobs if job.submitted > now),
        work=work,
        zone=pool.zone,
        warnings=pool.warnings,
    )


def trace_span(world: SnapshotFile) -> int:
    """Seconds from the beginning to the end of the last job, had each started when it was submitted."""
    ends = [job.submitted + (world.work[job.id].duration or 0) for job in (*world.snapshot.jobs, *world.arrivals)]
    return max(1, max(ends, default=world.snapshot.now + 1) - world.snapshot.now)


def _job(entry: TraceJob, leaf: QueueConfig, widths: Mapping[str, int], checkpoint_every: int | None) -> Job:
    gpu, nodes = entry.gpu, entry.nodes
    if nodes is None:
        nodes, milli = _cut(gpu.milli, max(_width(model, widths) for model in gpu.models or ("",)))
        gpu = replace(gpu, milli=milli, milli_min=milli)
    return Job(
        id=entry.id,
        queue=leaf.name,
        gpu=gpu,
        nodes=nodes,
        cpu=entry.cpu if entry.nodes is not None else entry.cpu // nodes,
        memory=entry.memory if entry.nodes is not None else entry.memory // nodes,
        preemptible=leaf.klass is not QueueClass.PROD,
        submitted=entry.submitted,
        max_duration=entry.max_duration if entry.max_duration and entry.max_duration <= DECADE else None,
        user=user_of(entry.user),
        service=entry.service,
        checkpoint_every=checkpoint_every,
    )


def _cut(milli: int, width: int) -> tuple[int, int]:
    """(nodes, milli-cards on each) with equal parts of at most `width` cards: 12 on nodes of 8 → 2 of 6."""
    if milli <= width * CARD:
        return 1, milli
    cards = milli // CARD
    each = next(part for part in range(min(width, cards), 0, -1) if cards % part == 0)
    return cards // each, each * CARD


def _widths(nodes: Iterable[NodeSpec]) -> dict[str, int]:
    """Cards of the largest node of each model, and of all under the empty name."""
    widths: dict[str, int] = {"": 1}
    for spec in nodes:
        if spec.cards is not None:
            for name in ("", spec.cards.model.lower()):
                widths[name] = max(widths.get(name, 0), spec.cards.count)
    return widths


def _width(model: str, widths: Mapping[str, int]) -> int:
    return widths.get(model.lower(), widths[""])


def _leaf(entry: TraceJob, leaves: Mapping[str, QueueConfig], default: str) -> str:
    tenant = label_of(entry.tenant)
    wanted = (entry.klass, *CLASS_ORDER)
    for name in (f"{tenant}/{klass.value}" for klass in wanted):
        if name in leaves:
            return name
    own = sorted(name for name in leaves if queue_tenant(name) == tenant)
    if own:
        return own[0]
    if default:
        return default
    raise InvalidInput(
        f"the pool has no queue for {entry.tenant[:80] or 'jobs without a tenant'!r}",
        hint=f"add {tenant}/batch to it, or name one by --queue; {_near(f'{tenant}/batch', leaves)}",
        position=entry.position,
    )


def _near(name: str, leaves: Mapping[str, QueueConfig]) -> str:
    close = difflib.get_close_matches(name, list(leaves), n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    shown = ", ".join(list(leaves)[:8])
    return f"its leaves are {shown}{', …' if len(leaves) > 8 else ''}" if shown else "it has no leaves"


def _nodes(jobs: tuple[TraceJob, ...]) -> tuple[NodeSpec, ...]:
    """Nodes for the work of the jobs, and at least for the largest of them."""
    span = max(jobs[-1].submitted - jobs[0].submitted, max((job.duration or 0 for job in jobs), default=0), 1)
    by_model: dict[str, list[TraceJob]] = {}
    for job in jobs:
        by_model.setdefault(job.gpu.models[0] if job.gpu.models else ANY_MODEL, []).append(job)
    nodes: list[NodeSpec] = []
    cpu, memory = _spare(jobs)
    for model, asking in sorted(by_model.items()):
        work = sum(_milli(job) * (span if job.duration is None else job.duration) for job in asking)
        wanted = -(-work * TARGET[1] // (span * TARGET[0]))
        width = max(CARDS_PER_NODE, *(_width_asked(job) for job in asking))
        count = max(-(-wanted // (width * CARD)), *(_nodes_asked(job, width) for job in asking))
        vendor, card_memory = model_facts(model)
        kind = CardKind(model, vendor, card_memory, width)
        for _ in range(min(count, MAX_NODES - len(nodes))):
            nodes.append(NodeSpec(f"n{len(nodes) + 1}", cpu, memory, kind))
    return tuple(nodes)


def _width_asked(job: TraceJob) -> int:
    """Cards of one node that a job needs, as far as a node can have them; one that is cut by the pool needs none."""
    return 0 if job.nodes is None else min(-(-job.gpu.milli // CARD) or job.gpu.slices, MAX_CARDS_PER_NODE)


def _nodes_asked(job: TraceJob, width: int) -> int:
    """Nodes of `width` cards that a job needs when it is alone: a gang takes as many as it has members."""
    return _cut(job.gpu.milli, width)[0] if job.nodes is None else job.nodes


def _spare(jobs: tuple[TraceJob, ...]) -> tuple[int, int]:
    """CPU and memory of a derived node: never what keeps a job waiting."""
    return (
        sum(sorted((job.cpu for job in jobs), reverse=True)[:CARDS_PER_NODE]),
        sum(sorted((job.memory for job in jobs), reverse=True)[:CARDS_PER_NODE]),
    )


def _queues(jobs: tuple[TraceJob, ...], cards: int) -> tuple[QueueConfig, ...]:
    work: Counter[str] = Counter()
    best_effort: set[str] = set()
    for job in jobs:
        tenant = label_of(job.tenant)
        if job.klass is QueueClass.BESTEFFORT:
            best_effort.add(tenant)
            continue
        work[tenant] += _milli(job) * (1 if job.duration is None else job.duration)
    queues = [
        QueueConfig(f"{tenant}/batch", QueueClass.BATCH, deserved={CARDS: share * CARD})
        for tenant, share in sorted(_shares(work, cards).items())
    ]
    queues += [QueueConfig(f"{tenant}/besteffort", QueueClass.BESTEFFORT) for tenant in sorted(best_effort)]
    return tuple(queues)


def _shares(work: Mapping[str, int], cards: int) -> dict[str, int]:
    """`cards` in whole cards by work: rounded down, the rest to the largest remainders."""
    total = sum(work.values())
    if not total:
        return dict.fromkeys(work, cards // max(len(work), 1))
    shares = {name: amount * cards // total for name, amount in work.items()}
    behind = sorted(work, key=lambda name: (-(work[name] * cards % total), name))
    for name in behind[: cards - sum(shares.values())]:
        shares[name] += 1
    return shares


def _milli(job: TraceJob) -> int:
    """Milli-cards of all nodes; a slice counts a whole card, as no pool has said yet what it is worth."""
    each = job.gpu.milli or job.gpu.slices * CARD
    return each * (job.nodes or 1)
