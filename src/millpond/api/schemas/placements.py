"""Where a job sits."""

from __future__ import annotations

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.domain.records import SeatRecord


class Seat(Schema):
    """One node of a placement, or one slice of a node."""

    node: str = Field(description="Name of the node.")
    cards: list[int] = Field(description="Indexes of its cards on that node.")
    milli: int = Field(description="Milli-cards of each of these cards (1000 = whole), or of the slice.")
    slice: str = Field(default="", description="MIG profile, if it is a slice.")
    slot: int | None = Field(default=None, description="Memory slot where the slice begins.")

    @classmethod
    def of(cls, record: SeatRecord) -> Seat:
        return cls(node=record.node, cards=list(record.cards), milli=record.milli, slice=record.slice, slot=record.slot)
