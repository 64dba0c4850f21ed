"""Slurm's accounting, as ``sacct --allusers --parsable2 --format=...`` prints it.

Needed: ``JobID``, ``Submit``, ``Elapsed`` and ``AllocTRES`` or ``ReqTRES``.  Read if there: ``User``, ``Account``,
``State``, ``Timelimit``, ``NNodes``.  An account is a tenant.  Steps (``12.batch``) are passed over, and so are jobs
that never ran.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from millpond.domain.amounts import CARD, integer_parse
from millpond.domain.cards import MAX_CARDS, CardRequest
from millpond.domain.errors import InvalidInput
from millpond.files.nodes import model_parse
from millpond.files.traces.table import Row, Shape, rows_read
from millpond.files.traces.trace import Trace, TraceJob, moment_parse, trace_make

SHAPE = Shape(
    what="a sacct table",
    required=("JobID", "Submit", "Elapsed"),
    optional=("User", "Account", "Partition", "Start", "End", "AllocTRES", "ReqTRES", "State", "Timelimit", "NNodes"),
    delimiter="|",
)
NEVER_RAN = "never ran"
STEPS = "are steps"

_ELAPSED = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,4}):)?(\d{1,2}):(\d{2})(?:\.\d+)?\Z", re.ASCII)
_LIMIT = re.compile(r"(?:(\d{1,5})-)?(\d{1,4})(?::(\d{2}))?(?::(\d{2}))?\Z", re.ASCII)
_UNITS = {"": 1, "K": -1024, "M": 1, "G": 1024, "T": 1024 * 1024, "P": 1024 * 1024 * 1024}
_MEMORY = re.compile(r"(\d{1,12})(?:\.\d+)?([KMGTP]?)[cn]?\Z", re.ASCII)


def slurm_read(lines: Iterable[str], source: str) -> Trace:
    """The jobs of an accounting table.

    A job that was still running is taken to use up its time limit; without one it never ends.
    """
    jobs: list[TraceJob] = []
    skipped: Counter[str] = Counter()
    checked = False
    for row in rows_read(lines, SHAPE, source):
        if not checked:
            _tres_check(row)
            checked = True
        if "." in row.cell("JobID"):
            skipped[STEPS] += 1
            continue
        job = _job(row)
        if job is None:
            skipped[NEVER_RAN] += 1
        else:
            jobs.append(job)
    return trace_make("slurm", jobs, source=source, skipped=skipped, absolute=True)


def _tres_check(row: Row) -> None:
    if "AllocTRES" not in row.places and "ReqTRES" not in row.places:
        raise InvalidInput(
            "a sacct table needs the column AllocTRES or ReqTRES",
            hint="add it to --format",
            position=row.position("JobID"),
        )


def _job(row: Row) -> TraceJob | None:
    state = row.cell("State").partition(" ")[0].upper()
    elapsed = row.value("Elapsed", elapsed_parse)
    if state in {"PENDING", "REQUEUED"} or (not elapsed and state != "RUNNING"):
        return None
    limit = row.value("Timelimit", limit_parse, -1)
    column = "AllocTRES" if row.has("AllocTRES") else "ReqTRES"
    amounts: dict[str, int] = row.value(column, tres_parse, {})
    count = row.value("NNodes", _nodes, amounts.get("node", 1)) or 1
    cards = amounts.get("gpu", 0)
    # A job of ours asks for the same on every node; one that does not is cut anew by the pool.
    nodes = count if cards % count == 0 else None
    milli = cards * CARD if nodes is None else cards // count * CARD
    return TraceJob(
        id=re.sub(r"[^A-Za-z0-9._-]", ".", row.cell("JobID").replace("[", "").replace("]", "")),
        tenant=row.cell("Account"),
        submitted=row.value("Submit", moment_parse),
        duration=(limit if limit > 0 else None) if state == "RUNNING" else elapsed,
        gpu=CardRequest(milli, milli, models=row.value(column, tres_models, ()) if milli else ()),
        position=row.position("JobID"),
        nodes=nodes,
        cpu=amounts.get("cpu", 0) * 1000 // count,
        memory=amounts.get("mem", 0) // count,
        user=row.cell("User"),
        max_duration=limit if limit > 0 else None,
    )


def elapsed_parse(text: str) -> int:
    """Seconds in ``[days-[hours:]]minutes:seconds``."""
    match = _ELAPSED.match(text)
    if match is None:
        raise InvalidInput(f"{text[:80]!r} is not an elapsed time", hint="Slurm writes it like 1-02:03:04 or 02:03:04")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def limit_parse(text: str) -> int:
    """Seconds in ``[days-]hours:minutes:seconds``, ``minutes[:seconds]`` or ``days-hours[:minutes]``; -1: no limit."""
    if text.upper() in {"UNLIMITED", "PARTITION_LIMIT", "INVALID", "UNKNOWN", "NONE"}:
        return -1
    match = _LIMIT.match(text)
    if match is None:
        raise InvalidInput(f"{text[:80]!r} is not a time limit", hint="Slurm writes it like 1-00:00:00 or UNLIMITED")
    days, first, second, third = match.groups()
    if days is not None:
        return ((int(days) * 24 + int(first)) * 60 + int(second or 0)) * 60 + int(third or 0)
    if third is not None:
        return (int(first) * 60 + int(second)) * 60 + int(third)
    return int(first) * 60 + int(second or 0)


def tres_parse(text: str) -> dict[str, int]:
    """``cpu`` and ``node`` as numbers, ``mem`` in MiB, ``gpu`` in cards, of all nodes together."""
    amounts: dict[str, int] = {}
    typed = 0
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidInput(f"{part[:80]!r} is not a resource", hint="Slurm writes cpu=8,mem=64G,gres/gpu=4")
        if name == "mem":
            amounts["mem"] = _memory(value)
        elif name in {"cpu", "node"}:
            amounts[name] = integer_parse(value, f"number of {name}s", 0, 10**7)
        elif name == "gres/gpu":
            amounts["gpu"] = integer_parse(value, "number of cards", 0, MAX_CARDS * 4096)
        elif name.startswith("gres/gpu:"):
            typed += integer_parse(value, "number of cards", 0, MAX_CARDS * 4096)
    amounts.setdefault("gpu", typed)
    return amounts


def tres_models(text: str) -> tuple[str, ...]:
    """Card models that a job was given: ``gres/gpu:a100=4`` → A100."""
    names = [part.partition("=")[0].removeprefix("gres/gpu:") for part in text.split(",") if "gres/gpu:" in part]
    return tuple(sorted({model_parse(name.upper()) for name in names}))


def _nodes(text: str) -> int:
    return integer_parse(text, "number of nodes", 0, 4096)


def _memory(text: str) -> int:
    match = _MEMORY.match(text)
    if match is None:
        raise InvalidInput(f"{text[:80]!r} is not an amount of memory", hint="Slurm writes it like 64G or 65536M")
    size = _UNITS[match.group(2)]
    number = int(match.group(1))
    return number * size if size > 0 else number // -size
