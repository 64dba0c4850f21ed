"""The rank of a claim, kept up to date task by task, against the walk of the whole tenant."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.domain.cards import card_request_parse
from millpond.scheduling.fit import ask_make
from millpond.scheduling.preempt import Attempt
from millpond.scheduling.rank import tenant_walk
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task
from tests.builders import node, queue, snapshot

NODES = [node("n1", 8), node("n2", 8, model="H20-96GB")]
LEAVES = ("t/prod", "t/batch", "t/besteffort", "t/x/prod", "t/x/batch", "t/y/batch", "lone")
SIZES = (0, 250, 500, 1000, 2000, 8000)
AMOUNTS = st.sampled_from([None, 0, 1, 3, 8, {"A800": 2}, {"cards": 4, "H20": 1}])


@st.composite
def trees(draw: st.DrawFn) -> State:
    """Quotas that need not make sense together: the walk must not care."""
    names = [name for name in LEAVES if name != "lone"]
    queues = [queue(name, g=draw(AMOUNTS), d=draw(AMOUNTS)) for name in names if not name.endswith("besteffort")]
    queues += [queue("t/besteffort"), queue("t", d=draw(AMOUNTS)), queue("t/x", d=draw(AMOUNTS))]
    return State(snapshot(NODES, [*queues, queue("batch", d=draw(AMOUNTS))], []))


@st.composite
def tasks(draw: st.DrawFn, state: State, name: str) -> Task:
    leaf = draw(st.sampled_from([leaf.name for leaf in state.tree.leaves]))
    milli = draw(st.sampled_from(SIZES))
    count, share = (milli // 1000, 1000) if milli >= 1000 else (1 if milli else 0, milli)
    seat = Seat(draw(st.sampled_from(["n1", "n2"])), tuple(range(count)), share)
    job = Job(
        name,
        leaf,
        card_request_parse("1"),
        priority=draw(st.sampled_from([10, 50, 90])),
        preemptible=draw(st.booleans()),
        started=draw(st.integers(-50, 0)),
    )
    return state.task_make(job, (seat,), Kind.RUNNING)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_rank_of_a_claim_is_that_of_the_whole_walk(data: st.DataObject) -> None:
    state = data.draw(trees())
    present: list[Task] = []
    for number in range(data.draw(st.integers(1, 90))):
        what = data.draw(st.sampled_from(["add", "add", "add", "add", "remove", "drain"]))
        if what == "add" or not present:
            present.append(data.draw(tasks(state, f"j{number}")))
            state.add(present[-1])
        else:
            task = present.pop(data.draw(st.integers(0, len(present) - 1)))
            if what == "remove":
                state.remove(task)
            else:
                state.drain(task, 10)
        if data.draw(st.integers(0, 5)) == 0:
            _agree(state)
    _agree(state)


def _agree(state: State) -> None:
    for leaf in state.tree.leaves:
        for model in ("A800-80GB", "H20-96GB"):
            dims = state.tree.dims_of(model)
            for milli in SIZES:
                walk = state.walk_with((leaf, milli, dims), frozenset())
                assert state.claim_rank(leaf, milli, dims) is walk.claim
    for tenant in state.tree.root.children:
        ranks = state.walk(tenant).ranks
        assert ranks == tenant_walk(tenant, state.leaf_tasks).ranks
        assert state.worst(tenant) >= max(ranks.values(), default=-1)
    _nobody_asked(state)


def _nobody_asked(state: State) -> None:
    """Where the standings say that nobody may be asked to leave, a look at everybody finds nobody."""
    for leaf in state.tree.leaves:
        for gpu, preemptible, priority in product(("A800:1", "A800:2", "H20:8"), (False, True), (50, 90)):
            claim = Job("claim", leaf.name, card_request_parse(gpu), priority=priority, preemptible=preemptible)
            model = next(iter(state.pool.models(claim.gpu)))
            ask = ask_make(claim)
            if not state.asked(leaf, claim, ask.total, model):
                assert Attempt(state, claim, ask, model, caps=False).candidates(ever=True) == []
