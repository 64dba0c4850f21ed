"""Counts for metrics."""

from __future__ import annotations

from millpond.authz.actors import Actor
from millpond.db.stores.jobs import job_counts
from millpond.services.deps import Services


def job_counts_read(deps: Services, actor: Actor) -> dict[tuple[str, str], int]:
    """Live jobs by (leaf, state)."""
    counts = deps.database.run("job_counts", lambda tx: job_counts(tx, actor))
    return {(queue, state.value): count for (queue, state), count in counts.items()}
