"""Budgets: card-hours or money that a node of the organisation may use in a period.

A node is a path org → tenant → project → user; ``*`` stands for any (a user's budget over all projects).  What counts
is used + running + asked for: running jobs count with all that they may still use.  Nothing decays: a period ends, and
the next one begins at nothing.

In PostgreSQL: ``budgets`` (primary key id; CHECK of unit, period and thresholds; a changed budget is a new row with
``valid_from``), ``budget_spent`` (primary key budget, period; a projection of the rated buckets) and ``budget_alerts``
(primary key id, the hash of budget, period and percent: each alert fires once).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Final

from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_of_minor, money_zero
from millpond.billing.transfers import CARD_SECONDS, card_time, fact_id
from millpond.domain.amounts import milli_format
from millpond.domain.errors import InvalidInput
from millpond.domain.reasons import Code, Reason
from millpond.metering.hours import Period, instant

MILLI_CARD_HOUR: Final = 3_600
"""Milli-card-seconds in a milli-card-hour, the unit of `CARD_HOURS_EXHAUSTED`."""

ANY: Final = "*"
LEVELS: Final = ("org", "tenant", "project", "user")


class BudgetPeriod(StrEnum):
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    ONCE = "once"


class Action(StrEnum):
    """``alert``: tell somebody.  ``queue``: new jobs wait.  ``deny``: new jobs are refused.

    ``stop``: new jobs wait, and running ones save and stop when the line is reached.
    """

    ALERT = "alert"
    QUEUE = "queue"
    DENY = "deny"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A line at so many per cent of the limit."""

    percent: int
    action: Action


@dataclass(frozen=True, slots=True)
class Budget:
    """``limit``: money, or card time (`CARD_SECONDS`).  ``valid``: the span of a budget for once, half-open."""

    id: str
    node: tuple[str, ...]
    limit: Money
    period: BudgetPeriod
    thresholds: tuple[Threshold, ...] = (Threshold(80, Action.ALERT), Threshold(100, Action.QUEUE))
    valid: tuple[datetime, datetime] | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.node) <= len(LEVELS) or not all(self.node) or self.node[-1] == ANY:
            raise InvalidInput(f"{'/'.join(self.node)!r} is not a node", hint="write org/tenant/project/user, or fewer")
        if self.limit.minor() <= 0:
            raise InvalidInput(f"a budget of {self.limit} allows nothing", hint="write a positive limit, or set a cap")
        if not self.thresholds or any(not 1 <= line.percent <= 1000 for line in self.thresholds):
            raise InvalidInput("a threshold lies between 1 and 1000 per cent", hint="write 100 for the limit itself")
        if len(set(self.thresholds)) != len(self.thresholds):
            raise InvalidInput("the same threshold stands twice", hint="leave one out")
        if (self.period is BudgetPeriod.ONCE) != (self.valid is not None):
            raise InvalidInput("only a budget for once has a span, and it needs one", hint="say from when until when")
        if self.valid is not None and self.valid[1] <= self.valid[0]:
            raise InvalidInput("a budget cannot end before it begins", hint="give a later end")

    @property
    def name(self) -> str:
        """For people: the level and name of its node."""
        return f"{LEVELS[len(self.node) - 1]} {self.node[-1]}"

    def covers(self, path: Sequence[str]) -> bool:
        """Whether what happens at `path` (org, tenant, project, user) counts."""
        if len(path) < len(self.node):
            return False
        return all(part in {ANY, path[index]} for index, part in enumerate(self.node))

    def line(self, percent: int) -> Money:
        """That part of the limit, cut to whole smallest units."""
        return money_of_minor(self.limit.minor() * percent // 100, self.limit.currency)


def budget_check(budget: Budget, currency: Currency) -> None:
    """`InvalidInput` for a budget in money that is not the account's: nothing would ever count towards it."""
    if budget.limit.currency not in {CARD_SECONDS, currency}:
        raise InvalidInput(
            f"the budget is in {budget.limit.currency}, and the account pays in {currency}",
            hint=f"write it in {currency}, or in card-hours",
            code="CURRENCY_MISMATCH",
        )


def budget_period(budget: Budget, moment: datetime, zone: tzinfo) -> Period | None:
    """The period of `budget` around `moment`, in the account's zone; ``None`` outside the span of one for once."""
    if budget.valid is not None:
        begin, end = budget.valid
        return Period(budget.id, instant(begin), instant(end)) if begin <= moment < end else None
    local = moment.astimezone(zone)
    if budget.period is BudgetPeriod.MONTH:
        first, months, name = local.month, 1, f"{local.year:04d}-{local.month:02d}"
    elif budget.period is BudgetPeriod.QUARTER:
        quarter = (local.month - 1) // 3
        first, months, name = 3 * quarter + 1, 3, f"{local.year:04d}-Q{quarter + 1}"
    else:
        first, months, name = 1, 12, f"{local.year:04d}"
    year, month = divmod(12 * local.year + first - 1 + months, 12)
    begin = datetime(local.year, first, 1, tzinfo=zone)
    return Period(name, instant(begin), instant(datetime(year, month + 1, 1, tzinfo=zone)))


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget in one period: what is ``used``, and what ``running`` jobs may still use."""

    budget: Budget
    period: str
    used: Money
    running: Money

    @property
    def taken(self) -> Money:
        return self.used + self.running

    def admitted(self, asked: Asked) -> Standing:
        """After the job was started: the next one in the same pass is judged by this."""
        if not self.budget.covers(asked.path):
            return self
        return replace(self, running=self.running + asked.in_unit_of(self.budget))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job wants.  Both amounts are ``None`` without a `max_duration`: then anything that is left will do."""

    path: tuple[str, ...]
    milli_seconds: int | None
    cost: Money | None

    def in_unit_of(self, budget: Budget) -> Money:
        unit = budget.limit.currency
        if unit == CARD_SECONDS:
            return card_time(1 if self.milli_seconds is None else self.milli_seconds)
        if self.cost is None:
            return money_of_minor(1, unit)
        return self.cost if self.cost.currency == unit else money_zero(unit)


@dataclass(frozen=True, slots=True)
class Bound:
    """A line that a job would cross."""

    standing: Standing
    threshold: Threshold
    reason: Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """``action`` ``None``: it may start.  ``bounds``: all lines that bind; the first is the one that binds most."""

    action: Action | None
    bounds: tuple[Bound, ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return tuple(bound.reason for bound in self.bounds)


def budget_decide(standings: Iterable[Standing], asked: Asked) -> Verdict:
    """Whether a job may start: used + running + asked for stays within every line of every budget above it.

    What is refused (``deny``) goes before what waits; then the line with the least left.
    """
    bounds: list[Bound] = []
    for standing in standings:
        budget = standing.budget
        need = asked.in_unit_of(budget)
        if not budget.covers(asked.path) or not need:
            continue
        crossed = [
            line
            for line in budget.thresholds
            if line.action is not Action.ALERT and standing.taken + need > budget.line(line.percent)
        ]
        if crossed:
            line = min(crossed, key=lambda line: (line.action is not Action.DENY, line.percent))
            bounds.append(Bound(standing, line, _reason(standing, line, need)))
    bounds.sort(key=_binding)
    if not bounds:
        return Verdict(None, ())
    denied = any(bound.threshold.action is Action.DENY for bound in bounds)
    return Verdict(Action.DENY if denied else Action.QUEUE, tuple(bounds))


def _binding(bound: Bound) -> tuple[bool, int, str]:
    """Least left first, in thousandths of the limit, so that money and card-hours compare."""
    budget = bound.standing.budget
    left = budget.line(bound.threshold.percent) - bound.standing.taken
    return bound.threshold.action is not Action.DENY, left.minor() * 1000 // budget.limit.minor(), budget.id


def _reason(standing: Standing, line: Threshold, need: Money) -> Reason:
    budget = standing.budget
    limit = budget.line(line.percent)
    have = max(limit - standing.taken, money_zero(limit.currency))
    node = "/".join(budget.node)
    if limit.currency != CARD_SECONDS:
        text = (
            f"{budget.name} has {have} left of its budget of {limit} in {standing.period} "
            f"({standing.used} used, {standing.running} for running jobs), this job needs {need}"
        )
        return Reason(Code.BALANCE_HELD, text, need.minor(), have.minor(), limit.minor(), queue=node)
    used, running = standing.used.minor() // MILLI_CARD_HOUR, -(-standing.running.minor() // MILLI_CARD_HOUR)
    needed = -(-need.minor() // MILLI_CARD_HOUR)
    left, most = have.minor() // MILLI_CARD_HOUR, limit.minor() // MILLI_CARD_HOUR
    text = (
        f"{budget.name} has {milli_format(left)} card-hours left of {milli_format(most)} in {standing.period} "
        f"({milli_format(used)} used, {milli_format(running)} for running jobs), this job needs {milli_format(needed)}"
    )
    return Reason(Code.CARD_HOURS_EXHAUSTED, text, needed, left, most, queue=node)


@dataclass(frozen=True, slots=True)
class Alert:
    """A line that was reached.  ``id`` follows from budget, period and percent: it is raised once a period."""

    budget: str
    period: str
    percent: int
    taken: Money
    limit: Money

    @property
    def id(self) -> str:
        return fact_id("budget-alert", self.budget, self.period, str(self.percent))


def alerts_due(standing: Standing, raised: Iterable[str]) -> tuple[Alert, ...]:
    """Alerts for every line, of whatever action, that used + running has reached; not those raised already."""
    budget, known = standing.budget, frozenset(raised)
    percents = sorted({line.percent for line in budget.thresholds if standing.taken >= budget.line(line.percent)})
    alerts = (Alert(budget.id, standing.period, percent, standing.taken, budget.limit) for percent in percents)
    return tuple(alert for alert in alerts if alert.id not in known)


def stop_due(standing: Standing) -> bool:
    """Whether running jobs below the node have to save and stop: what is used has reached a line that stops."""
    lines = (line for line in standing.budget.thresholds if line.action is Action.STOP)
    return any(standing.used >= standing.budget.line(line.percent) for line in lines)
