"""Who the caller is."""

from __future__ import annotations

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.domain.records import Role


class TenantRole(Schema):
    """A role inside one tenant."""

    tenant: str = Field(description="Name of the tenant.")
    role: Role = Field(description="What the user is there.")


class Whoami(Schema):
    """The user that the token stands for."""

    user: str = Field(description="User name.")
    platform: Role | None = Field(description="Role for the whole platform, if any.")
    tenants: list[TenantRole] = Field(description="Roles by tenant, in the order of names.")
    scopes: list[str] = Field(description="Actions that the token is limited to; empty: all that the user may do.")
