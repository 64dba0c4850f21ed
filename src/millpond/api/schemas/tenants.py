"""Tenants, their projects and members."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.domain.records import MemberRecord, ProjectRecord, Role, TenantRecord


class TenantCreate(Schema):
    """A new tenant."""

    name: str = Field(max_length=63, description="Lower-case letters, digits and hyphens; never changes.")
    title: str = Field(default="", max_length=200, description="For people.")


class Tenant(Schema):
    """A customer of the pool: owns projects, queues and jobs."""

    name: str = Field(description="Name, unique on the platform.")
    title: str = Field(description="For people.")
    uid: int = Field(description="Unprivileged user id that its jobs run as on the local engine.")
    created_at: datetime = Field(description="When it was created.")

    @classmethod
    def of(cls, record: TenantRecord) -> Tenant:
        return cls(name=record.name, title=record.title, uid=record.uid, created_at=record.created_at)


class ProjectCreate(Schema):
    """A new project."""

    name: str = Field(max_length=63, description="Lower-case letters, digits and hyphens; unique in its tenant.")


class Project(Schema):
    """A team inside a tenant."""

    tenant: str = Field(description="Its tenant.")
    name: str = Field(description="Name, unique in the tenant.")
    created_at: datetime = Field(description="When it was created.")

    @classmethod
    def of(cls, record: ProjectRecord) -> Project:
        return cls(tenant=record.tenant, name=record.name, created_at=record.created_at)


class MemberPut(Schema):
    """The role that a user shall have."""

    role: Role = Field(
        description="In a tenant: tenant-admin, member, auditor; on the platform: platform-admin, auditor."
    )


class Member(Schema):
    """A user with a role in a tenant or, with an empty tenant, on the whole platform."""

    user: str = Field(description="User name.")
    tenant: str = Field(description="Tenant; empty for a role on the whole platform.")
    role: Role = Field(description="What the user is there.")
    created_at: datetime = Field(description="Since when.")

    @classmethod
    def of(cls, record: MemberRecord) -> Member:
        return cls(user=record.user, tenant=record.tenant, role=record.role, created_at=record.created_at)
