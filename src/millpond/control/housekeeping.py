"""Once a minute: forget what nobody will ask for again, and take what is left of expired grants."""

from __future__ import annotations

from datetime import datetime, timedelta

from millpond.authz.actors import SYSTEM
from millpond.control.context import Control
from millpond.control.grants import grants_expire
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.idempotency import idempotency_prune

ANSWERS_KEPT = timedelta(hours=24)


def housekeeping_run(control: Control, epoch: int) -> int:
    """Expire grants that are due, and forget answered requests older than a day; how many of those."""
    grants_expire(control, epoch)
    before = control.clock() - ANSWERS_KEPT
    return control.database.run("housekeeping", lambda tx: _prune(tx, epoch, before))


def _prune(tx: Tx, epoch: int, before: datetime) -> int:
    fence(tx, epoch)
    return idempotency_prune(tx, SYSTEM, before)
