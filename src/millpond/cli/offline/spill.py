"""Memories for long streams: ids that were seen and sums, in temporary files, with bounded memory.

Both begin in memory and cost nothing more as long as they are small.  The files have no name, so that nothing is left
behind, however the command ends.
"""

from __future__ import annotations

import marshal
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import IO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from millpond.metering.buckets import SumKey

RUN: Final = 1 << 19
"""Keys of one sorted run on disk, 16 bytes each."""

SUMS: Final = 50_000
"""Sums that are held in memory."""

CHUNK: Final = 250
"""Rows that are read at a time from each run of sums."""

Words: TypeAlias = NDArray[np.uint64]
Row: TypeAlias = tuple[SumKey, int, int]


class SpilledSeen:
    """Keys as 128 bits of BLAKE2b: for a thousand million keys the chance of one false repeat is below 10⁻²⁰.

    The newest keys are a sorted run in memory, the others sorted runs in a file; a batch of keys, sorted, is looked up
    in every run.  Memory: a few runs, however many keys there are.
    """

    def __init__(self, run: int = RUN) -> None:
        self._run = run
        self._high = np.empty(0, np.uint64)
        self._low = np.empty(0, np.uint64)
        self._sizes: list[int] = []
        self._file: IO[bytes] | None = None

    def claim(self, keys: Sequence[str]) -> list[bool]:
        count = len(keys)
        if not count:
            return []
        digests = b"".join([blake2b(key.encode(), digest_size=16).digest() for key in keys])
        words = np.frombuffer(digests, np.uint64).reshape(count, 2)
        order = np.lexsort((words[:, 1], words[:, 0]))  # stable: the first of equal keys stays the first
        high, low = words[order, 0], words[order, 1]
        known = np.zeros(count, bool)
        known[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
        for index, place in _near(self._high, high):
            known[index] |= self._low[place] == low[index]
        self._look_up(high, low, known)
        self._keep(high[~known], low[~known])
        answer = np.empty(count, bool)
        answer[order] = ~known
        result: list[bool] = answer.tolist()
        return result

    def close(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.close()

    def _look_up(self, high: Words, low: Words, known: NDArray[np.bool_]) -> None:
        """Mark in `known` what the runs of the file have; of each only the first halves of its keys are read."""
        start = 0
        for size in self._sizes:
            assert self._file is not None  # noqa: S101
            self._file.seek(start)
            run = np.frombuffer(self._file.read(size * 8), np.uint64)
            for index, place in _near(run, high):
                self._file.seek(start + (size + place) * 8)
                known[index] |= np.frombuffer(self._file.read(8), np.uint64)[0] == low[index]
            start += size * 16

    def _keep(self, high: Words, low: Words) -> None:
        at = np.searchsorted(self._high, high)
        self._high, self._low = np.insert(self._high, at, high), np.insert(self._low, at, low)
        if len(self._high) < self._run:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="millpond-seen-")  # noqa: SIM115  until close()
        self._file.seek(0, 2)
        self._file.write(self._high.tobytes() + self._low.tobytes())
        self._sizes.append(len(self._high))
        self._high, self._low = np.empty(0, np.uint64), np.empty(0, np.uint64)


def _near(run: Words, high: Words) -> Iterator[tuple[int, int]]:
    """(index in `high`, place in the sorted `run`) of every pair of equals."""
    if not len(run):
        return
    at = np.searchsorted(run, high)
    for index in np.flatnonzero(run[np.minimum(at, len(run) - 1)] == high).tolist():
        place = int(at[index])
        while place < len(run) and run[place] == high[index]:
            yield index, place
            place += 1


class SpilledSums:
    """Sums by key, sorted; what does not fit into memory is in sorted runs in a file, and is merged when read."""

    def __init__(self, held: int = SUMS) -> None:
        self._held = held
        self._sums: dict[SumKey, tuple[int, int]] = {}
        self._starts: list[tuple[int, int]] = []
        self._file: IO[bytes] | None = None

    def add(self, key: SumKey, first: int, second: int) -> None:
        had = self._sums.get(key)
        self._sums[key] = (first, second) if had is None else (had[0] + first, had[1] + second)
        if had is None and len(self._sums) >= self._held:
            self._spill()

    def rows(self) -> Iterator[tuple[SumKey, int, int]]:
        runs = [_Run(self._file, start, end) for start, end in self._starts if self._file is not None]
        current: SumKey | None = None
        first = second = 0
        for key, one, two in _merged([iter([self._newest()]), *map(iter, runs)]):
            if key == current:
                first, second = first + one, second + two
                continue
            if current is not None and (first or second):
                yield current, first, second
            current, first, second = key, one, two
        if current is not None and (first or second):
            yield current, first, second

    def _newest(self) -> list[Row]:
        return sorted((key, first, second) for key, (first, second) in self._sums.items())

    def close(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="millpond-sums-")  # noqa: SIM115  until close()
        start = self._file.seek(0, 2)
        rows = self._newest()
        for begin in range(0, len(rows), CHUNK):
            marshal.dump(rows[begin : begin + CHUNK], self._file)
        self._starts.append((start, self._file.tell()))
        self._sums.clear()


class _Run:
    """Rows of a run, a chunk at a time; several runs share one file."""

    def __init__(self, file: IO[bytes], start: int, end: int) -> None:
        self._file = file
        self._at = start
        self._end = end

    def __iter__(self) -> Iterator[list[Row]]:
        while self._at < self._end:
            self._file.seek(self._at)
            rows: list[Row] = marshal.load(self._file)  # noqa: S302  we wrote it
            self._at = self._file.tell()
            yield rows


def _merged(runs: Sequence[Iterator[list[Row]]]) -> Iterator[Row]:
    """Rows of sorted runs, which come in chunks, in order.

    All rows up to the smallest end of a chunk are there, so they are taken from every run and sorted at once: sorting
    is done in C, and mostly finds what is sorted already.
    """
    heads = [(rows, run) for run in runs for rows in (next(run, []),) if rows]
    while heads:
        limit = min(rows[-1] for rows, _ in heads)
        batch: list[Row] = []
        left = []
        for rows, run in heads:
            if rows[0] > limit:
                left.append((rows, run))
                continue
            cut = bisect_right(rows, limit)
            batch += rows[:cut]
            rest = rows[cut:] or next(run, [])
            if rest:
                left.append((rest, run))
        batch.sort()
        yield from batch
        heads = left
