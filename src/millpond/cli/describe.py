"""``millpond describe``: everything about one job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice

from millpond.cli.lazy import argument, command
from millpond.cli.output import Cell, Column, plain
from millpond.cli.places import Places
from millpond.cli.session import Session
from millpond.cli.values import age, job_state, local, owner, size, span, state
from millpond.cli.why import explanation_write
from millpond.domain.amounts import milli_format
from millpond.sdk.answers import Attempt, Event, Job

ATTEMPTS = (
    Column("attempt", right=True),
    Column("state"),
    Column("where", fold=True),
    Column("started"),
    Column("ran", right=True),
    Column("ended"),
    Column("exit", right=True),
    Column("lost", right=True),
    Column("note", fold=True),
)
EVENTS = (Column("time"), Column("event"), Column("who"), Column("note", fold=True))
SHOWN_EVENTS = 20
READ_EVENTS = 1000


@command("describe")
@argument("job")
def describe(session: Session, job: str) -> None:
    """The job, its attempts, its events, and why it waits if it does."""
    jobs = session.client.jobs
    found = jobs.get(job, **session.place)
    attempts = list(jobs.attempts(found["id"]))
    events = list(islice(jobs.events(found["id"]), READ_EVENTS))
    why = jobs.why(found["id"]) if found["state"] == "queued" else None
    if session.json:
        session.output.data({"job": found, "attempts": attempts, "events": events, "why": why})
        return
    places = Places(session)
    session.output.fields(_fields(session, places, found))
    if why is not None:
        session.output.line()
        explanation_write(session, why)
    _attempts(session, places, attempts)
    _events(session, events)


def _fields(session: Session, places: Places, job: Job) -> list[tuple[str, Cell | str]]:
    now = session.now()
    spec = job["spec"]
    ended = session.texts.word("end", job["reason"] or "")
    return [
        ("name", Cell(job["name"], "bold")),
        ("id", job["id"]),
        ("state", job_state(session.texts, job)),
        ("type", session.texts.word("type", job["type"])),
        ("owner", owner(job["tenant"], job["user"])),
        ("project", job["project"]),
        ("queue", job["queue"]),
        ("priority", str(job["priority"])),
        ("cards", size(job)),
        ("ranks", str(job["ranks"])),
        ("where", places.text(job["placement"])),
        ("submitted", f"{local(job['submitted_at'])} ({age(job['submitted_at'], now)})"),
        ("started", local(job["started_at"])),
        ("finished", local(job["finished_at"])),
        ("ran", span(job["started_at"], job["finished_at"])),
        ("not_before", local(job["not_before"])),
        ("deadline", local(job["deadline_at"])),
        ("attempts", str(job["attempts"])),
        ("retries", str(job["retries_spent"])),
        ("checkpointed", session.texts(f"word.{'yes' if job['checkpointed'] else 'no'}")),
        ("ended", ended if job["attempts"] else ""),
        ("exit_code", plain(job["exit_code"])),
        ("message", job["message"]),
        ("blocked", ", ".join(job["blocked"])),
        ("max_duration", plain(spec.get("max_duration"))),
        ("commands", " ; ".join(str(line) for line in spec.get("commands", []))),
        ("env", " ".join(str(pair) for pair in spec.get("env", []))),
        ("image", plain(spec.get("image"))),
    ]


def _attempts(session: Session, places: Places, attempts: Sequence[Attempt]) -> None:
    if not attempts:
        return
    session.output.line()
    session.output.heading(session.texts("describe.attempts"))
    session.output.table(ATTEMPTS, [_attempt_row(session, places, attempt) for attempt in attempts])


def _attempt_row(session: Session, places: Places, attempt: Attempt) -> list[Cell | str]:
    note = attempt["message"]
    if attempt["drain_for"]:
        note = " ".join(part for part in (session.texts("describe.for", job=attempt["drain_for"]), note) if part)
    lost = attempt["lost_milli_seconds"]
    reason = attempt["reason"]
    return [
        str(attempt["number"]),
        state(session.texts, attempt["state"]),
        places.text(attempt["placement"]),
        local(attempt["started_at"]),
        span(attempt["started_at"], attempt["ended_at"]) or age(attempt["started_at"], session.now()),
        session.texts.word("end", reason) if reason else "",
        plain(attempt["exit_code"]),
        session.texts("describe.card_seconds", amount=milli_format(lost)) if lost else "",
        note,
    ]


def _events(session: Session, events: Sequence[Event]) -> None:
    if not events:
        return
    session.output.line()
    session.output.heading(session.texts("describe.events"))
    if len(events) > SHOWN_EVENTS:
        session.output.line(session.texts("describe.earlier", count=len(events) - SHOWN_EVENTS))
    rows = [[local(event["time"]), event["kind"], event["actor"], _facts(event)] for event in events[-SHOWN_EVENTS:]]
    session.output.table(EVENTS, rows)


def _facts(event: Event) -> str:
    """The facts of an event as ``key=value``."""
    return " ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in event["data"].items()
        if value not in (None, "", [], {})
    )
