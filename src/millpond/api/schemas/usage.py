"""Metered card time.  Amounts are whole milli-card-seconds, with card-hours as text for people."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.domain.jobs import EndReason
from millpond.metering.alarms import AlarmCode
from millpond.metering.attempts import AttemptUsage
from millpond.metering.usage import USAGE_KEYS, AlarmRecord, UsageBy, UsageSum
from millpond.services.usage import JobUsage, UsagePage, hours_text

_LOST = "Of it, what was lost or is in dispute: shown, and not billed."


class UsageAmount(Schema):
    """Card time."""

    milli_card_seconds: int = Field(description="All use; the lost part included.")
    lost_milli_card_seconds: int = Field(description=_LOST)
    card_hours: str = Field(description="All use, in card-hours.")
    lost_card_hours: str = Field(description="The lost part, in card-hours.")
    attempts: int = Field(description="Attempts that used any of it.")
    measured: str | None = Field(default=None, description="Measured utilisation of the cards; null: not measured.")


class UsageRow(UsageAmount):
    """Card time of one group; what the groups do not tell apart is null."""

    tenant: str | None = Field(default=None, description="Tenant.")
    project: str | None = Field(default=None, description="Project; empty: none.")
    user: str | None = Field(default=None, description="Whose jobs.")
    sku: str | None = Field(default=None, description="Card model; empty: no cards.")
    klass: str | None = Field(default=None, alias="class", description="Class of the queue.")
    job: str | None = Field(default=None, description="Id of the job.")
    name: str | None = Field(default=None, description="Its name; empty when the job is not known any more.")
    day: date | None = Field(default=None, description="Day of the zone.")

    @classmethod
    def of(cls, by: UsageBy, one: UsageSum) -> UsageRow:
        keys: dict[str, object] = dict(zip(USAGE_KEYS[by], one.keys, strict=True))
        if by is UsageBy.JOB:
            keys["name"] = one.name
        return cls.model_validate({**keys, **_amount(one)})


class UsageList(Schema):
    """One page of sums, with the sum of all pages."""

    by: UsageBy = Field(description="What is summed by.")
    start: datetime = Field(serialization_alias="from", description="First hour that counts.")
    end: datetime = Field(serialization_alias="to", description="First hour that does not.")
    zone: str = Field(description="Zone of months and days.")
    counted_until: datetime | None = Field(description="Running attempts are counted until then; null: none yet.")
    alarms: int = Field(description="Contradictions about this time that the meter found: /v1/usage/alarms.")
    total: UsageAmount = Field(description="Of all pages.")
    items: list[UsageRow] = Field(description="The sums of this page.")
    next: str = Field(default="", description="Pass as `cursor` to get the next page; empty at the end.")

    @classmethod
    def of(cls, page: UsagePage) -> UsageList:
        return cls(
            by=page.by,
            start=page.span.start,
            end=page.span.end,
            zone=page.span.zone,
            counted_until=page.counted,
            alarms=page.alarms,
            total=UsageAmount.model_validate(_amount(page.total)),
            items=[UsageRow.of(page.by, one) for one in page.items],
            next=page.next,
        )


class UsageAttempt(Schema):
    """An attempt as the meter has counted it."""

    attempt: int = Field(description="Its number, from 1.")
    sku: str = Field(description="Card model; empty: no cards.")
    klass: str = Field(serialization_alias="class", description="Class of the queue.")
    milli: int = Field(description="Milli-cards that it holds.")
    started_at: datetime = Field(description="From when on it is counted.")
    ended_at: datetime | None = Field(description="Until when; null: it runs.")
    reason: EndReason | None = Field(description="Why it ended.")
    lost: bool = Field(description="Its work since the last checkpoint was lost.")
    disputed: bool = Field(description="It overlaps with another on a card; nothing of it is billed.")
    milli_card_seconds: int = Field(description="All use; the lost part included.")
    lost_milli_card_seconds: int = Field(description=_LOST)
    card_hours: str = Field(description="All use, in card-hours.")
    lost_card_hours: str = Field(description="The lost part, in card-hours.")
    start_event: int = Field(description="Sequence of the event that says that it started.")
    end_event: int | None = Field(description="Sequence of the event that says that it ended.")

    @classmethod
    def of(cls, usage: AttemptUsage) -> UsageAttempt:
        return cls(
            attempt=usage.attempt,
            sku=usage.sku,
            klass=usage.klass,
            milli=usage.milli,
            started_at=usage.started,
            ended_at=usage.ended,
            reason=usage.reason,
            lost=usage.lost,
            disputed=usage.disputed,
            milli_card_seconds=usage.milli_seconds,
            lost_milli_card_seconds=usage.lost_milli_seconds,
            card_hours=hours_text(usage.milli_seconds),
            lost_card_hours=hours_text(usage.lost_milli_seconds),
            start_event=usage.start_event,
            end_event=usage.end_event,
        )


class UsageOfJob(Schema):
    """What one job has used, attempt by attempt."""

    job: str = Field(description="Id of the job.")
    name: str = Field(description="Its name.")
    tenant: str = Field(description="Its tenant.")
    project: str = Field(description="Its project; empty: none.")
    user: str = Field(description="Its user.")
    counted_until: datetime | None = Field(description="Running attempts are counted until then; null: none yet.")
    total: UsageAmount = Field(description="Of all attempts.")
    attempts: list[UsageAttempt] = Field(description="Those that have started, the first first.")

    @classmethod
    def of(cls, usage: JobUsage) -> UsageOfJob:
        used = sum(one.milli_seconds for one in usage.attempts)
        lost = sum(one.lost_milli_seconds for one in usage.attempts)
        total = UsageSum((), used, lost, len(usage.attempts))
        return cls(
            job=usage.job.id,
            name=usage.job.name,
            tenant=usage.job.tenant,
            project=usage.job.project,
            user=usage.job.user,
            counted_until=usage.counted,
            total=UsageAmount.model_validate(_amount(total)),
            attempts=[UsageAttempt.of(one) for one in usage.attempts],
        )


class UsageAlarm(Schema):
    """A contradiction that the meter found.  What it is about is not billed; nothing is bent until it fits."""

    id: str = Field(description="Its name, for ever.")
    time: datetime = Field(description="Of what it is about.")
    code: AlarmCode = Field(description="What kind of contradiction.")
    tenant: str = Field(description="Tenant of the job.")
    job: str = Field(description="Id of the job.")
    attempt: int = Field(description="Number of the attempt.")
    card: str = Field(description="Card; empty: it is not about one.")
    text: str = Field(description="One sentence.")
    raised_at: datetime = Field(description="When the meter found it.")

    @classmethod
    def of(cls, record: AlarmRecord) -> UsageAlarm:
        return cls(
            id=record.id,
            time=record.time,
            code=record.code,
            tenant=record.tenant,
            job=record.job,
            attempt=record.attempt,
            card=record.card,
            text=record.text,
            raised_at=record.raised,
        )


def _amount(one: UsageSum) -> dict[str, object]:
    return {
        "milli_card_seconds": one.milli_seconds,
        "lost_milli_card_seconds": one.lost_milli_seconds,
        "card_hours": hours_text(one.milli_seconds),
        "lost_card_hours": hours_text(one.lost_milli_seconds),
        "attempts": one.attempts,
    }
