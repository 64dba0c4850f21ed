"""Price versions: list prices, and what was agreed with a tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict, cast

from millpond.sdk.group import Group, key_make, path_join

Price = TypedDict(
    "Price",
    {
        "tenant": str,
        "version": str,
        "sku": str,
        "class": str,
        "price": str,
        "currency": str,
        "starts_at": str,
        "ends_at": str | None,
        "created_at": str,
        "created_by": str,
    },
)


class PriceTable(TypedDict):
    items: list[Price]


class Prices(Group):
    def list(self, tenant: str = "") -> Iterator[Price]:
        return self._transport.pages(path_join("prices"), {"tenant": tenant})

    def add(self, document: Mapping[str, object]) -> PriceTable:
        """Add all versions of a document, or none: ``{"currency": …, "prices": [...]}``."""
        return cast("PriceTable", self._transport.send("POST", path_join("prices"), body=document, key=key_make()))
