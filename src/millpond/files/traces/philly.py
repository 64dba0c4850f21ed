"""CSV traces with one job a row, as the Philly traces of Microsoft are commonly passed on.

``timestamp,duration,num_gpus,gpu_time,cluster``: when it was submitted, seconds of work, cards in all, card-seconds
(not read), the virtual cluster.  Helios, PAI and Acme call the same columns otherwise (``submit_time``, ``gpu_num``,
``vc``, ``user``, ``node_num``): those names are understood too.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.domain.amounts import CARD, milli_parse
from millpond.domain.cards import MAX_CARDS, CardRequest
from millpond.domain.errors import InvalidInput
from millpond.files.fields import integer_between
from millpond.files.nodes import model_parse
from millpond.files.traces.table import Row, Shape, rows_read
from millpond.files.traces.trace import Trace, TraceJob, moment_parse, seconds_parse, trace_make

SHAPE = Shape(
    what="a trace of jobs",
    required=("timestamp", "duration", "num_gpus"),
    optional=("cluster", "user", "job_id", "nodes", "cpus", "model"),
    synonyms=(
        ("submit_time", "timestamp"),
        ("submitted", "timestamp"),
        ("arrival_time", "timestamp"),
        ("run_time", "duration"),
        ("gpu_num", "num_gpus"),
        ("gpus", "num_gpus"),
        ("num_gpu", "num_gpus"),
        ("vc", "cluster"),
        ("queue", "cluster"),
        ("tenant", "cluster"),
        ("group", "cluster"),
        ("id", "job_id"),
        ("node_num", "nodes"),
        ("num_nodes", "nodes"),
        ("cpu_num", "cpus"),
        ("gpu_type", "model"),
    ),
)


def philly_read(lines: Iterable[str], source: str) -> Trace:
    """The jobs of a trace; each virtual cluster is a tenant."""
    rows = list(rows_read(lines, SHAPE, source))
    absolute = bool(rows) and _dated(rows[0])
    jobs = [_job(row, number, len(rows)) for number, row in enumerate(rows, 1)]
    for row in rows:
        if _dated(row) is not absolute:
            here, there = ("a date", "seconds")[absolute], ("seconds", "a date")[absolute]
            raise InvalidInput(
                f"this is {here}, line {rows[0].line} has {there}",
                hint="write all times in one way",
                position=row.position("timestamp"),
            )
    return trace_make("philly", jobs, source=source, absolute=absolute)


def _dated(row: Row) -> bool:
    """Whether a row tells its time as a date, not in seconds."""
    return not row.cell("timestamp").replace(".", "", 1).isdigit()


def _job(row: Row, number: int, count: int) -> TraceJob:
    nodes = row.value("nodes", integer_between("number of nodes", 1, 4096)) if row.has("nodes") else None
    total = row.value("num_gpus", _cards)
    if nodes is not None and (total % nodes or (total // nodes % CARD and total > CARD)):
        nodes = None  # ours are equal on every node: let the pool say how it is cut
    milli = total if nodes is None else total // nodes
    models = (row.value("model", model_parse),) if row.has("model") and total else ()
    return TraceJob(
        id=row.cell("job_id") or f"j{number:0{len(str(count))}d}",
        tenant=row.cell("cluster"),
        submitted=row.value("timestamp", moment_parse),
        duration=row.value("duration", seconds_parse),
        gpu=CardRequest(milli, milli, models=models),
        position=row.position("job_id" if row.has("job_id") else "timestamp"),
        nodes=nodes,
        cpu=row.value("cpus", lambda text: milli_parse(text, "number of CPUs"), 0) // (nodes or 1),
        user=row.cell("user"),
    )


def _cards(text: str) -> int:
    milli = milli_parse(text, "number of cards")
    if milli > CARD and milli % CARD:
        raise InvalidInput(f"{text!r} is neither a fraction of one card nor whole cards", hint="write 0.5, 1 or 2")
    if milli > MAX_CARDS * CARD:
        raise InvalidInput(f"{text!r} is more than {MAX_CARDS} cards")
    return milli
