"""The quota document: the whole set of queues, applied at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores.nodes import node_list
from millpond.db.stores.queues import queue_list, queues_replace
from millpond.domain.queues import QueueConfig
from millpond.files.fields import Fields
from millpond.files.queues import pool_of, queue_json, queues_checked, queues_parse
from millpond.files.tree import tree_from_json
from millpond.scheduling.quota import tree_build
from millpond.services.deps import Services
from millpond.services.happenings import event_write

NO_POOL = "no cards are known yet, so the guarantees were not compared with the pool"


@dataclass(frozen=True, slots=True)
class QueueChange:
    """One difference: ``before`` of ``None`` is an added queue, ``after`` of ``None`` a removed one."""

    name: str
    before: dict[str, object] | None
    after: dict[str, object] | None


@dataclass(frozen=True, slots=True)
class QuotaOutcome:
    dry_run: bool
    changes: tuple[QueueChange, ...]
    unchanged: int
    warnings: tuple[str, ...]


def quota_apply(deps: Services, actor: Actor, body: object, *, dry_run: bool = False) -> QuotaOutcome:
    """Make the queues in a JSON body the whole set, or only say what would change.

    Raises `InvalidInput` for what cannot hold (it names both numbers), `NotFound` for an unknown tenant, `Conflict`
    when a leaf with live jobs would go; then nothing is changed.
    """
    authorize(actor, Action.QUOTA_APPLY)
    listed = Fields(tree_from_json(body, "body"), ("queues",), "a quota document").required_node("queues", "[...]")
    queues = queues_parse(listed)

    def work(tx: Tx) -> QuotaOutcome:
        before = queue_list(tx, actor)
        pool = pool_of(tuple(node.spec for node in node_list(tx, SYSTEM)))
        warnings = queues_checked(queues, pool, listed) if pool else _unchecked(queues)
        changes = changes_of(before, queues)
        if not dry_run and (changes or [q.name for q in before] != [q.name for q in queues]):
            queues_replace(tx, actor, queues)
            data: dict[str, object] = {
                "changes": [{"name": c.name, "before": c.before, "after": c.after} for c in changes]
            }
            event_write(deps, tx, actor, "quota.applied", data=data)
            notify(tx, WORK_CHANNEL, "schedule")
        changed = sum(change.after is not None for change in changes)
        return QuotaOutcome(dry_run, changes, len(queues) - changed, tuple(warnings))

    return deps.database.run("quota_apply", work)


def _unchecked(queues: Sequence[QueueConfig]) -> list[str]:
    """Only whether the tree makes sense: there are no cards to compare it with."""
    tree_build(queues, {}, strict=False)
    return [NO_POOL]


def changes_of(before: Sequence[QueueConfig], after: Sequence[QueueConfig]) -> tuple[QueueChange, ...]:
    """What differs, by name."""
    old = {queue.name: queue for queue in before}
    new = {queue.name: queue for queue in after}
    return tuple(
        QueueChange(
            name,
            queue_json(old[name]) if name in old else None,
            queue_json(new[name]) if name in new else None,
        )
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )
