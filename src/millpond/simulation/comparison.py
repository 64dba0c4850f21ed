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
    """`RUN_FIGURES`: shares in hundredths of a percent, lost work in milli-card-seconds, waits in seconds."""
    tenants: list[Mapping[str, Any]] = list(outcome.record.tenants.values())
    return {
        "utilisation": outcome.utilisation,
        "fragmentation": outcome.fragmentation,
        "finished": sum(each["ended"] for each in tenants),
        "waiting": sum(each["waiting"] for each in tenants),
        "evicted": sum(each["evicted"] for each in tenants),
        "lost_hours": sum(each["lost_milli_seconds"] for each in tenants),
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
        "lost_hours": values.get("lost_milli_seconds", 0),
        **{f"wait_{name}": waits.get(name, 0) for name in WAITS},
    }


def tenant_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Every tenant of any run."""
    return sorted({tenant for outcome in outcomes for tenant in outcome.record.tenants})


def figure_text(name: str, value: int) -> str:
    """How a number reads: ``74.1 %``, ``1.2`` card-hours, ``3m12s``, ``8``."""
    if name in SHARES:
        return f"{value // 100}.{value % 100 // 10} %"
    if name == "lost_hours":
        tenths = value // 360_000
        return f"{tenths // 10}.{tenths % 10}"
    return duration_format(value) if name.startswith("wait_") else str(value)


def difference_text(name: str, value: int) -> str:
    """The same with its sign; ``=`` for none that would show."""
    text = figure_text(name, abs(value)).removesuffix(" %")
    if not value or not text.strip("0.s"):
        return "="
    return ("+" if value > 0 else "-") + text
