from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.budgets import (
    Action,
    Asked,
    Budget,
    BudgetPeriod,
    Standing,
    Threshold,
    alerts_due,
    budget_check,
    budget_decide,
    budget_period,
    stop_due,
)
from millpond.billing.burning import CARD_HOUR
from millpond.billing.currencies import currency_find
from millpond.billing.money import Money
from millpond.billing.transfers import card_time
from millpond.domain.errors import InvalidInput
from millpond.domain.reasons import Code
from tests.unit.billing.books import at, yuan

PATH = ("acme", "trade", "alpha", "zhang3")
HUNDRED = Budget("b1", ("acme", "trade", "alpha"), card_time(100 * CARD_HOUR), BudgetPeriod.MONTH)
SHANGHAI = ZoneInfo("Asia/Shanghai")


def standing(budget: Budget, used: Money, running: Money) -> Standing:
    return Standing(budget, "2026-11", used, running)


def hours_of(used: int, running: int, budget: Budget = HUNDRED) -> Standing:
    return standing(budget, card_time(used * CARD_HOUR), card_time(running * CARD_HOUR))


def asked(card_hours: int, cost: str = "0") -> Asked:
    return Asked(PATH, card_hours * CARD_HOUR, yuan(cost))


def test_invariant_27_quota_counts_used_running_and_request() -> None:
    verdict = budget_decide([hours_of(82, 12)], asked(8))
    assert verdict.action is Action.QUEUE
    reason = verdict.reasons[0]
    assert reason.code is Code.CARD_HOURS_EXHAUSTED
    assert (reason.need, reason.have, reason.limit) == (8_000, 6_000, 100_000)
    assert reason.text == (
        "project alpha has 6 card-hours left of 100 in 2026-11 (82 used, 12 for running jobs), this job needs 8"
    )
    assert reason.queue == "acme/trade/alpha"
    assert budget_decide([hours_of(82, 12)], asked(6)).action is None


def test_invariant_27_an_alert_fires_once_per_period() -> None:
    raised: list[str] = []
    for used in (79, 80, 82, 99):
        raised += [alert.id for alert in alerts_due(hours_of(used, 0), raised)]
    assert len(raised) == 1
    december = replace(hours_of(85, 0), period="2026-12")
    assert len(alerts_due(december, raised)) == 1
    both = alerts_due(hours_of(70, 30), [])
    assert [alert.percent for alert in both] == [80, 100]


def test_a_refusal_goes_before_waiting_and_then_the_least_that_is_left() -> None:
    org = replace(HUNDRED, id="org", node=("acme",), limit=card_time(1000 * CARD_HOUR))
    money = Budget("m", ("acme", "trade"), yuan("1000.00"), BudgetPeriod.MONTH)
    user = replace(HUNDRED, id="u", node=PATH, thresholds=(Threshold(50, Action.DENY), Threshold(90, Action.QUEUE)))
    standings = [
        hours_of(998, 1, org),
        hours_of(98, 1),
        standing(money, yuan("990.00"), yuan("0.00")),
        hours_of(20, 20, user),
    ]
    verdict = budget_decide(standings, asked(11, "26.40"))
    assert verdict.action is Action.DENY
    assert [bound.standing.budget.id for bound in verdict.bounds] == ["u", "org", "b1", "m"]
    assert verdict.reasons[3].code is Code.BALANCE_HELD
    assert verdict.reasons[3].text == (
        "tenant trade has 10.00 CNY left of its budget of 1000.00 CNY in 2026-11 "
        "(990.00 CNY used, 0.00 CNY for running jobs), this job needs 26.40 CNY"
    )
    assert verdict.reasons[0].limit == 50_000


def test_what_happens_elsewhere_does_not_count() -> None:
    other = replace(HUNDRED, node=("acme", "trade", "beta"))
    deeper = replace(HUNDRED, node=(*PATH[:3], "li4"))
    assert budget_decide([hours_of(100, 0, other), hours_of(100, 0, deeper)], asked(8)).action is None
    assert not HUNDRED.covers(("acme",))
    everywhere = replace(HUNDRED, node=("acme", "trade", "*", "zhang3"))
    assert budget_decide([hours_of(100, 0, everywhere)], asked(8)).action is Action.QUEUE
    euros = Budget("e", ("acme",), Money(yuan("1").amount, currency_find("EUR")), BudgetPeriod.YEAR)
    assert budget_decide([standing(euros, euros.limit, euros.limit)], asked(8, "5.00")).action is None


def test_a_job_without_a_limit_starts_while_anything_is_left() -> None:
    endless = Asked(PATH, None, None)
    money = Budget("m", ("acme",), yuan("10.00"), BudgetPeriod.YEAR)
    left = [hours_of(99, 0), standing(money, yuan("9.99"), yuan("0"))]
    assert budget_decide(left, endless).action is None
    gone = [hours_of(99, 1), standing(money, yuan("9.99"), yuan("0.01"))]
    assert [(reason.need, reason.have) for reason in budget_decide(gone, endless).reasons] == [(1, 0), (1, 0)]


def test_stop_lets_nothing_start_and_ends_what_runs_when_it_is_used() -> None:
    budget = replace(HUNDRED, thresholds=(Threshold(80, Action.ALERT), Threshold(110, Action.STOP)))
    assert budget_decide([hours_of(100, 8, budget)], asked(3)).action is Action.QUEUE
    assert budget_decide([hours_of(100, 8, budget)], asked(2)).action is None
    assert not stop_due(hours_of(109, 8, budget))
    assert stop_due(hours_of(110, 0, budget))
    assert not stop_due(hours_of(200, 0))


@pytest.mark.parametrize(
    ("period", "name", "begin", "end"),
    [
        (BudgetPeriod.MONTH, "2026-11", "2026-10-31T16:00", "2026-11-30T16:00"),
        (BudgetPeriod.QUARTER, "2026-Q4", "2026-09-30T16:00", "2026-12-31T16:00"),
        (BudgetPeriod.YEAR, "2026", "2025-12-31T16:00", "2026-12-31T16:00"),
    ],
)
def test_periods_are_those_of_the_accounts_zone(period: BudgetPeriod, name: str, begin: str, end: str) -> None:
    budget = replace(HUNDRED, period=period)
    found = budget_period(budget, datetime(2026, 11, 30, 15, 59, tzinfo=UTC), SHANGHAI)
    assert found is not None
    assert found.name == name
    assert [datetime.fromtimestamp(moment, UTC).isoformat()[:16] for moment in (found.start, found.end)] == [begin, end]
    later = budget_period(budget, datetime(2026, 12, 31, 16, 0, tzinfo=UTC), SHANGHAI)
    assert later is not None
    assert later.name in {"2027-01", "2027-Q1", "2027"}


def test_a_budget_for_once_has_its_own_span() -> None:
    once = replace(HUNDRED, period=BudgetPeriod.ONCE, valid=(at(0), at(48)))
    found = budget_period(once, at(47), SHANGHAI)
    assert found is not None
    assert (found.name, found.end - found.start) == ("b1", 48 * 3600)
    assert budget_period(once, at(48), SHANGHAI) is None


def test_jobs_of_one_pass_are_judged_one_after_the_other() -> None:
    now, started = hours_of(82, 12), 0
    while budget_decide([now], asked(2)).action is None:
        now, started = now.admitted(asked(2)), started + 1
    assert started == 3
    assert now.admitted(Asked(("acme", "other"), 10**9, None)) == now


def test_a_budget_in_other_money_is_refused() -> None:
    budget_check(HUNDRED, yuan("1").currency)
    budget_check(replace(HUNDRED, limit=yuan("5")), yuan("1").currency)
    with pytest.raises(InvalidInput) as caught:
        budget_check(replace(HUNDRED, limit=yuan("5")), currency_find("EUR"))
    assert caught.value.reason == "CURRENCY_MISMATCH"


@pytest.mark.parametrize(
    "change",
    [
        {"node": ()},
        {"node": ("acme", "*")},
        {"node": ("acme", "")},
        {"node": ("a", "b", "c", "d", "e")},
        {"limit": yuan("-1")},
        {"thresholds": ()},
        {"thresholds": (Threshold(0, Action.ALERT),)},
        {"thresholds": (Threshold(80, Action.ALERT), Threshold(80, Action.ALERT))},
        {"period": BudgetPeriod.ONCE},
        {"valid": (at(0), at(1))},
        {"period": BudgetPeriod.ONCE, "valid": (at(1), at(1))},
    ],
)
def test_budgets_that_make_no_sense(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace(HUNDRED, **change)  # type: ignore[arg-type]
    assert caught.value.hint


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 60))
def test_admission_never_takes_more_than_the_limit(wishes: list[int], limit: int) -> None:
    budget = replace(HUNDRED, limit=card_time(limit * CARD_HOUR))
    taken = 0
    for wish in wishes:
        verdict = budget_decide([hours_of(taken // 2, taken - taken // 2, budget)], asked(wish))
        assert (verdict.action is None) == (wish == 0 or taken + wish <= limit)
        if verdict.action is None:
            taken += wish
    assert taken <= limit
