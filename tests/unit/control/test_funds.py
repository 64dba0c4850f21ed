"""Budgets and money in the pass, on a real database and the fake engine: who starts, who waits, with which numbers."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actors import SYSTEM
from millpond.billing.budgets import Action, Budget, BudgetPeriod, Threshold
from millpond.billing.transfers import card_time
from millpond.db.session import Tx
from millpond.db.stores.budgets import budget_add
from millpond.db.stores.events import event_list
from millpond.db.stores.jobs import job_insert
from millpond.db.stores.queues import queue_list, queues_replace
from millpond.db.stores.tenants import tenant_create
from millpond.db.tables.usage import METER_MARK, USAGE_BUCKETS
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import JobState, QueueClass
from millpond.domain.queues import QueueConfig
from millpond.domain.reasons import Code, Reason
from millpond.services.deps import Services
from millpond.services.standing import Standings
from tests.unit.control.desk import FOREVER, Desk

pytestmark = pytest.mark.postgres

HOUR = 3_600
CARD_HOUR = 3_600_000
"""Milli-card-seconds of a card-hour."""


def budget(desk: Desk, hours: int, *node: str, name: str = "b1", at: int = 100) -> Budget:
    lines = (Threshold(80, Action.ALERT), Threshold(at, Action.QUEUE))
    made = Budget(name, ("org", *node), card_time(hours * CARD_HOUR), BudgetPeriod.MONTH, lines)
    desk.database.run("budget", lambda tx: budget_add(tx, SYSTEM, made, desk.now))
    return made


def used(desk: Desk, hours: int, user: str = "ann", project: str = "", booked: datetime | None = None) -> None:
    hour = booked or (desk.now - timedelta(hours=2)).replace(minute=0, second=0)
    row = {
        "tenant": "alpha", "job": "jold", "attempt": 1, "project": project, "username": user, "sku": "A800-80GB",
        "klass": "batch", "service": False, "booked": hour, "hour": hour, "milli_seconds": hours * CARD_HOUR,
        "lost_milli_seconds": 0,
    }  # fmt: skip

    def store(tx: Tx) -> None:
        tx.execute(insert(USAGE_BUCKETS).values(row))
        mark = upsert(METER_MARK).values(id=1, cursor=0, settled_until=desk.now)
        tx.execute(mark.on_conflict_do_update(index_elements=["id"], set_={"cursor": METER_MARK.c.cursor + 1}))

    desk.database.run("used", store)


def why(desk: Desk, job: str) -> tuple[Reason, ...]:
    judgement = desk.control.newest.get()
    assert judgement is not None
    found = judgement.judged.explain(job)
    assert found is not None
    return found.reasons


def test_s18_a_budget_of_100_card_hours_keeps_a_job_of_8_waiting_beside_82_used_and_12_running(desk: Desk) -> None:
    budget(desk, 100, "alpha")
    used(desk, 82)
    desk.submit("jrun", FOREVER, cards=4, max_duration=3 * HOUR)
    desk.round()
    assert desk.job("jrun").state is JobState.RUNNING
    desk.submit("jask", FOREVER, cards=8, max_duration=HOUR)
    desk.round()
    assert desk.job("jask").state is JobState.QUEUED
    (reason,) = why(desk, "jask")
    assert (reason.code, reason.need, reason.have, reason.limit) == ("CARD_HOURS_EXHAUSTED", 8000, 6000, 100_000)
    assert reason.text == (
        "tenant alpha has 6 card-hours left of 100 in 2026-11 (82 used, 12 for running jobs), this job needs 8"
    )
    desk.submit("jfits", FOREVER, cards=6, max_duration=HOUR)
    desk.round()
    assert desk.job("jfits").state is JobState.RUNNING


def test_what_runs_holds_only_what_it_may_still_use_and_frees_it_when_it_ends(desk: Desk) -> None:
    budget(desk, 20, "alpha", "*", "ann")
    desk.submit("jrun", FOREVER, cards=8, max_duration=2 * HOUR)
    desk.round()
    desk.submit("jask", FOREVER, cards=8, max_duration=HOUR)
    desk.round()
    (reason,) = why(desk, "jask")
    assert (reason.need, reason.have) == (8000, 4000)
    desk.engine.stop("jrun-1", 0)
    desk.round(1)
    assert desk.job("jask").state is JobState.RUNNING


def test_starts_of_one_pass_are_judged_one_after_the_other(desk: Desk) -> None:
    budget(desk, 10, "alpha")
    for number in range(8):
        desk.submit(f"j{number}", FOREVER, cards=1, max_duration=3 * HOUR)
        desk.wait(1)
    desk.round()
    running = [number for number in range(8) if desk.job(f"j{number}").state is JobState.RUNNING]
    assert running == [0, 1, 2], "3 + 3 + 3 of 10 card-hours, in the order of the plan"
    assert {reason.have for reason in why(desk, "j5")} == {1000}


def test_more_jobs_than_rounds_end_in_one_pass_and_whoever_still_fits_starts_in_the_next(desk: Desk) -> None:
    budget(desk, 8, "alpha")
    for number in range(14):
        desk.submit(f"j{number:02}", FOREVER, cards=1, max_duration=(5 if number < 12 else 1) * HOUR)
        desk.wait(1)
    desk.round()
    desk.round(1)
    running = [number for number in range(14) if desk.job(f"j{number:02}").state is JobState.RUNNING]
    assert running == [0, 12, 13]


def test_a_budget_counts_its_own_period_user_and_project(desk: Desk) -> None:
    budget(desk, 10, "alpha", "*", "bob")
    budget(desk, 10, "alpha", "vision", name="b2")
    budget(desk, 100, name="b3")
    used(desk, 50)
    used(desk, 90, user="bob", booked=datetime(2026, 10, 30, tzinfo=UTC))
    desk.submit("jask", FOREVER, cards=8, max_duration=HOUR)
    desk.round()
    assert desk.job("jask").state is JobState.RUNNING


def test_without_max_duration_a_job_starts_while_anything_is_left(desk: Desk) -> None:
    budget(desk, 10, "alpha")
    desk.submit("jone", FOREVER, cards=8)
    desk.round()
    assert desk.job("jone").state is JobState.RUNNING
    used(desk, 10)
    desk.submit("jtwo", FOREVER, cards=1)
    desk.submit("jnone", FOREVER, cards=0)
    desk.round()
    assert desk.job("jtwo").state is JobState.QUEUED
    assert desk.job("jnone").state is JobState.RUNNING, "no cards, no card-hours"


def test_a_pool_without_budgets_and_prepaid_accounts_pays_one_query(desk: Desk) -> None:
    desk.submit("jone", FOREVER, cards=8)
    desk.round()
    desk.round()
    with desk.database.statements() as statements:
        desk.schedule()
    assert [text for text in statements if "budgets" in text or "accounts" in text] == [
        text for text in statements if "budgets" in text and "accounts" in text
    ]
    assert sum("budgets" in text for text in statements) == 1


def test_invariant_27_an_alert_fires_once_a_period_and_names_its_numbers(desk: Desk) -> None:
    budget(desk, 100, "alpha")
    used(desk, 82)
    for _ in range(3):
        desk.submit(f"j{desk.now.timestamp():.0f}", FOREVER, cards=1)
        desk.round(5)
    page = desk.database.run("events", lambda tx: event_list(tx, SYSTEM, 0, 1000))
    (alert,) = [event for event in page.items if event.kind == "budget.alert"]
    assert alert.tenant == "alpha"
    assert (alert.data["percent"], alert.data["node"], alert.data["period"]) == (80, "alpha", "2026-11")


def test_nobody_is_told_the_numbers_of_another_tenant(desk: Desk) -> None:
    def work(tx: Tx) -> None:
        tenant_create(tx, SYSTEM, "beta")
        leaf = QueueConfig("beta/besteffort", QueueClass.BESTEFFORT)
        queues_replace(tx, SYSTEM, (*(queue for queue in queue_list(tx, SYSTEM) if queue.leaf), leaf))

    desk.database.run("beta", work)
    budget(desk, 10, "alpha")
    budget(desk, 1000, "beta", name="b2")
    for number in range(10):
        desk.submit(f"j{number}", FOREVER, cards=1, max_duration=6 * HOUR)
        desk.wait(1)
    other = desk.job("j0")
    large = replace(other.spec.resources, gpu=CardRequest(16_000_000, 16_000_000))
    spec = replace(other.spec, name="jbeta", max_duration=None, queue=QueueClass.BESTEFFORT, resources=large)
    beta = replace(other, id="jbeta", tenant="beta", queue="beta/besteffort", spec=spec, submitted_at=desk.now)
    desk.database.run("submit", lambda tx: job_insert(tx, SYSTEM, beta))
    desk.round()
    assert [reason.text for reason in why(desk, "jbeta") if "alpha" in reason.text] == []


def test_why_and_offer_say_the_same_where_the_loop_has_not_judged(desk: Desk) -> None:
    budget(desk, 1, "alpha")
    desk.submit("jask", FOREVER, cards=8, max_duration=HOUR)
    desk.round()
    waits = desk.job("jask")
    assert waits.state is JobState.QUEUED
    standings = Standings(Services(desk.database, None, lambda: desk.now, os.urandom))
    _, found = standings.explain(waits)
    assert found is not None
    (reason,) = found.reasons
    assert (reason.code, reason.need, reason.have) == (Code.CARD_HOURS_EXHAUSTED, 8000, 1000)
    assert found.counterfactuals == ()
    _, offered = standings.offer(replace(waits, id="jnext"))
    assert not offered.starts_now
    assert [one.code for one in offered.reasons] == [Code.CARD_HOURS_EXHAUSTED]
