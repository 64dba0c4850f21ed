"""Orders for the engine."""

from __future__ import annotations

from pathlib import Path

from millpond.control.orders import order_make
from millpond.domain.jobs import JobType, ServicePolicy
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
