"""How every live job stands: ranks of the running ones, and the plan that would be made now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.scheduling.decisions import Rank, Start, Wait
from millpond.scheduling.plan import plan
from millpond.scheduling.state import State
from millpond.services.planning import Pool


@dataclass(frozen=True, slots=True)
class Standing:
    """``state`` is the pool before the plan; ``ranks`` of what runs; ``starts`` and ``waits`` in decision order."""

    state: State
    ranks: Mapping[str, Rank]
    starts: tuple[Start, ...]
    waits: tuple[Wait, ...]


def standing_of(pool: Pool) -> Standing:
    """Rank what runs and judge what waits."""
    state = State(pool.snapshot)
    ranks: dict[str, Rank] = {}
    for tenant in state.tree.root.children:
        ranks.update(state.walk(tenant).ranks)
    decided = plan(pool.snapshot)
    return Standing(state, ranks, decided.start, decided.wait)
