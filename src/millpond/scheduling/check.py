"""An independent second opinion on a plan: every rule of scheduling.md that can be judged from snapshot and plan.

Used by tests, by simulation, and in production as a guard.  `check` shares no code with the planner.  A violation of
one of `SAFETY_RULES` would harm somebody if the plan were applied; the others say that it is worse than it must be.

Where a rule depends on ranks in the middle of a pass, which a plan does not tell, it counts as broken only if it is
broken both before and after the pass: the guard must never stop a good plan.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from millpond.domain.amounts import CARD
from millpond.domain.queues import queue_ancestors
from millpond.scheduling.check_claims import budgets, holds, order, warnings
from millpond.scheduling.check_evictions import evictions
from millpond.scheduling.check_holdback import held_back
from millpond.scheduling.check_moves import moves
from millpond.scheduling.check_reasons import reasons
from millpond.scheduling.check_reserve import reservations
from millpond.scheduling.check_room import conservation
from millpond.scheduling.check_slices import geometry, slices
from millpond.scheduling.check_topology import topology
from millpond.scheduling.check_world import World, load_of, places_of
from millpond.scheduling.decisions import Plan, Violation
from millpond.scheduling.snapshot import Job, NodeState, RunState, Seat, Snapshot

SAFETY_RULES = frozenset(
    {
        "unknown-name", "wrong-state", "listed-twice", "gang-broken", "seat-wrong", "unusable-place", "card-mismatch",
        "card-overcommit", "cpu-overcommit", "memory-overcommit", "hold-broken", "cap-exceeded", "needs-guarantee",
        "eviction-forbidden", "eviction-without-hold", "slice-wrong", "slot-overlap",
        "reshape-wrong", "topology-broken", "budget-exceeded", "deadline-wrong",
    }
)  # fmt: skip
"""Rules whose violation must keep a plan from being applied."""


def check(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
    """What is wrong with `plan`, in the order of the rules below; empty for a good plan."""
    unknown = tuple(_names(snapshot, plan))
    if unknown:
        return unknown
    world = World(snapshot, plan)
    return tuple(violation for rule in RULES for violation in rule(world))


def check_safety(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
    """What is harmful in `plan`: the violations of `SAFETY_RULES` that `check` finds, in a fraction of its time."""
    unknown = tuple(_names(snapshot, plan))
    if unknown:
        return unknown
    world = World(snapshot, plan)
    return tuple(found for rule in _SAFETY for found in rule(world) if found.rule in SAFETY_RULES)


def _names(snapshot: Snapshot, plan: Plan) -> Iterator[Violation]:
    jobs = {job.id for job in snapshot.jobs}
    nodes = {state.spec.name for state in snapshot.nodes}
    named = [
        *((start.job, "start") for start in plan.start),
        *((evict.job, "evict") for evict in plan.evict),
        *((evict.claimant, "evict") for evict in plan.evict),
        *((hold.job, "hold") for hold in plan.hold),
        *((victim, "hold") for hold in plan.hold for victim in hold.victims),
        *((wait.job, "wait") for wait in plan.wait),
        *((found.job, "reserve") for found in plan.reservations),
    ]
    for name, where in named:
        if name not in jobs:
            yield Violation("unknown-name", f"{where} names the job {name}, which does not exist", (name,))
    placed = [(start.job, start.seats) for start in plan.start] + [(hold.job, hold.seats) for hold in plan.hold]
    for owner, seats in placed + [(found.job, found.seats) for found in plan.reservations]:
        for seat in seats:
            if seat.node not in nodes:
                yield Violation(
                    "unknown-name", f"{owner} sits on {seat.node}, which does not exist", (owner, seat.node)
                )


def _lists(world: World) -> Iterator[Violation]:
    """Each job once, in the list that its state allows; every queued job started or explained."""
    plan = world.plan
    for name, ids in (
        ("start", [start.job for start in plan.start]),
        ("evict", [evict.job for evict in plan.evict]),
        ("hold", [hold.job for hold in plan.hold]),
        ("wait", [wait.job for wait in plan.wait]),
    ):
        for job_id, count in Counter(ids).items():
            if count > 1:
                yield Violation("listed-twice", f"{job_id} is in {name} {count} times", (job_id,))
            wanted = RunState.RUNNING if name == "evict" else RunState.QUEUED
            state = world.jobs[job_id].state
            if state is not wanted and not (name == "hold" and moves(world, job_id)):
                yield Violation("wrong-state", f"{job_id} is {state} and in {name}", (job_id,))
            if name in {"start", "hold"} and world.jobs[job_id].blocked_by:
                yield Violation("wrong-state", f"{job_id} is blocked and in {name}", (job_id,))
    waiting = {wait.job for wait in plan.wait}
    for job_id in sorted(waiting & world.starts.keys()):
        yield Violation("listed-twice", f"{job_id} both starts and waits", (job_id,))
    for job_id in sorted(world.starts.keys() & {hold.job for hold in plan.hold}):
        yield Violation("listed-twice", f"{job_id} both starts and holds", (job_id,))
    for job in world.snapshot.jobs:
        if job.state is RunState.QUEUED and job.id not in waiting and job.id not in world.starts:
            yield Violation("unexplained", f"{job.id} neither starts nor waits", (job.id,))
    for wait in plan.wait:
        if not wait.reasons:
            yield Violation("unexplained", f"{wait.job} waits without a reason", (wait.job,))


def _seats(world: World) -> Iterator[Violation]:
    """Gangs whole and on distinct nodes; seats of the size asked for, on cards that exist, work and suit."""
    for use in world.added:
        job, nodes = use.job, [seat.node for seat in use.seats]
        places = job.nodes * max(1, job.gpu.slices)
        if len(nodes) != places or len(set(nodes)) != job.nodes:
            text = f"{job.id} needs {job.nodes} distinct nodes and gets {', '.join(nodes) or 'none'}"
            yield Violation("gang-broken", text, (job.id,))
        for seat in use.seats:
            state = world.book.nodes[seat.node]
            yield from _seat_size(job, seat)
            yield from _seat_place(job, seat, state)


def _seat_size(job: Job, seat: Seat) -> Iterator[Violation]:
    request = job.gpu
    count = len(seat.cards)
    if request.none:
        right = count == 0
    elif request.slice:
        right = count == 1 and seat.slice == request.slice
    elif request.fraction:
        right = count == 1 and seat.milli == request.milli
    else:
        right = seat.milli == CARD and request.milli_min <= count * CARD <= request.milli
    if not right or len(set(seat.cards)) != count:
        yield Violation(
            "seat-wrong", f"{job.id} asked for gpu: {request} and gets {count} cards of {seat.node}", (job.id,)
        )


def _seat_place(job: Job, seat: Seat, state: NodeState) -> Iterator[Violation]:
    kind = state.spec.cards
    if state.cordoned or state.draining or state.lost:
        yield Violation(
            "unusable-place", f"{job.id} is placed on {seat.node}, which takes no jobs", (job.id, seat.node)
        )
    count = kind.count if kind else 0
    if any(not 0 <= card < count or card in state.bad_cards for card in seat.cards):
        text = f"{job.id} is placed on a card of {seat.node} that does not exist or is quarantined"
        yield Violation("unusable-place", text, (job.id, seat.node))
    if seat.cards and (kind is None or not job.gpu.card_matches(kind.vendor, kind.model, kind.memory)):
        yield Violation("card-mismatch", f"the cards of {seat.node} do not suit gpu: {job.gpu}", (job.id, seat.node))


def _cards(world: World) -> Iterator[Violation]:
    """No card over 1000 milli: now (who is still there, and starts), and once the leaving are gone (with holds)."""
    now, later = load_of(world.running.values()), load_of(world.staying)
    touched: dict[tuple[str, int], set[str]] = defaultdict(set)
    for use in world.added:
        for place in places_of(use):
            touched[place].add(use.job.id)
    for use in world.starts.values():
        for place, milli in places_of(use).items():
            now[place] += milli
            later[place] += milli
    starts_only = dict(later)
    for use in world.holds.values():
        for place, milli in places_of(use).items():
            later[place] += milli
    held = {place for use in world.old_holds.values() for place in places_of(use)}
    for place, owners in sorted(touched.items()):
        node, card = place
        subjects = (*sorted(owners), node)
        if now[place] > CARD and any(owner in world.starts for owner in owners):
            yield Violation("card-overcommit", f"card {card} of {node} would have {now[place]} milli", subjects)
        elif later[place] > CARD:
            rule = "hold-broken" if place in held and starts_only.get(place, 0) <= CARD else "card-overcommit"
            text = f"card {card} of {node} would have {later[place]} milli with what is held on it"
            yield Violation(rule, text, subjects)


def _processors(world: World) -> Iterator[Violation]:
    """CPU and memory of nodes, for jobs that ask for any."""
    for name, unit in (("cpu", "milli-CPU"), ("memory", "MiB")):
        load: dict[str, int] = defaultdict(int)
        later: dict[str, int] = defaultdict(int)
        for use in [*world.running.values(), *world.starts.values()]:
            for node in {seat.node for seat in use.seats}:
                load[node] += getattr(use.job, name)
        for use in world.after:
            for node in {seat.node for seat in use.seats}:
                later[node] += getattr(use.job, name)
        for use in world.added:
            for seat in use.seats:
                limit = getattr(world.book.nodes[seat.node].spec, name)
                total = load[seat.node] if use.job.id in world.starts else later[seat.node]
                if getattr(use.job, name) and total > limit:
                    text = f"{seat.node} would have {total} {unit} of {limit}"
                    yield Violation(f"{name}-overcommit", text, (use.job.id, seat.node))


def _caps(world: World) -> Iterator[Violation]:
    """No queue or ancestor over its cap through what the plan adds."""
    book = world.book
    usage = book.usage(world.after)
    seen: set[tuple[str, str]] = set()
    for use in world.added:
        names = use.names if use.milli else ()
        for queue in queue_ancestors(use.job.queue):
            for name in names:
                cap = book.cap(queue, name)
                if usage[queue][name] > cap and (queue, name) not in seen:
                    seen.add((queue, name))
                    text = f"{queue or 'the pool'} would use {usage[queue][name]} of its cap of {cap} {name}"
                    yield Violation("cap-exceeded", text, (use.job.id, queue))


def _guarantees(world: World) -> Iterator[Violation]:
    """Nothing that may not be stopped runs on borrowed cards (§1)."""
    book = world.book
    for use in world.added:
        if use.job.preemptible or not use.milli:
            continue
        leaf = use.job.queue
        used = world.firm[leaf]
        for name in use.names:
            if used[name] > book.guarantee(leaf)[name]:
                text = f"non-preemptible jobs of {leaf} would use {used[name]} of its guarantee of {name}"
                yield Violation("needs-guarantee", text, (use.job.id, leaf))


RULES = (
    _lists, _seats, _cards, slices, geometry, topology, _processors, _caps, _guarantees, budgets, evictions,
    warnings, holds, order, reasons, reservations, conservation, held_back,
)  # fmt: skip

_SAFETY = tuple(rule for rule in RULES if rule not in (order, reasons, reservations, conservation))
"""Those that may find something harmful."""
