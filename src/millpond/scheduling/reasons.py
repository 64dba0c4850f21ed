"""Why a job waits: every limit that binds now, with the numbers that make it true (scheduling §7, design §9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from millpond.domain.amounts import duration_write, memory_format, milli_format
from millpond.domain.cards import CardRequest
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.fit import Ask, ask_on, cards_enough, place, place_possible, rest_enough, view_fits
from millpond.scheduling.kept import Kept
from millpond.scheduling.links import islands_at, linked_most
from millpond.scheduling.masks import bound, offers
from millpond.scheduling.pool import Room, View
from millpond.scheduling.quota import Queue
from millpond.scheduling.slices import seats_clash, slice_capacity, slice_free
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind
from millpond.scheduling.usage import CapLack

_BLOCKED_TEXT = "not considered now"


def blocked_reasons(job: Job) -> tuple[Reason, ...]:
    """Reasons that the snapshot brings along: held, backoff, dependency, start time."""
    return tuple(Reason(Code(code), text or _BLOCKED_TEXT) for code, text in sorted(job.blocked_by))


def static_reason(state: State, job: Job, ask: Ask) -> Reason | None:
    """Why no card of the configured pool would ever do, or only a closed node's (§6)."""
    views = [room.whole for rooms in state.pool.configured(job.gpu).values() for room in rooms]
    if not views:
        have = None if ask.slice else 0
        return Reason(Code.NO_SUCH_CARD, f"no node has {_kind(job.gpu)}", need=ask.total or None, have=have)
    if _place_any(state, job, ask, configured=True):
        return None if _place_any(state, job, ask, configured=False) else _closed(state, job, ask)
    return _too_large(views, ask)


def _place_any(state: State, job: Job, ask: Ask, *, configured: bool) -> bool:
    groups = state.pool.configured(job.gpu) if configured else state.pool.models(job.gpu)
    return any(place_possible([room.whole for room in rooms], ask) for rooms in groups.values())


def _closed(state: State, job: Job, ask: Ask) -> Reason:
    names = [room.name for rooms in state.pool.configured(job.gpu).values() for room in rooms if not room.open]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return Reason(Code.CORDONED, f"only nodes that take no new jobs have room for it: {shown}", need=ask.total or None)


def _too_large(views: list[View], ask: Ask) -> Reason:
    fitting = [view for view in views if view_fits(view, ask)]
    with_cards = [view for view in views if cards_enough(view, ask)]
    if len(fitting) >= ask.nodes and not ask.require:
        most = max(Counter(view.room.kind.model for view in fitting).values())
        text = f"it asks for {ask.nodes} nodes with one card model, at most {most} have the same"
        return Reason(Code.TOO_LARGE, text, need=ask.nodes, have=most)
    if len(fitting) >= ask.nodes:
        return Reason(Code.TOPOLOGY, f"no {ask.require} has {ask.nodes} such nodes", need=ask.nodes, have=len(fitting))
    if ask.linked and not with_cards and any(view.idle >= ask.whole for view in views):
        have = max(mask.bit_count() for view in views for mask in islands_at(view.room.kind, ask.require)) * 1000
        text = f"no {ask.require} island has {milli_format(ask.milli)} cards, the largest has {milli_format(have)}"
        return Reason(Code.TOPOLOGY, text, need=ask.milli, have=have)
    if not with_cards and ask.slice:
        return _slices_too_many(views, ask)
    if not with_cards and ask.milli:
        most = max(view.idle for view in views) * 1000 if ask.whole else max(view.largest for view in views)
        text = f"it asks for {milli_format(ask.milli)} cards on a node, the largest has {milli_format(most)}"
        return Reason(Code.TOO_LARGE, text, need=ask.milli, have=most)
    if not fitting:
        cpu, memory = max(view.cpu for view in views), max(view.memory for view in views)
        if ask.memory > memory:
            text = f"it asks for {memory_format(ask.memory)} on a node, the largest has {memory_format(memory)}"
            return Reason(Code.TOO_LARGE, text, need=ask.memory, have=memory)
        text = f"it asks for {milli_format(ask.cpu)} CPUs on a node, the largest such node has {milli_format(cpu)}"
        return Reason(Code.TOO_LARGE, text, need=ask.cpu, have=cpu)
    need, have = ask.nodes, len(fitting)
    return Reason(Code.TOO_LARGE, f"it asks for {need} nodes, only {have} would fit", need=need, have=have)


def _slices_too_many(views: list[View], ask: Ask) -> Reason:
    most = max(slice_capacity(view, ask.slice) for view in views)
    text = f"it asks for {ask.slices} slices of mig-{ask.slice} on a node, the largest has room for {most}"
    return Reason(Code.TOO_LARGE, text, need=ask.slices, have=most)


def cap_reasons(lacks: list[CapLack]) -> Iterator[Reason]:
    """One reason a queue: its first dimension that is full."""
    seen: set[Queue] = set()
    for lack in lacks:
        if lack.queue in seen:
            continue
        seen.add(lack.queue)
        code = Code.QUEUE_CAP if lack.queue.klass is not None else Code.TENANT_CAP
        text = (
            f"{lack.queue.word} uses {milli_format(lack.have)} of at most {milli_format(lack.limit)} cards, "
            f"this job needs {milli_format(lack.need)}"
        )
        yield Reason(code, text, need=lack.need, have=lack.have, limit=lack.limit, queue=lack.queue.name)


def guarantee_reason(lack: CapLack) -> Reason:
    text = (
        f"a job that must not be stopped needs guaranteed cards: {lack.queue.word} guarantees "
        f"{milli_format(lack.limit)}, {milli_format(lack.have)} are in use, this job needs {milli_format(lack.need)}"
    )
    return Reason(Code.NEEDS_GUARANTEE, text, need=lack.need, have=lack.have, limit=lack.limit, queue=lack.queue.name)


def lend_reason(state: State, job: Job, ask: Ask, model: str, free: int) -> Reason:
    """Free cards that queues which do not lend keep for themselves."""
    leaf, dim = state.leaf(job), state.tree.dims.index(model)
    kept = state.usage.kept(leaf, dim)
    names = [queue.name for queue in state.usage.keepers(leaf, dim)]
    text = (
        f"{milli_format(free)} cards are free, of which {milli_format(kept)} are kept for {', '.join(names)}, "
        f"which does not lend them; it needs {milli_format(ask.total)}"
    )
    have = max(0, free - kept)
    return Reason(Code.INSUFFICIENT_CARDS, text, need=ask.total, have=have, queue=names[0] if names else "")


def preempting_reason(victims: tuple[str, ...], until: int, now: int) -> Reason:
    who = ", ".join(victims) if victims else "jobs that are leaving"
    text = f"cards are held for it; waits for {who} to leave, at the latest in {max(0, until - now)}s"
    return Reason(Code.PREEMPTING, text, jobs=victims, until=until)


def reserved_reason(now: int, kept: Iterable[Kept], ask: Ask) -> Reason:
    """Free cards that others need soon; named with the first moment at which one of them does."""
    first = sorted({one.job.id: one for one in kept}.values(), key=lambda one: (one.time, one.job.id))
    names, until = tuple(one.job.id for one in first), first[0].time
    text = (
        f"the cards it would take are reserved for {', '.join(names)}, from {duration_write(until - now)} from now on; "
        "a job that must end before that (max_duration) may use them"
    )
    return Reason(Code.RESERVED_FOR, text, need=ask.total or None, jobs=names, until=until)


def held_back_reason(until: int, now: int) -> Reason:
    text = (
        "it fits, but would waste cards that others can use; operators let a few such jobs wait for a better place, "
        f"this one for {duration_write(until - now)} more at most"
    )
    return Reason(Code.HELD_BACK, text, until=until)


def behind_reason(head: str) -> Reason:
    return Reason(Code.BEHIND, f"its queue is first in, first out, and {head} waits", jobs=(head,))


def overtaken_reason(first: str) -> Reason:
    return Reason(Code.BEHIND, f"{first} went first; without it this job would start", jobs=(first,))


def room_reasons(state: State, job: Job, ask: Ask, model: str | None = None) -> tuple[Reason, ...]:
    """Why it does not fit on what is free now, on any model or on one; empty if it does."""
    every = state.pool.models(job.gpu)
    groups = every if model is None else {model: every[model]}
    if any(place_possible(offers(state, job, ask_on(state.pool, ask, model), model), ask) for model in groups):
        return ()
    kept = [
        one
        for model in groups
        if place_possible(state.views(job, model), ask)
        for one in bound(state, job, ask_on(state.pool, ask, model), model)
    ]
    if kept:
        return (reserved_reason(state.now, kept, ask),)
    ask = ask_on(state.pool, ask, next(iter(groups), ""))
    holders = _holders(state, groups, ask)
    if holders:
        text = f"the cards it would take are kept for {', '.join(holders)}"
        return (Reason(Code.RESERVED_FOR, text, need=ask.total or None, jobs=holders),)
    views = [room.now for rooms in groups.values() for room in rooms]
    return tuple(_short(views, ask))


def _holders(state: State, groups: Mapping[str, Iterable[Room]], ask: Ask) -> tuple[str, ...]:
    """Whose holds lie where the job would sit if nothing were kept for anybody and all who leave had left."""
    for rooms in groups.values():
        seats = place((room.unheld() for room in rooms), ask)
        if seats is None:
            continue
        wanted: dict[str, list[Seat]] = {}
        for seat in seats:
            wanted.setdefault(seat.node, []).append(seat)
        return tuple(
            task.job.id
            for task in sorted(state.tasks.values(), key=lambda task: task.id)
            if task.kind is Kind.HELD
            and any(
                not mine.cards or seats_clash(state.pool.by_name[seat.node], mine, seat)
                for seat in task.seats
                for mine in wanted.get(seat.node, ())
            )
        )
    return ()


def _short(views: list[View], ask: Ask) -> Iterator[Reason]:
    with_cards = [view for view in views if cards_enough(view, ask)]
    if len(with_cards) < ask.nodes:
        yield _cards_short(views, ask, len(with_cards))
        with_cards = views
    short = False
    cpu = _best([view.cpu for view in with_cards], ask.nodes)
    if ask.cpu > cpu:
        short = True
        text = f"it needs {milli_format(ask.cpu)} CPUs on a node, {milli_format(cpu)} are free beside such cards"
        yield Reason(Code.INSUFFICIENT_CPU, text, need=ask.cpu, have=cpu)
    memory = _best([view.memory for view in with_cards], ask.nodes)
    if ask.memory > memory:
        short = True
        text = f"it needs {memory_format(ask.memory)} of memory on a node, {memory_format(memory)} are free"
        yield Reason(Code.INSUFFICIENT_MEMORY, text, need=ask.memory, have=memory)
    if short or with_cards is views:
        return
    fits = Counter(view.room.kind.model for view in with_cards if rest_enough(view, ask))
    fitting, most = fits.total(), max(fits.values(), default=0)
    if fitting >= ask.nodes > most:
        text = f"it needs {ask.nodes} nodes with one card model, at most {most} of one model are free"
        yield Reason(Code.TOPOLOGY, text, need=ask.nodes, have=most)
    elif fitting >= ask.nodes:
        yield Reason(Code.TOPOLOGY, f"not enough free nodes under one {ask.require}", need=ask.nodes, have=fitting)
    else:
        yield Reason(
            Code.FRAGMENTED, "cards, CPU and memory are free, but not on the same nodes", need=ask.nodes, have=fitting
        )


def _best(amounts: list[int], nodes: int) -> int:
    """What each of that many nodes has at least, taking the best ones."""
    return max(0, sorted(amounts, reverse=True)[nodes - 1]) if len(amounts) >= nodes else 0


def _slices_short(views: list[View], ask: Ask, fitting: int) -> Reason:
    """As `_cards_short`, for slices: amounts in milli-cards by their share of the memory."""
    each = ask.milli // ask.slices
    free = sum(slice_free(view) for view in views)
    words = f"{ask.slices * ask.nodes} x mig-{ask.slice}" if ask.slices * ask.nodes > 1 else f"mig-{ask.slice}"
    if free < ask.total:
        text = f"{words} needs {milli_format(ask.total)} cards, {milli_format(free)} are free for slices"
        return Reason(Code.INSUFFICIENT_CARDS, text, need=ask.total, have=free)
    if ask.nodes > 1:
        best, where = fitting * ask.milli, f"on nodes with {ask.slices} each"
    else:
        best, where = max((slice_capacity(view, ask.slice) for view in views), default=0) * each, "on any one node"
    text = (
        f"{milli_format(free)} cards are free for slices, but mig-{ask.slice} finds slots for at most "
        f"{milli_format(best)} {where}; it needs {milli_format(ask.total)}"
    )
    return Reason(Code.FRAGMENTED, text, need=ask.total, have=best, free=free)


def _cards_short(views: list[View], ask: Ask, fitting: int) -> Reason:
    if ask.slice:
        return _slices_short(views, ask, fitting)
    if ask.whole:
        free = sum(view.idle for view in views) * 1000
        best = max((view.idle for view in views), default=0) * 1000
    else:
        free = sum(sum(free for free in view.free if free > 0) for view in views)
        best = max((max(view.largest, 0) for view in views), default=0)
    if free < ask.total:
        text = f"it needs {milli_format(ask.total)} cards, {milli_format(free)} are free"
        return Reason(Code.INSUFFICIENT_CARDS, text, need=ask.total, have=free)
    where = "on any one node"
    if ask.nodes > 1:
        best, where = fitting * ask.milli, f"on nodes with {milli_format(ask.milli)} each"
    elif ask.linked and ask.whole:
        best = max((linked_most(view, ask.require) for view in views), default=0) * 1000
        where = f"in any one {ask.require} island"
    text = f"{milli_format(free)} cards are free, but at most {milli_format(best)} {where}; it needs " + milli_format(
        ask.total
    )
    return Reason(Code.FRAGMENTED, text, need=ask.total, have=best, free=free)


def _kind(gpu: CardRequest) -> str:
    words = [gpu.vendor, " or ".join(gpu.models), "cards"]
    text = " ".join(word for word in words if word)
    if gpu.memory_min:
        text += f" with at least {memory_format(gpu.memory_min)}"
    if gpu.memory_max is not None:
        text += f" with at most {memory_format(gpu.memory_max)}"
    return f"{text} that divide into mig-{gpu.slice}" if gpu.slice else text
