"""Budgets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from millpond.api.context import PAGE, Cursor, Deps, Limit, OnceKey, Who, reply_response
from millpond.api.schemas.base import Listing
from millpond.api.schemas.budgets import BudgetInfo, BudgetSet
from millpond.services import budgets
from millpond.services.budgets import BudgetSheet
from millpond.services.cursors import page_cut

router = APIRouter(tags=["budgets"])

BudgetId = Annotated[str, Path(max_length=32, description="Id of the budget.")]


@router.get("/v1/budgets")
def budget_list(
    deps: Deps,
    actor: Who,
    tenant: Annotated[str, Query(max_length=63, description="Only this tenant's.")] = "",
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> Listing[BudgetInfo]:
    """Budgets that stand and that the caller may see, with what is used and what running jobs may still use."""
    page = page_cut(budgets.budget_list(deps, actor, tenant), cursor, limit, _key)
    return Listing(items=[BudgetInfo.of(sheet) for sheet in page.items], next=page.next)


@router.post("/v1/budgets", status_code=201, response_model=BudgetInfo)
def budget_set(deps: Deps, actor: Who, once: OnceKey, body: BudgetSet) -> Response:
    """Set a budget in the place of the one with the same node, unit and period."""

    def render(sheet: BudgetSheet) -> object:
        return BudgetInfo.of(sheet).model_dump(mode="json")

    return reply_response(budgets.budget_set(deps, actor, body.given(), once, render))


@router.get("/v1/budgets/{budget}")
def budget_get(deps: Deps, actor: Who, budget: BudgetId) -> BudgetInfo:
    """One that stands."""
    return BudgetInfo.of(budgets.budget_get(deps, actor, budget))


@router.delete("/v1/budgets/{budget}", status_code=204)
def budget_remove(deps: Deps, actor: Who, budget: BudgetId) -> None:
    """Take it away: jobs that wait for it may start."""
    budgets.budget_remove(deps, actor, budget)


def _key(sheet: BudgetSheet) -> tuple[str, ...]:
    budget = sheet.record.budget
    return ("/".join(budget.node), budget.limit.currency.code, budget.period.value)
