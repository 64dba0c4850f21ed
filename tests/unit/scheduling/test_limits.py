"""Reasons: where one model is out for this cause and the next for that, and who went first."""

from __future__ import annotations

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan
from millpond.scheduling.resident import Resident
from tests.builders import codes, job, node, plan, pool, queue, running, snapshot, started

A, H = "A800-80GB", "H20-96GB"
NODES = [node("n1", model=A), node("n2", model=H, memory=98_304)]
OPEN = [queue("a/batch"), queue("b/batch")]


def ahead(result: Plan, name: str) -> tuple[str, ...]:
    """Whom `BEHIND` names for a waiting job."""
    return tuple(
        other
        for wait in result.wait
        if wait.job == name
        for r in wait.reasons
        if r.code == "BEHIND"
        for other in r.jobs
    )


def test_a_cap_on_one_model_and_no_room_on_the_other() -> None:
    queues = [queue("b/batch", c={A: 4}), queue("a/batch")]
    given = snapshot(NODES, queues, [running("x", "a/batch", "n2"), job("p", "b/batch", 8)])
    result = plan(given)
    assert codes(result, "p") == ["QUEUE_CAP", "INSUFFICIENT_CARDS"]
    assert [reason.text.split(":")[0] for reason in result.wait[0].reasons] == [f"on {A}", f"on {H}"]
    assert check(given, result) == ()


def test_a_guarantee_on_one_model_and_no_room_on_the_other() -> None:
    queues = [queue("b/prod", g={H: 8}), queue("a/prod", g={H: 8})]
    given = snapshot(NODES, queues, [running("x", "a/prod", "n2"), job("p", "b/prod", 8)])
    assert codes(plan(given), "p") == ["INSUFFICIENT_CARDS", "NEEDS_GUARANTEE"]


def test_cards_kept_on_one_model_and_no_room_on_the_other() -> None:
    queues = [queue("b/batch"), queue("a/prod", g={H: 8}, lend=False), queue("d/batch", d=8)]
    given = snapshot(NODES, queues, [running("x", "d/batch", "n1"), job("p", "b/batch", 8)])
    assert codes(plan(given), "p") == ["INSUFFICIENT_CARDS", "INSUFFICIENT_CARDS"]


def test_who_must_not_be_stopped_evicts_only_where_its_guarantee_is() -> None:
    """The cheaper victim sits on a model that is not guaranteed."""
    queues = [queue("a/prod", g={A: 8}), queue("b/batch", d={A: 8}), queue("c/besteffort")]
    jobs = [running("r", "b/batch", "n1"), running("e", "c/besteffort", "n2"), job("p", "a/prod", 8)]
    given = snapshot(NODES, queues, jobs)
    result = plan(given)
    assert [evict.job for evict in result.evict] == ["r"]
    assert check(given, result) == ()


def test_behind_names_the_job_that_took_the_room() -> None:
    jobs = [job("k", "a/batch", 6, submitted=-9), job("w", "b/batch", 4), job("x", "b/batch", 8)]
    result = plan(snapshot(pool(1), OPEN, jobs))
    assert started(result) == ["k"]
    assert codes(result, "w") == ["INSUFFICIENT_CARDS", "BEHIND"]
    assert ahead(result, "w") == ("k",)
    assert ahead(result, "x") == ()  # w would take the place of k


def test_behind_names_the_nearest_of_several() -> None:
    jobs = [job("k", "a/batch", 4, submitted=-9), job("l", "b/batch", 4, submitted=-8), job("w", "b/batch", 4)]
    assert ahead(plan(snapshot(pool(1), OPEN, jobs)), "w") == ("l",)


def test_behind_is_silent_about_other_models_and_about_what_ran_before() -> None:
    there = [running("r", "b/batch", "n2"), job("k", "a/batch", f"{A}:8", submitted=-9)]
    result = plan(snapshot(NODES, OPEN, [*there, job("w", "b/batch", f"{H}:8"), job("v", "b/batch", f"{A}:8")]))
    assert (ahead(result, "w"), ahead(result, "v")) == ((), ("k",))


def test_behind_when_cpu_is_what_was_taken() -> None:
    jobs = [job("k", "a/batch", 0, submitted=-9, cpu=100_000), job("w", "b/batch", 0, cpu=100_000)]
    result = plan(snapshot(pool(1), OPEN, jobs))
    assert codes(result, "w") == ["INSUFFICIENT_CPU", "BEHIND"]


def test_an_elastic_job_may_be_the_one_behind() -> None:
    jobs = [job("k", "a/batch", 8, submitted=-9), job("w", "b/batch", "2..4"), job("x", "b/batch", 4, submitted=1)]
    result = plan(snapshot(pool(1), OPEN, jobs))
    assert (ahead(result, "w"), ahead(result, "x")) == (("k",), ())
    both = plan(snapshot(pool(1), OPEN, [*jobs[:2], job("x", "b/batch", 4)]))
    assert (ahead(both, "w"), ahead(both, "x")) == (("k",), ("k",))


def test_a_long_queue_is_tried_only_so_far() -> None:
    jobs = [job("k", "a/batch", 8, submitted=-9), *(job(f"w{i:04}", "b/batch", 8) for i in range(400))]
    result = plan(snapshot(pool(1), OPEN, jobs))
    assert ahead(result, "w0000") == ("k",)
    assert ahead(result, "w0399") == ()


def test_why_a_job_waits_does_not_depend_on_who_came_before() -> None:
    """On both models a cap binds; another job that can only use the first of them changes nothing about that."""
    nodes = [node("n1", 8), node("n2", 8, model="H20-96GB", memory=98_304)]
    leaf = queue("a/batch", d={"A800-80GB": 1, "H20-96GB": 1}, c={"A800-80GB": 1, "H20-96GB": 2})
    resident = Resident(snapshot(nodes, [leaf, queue("b/batch")], [job("w", "a/batch", 4)]))
    before = resident.plan()
    resident.adopt(before)
    resident.job_put(job("x", "b/batch", "A800:8", nodes=2))
    resident.now_set(1)
    after = resident.plan()
    assert after == plan(resident.snapshot())
    assert [wait.reasons for wait in after.wait if wait.job == "w"] == [before.wait[0].reasons]
