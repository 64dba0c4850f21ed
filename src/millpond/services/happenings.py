"""How the use cases write events: in the same transaction as what they tell of."""

from __future__ import annotations

from collections.abc import Mapping

from millpond.authz.actors import Actor
from millpond.db.session import Tx
from millpond.db.stores.events import NewEvent, events_append
from millpond.services.deps import SOURCE, Services


def event_write(
    deps: Services,
    tx: Tx,
    actor: Actor,
    kind: str,
    *,
    tenant: str = "",
    job: str = "",
    attempt: str = "",
    data: Mapping[str, object] | None = None,
) -> None:
    """Append one event by `actor` to the API's chain.  `data` must hold no secrets and no values of job variables."""
    event = NewEvent(
        kind=kind,
        time=deps.clock(),
        actor=actor.user,
        tenant=tenant,
        job=job,
        attempt=attempt,
        data=dict(data or {}),
    )
    events_append(tx, SOURCE, (event,))
