"""Price versions."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.billing.prices import PriceRecord


class PriceItem(Schema):
    """A version to be added."""

    version: str = Field(max_length=200, description="Its name; versions of the same cards have different ones.")
    sku: str = Field(max_length=200, description="Card model such as A800-80GB; `*`: every one.")
    klass: str = Field(default="*", alias="class", max_length=200, description="Class of the queue; `*`: every one.")
    price: str = Field(description='Of a card-hour, a decimal such as "12.00".')
    start: str = Field(alias="from", description="A date, or a full hour of the zone: 2026-12-01.")
    end: str | None = Field(
        default=None,
        alias="to",
        description="When it ends, exclusive; left out: when the next of the same cards begins.",
    )


class PricesPost(Schema):
    """Versions to be added, all or none.  They are never changed afterwards."""

    currency: str = Field(max_length=3, description="Code of ISO 4217.")
    zone: str = Field(
        default="",
        max_length=100,
        description="Zone whose dates are meant; empty: the tenant's, or the one that all accounts share.",
    )
    tenant: str = Field(default="", max_length=63, description="Agreed with this tenant; empty: list prices.")
    prices: list[PriceItem] = Field(description="The versions.")


class Price(Schema):
    """A version: what a card-hour costs in a half-open time."""

    tenant: str = Field(description="With whom it was agreed; empty: a list price.")
    version: str = Field(description="Its name.")
    sku: str = Field(description="Card model; `*`: every one.")
    klass: str = Field(serialization_alias="class", description="Class of the queue; `*`: every one.")
    price: str = Field(description="Of a card-hour.")
    currency: str = Field(description="Code of ISO 4217.")
    starts_at: datetime = Field(description="From when on it counts.")
    ends_at: datetime | None = Field(description="Until when; null: until another version follows it.")
    created_at: datetime = Field(description="When it was added.")
    created_by: str = Field(description="By whom.")

    @classmethod
    def of(cls, record: PriceRecord) -> Price:
        version = record.version
        return cls(
            tenant=record.account,
            version=version.version,
            sku=version.sku,
            klass=version.klass,
            price=version.price.text(),
            currency=version.price.currency.code,
            starts_at=datetime.fromtimestamp(version.start, UTC),
            ends_at=None if record.ends is None else datetime.fromtimestamp(record.ends, UTC),
            created_at=record.created_at,
            created_by=record.created_by,
        )


class PriceTable(Schema):
    """The versions that were added."""

    items: list[Price] = Field(description="In the order of the list that was sent.")
