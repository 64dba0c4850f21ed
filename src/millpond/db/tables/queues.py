"""The configured queues.  The tenant is read off the name, and must exist.

``leaf_name`` is the name if the queue is a leaf: what a live job's queue must be.
"""

from __future__ import annotations

from functools import partial

from sqlalchemy import CheckConstraint, Column, Computed, ForeignKey, Integer, Table, Text

from millpond.db.codec import json_encode, queue_decode
from millpond.db.tables.metadata import METADATA
from millpond.db.types import Json
from millpond.domain.queues import QueueConfig

QUEUES = Table(
    "queues",
    METADATA,
    Column("name", Text, primary_key=True),
    Column(
        "tenant",
        Text,
        Computed("split_part(name, '/', 1)", persisted=True),
        ForeignKey("tenants.name"),
        nullable=False,
        index=True,
    ),
    Column(
        "leaf_name",
        Text,
        Computed("CASE WHEN config ->> 'klass' IS NOT NULL THEN name END", persisted=True),
        unique=True,
    ),
    Column("position", Integer, nullable=False),
    Column("config", Json(partial(json_encode, QueueConfig), queue_decode), nullable=False),
    CheckConstraint("position >= 0", name="position"),
    CheckConstraint("config ->> 'name' = name", name="config"),
)
