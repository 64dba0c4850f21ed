"""Job traces of others, read strictly: one list of `TraceJob` whatever the source.

Times are whole seconds from the first submission, durations are rounded to seconds and at least 1.  A row that cannot
be a job is an `InvalidInput` that names file, line and column.
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from millpond.domain.amounts import CARD
from millpond.domain.errors import InvalidInput

DATA = Path(__file__).parent / "data"
MURI_TRACES = ("trace1", "trace2", "trace3", "trace4")
NODE_CARDS = 8


@dataclass(frozen=True, slots=True)
class TraceJob:
    """``submit`` and ``duration`` in seconds; ``team`` is the virtual cluster, or what the trace has like it."""

    id: str
    submit: int
    duration: int
    cards: int
    team: str = ""
    kind: str = ""
    """Model name, where the trace has one."""

    share: int = CARD
    """Thousandths of each card."""

    @property
    def milli(self) -> int:
        """Milli-cards in all."""
        return self.cards * self.share

    @property
    def work(self) -> int:
        """Card-seconds."""
        return self.milli * self.duration // CARD

    @property
    def shape(self) -> tuple[int, int]:
        """(nodes, cards a node) on nodes of eight: as few nodes as can be, the same number of cards on each."""
        nodes = -(-self.cards // NODE_CARDS)
        return nodes, -(-self.cards // nodes)


def philly_read(path: Path = DATA / "philly" / "philly.csv.xz") -> list[TraceJob]:
    """The 82 247 jobs of the Philly trace in order of submission; ``team`` is the virtual cluster."""
    rows: list[tuple[int, int, int, str]] = []
    for line, row in _rows(path, ("timestamp", "duration", "num_gpus", "cluster")):
        when = _field(
            path, line, row, "timestamp", lambda text: int(datetime.fromisoformat(f"{text}+00:00").timestamp())
        )
        rows.append((when, _duration(path, line, row, 1), _cards(path, line, row, "num_gpus"), row["cluster"]))
    first = min((row[0] for row in rows), default=0)
    rows.sort(key=lambda row: row[0])
    return [
        TraceJob(f"p{number:05}", when - first, duration, cards, team)
        for number, (when, duration, cards, team) in enumerate(rows)
    ]


def muri_read(name: str, folder: Path = DATA / "muri") -> list[TraceJob]:
    """One of the Muri traces (``trace1``, ``trace1_pr`` …) in order of submission; ``kind`` is the model's name."""
    path = folder / f"{name}.csv.xz"
    jobs = [
        TraceJob(
            f"m{number:05}",
            _field(path, line, row, "submit_time", lambda text: round(int(text) / 1000)),
            _duration(path, line, row, 1000),
            _cards(path, line, row, "num_gpu"),
            kind=row["model_name"],
        )
        for number, (line, row) in enumerate(_rows(path, ("num_gpu", "submit_time", "duration", "model_name")))
    ]
    return sorted(jobs, key=lambda job: (job.submit, job.id))


def openb_read(path: Path = DATA / "openb" / "openb_pod_list_default.csv.xz", begin: int = 0) -> list[TraceJob]:
    """The pods with cards that were created at or after `begin` seconds, as jobs; ``team`` is their class of service.

    A pod works from when it was scheduled (from its creation where that is not known) until it was deleted.
    """
    jobs: list[TraceJob] = []
    columns = ("num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time", "scheduled_time")
    for number, (line, row) in enumerate(_rows(path, columns)):
        cards = _field(path, line, row, "num_gpu", int)
        created = _field(path, line, row, "creation_time", int)
        if not cards or created < begin:
            continue
        began = _field(path, line, row, "scheduled_time", int) if row["scheduled_time"] else created
        ended = _field(path, line, row, "deletion_time", int)
        if ended < began:
            raise InvalidInput(f"{path}:{line}: deleted before it was scheduled", hint="see SOURCES.md beside it")
        share = _field(path, line, row, "gpu_milli", int) if cards == 1 else CARD
        if not 1 <= share <= CARD:
            raise InvalidInput(f"{path}:{line}: gpu_milli is {share}, not 1 to {CARD}", hint="see SOURCES.md beside it")
        team = row["qos"].lower()
        jobs.append(TraceJob(f"o{number:05}", created - begin, max(1, ended - began), cards, team, share=share))
    return sorted(jobs, key=lambda job: (job.submit, job.id))


def _rows(path: Path, columns: tuple[str, ...]) -> list[tuple[int, Mapping[str, str]]]:
    """(line, row) of every row; the header must have `columns`."""
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, lzma.LZMAError, UnicodeDecodeError, EOFError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {error}", hint="it should be an xz file from benchmarks/data"
        ) from error
    reader = csv.DictReader(io.StringIO(text))
    absent = [column for column in columns if column not in (reader.fieldnames or ())]
    if absent:
        raise InvalidInput(f"{path}:1: no column {', '.join(absent)}", hint=f"columns are {', '.join(columns)}")
    return [(reader.line_num, row) for row in reader]


def _field(path: Path, line: int, row: Mapping[str, str], column: str, read: Callable[[str], int]) -> int:
    text = row[column]
    try:
        return read(text)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{path}:{line}: {column} is {text!r}: {error}", hint="see SOURCES.md beside it") from error


def _duration(path: Path, line: int, row: Mapping[str, str], per_second: int) -> int:
    found = _field(path, line, row, "duration", lambda text: round(float(text) / per_second))
    if found < 0:
        raise InvalidInput(
            f"{path}:{line}: duration is {row['duration']!r}, less than 0", hint="see SOURCES.md beside it"
        )
    return max(1, found)


def _cards(path: Path, line: int, row: Mapping[str, str], column: str) -> int:
    found = _field(path, line, row, column, int)
    if not 1 <= found <= 4096:
        raise InvalidInput(
            f"{path}:{line}: {column} is {row[column]!r}, not 1 to 4096", hint="see SOURCES.md beside it"
        )
    return found
