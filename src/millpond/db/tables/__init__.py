"""Tables, one module a noun; importing this package fills `METADATA`."""

from millpond.db.tables import (
    accounts,
    attempts,
    control,
    events,
    grants,
    holds,
    jobs,
    ledger,
    nodes,
    promises,
    queues,
    tenants,
    users,
)
from millpond.db.tables.metadata import METADATA

__all__ = [
    "METADATA",
    "accounts",
    "attempts",
    "control",
    "events",
    "grants",
    "holds",
    "jobs",
    "ledger",
    "nodes",
    "promises",
    "queues",
    "tenants",
    "users",
]
