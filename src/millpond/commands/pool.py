"""The declared simulated pool as nodes."""

from __future__ import annotations

from millpond.commands.places import Pool
from millpond.domain.nodes import NodeSpec
from millpond.files.nodes import sim_parse


def pool_specs(pool: Pool) -> tuple[NodeSpec, ...]:
    """The declared nodes; none = this machine.  Raises `InvalidInput` with a position."""
    return sim_parse(pool.text, pool.label) if pool.text else ()
