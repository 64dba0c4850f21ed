"""The journal: one JSON object a line, flushed to disk once for many records, rewritten when it has grown.

Records (``r`` names the kind):

    head    epoch, sequence, cursor, boot   first line of every segment: what is left of everything before
    ack     cursor                          a reader has passed it
    order   order, ports, master_port, boot, group, started, ready, mark
    drain   attempt, what, begun_ms, deadline_ms, reason
    sent    attempt, time_ms, kill, reason  TERM or KILL is about to be sent outside a drain
    stopped attempt                         forbids a start not yet made
    fact    fact, mark                      EXITED and START_FAILED end their attempt; ``mark``: newest checkpoint

Facts and ``ack`` are written at once, so that a killed supervisor loses none, but not forced to the disk: after a crash
of the machine every job is dead anyway, and the numbering jumps so that no number is used twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .files import sync_dir

Record = dict[str, Any]

_LAZY = frozenset({"fact", "ack"})
SEGMENT_BYTES = 4 * 1024 * 1024


class Journal:
    """The newest segment ``journal.<number>`` in a folder.  Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = max((int(path.suffix[1:]) for path in self._segments()), default=0)
        self._buffer: list[bytes] = []
        self._urgent = False
        self._descriptor = -1
        self._size = 0
        self._base = 0

    def _segments(self) -> list[Path]:
        return [path for path in self._folder.glob("journal.*") if path.suffix[1:].isdigit()]

    def _path(self, number: int) -> Path:
        return self._folder / f"journal.{number}"

    def records(self) -> Iterator[Record]:
        """Everything recorded.  A last line without its end was never acknowledged and is left out."""
        path = self._path(self._number)
        if not path.exists():
            return
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def add(self, record: Record) -> None:
        """Record at the next `flush`."""
        self._urgent = self._urgent or record["r"] not in _LAZY
        self._buffer.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    @property
    def pending(self) -> bool:
        return bool(self._buffer)

    def flush(self) -> None:
        """Write what was added, and wait until it is on disk where it must be.  An OSError here means: end the
        process, start again."""
        if self._buffer:
            data = b"".join(self._buffer)
            self._buffer.clear()
            _write_all(self._descriptor, data)
            self._size += len(data)
            if self._urgent:
                os.fdatasync(self._descriptor)
                self._urgent = False

    @property
    def grown(self) -> bool:
        """Whether `rewrite` would pay: it is amortised over at least as many bytes as it writes."""
        return self._size > max(SEGMENT_BYTES, 3 * self._base)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Begin a new segment with `records`, which say all that is still worth knowing, and drop the old ones."""
        number = self._number + 1
        temporary = self._folder / "journal.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        lines = [json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for record in records]
        data = b"".join(lines)
        _write_all(descriptor, data)
        os.fsync(descriptor)
        temporary.rename(self._path(number))
        sync_dir(self._folder)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._number = descriptor, number
        self._size = self._base = len(data)
        for path in self._segments():
            if path != self._path(number):
                path.unlink()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
