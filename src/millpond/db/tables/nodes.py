"""Nodes: what the engine found, and what operators said about it.

``lost`` is said by somebody and stays until somebody repairs it; ``missing`` means that the engine's last inventory
lacks the node.  A `NodeRecord` is lost when either is true.
"""

from __future__ import annotations

from functools import partial

from sqlalchemy import Boolean, CheckConstraint, Column, Index, Table, Text, false, text

from millpond.db.codec import bad_cards_decode, bad_cards_encode, json_encode, node_decode
from millpond.db.tables.metadata import METADATA
from millpond.db.types import Json, Moment
from millpond.domain.nodes import NodeSpec

NODES = Table(
    "nodes",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("engine", Text, nullable=False),
    Column("spec", Json(partial(json_encode, NodeSpec), node_decode), nullable=False),
    Column("cordoned", Boolean, nullable=False, server_default=false()),
    Column("draining", Boolean, nullable=False, server_default=false()),
    Column("lost", Boolean, nullable=False, server_default=false()),
    Column("missing", Boolean, nullable=False, server_default=false()),
    Column("bad_cards", Json(bad_cards_encode, bad_cards_decode), nullable=False, server_default=text("'{}'")),
    Column("seen_at", Moment),
    Index("ix_nodes_engine", "engine"),
    CheckConstraint("spec ->> 'name' = name", name="spec"),
    CheckConstraint("jsonb_typeof(bad_cards) = 'object'", name="bad_cards"),
)
