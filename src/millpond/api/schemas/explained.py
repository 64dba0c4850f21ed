"""What a line of an invoice was made of."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.api.schemas.invoices import HOURS, InvoiceLine
from millpond.api.schemas.prices import Price
from millpond.billing.money import decimal_round_text
from millpond.billing.rating import card_hours
from millpond.metering.attempts import AttemptUsage
from millpond.services.invoice_walk import LineWalk, WalkBucket


def _hours(milli_seconds: int) -> str:
    return decimal_round_text(card_hours(milli_seconds), HOURS)


class LineBucket(Schema):
    """Use in one clock hour."""

    hour: datetime = Field(description="When the hour begins.")
    booked: datetime = Field(description="The hour that carries it; a later one if it is a correction.")
    attempt: int = Field(description="Number of the attempt.")
    milli_card_seconds: int = Field(description="All use, the lost part included.")
    lost_milli_card_seconds: int = Field(description="Lost work, which is not billed unless the account says so.")
    card_hours: str = Field(description="All use in card-hours, four decimals.")
    lost_card_hours: str = Field(description="Lost work in card-hours, four decimals.")

    @classmethod
    def of(cls, bucket: WalkBucket) -> LineBucket:
        return cls(
            hour=bucket.hour,
            booked=bucket.booked,
            attempt=bucket.attempt,
            milli_card_seconds=bucket.milli_seconds,
            lost_milli_card_seconds=bucket.lost_milli_seconds,
            card_hours=_hours(bucket.milli_seconds),
            lost_card_hours=_hours(bucket.lost_milli_seconds),
        )


class LineAttempt(Schema):
    """An attempt that the use is of."""

    attempt: int = Field(description="Its number.")
    started_at: datetime = Field(description="When it started.")
    ended_at: datetime | None = Field(description="When it ended; null while it runs.")
    reason: str | None = Field(description="Why it ended.")
    milli: int = Field(description="Milli-cards that it took.")
    milli_card_seconds: int = Field(description="All its use, also that of other lines.")
    lost_milli_card_seconds: int = Field(description="Lost work.")
    card_hours: str = Field(description="All its use in card-hours, four decimals.")
    lost_card_hours: str = Field(description="Lost work in card-hours, four decimals.")

    @classmethod
    def of(cls, attempt: AttemptUsage) -> LineAttempt:
        return cls(
            attempt=attempt.attempt,
            started_at=attempt.started,
            ended_at=attempt.ended,
            reason=attempt.reason.value if attempt.reason else None,
            milli=attempt.milli,
            milli_card_seconds=attempt.milli_seconds,
            lost_milli_card_seconds=attempt.lost_milli_seconds,
            card_hours=_hours(attempt.milli_seconds),
            lost_card_hours=_hours(attempt.lost_milli_seconds),
        )


class LineEvent(Schema):
    """An event of the log that the use follows from."""

    sequence: int = Field(description="Its place in the log.")
    source: str = Field(description="Its chain.")
    time: datetime = Field(description="When it happened.")
    kind: str = Field(description="What happened.")
    attempt: str = Field(description="Id of the attempt.")
    previous: str = Field(description="Hash of the event before it in its chain.")
    hash: str = Field(description="Its own hash.")


class LineExplanation(Schema):
    """From a line to its buckets, attempts, events and price version."""

    invoice: str = Field(description="Number of the invoice.")
    currency: str = Field(description="Code of ISO 4217.")
    line: InvoiceLine = Field(description="The line.")
    price: Price | None = Field(description="The version; null if it was never stored.")
    buckets: list[LineBucket] = Field(description="Use by clock hour.")
    attempts: list[LineAttempt] = Field(description="The attempts.")
    events: list[LineEvent] = Field(description="Starts, checkpoints and ends of these attempts, in order.")
    adds_up: bool = Field(description="Whether the buckets sum to what is billed.")

    @classmethod
    def of(cls, walk: LineWalk) -> LineExplanation:
        return cls(
            invoice=walk.invoice,
            currency=walk.line.net.currency.code,
            line=InvoiceLine.of(walk.line),
            price=None if walk.price is None else Price.of(walk.price),
            buckets=[LineBucket.of(bucket) for bucket in walk.buckets],
            attempts=[LineAttempt.of(attempt) for attempt in walk.attempts],
            events=[
                LineEvent(
                    sequence=event.sequence,
                    source=event.source,
                    time=event.time,
                    kind=event.kind,
                    attempt=event.attempt,
                    previous=event.previous,
                    hash=event.hash,
                )
                for event in walk.events
            ],
            adds_up=walk.adds_up,
        )
