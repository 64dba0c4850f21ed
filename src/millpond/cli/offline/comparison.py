"""Several runs side by side: the baseline first, every other with what it differs by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millpond.cli.output import Cell, Column, Row
from millpond.cli.session import Session
from millpond.domain.amounts import duration_format
from millpond.simulation.outcome import Outcome

WAITS = ("mean", "p50", "p95", "max")
RUNS = (
    Column("run", fold=True),
    Column("utilisation", right=True),
    Column("fragmentation", right=True),
    Column("finished", right=True),
    Column("waiting", right=True),
    Column("evicted", right=True),
    Column("lost_hours", right=True),
    *(Column(f"wait_{name}", right=True) for name in WAITS),
)
TENANTS = (Column("tenant"), *RUNS[:1], *RUNS[3:])


def comparison_write(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Two tables: of the runs, and of every tenant in them."""
    session.output.table(RUNS, runs_rows(session, outcomes))
    session.output.line()
    session.output.table(TENANTS, tenants_rows(session, outcomes))
    for outcome in outcomes:
        if outcome.stopped:
            at = duration_format(outcome.record.elapsed)
            session.output.note(session.texts("simulate.stopped_run", run=outcome.name, time=at), "yellow")


def runs_rows(session: Session, outcomes: Sequence[Outcome]) -> list[Row]:
    """A row a run, and below each but the first one with the differences."""
    rows: list[Row] = []
    base = run_figures(outcomes[0])
    for index, outcome in enumerate(outcomes):
        figures = run_figures(outcome)
        rows.append([Cell(run_name(session, outcome), "bold"), *_said(figures)])
        if index:
            rows.append(_difference(session, base, figures))
    return rows


def tenants_rows(session: Session, outcomes: Sequence[Outcome]) -> list[Row]:
    rows: list[Row] = []
    for name in sorted({tenant for outcome in outcomes for tenant in outcome.record.tenants}):
        base = tenant_figures(outcomes[0], name)
        for index, outcome in enumerate(outcomes):
            figures = tenant_figures(outcome, name)
            first = " " if index else Cell(name, "bold")
            rows.append([first, run_name(session, outcome), *_said(figures)])
            if index:
                rows.append([" ", *_difference(session, base, figures)])
    return rows


def run_name(session: Session, outcome: Outcome) -> str:
    """The baseline is called so in the reader's language."""
    return session.texts("simulate.baseline") if outcome.name == "baseline" else outcome.name


def run_figures(outcome: Outcome) -> dict[str, int]:
    """The numbers of a run by column: shares in hundredths of a percent, lost work in milli-card-seconds."""
    tenants = [_numbers(values) for values in outcome.record.tenants.values()]
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
    """As `run_figures`, of one tenant; a tenant that a run does not have has done nothing in it."""
    values: Mapping[str, Any] = outcome.record.tenants.get(tenant, {})
    waits = values.get("wait_seconds", {})
    return {
        "finished": values.get("ended", 0),
        "waiting": values.get("waiting", 0),
        "evicted": values.get("evicted", 0),
        "lost_hours": values.get("lost_milli_seconds", 0),
        **{f"wait_{name}": waits.get(name, 0) for name in WAITS},
    }


def figure_text(name: str, value: int) -> str:
    """How a number of a column reads."""
    if name in {"utilisation", "fragmentation"}:
        return f"{value // 100}.{value % 100 // 10} %"
    if name == "lost_hours":
        tenths = value // 360_000
        return f"{tenths // 10}.{tenths % 10}"
    return duration_format(value) if name.startswith("wait_") else str(value)


def difference_text(name: str, value: int) -> str:
    """The same with its sign; nothing for no difference."""
    text = figure_text(name, abs(value)).removesuffix(" %")
    if not value or not text.strip("0.s"):
        return "="
    return ("+" if value > 0 else "-") + text


def _said(figures: Mapping[str, int]) -> list[str]:
    return [figure_text(name, value) for name, value in figures.items()]


def _difference(session: Session, base: Mapping[str, int], figures: Mapping[str, int]) -> list[Cell | str]:
    told = [Cell(difference_text(name, figures[name] - base[name]), "dim") for name in figures]
    return [Cell("  " + session.texts("simulate.difference"), "dim"), *told]


def _numbers(values: Mapping[str, object]) -> dict[str, int]:
    return {name: value for name, value in values.items() if isinstance(value, int)}
