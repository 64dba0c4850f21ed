"""Bounds that leave most nodes unseen, against a look at all of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.domain.cards import card_request_parse
from millpond.scheduling.fit import ask_make, ask_on
from millpond.scheduling.preempt import Attempt
from millpond.scheduling.snapshot import Job, RunState, Seat, Snapshot
from millpond.scheduling.state import State
from tests.builders import job, node, queue, snapshot
from tests.properties.worlds import snapshots

LEAVES = ("a/prod", "a/batch", "a/besteffort", "b/batch", "b/besteffort", "b/besteffort")
NOW = 20_000


@settings(max_examples=150, deadline=None)
@given(snapshots())
def test_the_same_leave_in_a_small_pool(world: Snapshot) -> None:
    _agree(world)


def crowd(chance: Random) -> Snapshot:
    """Many nodes full of small jobs and of gangs over several nodes."""
    cards = chance.choice([2, 4])
    nodes = [node(f"n{number}", cards, cpu=cards * 8000) for number in range(1, chance.randint(9, 70))]
    jobs: list[Job] = []
    free = {state.spec.name: [1000] * cards for state in nodes}
    for number in range(len(nodes) * cards * 2):
        milli, width = chance.choice([(250, 1), (500, 1), (500, 1), (1000, 1), (1000, 1), (1000, 2)])
        seats: list[Seat] = []
        for name in chance.sample(list(free), len(free)):
            where = [card for card, left in enumerate(free[name]) if left >= milli][:width]
            if len(where) == width:
                seats.append(Seat(name, tuple(where), milli))
            if len(seats) == chance.choice([1, 1, 1, 1, 3]):
                break
        for seat in seats:
            for card in seat.cards:
                free[seat.node][card] -= seat.milli
        started = NOW - chance.choice([0, 10, 600, 600, 6000, 20_000])
        jobs.append(
            replace(
                job(f"r{number}", chance.choice(LEAVES), nodes=len(seats), priority=chance.choice([10, 50, 90])),
                cpu=chance.choice([0, 0, 4000]),
                gpu=card_request_parse(str(width) if milli == 1000 else f"0.{milli}"),
                preemptible=chance.random() < 0.9,
                saves_on_signal=chance.random() < 0.1,
                state=chance.choice([RunState.RUNNING] * 9 + [RunState.DRAINING]),
                seats=tuple(seats),
                started=started,
                until=NOW + 10,
                checkpointed=chance.choice([None, (started + NOW) // 2]),
            )
        )
    jobs = [one for one in jobs if one.seats]
    claims = [
        replace(
            job(
                f"p{number}",
                chance.choice(LEAVES),
                chance.choice([0.5, 1, 2, cards]),
                nodes=chance.choice([1, 1, 2, 4]),
            ),
            cpu=chance.choice([0, 0, 4000]),
            priority=chance.choice([10, 50, 90]),
            preemptible=True,
        )
        for number in range(6)
    ]
    half = cards * len(nodes) // 4
    queues = [queue("a/prod", g=half), queue("a/batch", d=half), queue("b/batch", d=half)]
    others = [queue("a/besteffort"), queue("b/besteffort")]
    return replace(snapshot(nodes, [*queues, *others], [*jobs, *claims]), now=NOW)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_leave_in_a_crowd(seed: int) -> None:
    _agree(crowd(Random(seed)))


def _agree(world: Snapshot) -> None:
    """Claim after claim, with what the one before has moved taken in, and nodes that fail and close in between."""
    state = State(world)
    for number, claim in enumerate(world.jobs):
        old = world.nodes[number % len(world.nodes)]
        if number % 5 == 0 and old.spec.cards is not None:
            state.node_put(replace(old, cordoned=number % 2 == 0, bad_cards=frozenset({0})))
        if claim.state is not RunState.QUEUED or claim.submitted > world.now:
            continue
        for model in state.pool.models(claim.gpu):
            ask = ask_on(state.pool, ask_make(claim), model)
            for caps in (True, False):
                narrow = Attempt(state, claim, ask, model, caps=caps, wide=0).find()
                assert narrow == Attempt(state, claim, ask, model, caps=caps, wide=10**6).find()
            if narrow is not None:
                for victim in narrow.victims:
                    state.remove(victim)
