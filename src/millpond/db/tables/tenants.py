"""Tenants, their projects and who belongs to them.

A tenant or project that ever had a job is not deleted but marked: history and bills keep naming it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Sequence,
    Table,
    Text,
    text,
)

from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Blank, Moment, Word
from millpond.domain.records import Role

TENANT_UID = Sequence("tenant_uid", start=210_000, metadata=METADATA)
"""One unprivileged user id per tenant, never given twice."""

TENANTS = Table(
    "tenants",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("title", Text, nullable=False, server_default=""),
    Column("uid", BigInteger, nullable=False, unique=True, server_default=text("nextval('tenant_uid')")),
    Column("created_at", Moment, nullable=False, server_default=text("now()")),
    Column("deleted_at", Moment),
    CheckConstraint("name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'", name="name"),
    CheckConstraint("uid > 0", name="uid"),
)

PROJECTS = Table(
    "projects",
    METADATA,
    Column("tenant", Text, ForeignKey("tenants.name"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False, server_default=text("now()")),
    Column("deleted_at", Moment),
    PrimaryKeyConstraint("tenant", "name"),
    CheckConstraint("name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'", name="name"),
)

MEMBERS = Table(
    "members",
    METADATA,
    Column("user_name", Text, key="user", nullable=False),
    Column("tenant", Blank),
    Column("role", Word(Role), nullable=False),
    Column("created_at", Moment, nullable=False, server_default=text("now()")),
    ForeignKeyConstraint(["tenant"], ["tenants.name"], ondelete="CASCADE"),
    Index("uq_members_user_tenant", "user", "tenant", unique=True, postgresql_nulls_not_distinct=True),
    Index("ix_members_tenant", "tenant"),
    check_word("role", Role, "role"),
    CheckConstraint(
        "CASE WHEN tenant IS NULL THEN role IN ('platform-admin', 'auditor') ELSE role <> 'platform-admin' END",
        name="role_reach",
    ),
)
