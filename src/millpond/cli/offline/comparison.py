"""Several runs side by side: the baseline first, every other with what it differs by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.cli.output import Cell, Column, Row
from millpond.cli.session import Session
from millpond.domain.amounts import duration_format
from millpond.simulation.comparison import (
    BASELINE,
    RUN_FIGURES,
    TENANT_FIGURES,
    difference_text,
    figure_text,
    run_figures,
    tenant_figures,
    tenant_names,
)
from millpond.simulation.outcome import Outcome

RUNS = (Column("run", fold=True), *(Column(name, right=True) for name in RUN_FIGURES))
TENANTS = (Column("tenant"), Column("run", fold=True), *(Column(name, right=True) for name in TENANT_FIGURES))


def comparison_write(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Two tables: of the runs, and of every tenant in them."""
    session.output.table(RUNS, runs_rows(session, outcomes))
    session.output.line()
    session.output.table(TENANTS, tenants_rows(session, outcomes))
    for outcome in outcomes:
        if outcome.stopped:
            at = duration_format(outcome.record.elapsed)
            session.output.note(session.texts("simulate.stopped_run", run=outcome.name, time=at), "yellow")
        if outcome.record.violations:
            text = session.texts("simulate.violations", run=outcome.name, count=outcome.record.violations)
            session.output.note(text, "red")


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
    """As `runs_rows`, for one tenant after the other."""
    rows: list[Row] = []
    for name in tenant_names(outcomes):
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
    return session.texts("simulate.baseline") if outcome.name == BASELINE else outcome.name


def _said(figures: Mapping[str, int]) -> list[str]:
    return [figure_text(name, value) for name, value in figures.items()]


def _difference(session: Session, base: Mapping[str, int], figures: Mapping[str, int]) -> list[Cell | str]:
    told = [Cell(difference_text(name, figures[name] - base[name]), "dim") for name in figures]
    return [Cell("  " + session.texts("simulate.difference"), "dim"), *told]
