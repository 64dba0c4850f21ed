"""What idle cards cost, as a row of its own or spread over those who share the pool."""

from __future__ import annotations

from collections.abc import Mapping

from millpond.billing.money import Money, money_split, money_zero


def idle_spread(cost: Money, weights: Mapping[str, int]) -> tuple[dict[str, Money], Money]:
    """Parts of `cost` by weight, and what stays as the idle row: all of it where nobody has a weight."""
    names = sorted(weights)
    if not any(weights[name] for name in names):
        return dict.fromkeys(names, money_zero(cost.currency)), cost
    parts = money_split(cost, [weights[name] for name in names])
    return dict(zip(names, parts, strict=True)), money_zero(cost.currency)
