"""Invariants of metering through the whole control plane, with the numbers of `millpond usage`."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from sqlalchemy import update

from millpond.authz.actors import SYSTEM
from millpond.control.meter import MeterMemory, meter_run
from millpond.db.session import Tx
from millpond.db.stores.tenants import project_create
from millpond.db.tables.jobs import JOBS
from millpond.domain.jobs import EndReason, QueueClass
from millpond.engines.fake import Behaviour
from millpond.metering.usage import UsageBy
from millpond.services.deps import Services
from millpond.services.usage import UsageWish, hours_text, usage_page
from tests.unit.control.desk import FOREVER, START, Desk


def metered(desk: Desk) -> None:
    """Everything up to now, by a meter that remembers nothing but what is stored."""
    memory = MeterMemory()
    while meter_run(desk.control, desk.epoch, memory).more:
        pass


def used(desk: Desk, by: UsageBy) -> dict[tuple[object, ...], str]:
    """Card-hours by key, as the API says them."""
    services = Services(desk.database, None, lambda: desk.now, os.urandom)
    start = (START - timedelta(hours=1)).isoformat()
    page = usage_page(services, SYSTEM, by, UsageWish(start=start), "", 1000)
    return {tuple(one.keys): hours_text(one.milli_seconds) for one in page.items}


def test_invariant_06_each_shape_counts_for_its_own_part_of_the_hour(desk: Desk) -> None:
    """30 min × 4 cards + 20 min × 1 card in one hour are 2.3333 card-hours, not 0.8333."""
    desk.submit("jwide", Behaviour(run_ms=30 * 60_000), cards=4)
    desk.round()
    desk.round(30 * 60)
    desk.submit("jthin", Behaviour(run_ms=20 * 60_000), cards=1)
    desk.round()
    desk.round(20 * 60)
    metered(desk)
    assert sorted(used(desk, UsageBy.JOB).values()) == ["0.3333", "2.0000"]
    assert used(desk, UsageBy.USER) == {("alpha", "ann"): "2.3333"}


def test_invariant_07_four_quarters_of_a_card_for_an_hour_are_one_card_hour(desk: Desk) -> None:
    for number in range(4):
        desk.submit(f"j{number}", Behaviour(run_ms=3_600_000), cards=0.25)
    desk.round()
    desk.round(3_600)
    metered(desk)
    assert used(desk, UsageBy.PROJECT) == {("alpha", ""): "1.0000"}
    assert set(used(desk, UsageBy.JOB).values()) == {"0.2500"}


def test_invariant_15_a_gap_in_the_queue_costs_nothing(desk: Desk) -> None:
    """Preempted and started again: what it ran, twice, and nothing for the time between."""
    low = desk.submit("jlow", Behaviour(run_ms=None, save_ms=1000), queue=QueueClass.BESTEFFORT)
    desk.submit("jfill", FOREVER)
    desk.round()
    desk.submit("jclaim", Behaviour(run_ms=25 * 60_000), queue=QueueClass.PROD)
    desk.round(120)
    desk.round(20)
    assert desk.attempts(low)[0].reason is EndReason.SAVED
    desk.round(25 * 60)
    desk.round(600)
    desk.round(60)
    metered(desk)
    ran = 0
    for attempt in desk.attempts(low):
        if attempt.started_at is not None:
            ran += int((attempt.ended_at or desk.now).timestamp()) - int(attempt.started_at.timestamp())
    assert len(desk.attempts(low)) == 2
    assert ran < (desk.now - START).total_seconds() - 20 * 60
    found = {keys[1]: hours for keys, hours in used(desk, UsageBy.JOB).items()}
    assert found[low] == hours_text(8000 * ran)


@pytest.mark.parametrize("behaviour", [Behaviour(start_error="no such image")])
def test_invariant_17_what_never_ran_is_in_no_sum(desk: Desk, behaviour: Behaviour) -> None:
    desk.submit("jbad", behaviour)
    for _ in range(3):
        desk.round(20)
    metered(desk)
    assert len(desk.attempts("jbad")) >= 1
    assert all(used(desk, by) == {} for by in UsageBy)


def test_invariant_30_use_stays_with_whoever_owned_it_then(desk: Desk) -> None:
    """The user goes to another team after the first hour: what was used before stays where it was."""
    desk.database.run("team", lambda tx: project_create(tx, SYSTEM, "alpha", "old"))
    desk.database.run("team", lambda tx: project_create(tx, SYSTEM, "alpha", "new"))

    def move(tx: Tx) -> None:
        tx.execute(update(JOBS).values(project="new"))

    def submit(name: str, team: str) -> None:
        desk.submit(name, Behaviour(run_ms=3_600_000), cards=4)
        desk.database.run("team", lambda tx: tx.execute(update(JOBS).where(JOBS.c.id == name).values(project=team)))

    submit("j1", "old")
    desk.round()
    desk.database.run("move", move)
    desk.round(3_600)
    submit("j2", "new")
    desk.round()
    desk.round(3_600)
    metered(desk)
    assert used(desk, UsageBy.PROJECT) == {("alpha", "new"): "4.0000", ("alpha", "old"): "4.0000"}
