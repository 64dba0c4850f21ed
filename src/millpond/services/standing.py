"""How every live job stands: ranks of the running ones, and the plan that would be made now.

Planning is the dearest thing that a request can ask for, so requests of one moment share it, and later ones too as long
as nobody has written anything since.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from millpond.authz.actors import SYSTEM
from millpond.db.session import Tx
from millpond.db.stores.world import world_load, world_mark
from millpond.domain.records import World
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.explain import Explainer, Explanation
from millpond.scheduling.guarded import harmful, plan_without, set_aside
from millpond.scheduling.state import State
from millpond.services.deps import Services
from millpond.services.planning import Pool, pool_of
from millpond.services.sharing import Shared

MAX_AGE = timedelta(seconds=2)
"""How long a standing is good when nothing is written: time alone changes little."""

Mark = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """``state`` is the pool before the plan; ``ranks`` of what runs."""

    pool: Pool
    state: State
    ranks: Mapping[str, Rank]
    plan: Plan
    explainer: Explainer
    lock: threading.Lock = field(default_factory=threading.Lock)

    def explain(self, job: str) -> Explanation:
        """As `Explainer.explain`; for one thread at a time, since a trial changes the state for a moment."""
        with self.lock:
            return self.explainer.explain(job)


class Standings:
    """The standing of the pool for every request of one server."""

    def __init__(self, deps: Services) -> None:
        self._deps = deps
        self._shared: Shared[Standing] = Shared()
        self._last: tuple[Mark, Standing] | None = None

    def now(self) -> Standing:
        """A standing that misses nothing written before this call.  Read-only, as others hold it too."""
        return self._shared.get(self._make)

    def _make(self) -> Standing:
        """The last one if it is as good as new."""
        now, last = self._deps.clock(), self._last
        if last is not None and timedelta() <= now - last[1].pool.now < MAX_AGE:
            mark = self._deps.database.run("world_mark", lambda tx: world_mark(tx, SYSTEM), snapshot=True)
            if mark == last[0]:
                return last[1]
        mark, world = self._deps.database.run("pool_read", _marked, snapshot=True)
        standing = standing_of(pool_of(world, now))
        self._last = (mark, standing)
        return standing


def _marked(tx: Tx) -> tuple[Mark, World]:
    return world_mark(tx, SYSTEM), world_load(tx, SYSTEM)


def standing_of(pool: Pool) -> Standing:
    """Rank what runs and judge what waits."""
    state, explainer = State(pool.snapshot), Explainer(pool.snapshot)
    refused = harmful(check(pool.snapshot, explainer.plan))
    if refused:
        # As the scheduling loop does: whoever its check sets aside is told so, not that he starts in a moment.
        aside = plan_without(pool.snapshot, explainer.plan, refused).aside
        explainer = Explainer(set_aside(pool.snapshot, aside))
    return Standing(pool, state, explainer.ranks, explainer.plan, explainer)
