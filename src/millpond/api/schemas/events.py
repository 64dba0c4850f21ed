"""Events: everything that happened, append-only and hash-chained per source."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.domain.records import EventRecord


class Event(Schema):
    """One event.  `hash` covers the fields and the hash before it in the same source's chain."""

    sequence: int = Field(description="Number in the whole log; grows.")
    source: str = Field(description="Who wrote it: api, control, engine:local …")
    source_sequence: int = Field(description="Number in the source's own chain, without gaps.")
    time: datetime = Field(description="When it happened.")
    kind: str = Field(description="What happened, such as job.submitted.")
    actor: str = Field(description="Who did it: a user, or the part of the system.")
    tenant: str = Field(description="Tenant concerned; empty: none.")
    job: str = Field(description="Job concerned; empty: none.")
    attempt: str = Field(description="Attempt concerned; empty: none.")
    data: dict[str, Any] = Field(description="Facts about it; never secrets.")
    previous: str = Field(description="Hash of the event before it in its source's chain.")
    hash: str = Field(description="Hash of this one.")

    @classmethod
    def of(cls, record: EventRecord) -> Event:
        return cls(
            sequence=record.sequence,
            source=record.source,
            source_sequence=record.source_sequence,
            time=record.time,
            kind=record.kind,
            actor=record.actor,
            tenant=record.tenant,
            job=record.job,
            attempt=record.attempt,
            data=dict(record.data),
            previous=record.previous,
            hash=record.hash,
        )
