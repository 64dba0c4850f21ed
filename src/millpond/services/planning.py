"""The pool as the scheduler sees it now, read for answers, and what of it a caller may see.

Plans and explanations need the whole pool, so it is read as the platform itself; `Sight` then takes out what the
caller may not know: of other tenants' jobs only size, place in the order and since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import tenants_visible
from millpond.db.session import Tx
from millpond.db.stores.world import world_load
from millpond.domain.reasons import Reason
from millpond.domain.records import JobRecord, World
from millpond.scheduling.snapshot import Snapshot
from millpond.scheduling.world import snapshot_make
from millpond.services.deps import Services

HIDDEN = "a job of another tenant"


@dataclass(frozen=True, slots=True)
class Pool:
    """One moment of the pool; ``by_id`` are its jobs."""

    world: World
    snapshot: Snapshot
    now: datetime
    by_id: Mapping[str, JobRecord]

    @property
    def simulated(self) -> bool:
        return any(node.spec.simulated for node in self.world.nodes)

    def jobs(self) -> Mapping[str, JobRecord]:
        return self.by_id


def pool_read(deps: Services) -> Pool:
    """Read the pool in one transaction, all at the same moment."""
    now = deps.clock()
    world = deps.database.run("pool_read", pool_world, snapshot=True)
    return pool_of(world, now)


def pool_world(tx: Tx) -> World:
    return world_load(tx, SYSTEM)


def pool_of(world: World, now: datetime, snapshot: Snapshot | None = None) -> Pool:
    """``snapshot``: that of this world at this moment, if there is one already."""
    made = snapshot if snapshot is not None else snapshot_make(world, int(now.timestamp()))
    return Pool(world, made, now, {job.id: job for job in world.jobs})


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose jobs a caller may see: ``tenants`` of ``None`` means all."""

    tenants: frozenset[str] | None

    def sees(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants

    def visible(self, jobs: Mapping[str, JobRecord], names: Iterable[str]) -> tuple[str, ...]:
        """Those of `names` (job ids) that may be shown; unknown ones only to who sees everything."""
        return tuple(name for name in names if self.tenants is None or (name in jobs and self.sees(jobs[name].tenant)))

    def reason(self, reason: Reason, jobs: Mapping[str, JobRecord]) -> Reason:
        """The reason without names of jobs and queues that are hidden, in its sentence too."""
        shown = self.visible(jobs, reason.jobs)
        text = reason.text
        for name in reason.jobs:
            if name not in shown:
                text = text.replace(name, HIDDEN)
                other = jobs.get(name)
                text = text.replace(other.user, "somebody") if other is not None and other.user in text else text
        queue = reason.queue
        if queue and not self.sees(queue.partition("/")[0]):
            text, queue = text.replace(queue, "another tenant's queue"), ""
        return replace(reason, jobs=shown, text=text, queue=queue)


def sight_of(actor: Actor, action: Action = Action.JOB_READ) -> Sight:
    """What `actor` may see.  `Forbidden` if nothing at all."""
    return Sight(tenants_visible(actor, action))
