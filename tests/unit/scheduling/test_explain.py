"""Explanations and offers: read off the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.domain.errors import Conflict, NotFound
from millpond.scheduling.decisions import Rank, plan_json
from millpond.scheduling.explain import Explainer, explain, offer
from millpond.scheduling.snapshot import RunState, Snapshot
from tests.builders import draining, job, node, plan, pool, queue, running, snapshot

QUEUES = [queue("a/prod", g=8), queue("a/batch", c=8), queue("b/besteffort")]


def world(*more: object) -> Snapshot:
    jobs = [running("r", "a/batch", "n1", 4, user="li4"), running("e", "b/besteffort", "n2", 8), *more]
    return snapshot(pool(2), QUEUES, jobs)  # type: ignore[arg-type]


def test_running_and_starting() -> None:
    found = explain(world(), "r")
    assert (found.state, found.rank, found.reasons, found.position) == (RunState.RUNNING, Rank.FAMILY, (), None)
    starting = explain(world(job("p", "a/batch", 4)), "p")
    assert starting.starts_now
    assert starting.eta == 0


def test_waiting() -> None:
    before = world(job("p", "a/batch", 8, submitted=-9, user="zhang3"), job("q", "a/batch", 8, user="wang5"))
    found = explain(before, "q")
    assert (found.position, found.pool_position) == (2, 2)
    assert [reason.code.value for reason in found.reasons] == ["QUEUE_CAP"]
    (ahead,) = found.ahead
    assert (ahead.job, ahead.user, ahead.tenant, ahead.milli, ahead.since, ahead.queue) == (
        "p",
        "zhang3",
        "a",
        8000,
        -9,
        "a/batch",
    )


def test_counterfactuals_are_tried_on_the_planner() -> None:
    found = explain(world(job("p", "a/batch", 8)), "p")
    assert [(other.change, other.starts_now) for other in found.counterfactuals] == [
        ("asking for 4 cards", True),
        ("using the queue a/prod", False),
    ]
    firm = explain(world(job("p", "a/prod", 8), running("s", "a/prod", "n3")), "p")
    assert "setting preemptible: true" in [other.change for other in firm.counterfactuals]


def test_where_cpu_is_short_a_counterfactual_waits_for_everybody_who_leaves_the_node() -> None:
    """The card is free at once, but the planner waits for all of the node's leavers, also on other cards."""
    leaver = draining(running("r", "a/batch", "n1", 1), 10)
    busy = running("e", "a/besteffort", "n1", 1, cards=(1,), cpu=32_000, grace=0)
    waiter = job("w", "b/batch", "H20:1", cpu=4000)
    queues = [queue("a/batch"), queue("a/besteffort"), queue("b/batch", d=2)]
    before = snapshot([node("n1", 2, cpu=32_000, bad=[0])], queues, [leaver, busy, waiter])
    [found] = explain(before, "w").counterfactuals
    changed = replace(before, jobs=(leaver, busy, job("w", "b/batch", "A800:1", cpu=4000)))
    [hold] = plan(changed).hold
    assert (found.change, found.starts_now, found.at) == ("using A800-80GB cards", False, 10)
    assert hold.until - before.settings.hold_timeout == 10


def test_other_models_are_offered() -> None:
    nodes = [node("n1", model="A800-80GB"), node("n2", model="H800-80GB")]
    jobs = [running("r", "a/batch", "n1"), job("p", "a/batch", "A800:8", nodes=1)]
    found = explain(snapshot(nodes, [queue("a/batch"), queue("a/x/batch", c=0)], jobs), "p")
    assert [other.change for other in found.counterfactuals] == ["using H800-80GB cards"]
    gang = [running("r", "a/batch", "n1", 4), job("p", "a/batch", 8, nodes=2)]
    found = explain(snapshot(nodes, [queue("a/batch")], gang), "p")
    assert [reason.code.value for reason in found.reasons] == ["TOO_LARGE"]


def test_held_cards_and_when() -> None:
    found = explain(world(job("p", "a/prod", 8)), "p")
    assert found.hold is not None
    assert found.hold.victims == ("e",)
    assert found.eta == 20
    assert not found.counterfactuals


def test_blocked_jobs_have_nobody_ahead() -> None:
    before = world(job("p", "a/batch", 8), job("q", "a/batch", 1, blocked_by=(("HELD", "held"),)))
    found = explain(before, "q")
    assert (found.rank, found.ahead, found.counterfactuals) == (None, (), ())


def test_unknown_and_not_yet() -> None:
    with pytest.raises(NotFound):
        explain(world(), "nobody")
    with pytest.raises(NotFound):
        explain(world(job("later", "a/batch", 1, submitted=60)), "later")


def test_offers() -> None:
    assert offer(world(), job("x", "a/batch", 4, submitted=60)).starts_now
    refused = offer(world(), job("x", "a/batch", 9))
    assert [reason.code.value for reason in refused.reasons] == ["TOO_LARGE"]
    with pytest.raises(Conflict):
        offer(world(), job("r", "a/batch", 1))


def test_an_explanation_agrees_with_the_plan() -> None:
    before = world(job("p", "a/batch", 8), job("q", "a/prod", 8))
    explainer = Explainer(before)
    result = explainer.plan
    assert result == plan(before)
    for wait in result.wait:
        found = explainer.explain(wait.job, tries=False)
        assert (found.position, found.rank, found.reasons) == (wait.position, wait.rank, wait.reasons)
    shown = plan_json(result)
    assert set(shown) == {"start", "evict", "hold", "wait", "reshape"}
