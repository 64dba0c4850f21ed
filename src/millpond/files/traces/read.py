"""Which format a file has, and the reader for it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Never

from millpond.domain.errors import InvalidInput, Position
from millpond.files.traces import openb, philly, slurm
from millpond.files.traces.kubernetes import kubernetes_lines_read
from millpond.files.traces.openb import openb_read
from millpond.files.traces.philly import philly_read
from millpond.files.traces.slurm import slurm_read
from millpond.files.traces.trace import Trace

READERS: dict[str, Callable[[Iterable[str], str], Trace]] = {
    "openb": openb_read,
    "philly": philly_read,
    "slurm": slurm_read,
    "kubernetes": kubernetes_lines_read,
}
FORMATS = ("snapshot", *READERS)
NODES = "openb-nodes"
TABLES = {"openb": openb.PODS, NODES: openb.NODES, "slurm": slurm.SHAPE, "philly": philly.SHAPE}

_ALIGNED = re.compile(r"\s*JobID(?:\s+[A-Za-z]+)*\s*\Z")
_KUBERNETES = re.compile(r'"(?:apiVersion|kind|items|object)"\s*:')


def format_recognise(head: str, source: str) -> str:
    """The format of a file by its first few thousand characters: one of `FORMATS`, or ``openb-nodes``.

    Raises `InvalidInput` for a table whose header is unknown, and for what is no text; whatever is neither a table nor
    Kubernetes is a snapshot.
    """
    lines = [line for line in head.lstrip("\ufeff").splitlines() if line.strip()]
    first = lines[0] if lines else ""
    if "\0" in head:
        raise InvalidInput(
            "this is not a text file",
            hint="save it as UTF-8; a compressed one must be called .gz or .xz",
            position=Position(1, 1, "", source),
        )
    if _ALIGNED.match(first):
        raise InvalidInput(
            "sacct has printed this in aligned columns, which cut long values off",
            hint="call it with --parsable2",
            position=Position(1, 1, "", source),
        )
    if first.lstrip().startswith(("{", "[")) and _KUBERNETES.search(head):
        return "kubernetes"
    for name, shape in TABLES.items():
        if shape.fits(first):
            return name
    if (
        source.removesuffix(".xz").removesuffix(".gz").endswith((".csv", ".tsv", ".psv"))
        or "|" in first.partition(" ")[0]
    ):
        _unknown(first, source)
    return "snapshot"


def trace_read(lines: Iterable[str], source: str, name: str) -> Trace:
    """The trace in `lines`, in the format `name`.  Raises `InvalidInput` with line, column and what was expected."""
    return READERS[name](lines, source)


def _unknown(header: str, source: str) -> Never:
    where = Position(1, 1, "", source)
    if not header:
        raise InvalidInput("the file is empty", hint=f"expected a trace: {', '.join(READERS)}", position=where)
    delimiter = max("|,;\t", key=header.count)
    cells = {cell.strip().strip('"').lower() for cell in header.split(delimiter)}
    near = max(TABLES, key=lambda name: len(cells & {column.lower() for column in TABLES[name].required}))
    shape = TABLES[near]
    missing = [column for column in shape.required if column.lower() not in cells]
    if len(missing) == len(shape.required):
        known = "; ".join(f"{name}: {TABLES[name].delimiter.join(TABLES[name].required)}" for name in TABLES)
        hint = f"expected one of {known}"
    elif missing:
        close = difflib.get_close_matches(missing[0].lower(), sorted(cells), n=1, cutoff=0.6)
        hint = f"a {near} table needs {', '.join(missing)}" + (f"; did you mean it by {close[0]}?" if close else "")
    else:
        hint = f"a {near} table has {shape.delimiter!r} between its columns, not {delimiter!r}"
    raise InvalidInput("no trace that we know has this header", hint=hint, position=where)
