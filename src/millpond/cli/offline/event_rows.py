"""Events of a simulation as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millpond.cli.offline.shared import card_seconds, placement_text
from millpond.cli.output import Cell, Column, Row
from millpond.cli.session import Session
from millpond.domain.amounts import duration_format, duration_write
from millpond.simulation.driver import Event

EVENTS = (Column("after", right=True), Column("event"), Column("job"), Column("detail", fold=True))
STYLES = {
    "start": "green",
    "evict": "red",
    "violation": "red",
    "hold": "cyan",
    "reserve": "cyan",
    "wait": "yellow",
    "end": "dim",
}


def event_row(session: Session, event: Event) -> Row:
    """When, what, which job, and what else is to be said about it."""
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
        "reserve": lambda data: texts(
            "plan.reserve", seats=placement_text(data["placement"]), time=duration_write(data["time"])
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
