"""What a waiting job could ask for instead (scheduling §7): one change at a time, the smallest sacrifice first.

A change is only proposed here.  Whether it helps is for `trial` to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from millpond.domain.amounts import CARD, duration_write, memory_format, milli_format
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.queues import QueueConfig, queue_parent, queue_tenant
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.snapshot import Job, Snapshot

FRACTION_STEP = 50
"""Smaller fractions of a card are tried in steps of so many milli-cards."""

_SIZES = 64
"""So many smaller sizes of one kind are proposed at most."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different about `job`.

    ``kind`` is `preemptible`, `topology`, `queue`, `model`, `duration`, `cpu`, `memory`, `amount` or `nodes`; ``value``
    what it becomes, as one would write it in a job file (of `topology`: what is left out); ``text`` says it in words.
    """

    kind: str
    value: str
    text: str
    job: Job


Ladder = tuple[Change, ...]
"""Changes of one kind, the least first; whoever starts with one starts with every later one too."""


def ladders(snapshot: Snapshot, job: Job, reasons: Sequence[Reason], times: Iterable[int] = ()) -> Iterator[Ladder]:
    """Every change worth a trial.  ``times`` are the moments for which cards are reserved for others."""
    codes = {reason.code for reason in reasons}
    if not job.preemptible and Code.NEEDS_GUARANTEE in codes:
        yield (Change("preemptible", "true", "setting preemptible: true", replace(job, preemptible=True)),)
    if job.require:
        text = f"leaving out topology: require {job.require}"
        yield (Change("topology", job.require, text, replace(job, require="")),)
    yield _durations(snapshot.now, job, times)
    for change in _queues(snapshot.queues, job):
        yield (change,)
    for change in _models(snapshot, job):
        yield (change,)
    yield from _rest(job, reasons)
    yield _amounts(job)
    yield tuple(
        Change("nodes", str(count), f"asking for {count} node{'s' if count > 1 else ''}", replace(job, nodes=count))
        for count in range(job.nodes - 1, 0, -1)
    )[:_SIZES]


def _durations(now: int, job: Job, times: Iterable[int]) -> Ladder:
    """To be gone before cards are needed that are reserved for others."""
    spans = {_rounded(time - now) for time in times if time > now}
    return tuple(
        Change(
            "duration",
            duration_write(span),
            f"setting max_duration: {duration_write(span)}",
            replace(job, max_duration=span),
        )
        for span in sorted(spans, reverse=True)
        if span > 0 and (job.max_duration is None or span < job.max_duration)
    )


def _rounded(seconds: int) -> int:
    return seconds // 60 * 60 if seconds >= 120 else seconds


def _queues(queues: Iterable[QueueConfig], job: Job) -> Iterator[Change]:
    """The other classes that the same job file could name: those of its project, else those of its tenant.

    Production is also offered as preemptible, since only the guarantee takes what may not be stopped.
    """
    parent, tenant = queue_parent(job.queue), queue_tenant(job.queue)
    leaves: dict[QueueClass, str] = {}
    for config in sorted(queues, key=lambda config: config.name):
        above = queue_parent(config.name)
        if config.klass is not None and (above == parent or (above == tenant and config.klass not in leaves)):
            leaves[config.klass] = config.name
    for klass in QueueClass:
        name = leaves.get(klass, job.queue)
        if name == job.queue:
            continue
        text, value = f"using the queue {name}", name
        if klass is QueueClass.PROD:
            yield Change("queue", name, text, replace(job, queue=name, preemptible=False))
            text, value = f"{text} with preemptible: true", f"{name}, preemptible: true"
        yield Change("queue", value, text, replace(job, queue=name, preemptible=True))


def _models(snapshot: Snapshot, job: Job) -> Iterator[Change]:
    gpu = job.gpu
    if not gpu.models:
        return
    kinds = {
        state.spec.cards.model for state in snapshot.nodes if state.spec.cards is not None and state.spec.cards.count
    }
    for model in sorted(model for model in kinds if not gpu.model_matches(model)):
        other = CardRequest(gpu.milli, gpu.milli_min, models=(model,), slice=gpu.slice, slices=gpu.slices)
        yield Change("model", model, f"using {model} cards", replace(job, gpu=other))


def _rest(job: Job, reasons: Sequence[Reason]) -> Iterator[Ladder]:
    """As much CPU or memory as there is beside such cards."""
    for reason in reasons:
        have = reason.have or 0
        where = " on each node" if job.nodes > 1 else ""
        if reason.code is Code.INSUFFICIENT_CPU and 0 < have < job.cpu:
            cpu = have // 1000 * 1000 or have
            text = f"asking for {milli_format(cpu)} CPUs{where}"
            yield (Change("cpu", milli_format(cpu), text, replace(job, cpu=cpu)),)
        if reason.code is Code.INSUFFICIENT_MEMORY and 0 < have < job.memory:
            text = f"asking for {memory_format(have)} of memory{where}"
            yield (Change("memory", memory_format(have), text, replace(job, memory=have)),)


def _amounts(job: Job) -> Ladder:
    gpu = job.gpu
    if gpu.slice or gpu.milli_min <= 0:
        return ()
    if gpu.milli_min < CARD:
        step = FRACTION_STEP if gpu.milli_min > FRACTION_STEP else max(1, gpu.milli_min // 10)
    else:
        step = CARD
    sizes = range((gpu.milli_min - 1) // step * step, 0, -step)
    where = " on each node" if job.nodes > 1 else ""
    return tuple(
        Change(
            "amount",
            milli_format(size),
            f"asking for {milli_format(size)} card{'' if size == CARD else 's'}{where}",
            replace(job, gpu=replace(gpu, milli=size, milli_min=size)),
        )
        for size in sizes[:_SIZES]
    )
