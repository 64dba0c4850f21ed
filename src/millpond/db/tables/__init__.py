"""Tables, one module a noun; importing this package fills `METADATA`."""

from millpond.db.tables import attempts, control, events, holds, jobs, nodes, promises, queues, tenants, users
from millpond.db.tables.metadata import METADATA

__all__ = [
    "METADATA",
    "attempts",
    "control",
    "events",
    "holds",
    "jobs",
    "nodes",
    "promises",
    "queues",
    "tenants",
    "users",
]
