"""Runs side by side in numbers: what tables and reports show, with signs for what differs from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millpond.domain.amounts import duration_format
from millpond.simulation.outcome import Outcome

BASELINE = "baseline"
"""The name of the run that nothing was changed for."""

WAITS = ("mean", "p50", "p95", "max")
SHARES = ("utilisation", "fragmentation")
TENANT_FIGURES = ("finished", "waiting", "evicted", "lost_hours", *(f"wait_{name}" for name in WAITS))
RUN_FIGURES = (*SHARES, *TENANT_FIGURES)


def run_figures(outcome: Outcome) -> dict[str, int]:
    """`RUN_FIGURES` as they are shown: shares in thousandths, lost work in tenths of a card-hour, waits in seconds.

    Rounded before anything is subtracted, so that the differences are those of the numbers that people see.
    """
    tenants: list[Mapping[str, Any]] = list(outcome.record.tenants.values())
    return {
        "utilisation": outcome.utilisation,
        "fragmentation": outcome.fragmentation,
        "finished": sum(each["ended"] for each in tenants),
        "waiting": sum(each["waiting"] for each in tenants),
        "evicted": sum(each["evicted"] for each in tenants),
        "lost_hours": _hours(sum(each["lost_milli_seconds"] for each in tenants)),
        **{f"wait_{name}": outcome.record.waits[name] for name in WAITS},
    }


def tenant_figures(outcome: Outcome, tenant: str) -> dict[str, int]:
    """`TENANT_FIGURES` of one tenant; a tenant that a run does not have has done nothing in it."""
    values: Mapping[str, Any] = outcome.record.tenants.get(tenant, {})
    waits = values.get("wait_seconds", {})
    return {
        "finished": values.get("ended", 0),
        "waiting": values.get("waiting", 0),
        "evicted": values.get("evicted", 0),
        "lost_hours": _hours(values.get("lost_milli_seconds", 0)),
        **{f"wait_{name}": waits.get(name, 0) for name in WAITS},
    }


def tenant_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Every tenant of any run."""
    return sorted({tenant for outcome in outcomes for tenant in outcome.record.tenants})


def figure_text(name: str, value: int) -> str:
    """How a number reads: ``74.1 %``, ``1.2`` card-hours, ``3m12s``, ``8``."""
    if name in SHARES:
        return f"{value // 10}.{value % 10} %"
    if name == "lost_hours":
        return f"{value // 10}.{value % 10}"
    return duration_format(value) if name.startswith("wait_") else str(value)


def difference_text(name: str, value: int) -> str:
    """The same with its sign; ``=`` for none."""
    if not value:
        return "="
    return ("+" if value > 0 else "-") + figure_text(name, abs(value)).removesuffix(" %")


def _hours(milli_seconds: int) -> int:
    return (milli_seconds + 180_000) // 360_000
