"""Who the caller is."""

from __future__ import annotations

from fastapi import APIRouter

from millpond.api.context import Who
from millpond.api.schemas.identity import TenantRole, Whoami

router = APIRouter(tags=["identity"])


@router.get("/v1/whoami")
def whoami(actor: Who) -> Whoami:
    """The user that the token stands for, and its roles."""
    roles = [TenantRole(tenant=tenant, role=role) for tenant, role in sorted(actor.roles.items())]
    return Whoami(user=actor.user, platform=actor.platform, tenants=roles, scopes=sorted(actor.scopes))
