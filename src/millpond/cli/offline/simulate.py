"""``millpond simulate FILE``: a snapshot file or a trace in virtual time, alone or beside what-if variants."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from millpond.cli.errors import Exit, ExtraMissing
from millpond.cli.file_write import file_write, file_write_check
from millpond.cli.lazy import argument, command, option
from millpond.cli.offline.comparison import comparison_write
from millpond.cli.offline.event_rows import EVENTS, event_row
from millpond.cli.offline.interrupt import Interrupt
from millpond.cli.offline.runs import TELL_SECONDS, Case, Run, Tell, cases_run, parallel_default
from millpond.cli.offline.shared import card_seconds
from millpond.cli.offline.trace_options import trace_options
from millpond.cli.offline.worlds import Wanted, cases_read
from millpond.cli.output import Column, Row
from millpond.cli.session import Session
from millpond.domain.amounts import duration_format
from millpond.domain.errors import InvalidInput
from millpond.simulation.driver import Event
from millpond.simulation.outcome import Outcome

QUEUES = (
    Column("queue"),
    Column("starts", right=True),
    Column("finished", right=True),
    Column("evicted", right=True),
    Column("running", right=True),
    Column("waiting", right=True),
    Column("wait_p50", right=True),
    Column("wait_max", right=True),
    Column("lost", right=True),
)
MAX_PARALLEL = 64
MAX_ROWS = 5_000
"""More events than this are for machines."""


@command("simulate")
@argument("file")
@option("--until", metavar="TIME", default="", help="simulate.until")
@trace_options
@option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="simulate.set")
@option("--add-nodes", multiple=True, metavar="N[=NODE]", help="simulate.add_nodes")
@option("--case", "cases", multiple=True, metavar="'NAME: PATH=VALUE, ...'", help="simulate.case")
@option("--parallel", type=int, metavar="N", default=None, help="simulate.parallel")
@option("--check/--no-check", "checked", default=True, help="simulate.check")
@option("--report", metavar="FILE.html", default="", help="simulate.report")
def simulate_command(session: Session, parallel: int | None, report: str, **given: Any) -> int:
    """Every event and figures of every queue; with cases, a comparison."""
    if parallel is not None and not 1 <= parallel <= MAX_PARALLEL:
        raise InvalidInput(f"--parallel {parallel} is out of range", hint=f"from 1 to {MAX_PARALLEL}")
    draw = _report_ready(report) if report else None
    cases = cases_read(session, Wanted(**given))
    if not any(case.world.snapshot.jobs or case.world.arrivals for case in cases):
        session.output.note(session.texts("simulate.nothing"), "yellow")
    with Interrupt() as interrupt:
        outcomes = [_single(session, cases[0])] if len(cases) == 1 else _compared(session, cases, parallel)
        stopped = len(outcomes) < len(cases) or any(outcome.stopped for outcome in outcomes)
        interrupt.asked |= stopped  # the next Ctrl-C is the second; else the first comes too late to change anything
        if draw is not None and outcomes:
            file_write(report, draw(outcomes, session.texts.lang))
            session.output.note(session.texts("simulate.report_written", path=report))
    return Exit.CANCELLED if stopped else Exit.OK


def _report_ready(path: str) -> Any:
    """The function that draws reports; `ExtraMissing` when its libraries are not installed."""
    file_write_check(path)
    try:
        return import_module("millpond.reports.simulation").report_html
    except ModuleNotFoundError as error:
        raise ExtraMissing("simulate --report", error.name or "matplotlib", extra="reports") from error


def _compared(session: Session, cases: Sequence[Case], parallel: int | None) -> list[Outcome]:
    with _progress(session, cases) as tell:
        outcomes = cases_run(cases, parallel or parallel_default(), tell)
    if session.json:
        for outcome in outcomes:
            session.output.line(_json(outcome.json()))
    elif outcomes:
        comparison_write(session, outcomes)
    if len(outcomes) < len(cases):
        session.output.note(session.texts("simulate.not_run", count=len(cases) - len(outcomes)), "yellow")
    return outcomes


def _single(session: Session, case: Case) -> Outcome:
    run = Run(case)
    rows: list[Row] = []
    with Interrupt() as interrupt, _progress(session, [case]) as tell:
        for event in _told(run.events(lambda: interrupt.asked), run, tell):
            if session.json:
                session.output.line(_json(event.json()))
            elif len(rows) <= MAX_ROWS:
                rows.append(event_row(session, event))
    outcome = run.outcome()
    if session.json:
        interrupted = {"interrupted": True} if outcome.stopped else {}
        session.output.line(_json({"summary": outcome.summary, **interrupted}))
        return outcome
    if len(rows) > MAX_ROWS:
        session.output.note(session.texts("simulate.events_hidden", count=outcome.events))
    elif rows:
        session.output.table(EVENTS, rows)
        session.output.line()
    _summary_write(session, outcome.summary)
    if outcome.stopped:
        at = duration_format(outcome.record.elapsed)
        session.output.note(session.texts("simulate.stopped", time=at), "yellow")
    return outcome


def _told(events: Iterator[Event], run: Run, tell: Tell) -> Iterator[Event]:
    shown = time.monotonic()
    for event in events:
        if time.monotonic() - shown > TELL_SECONDS:
            shown = time.monotonic()
            tell(0, event.time, run.count)
        yield event


def _silent(_number: int, _time: int, _events: int) -> None:
    """Nobody looks."""


@contextlib.contextmanager
def _progress(session: Session, cases: Sequence[Case]) -> Iterator[Tell]:
    """Bars where somebody sees them, and where they do not run into the events."""
    output = session.output
    if not output.notes_terminal or (session.json and output.terminal and len(cases) == 1):
        yield _silent
        return
    names = [case.name if len(cases) > 1 else "" for case in cases]
    bars = import_module("millpond.cli.offline.progress").Bars
    with bars(names, [case.until for case in cases], colour=output.colour) as drawn:
        yield drawn.tell


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _summary_write(session: Session, summary: Mapping[str, Any]) -> None:
    rows: list[Row] = [
        [
            name,
            str(queue["started"]),
            str(queue["ended"]),
            str(queue["evicted"]),
            str(queue["running"]),
            str(queue["waiting"]),
            duration_format(queue["wait_seconds"]["p50"]),
            duration_format(queue["wait_seconds"]["max"]),
            card_seconds(queue["lost_milli_seconds"]),
        ]
        for name, queue in summary["queues"].items()
    ]
    session.output.table(QUEUES, rows)
    session.output.line()
    session.output.line(
        session.texts(
            "simulate.summary",
            percent=f"{summary['utilisation'] * 100:.1f}",
            time=duration_format(summary["elapsed"]),
            evictions=summary["evictions"],
            lost=card_seconds(summary["lost_milli_seconds"]),
        )
    )
