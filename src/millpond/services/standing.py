"""How every live job stands: ranks of the running ones, and the plan that would be made now.

Planning is the dearest thing that a request can ask for, so requests of one moment share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.guarded import plan_guarded
from millpond.scheduling.plan import plan
from millpond.scheduling.state import State
from millpond.services.deps import Services
from millpond.services.planning import Pool, pool_read
from millpond.services.sharing import Shared


@dataclass(frozen=True, slots=True)
class Standing:
    """``state`` is the pool before the plan; ``ranks`` of what runs."""

    pool: Pool
    state: State
    ranks: Mapping[str, Rank]
    plan: Plan


class Standings:
    """The standing of the pool for every request of one server."""

    def __init__(self, deps: Services) -> None:
        self._deps = deps
        self._shared: Shared[Standing] = Shared()

    def now(self) -> Standing:
        """A standing read after this call began.  Read-only for its holders, as others hold it too."""
        return self._shared.get(lambda: standing_of(pool_read(self._deps)))


def standing_of(pool: Pool) -> Standing:
    """Rank what runs and judge what waits."""
    state = State(pool.snapshot)
    ranks: dict[str, Rank] = {}
    for tenant in state.tree.root.children:
        ranks.update(state.walk(tenant).ranks)
    # As the scheduling loop does: whoever its check sets aside is told so, not that he starts in a moment.
    return Standing(pool, state, ranks, plan_guarded(pool.snapshot).plan or plan(pool.snapshot))
