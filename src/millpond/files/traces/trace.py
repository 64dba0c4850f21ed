"""What every reader of traces gives: jobs as they were submitted, and the nodes if the trace names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from millpond.domain.cards import CardRequest
from millpond.domain.errors import InvalidInput, Position
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import NodeSpec
from millpond.files.fields import datetime_parse

MAX_TRACE_JOBS = 2_000_000
DECADE = 10 * 365 * 86_400

_SECONDS = re.compile(r"(\d{1,12})(?:\.\d*)?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.

    ``submitted`` in seconds of the trace's own clock.  ``duration``: seconds of useful work, None if the trace ends
    before the job does.  ``gpu`` is what each of ``nodes`` asks for; with ``nodes`` None it is what the whole job asks
    for, to be cut into nodes of the pool.  ``tenant`` and ``user`` are words of the trace, not yet names of ours.
    """

    id: str
    tenant: str
    submitted: int
    duration: int | None
    gpu: CardRequest
    position: Position
    nodes: int | None = 1
    cpu: int = 0
    memory: int = 0
    klass: QueueClass = QueueClass.BATCH
    user: str = ""
    max_duration: int | None = None
    service: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """``jobs`` in the order of submission.  ``skipped``: rows that are no jobs to replay, counted by why.

    ``absolute``: times are Unix time, else seconds from a beginning that the trace does not name.
    """

    format: str
    jobs: tuple[TraceJob, ...]
    nodes: tuple[NodeSpec, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    absolute: bool = False


def trace_make(
    kind: str,
    jobs: list[TraceJob],
    *,
    source: str,
    nodes: tuple[NodeSpec, ...] = (),
    skipped: Mapping[str, int] | None = None,
    absolute: bool = False,
) -> Trace:
    """Jobs in order of submission, ids distinct.  Raises `InvalidInput` for an id that comes twice, and for no jobs."""
    seen: dict[str, TraceJob] = {}
    for job in jobs:
        if job.id in seen:
            raise InvalidInput(
                f"the job id {job.id} is written twice, first in line {seen[job.id].position.line}",
                hint="give each job its own id",
                position=job.position,
            )
        seen[job.id] = job
    if not jobs:
        reasons = ", ".join(f"{count} {why}" for why, count in (skipped or {}).items())
        raise InvalidInput(
            "the trace has no jobs" + (f" to replay: {reasons}" if reasons else ""),
            hint="is it the whole file?",
            position=Position(1, 1, "", source),
        )
    ordered = sorted(jobs, key=lambda job: job.submitted)
    return Trace(kind, tuple(ordered), nodes, dict(skipped or {}), absolute)


def seconds_parse(text: str) -> int:
    """Whole seconds in ``66`` or ``66.0``; parts of a second are dropped."""
    match = _SECONDS.match(text.strip())
    if match is None or int(match.group(1)) > DECADE * 100:
        raise InvalidInput(f"{text[:80]!r} is not a number of seconds", hint="write a number such as 3600")
    return int(match.group(1))


def moment_parse(text: str) -> int:
    """Seconds: a number, or a date and time (without a zone: UTC), as Unix time."""
    if text.strip().replace(".", "", 1).isdigit():
        return seconds_parse(text)
    try:
        moment = datetime_parse(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, hint="write seconds, or a time like 2026-11-30 08:55:00") from error
    return unix(moment)


def unix(moment: datetime) -> int:
    """Unix time of a moment; one without a zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
