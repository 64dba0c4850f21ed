"""What a meter remembers, as values: a server stores it with what was told, and goes on from there after a restart."""

from __future__ import annotations

from typing import NamedTuple

from millpond.metering.facts import Fact, Shape


class RunState(NamedTuple):
    """An attempt.  ``told``: up to where its use was told; ``saved``: its last checkpoint, −1 for none.

    ``segments``: from when on it had which shape.  ``disputed``: it is part of an overlap, and nothing of it is told.
    """

    job: str
    attempt: int
    start: int
    told: int
    saved: int
    disputed: bool
    segments: tuple[tuple[int, Shape], ...]


class JobState(NamedTuple):
    """A job that is not over.  ``saved``: it has a checkpoint; ``since``: its last end, −1 while an attempt runs.

    ``full``: attempts, with their ends, that were evicted before any checkpoint, and told as not lost.
    """

    job: str
    saved: bool
    since: int
    failed: bool
    full: tuple[tuple[RunState, int], ...]


class MeterState(NamedTuple):
    """Open attempts, jobs that are not over, and ends whose start has not come; all sorted."""

    runs: tuple[RunState, ...] = ()
    jobs: tuple[JobState, ...] = ()
    orphans: tuple[Fact, ...] = ()
