"""What every loop is given: built once by the composition root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from millpond.control.metrics import ControlMetrics
from millpond.db.session import Database
from millpond.engines.base import Engine
from millpond.scheduling.check import check
from millpond.scheduling.desk import Newest
from millpond.scheduling.guarded import Guard

ENGINE_SOURCE = "engine:local"
"""Name of the engine's cursor and of its nodes' owner."""

EVENT_SOURCE = "control"
"""The hash chain that the loops append to."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Numbers that the loops need.  Seconds; ``large``: jobs and nodes from which a pool is too large to look at every
    plan for more than harm."""

    jobs_dir: Path
    isolated: bool = True
    grace: int = 20
    lost_work_cap: int = 3600
    large: int = 1_000


@dataclass(frozen=True, slots=True)
class Control:
    """``clock`` gives aware UTC times and ``guard`` what is wrong with a plan; the tests give their own.

    ``newest`` is where a pass leaves what it has judged, for whoever asks questions of this server.
    """

    database: Database
    engine: Engine
    policy: Policy
    metrics: ControlMetrics
    clock: Callable[[], datetime]
    guard: Guard = check
    newest: Newest = field(default_factory=Newest)
