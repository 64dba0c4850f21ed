"""Orders for the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from millpond.control.orders import geometries, order_make
from millpond.domain.jobs import AttemptState, JobType, ServicePolicy
from millpond.domain.records import SeatRecord
from millpond.engines.base import StartOrder
from tests.unit.control.builders import JOB, attempt, job, node, spec


def order(number: int = 1, resume: bool = False, **changes: object) -> StartOrder:
    seats = (SeatRecord("n1", (2, 3)), SeatRecord("n2", (0, 1)))
    nodes = {name: node(name).spec for name in ("n1", "n2")}
    return order_make(
        job(spec=spec(**changes)),
        attempt(number=number, seats=seats),
        jobs_dir=Path("/state/jobs"),
        specs=nodes,
        tenant_uid=210_001,
        epoch=9,
        isolated=True,
        resume=resume,
    )


def test_ranks_follow_the_placement() -> None:
    made = order(processes_per_node=2)
    assert [(rank.rank, rank.local_rank, rank.node) for rank in made.ranks] == [
        (0, 0, "n1"),
        (1, 1, "n1"),
        (2, 0, "n2"),
        (3, 1, "n2"),
    ]
    assert made.ranks[0].cards == (2, 3)
    assert made.ranks[0].uuids == ("GPU-2", "GPU-3")


SLICED = (SeatRecord("n1", (3,), 119, "1g.5gb", 4), SeatRecord("n1", (3,), 119, "1g.5gb", 5))


def test_slices_of_a_node_belong_to_one_rank() -> None:
    seats = (*SLICED, SeatRecord("n2", (0,), 119, "1g.5gb", 0), SeatRecord("n2", (1,), 119, "1g.5gb", 6))
    made = order_make(
        job(spec=spec()),
        attempt(seats=seats),
        jobs_dir=Path("/state/jobs"),
        specs={name: node(name).spec for name in ("n1", "n2")},
        tenant_uid=210_001,
        epoch=9,
        isolated=True,
        resume=False,
    )
    assert [(rank.node, rank.cards, rank.milli, rank.slices) for rank in made.ranks] == [
        ("n1", (3,), 238, ("3:1g.5gb@4", "3:1g.5gb@5")),
        ("n2", (0, 1), 238, ("0:1g.5gb@0", "1:1g.5gb@6")),
    ]
    assert dict(made.env)["MILLPOND_NODES"] == "2"


def test_cards_are_divided_into_what_lives_on_them() -> None:
    other = SeatRecord("n1", (3,), 488, "3g.20gb", 0)
    live = [attempt(seats=seats) for seats in (SLICED, (other,), (SeatRecord("n2", (1,)),))]
    assert geometries(live) == {("n1", 3): (("3g.20gb", 0), ("1g.5gb", 4), ("1g.5gb", 5))}
    assert geometries([replace(live[0], state=AttemptState.ENDED)]) == {}


def test_environment_tells_the_job_about_itself() -> None:
    env = dict(order(env=(("EPOCHS", "3"),)).env)
    assert (env["EPOCHS"], env["MILLPOND_JOB_ID"], env["MILLPOND_ATTEMPT"]) == ("3", JOB, "1")
    assert env["MILLPOND_CHECKPOINT_DIR"] == f"/state/jobs/{JOB}/checkpoint"
    assert "MILLPOND_RESUME_FROM" not in env


def test_a_later_attempt_has_the_same_folders_and_knows_where_to_resume() -> None:
    first, second = order(), order(number=2, resume=True)
    assert (first.work_dir, first.checkpoint_dir) == (second.work_dir, second.checkpoint_dir)
    assert dict(second.env)["MILLPOND_RESUME_FROM"] == second.checkpoint_dir


def test_a_service_is_ready_when_it_answers() -> None:
    made = order(type=JobType.SERVICE, service=ServicePolicy(port=8000, ready_path="/healthz", ready_timeout=9))
    assert (made.service, made.ready_path, made.ready_timeout) == (True, "/healthz", 9)
    assert (order().service, order().ready_path) == (False, "")


def test_an_order_is_fenced_by_who_gives_it() -> None:
    assert (attempt().epoch, order().epoch) == (7, 9)
