"""When what runs is expected to end (scheduling §5), in order and card model by card model.

A job with `max_duration` ends that long after its start.  Any other counts as ending `assumed_limit` after its start;
one that has run past that, at the next multiple of it.  Multiples keep the order of a ring: who started when, modulo
the limit.  So the next ends are found by one search, however many services have run for months.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import itemgetter

from millpond.scheduling.tasks import Kind, Task

Entry = tuple[int, str, Task]
"""(end, or start modulo the limit; job id; task)."""

_TIME = itemgetter(0)
_FOUND = itemgetter(0, 1)


class Ends:
    """All tasks that sit on cards or nodes of a model, by their ends.  ``limit`` is `assumed_limit`, at least 1 s."""

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)
        self._limited: dict[str, list[Entry]] = {}
        self._ring: dict[str, list[Entry]] = {}
        self._where: dict[str, tuple[bool, tuple[str, ...], int]] = {}

    def put(self, models: tuple[str, ...], task: Task) -> None:
        """Take note of a task on nodes of these models; one that was known is forgotten first."""
        self.drop(task)
        end = self._end(task)
        ring = end is None
        time = task.admitted % self._limit if end is None else end
        self._where[task.id] = (ring, models, time)
        for model in models:
            insort(self._list(ring, model), (time, task.id, task), key=_FOUND)

    def drop(self, task: Task) -> None:
        known = self._where.pop(task.id, None)
        if known is not None:
            ring, models, time = known
            for model in models:
                entries = self._list(ring, model)
                del entries[bisect_left(entries, (time, task.id), key=_FOUND)]

    def upcoming(self, model: str, now: int) -> Iterator[tuple[int, Task]]:
        """(end, task) after `now`, the earliest first; who should be gone already counts as leaving in a second."""
        limited, ring = self._list(False, model), self._list(True, model)
        phase, first = now % self._limit, 0
        begin = bisect_right(ring, phase, key=_TIME)
        for step in range(len(ring)):
            time, _, task = ring[(begin + step) % len(ring)]
            end = now + 1 + (time - phase - 1) % self._limit
            while first < len(limited) and limited[first][0] <= end:
                yield max(limited[first][0], now + 1), limited[first][2]
                first += 1
            yield end, task
        for time, _, task in limited[first:]:
            yield max(time, now + 1), task

    def _list(self, ring: bool, model: str) -> list[Entry]:
        return (self._ring if ring else self._limited).setdefault(model, [])

    def _end(self, task: Task) -> int | None:
        """When a task is over by what it declared; None if it declared nothing."""
        if task.overdue:
            return None
        if task.kind is Kind.DRAINING:
            return task.until
        if task.kind is Kind.HELD:
            return task.until + (self._limit if task.job.max_duration is None else task.job.max_duration)
        return None if task.job.max_duration is None else task.admitted + task.job.max_duration
