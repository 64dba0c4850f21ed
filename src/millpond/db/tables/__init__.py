"""Tables, one module a noun; importing this package fills `METADATA`."""

from millpond.db.tables import (
    accounts,
    attempts,
    control,
    events,
    grants,
    holds,
    invoices,
    jobs,
    ledger,
    nodes,
    prices,
    promises,
    queues,
    tenants,
    usage,
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
    "invoices",
    "jobs",
    "ledger",
    "nodes",
    "prices",
    "promises",
    "queues",
    "tenants",
    "usage",
    "users",
]
