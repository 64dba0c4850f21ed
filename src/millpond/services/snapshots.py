"""The live state as a snapshot file (scheduling §9)."""

from __future__ import annotations

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.files.snapshots import snapshot_write
from millpond.services.deps import Services
from millpond.services.planning import pool_read


def snapshot_export(deps: Services, actor: Actor) -> str:
    """YAML that `millpond plan` reads: it gives the plan that the scheduler would make now."""
    authorize(actor, Action.SNAPSHOT_READ)
    return snapshot_write(pool_read(deps).snapshot)
