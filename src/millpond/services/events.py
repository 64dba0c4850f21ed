"""The event log, for auditors."""

from __future__ import annotations

from millpond.authz.actors import Actor
from millpond.db.stores.events import event_list
from millpond.domain.records import EventRecord, Page
from millpond.services.cursors import sequence_parse
from millpond.services.deps import Services


def event_page(deps: Services, actor: Actor, cursor: str, limit: int, tenant: str, job: str) -> Page[EventRecord]:
    """Events that the actor may read, the oldest first."""
    after = sequence_parse(cursor)
    return deps.database.run("event_page", lambda tx: event_list(tx, actor, after, limit, tenant=tenant, job=job))
