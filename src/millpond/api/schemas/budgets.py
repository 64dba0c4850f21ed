"""Budgets."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.billing.budgets import Action, BudgetPeriod, Threshold
from millpond.billing.currencies import currency_find
from millpond.billing.money import Money, money_parse, money_zero
from millpond.billing.transfers import CARD_SECONDS, card_time
from millpond.domain.amounts import milli_format, milli_parse
from millpond.domain.errors import InvalidInput
from millpond.services.budgets import BudgetGiven, BudgetSheet, node_text

CARD_HOURS = "card-hours"
_HOUR = 3_600


class BudgetLine(Schema):
    """What happens when so much of the limit is used or held by running jobs."""

    percent: int = Field(ge=1, le=1000, description="Per cent of the limit.")
    action: Action = Field(
        description="`alert`: tell; `queue`: new jobs wait; `deny`: new jobs are refused; `stop`: running jobs save "
        "and stop, too."
    )


class BudgetSet(Schema):
    """A budget to be set, in card-hours or in money."""

    node: str = Field(
        max_length=200,
        description="`/` for the organisation, `tenant`, `tenant/project`, `tenant/project/user`, or `tenant/*/user` "
        "over all projects.",
    )
    card_hours: str = Field(default="", max_length=40, description="The limit in card-hours, such as `100`.")
    amount: str = Field(default="", max_length=40, description='Or in money, net of tax, such as "12000.00".')
    currency: str = Field(default="", max_length=3, description="Of the amount: a code of ISO 4217.")
    period: BudgetPeriod = Field(default=BudgetPeriod.MONTH, description="When it begins anew, in the tenant's zone.")
    thresholds: list[BudgetLine] = Field(
        default=[BudgetLine(percent=80, action=Action.ALERT), BudgetLine(percent=100, action=Action.QUEUE)],
        max_length=20,
        description="Lines; left out: an alert at 80 per cent, and jobs wait at 100.",
    )
    starts_at: datetime | None = Field(default=None, description="Of a budget for `once`: from when on.")
    ends_at: datetime | None = Field(default=None, description="Of a budget for `once`: until when.")

    def given(self) -> BudgetGiven:
        lines = tuple(Threshold(line.percent, line.action) for line in self.thresholds)
        if (self.starts_at is None) != (self.ends_at is None):
            raise InvalidInput("a span has two ends", hint="give both starts_at and ends_at")
        valid = None if self.starts_at is None or self.ends_at is None else (self.starts_at, self.ends_at)
        if valid is not None and any(moment.tzinfo is None for moment in valid):
            raise InvalidInput("a time without a zone is not clear", hint="write 2026-12-01T00:00:00+08:00")
        return BudgetGiven(self.node, self._limit(), self.period, lines, valid)

    def _limit(self) -> Money:
        if bool(self.card_hours) == bool(self.amount):
            raise InvalidInput("a budget is in card-hours or in money", hint="give card_hours, or amount and currency")
        if self.card_hours:
            return card_time(milli_parse(self.card_hours, "number of card-hours") * _HOUR)
        if not self.currency:
            raise InvalidInput("an amount needs its currency", hint="add the currency, such as CNY")
        return money_parse(self.amount, currency_find(self.currency))


class BudgetInfo(Schema):
    """A budget and how it stands.  Amounts are card-hours, rounded down to thousandths, or money net of tax."""

    id: str = Field(description="Its id.")
    node: str = Field(description="Whose it is: `/`, or a path.")
    unit: str = Field(description="`card-hours`, or the code of a currency.")
    limit: str = Field(description="What may be used.")
    used: str = Field(description="What is used, as far as it is counted.")
    running: str = Field(description="What running jobs may still use.")
    left: str = Field(description="What is left for new jobs.")
    limit_milli_card_seconds: int | None = Field(description="Exactly; null for money.")
    used_milli_card_seconds: int | None = Field(description="Exactly; null for money.")
    running_milli_card_seconds: int | None = Field(description="Exactly; null for money.")
    period: BudgetPeriod = Field(description="When it begins anew.")
    period_name: str = Field(description="The present one; empty: a span that has not begun, or is over.")
    thresholds: list[BudgetLine] = Field(description="Its lines.")
    starts_at: datetime | None = Field(description="Of a budget for `once`.")
    ends_at: datetime | None = Field(description="Of a budget for `once`.")
    created_at: datetime = Field(description="When it was set.")
    created_by: str = Field(description="By whom.")

    @classmethod
    def of(cls, sheet: BudgetSheet) -> BudgetInfo:
        record, standing = sheet.record, sheet.standing
        budget = record.budget
        limit, zero = budget.limit, money_zero(budget.limit.currency)
        used, running = (standing.used, standing.running) if standing is not None else (zero, zero)
        time = limit.currency == CARD_SECONDS
        begin, end = budget.valid or (None, None)
        return cls(
            id=budget.id,
            node=node_text(budget),
            unit=CARD_HOURS if time else limit.currency.code,
            limit=_text(limit),
            used=_text(used),
            running=_text(running),
            left=_text(max(limit - used - running, zero)),
            limit_milli_card_seconds=limit.minor() if time else None,
            used_milli_card_seconds=used.minor() if time else None,
            running_milli_card_seconds=running.minor() if time else None,
            period=budget.period,
            period_name=standing.period if standing is not None else "",
            thresholds=[BudgetLine(percent=line.percent, action=line.action) for line in budget.thresholds],
            starts_at=begin,
            ends_at=end,
            created_at=record.created_at,
            created_by=record.created_by,
        )


def _text(amount: Money) -> str:
    return milli_format(amount.minor() // _HOUR) if amount.currency == CARD_SECONDS else amount.text()
