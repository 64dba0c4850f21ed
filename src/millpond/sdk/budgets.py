"""Budgets: card-hours or money that a node of the organisation may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict, cast

from millpond.sdk.group import Group, key_make, path_join


class BudgetLine(TypedDict):
    percent: int
    action: str


class Budget(TypedDict):
    id: str
    node: str
    unit: str
    limit: str
    used: str
    running: str
    left: str
    limit_milli_card_seconds: int | None
    used_milli_card_seconds: int | None
    running_milli_card_seconds: int | None
    period: str
    period_name: str
    thresholds: list[BudgetLine]
    starts_at: str | None
    ends_at: str | None
    created_at: str
    created_by: str


class Budgets(Group):
    def list(self, tenant: str = "") -> Iterator[Budget]:
        return self._transport.pages(path_join("budgets"), {"tenant": tenant})

    def get(self, budget: str) -> Budget:
        return cast("Budget", self._transport.send("GET", path_join("budgets", budget)))

    def set(self, given: Mapping[str, object]) -> Budget:
        """Set one: ``{"node": "vision", "card_hours": "100"}``, or ``amount`` and ``currency``."""
        return cast("Budget", self._transport.send("POST", path_join("budgets"), body=given, key=key_make()))

    def remove(self, budget: str) -> None:
        self._transport.send("DELETE", path_join("budgets", budget))
