"""Prices."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from millpond.api.bodies import body_schema
from millpond.api.context import PAGE, Cursor, Deps, JsonBody, Limit, OnceKey, Who, reply_response
from millpond.api.schemas.base import Listing
from millpond.api.schemas.prices import Price, PricesPost, PriceTable
from millpond.billing.prices import PriceRecord
from millpond.services import prices
from millpond.services.cursors import page_cut

router = APIRouter(tags=["prices"])


@router.get("/v1/prices")
def price_list(
    deps: Deps,
    actor: Who,
    tenant: Annotated[str, Query(max_length=63, description="Besides list prices, only those of this tenant.")] = "",
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> Listing[Price]:
    """List prices, and what was agreed with the tenants that the caller may see."""
    page = page_cut(prices.price_list(deps, actor, tenant), cursor, limit, _key)
    return Listing(items=[Price.of(record) for record in page.items], next=page.next)


@router.post("/v1/prices", status_code=201, response_model=PriceTable, openapi_extra=body_schema(PricesPost))
def prices_add(deps: Deps, actor: Who, once: OnceKey, body: JsonBody) -> Response:
    """Add price versions, all or none."""

    def render(records: tuple[PriceRecord, ...]) -> object:
        return PriceTable(items=[Price.of(record) for record in records]).model_dump(mode="json", by_alias=True)

    return reply_response(prices.prices_add(deps, actor, body, once, render))


def _key(record: PriceRecord) -> tuple[str, ...]:
    version = record.version
    return record.account, version.price.currency.code, version.sku, version.klass, version.version
