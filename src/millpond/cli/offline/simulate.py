"""``millpond simulate FILE``: a snapshot file in virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from millpond.cli.lazy import argument, command, option
from millpond.cli.offline.shared import card_seconds, placement_text, snapshot_read
from millpond.cli.output import Cell, Column, Row
from millpond.cli.session import Session
from millpond.domain.amounts import duration_format, duration_parse, duration_write
from millpond.domain.errors import InvalidInput
from millpond.scheduling.plan import plan
from millpond.simulation.driver import Event, Simulation

EVENTS = (Column("after", right=True), Column("event"), Column("job"), Column("detail", fold=True))
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
STYLES = {"start": "green", "evict": "red", "violation": "red", "hold": "cyan", "wait": "yellow", "end": "dim"}
PROGRESS_SECONDS = 0.2
MAX_UNTIL = 10 * 365 * 86_400


@command("simulate")
@argument("file")
@option("--until", metavar="TIME", default="24h", help="option.until")
def simulate_command(session: Session, file: str, until: str) -> None:
    """Every event, then figures of every queue."""
    seconds = duration_parse(until)
    if seconds > MAX_UNTIL:
        raise InvalidInput(f"--until {until} is more than ten years", hint="such as 24h or 7d")
    loaded = snapshot_read(session, file)
    simulation = Simulation(loaded.snapshot, plan, arrivals=loaded.arrivals, work=loaded.work, until=seconds)
    events = _watched(session, simulation)
    if session.json:
        for event in events:
            session.output.line(_json(event.json()))
        session.output.line(_json({"summary": simulation.summary()}))
        return
    rows = [_row(session, event) for event in events]
    session.output.status("")
    if rows:
        session.output.table(EVENTS, rows)
        session.output.line()
    _summary_write(session, simulation.summary())


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _watched(session: Session, simulation: Simulation) -> Iterator[Event]:
    """The events; on a terminal, stderr says how far it is."""
    output = session.output
    shown = time.monotonic()
    for count, event in enumerate(simulation.events(), 1):
        if output.notes_terminal and time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            output.status(session.texts("simulate.progress", time=duration_format(event.time), events=count))
        yield event


def _row(session: Session, event: Event) -> Row:
    kind = Cell(event.kind, STYLES.get(event.kind, ""))
    return [f"+{duration_write(event.time)}", kind, event.job, _detail(session, event)]


def _detail(session: Session, event: Event) -> str:
    texts, data = session.texts, event.data
    say: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "arrive": lambda data: str(data["queue"]),
        "start": lambda data: _start(session, data),
        "evict": lambda data: texts(
            "plan.evict", why=data["why"], claimant=data["for"], lost=card_seconds(data["lost_milli_seconds"])
        ),
        "hold": lambda data: texts(
            "plan.hold", seats=placement_text(data["placement"]), until=duration_write(data["until"])
        ),
        "requeue": lambda data: texts("simulate.requeue", saved=duration_format(data["saved"])),
        "wait": lambda data: " ".join(data["codes"]),
        "end": lambda data: str(data["reason"]),
        "violation": lambda data: f"{data['rule']}: {data['text']}",
    }
    return say[event.kind](data) if event.kind in say else ""


def _start(session: Session, data: Mapping[str, Any]) -> str:
    seats = placement_text(data["placement"])
    if not data.get("resumed_from"):
        return seats
    return session.texts("simulate.resumed", seats=seats, saved=duration_format(data["resumed_from"]))


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
