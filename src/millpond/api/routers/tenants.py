"""Tenants, projects and members."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from millpond.api.context import Deps, OnceKey, TenantName, Who, reply_response
from millpond.api.schemas.base import Listing
from millpond.api.schemas.tenants import Member, MemberPut, Project, ProjectCreate, Tenant, TenantCreate
from millpond.domain.records import ProjectRecord, TenantRecord
from millpond.services import tenants, users

router = APIRouter(tags=["tenants"])

ProjectName = Annotated[str, Path(max_length=63, description="Name of the project.")]
UserName = Annotated[str, Path(max_length=128, description="Name of the user.")]


@router.get("/v1/tenants")
def tenant_list(deps: Deps, actor: Who) -> Listing[Tenant]:
    """Tenants that the caller may see, by name."""
    return Listing(items=[Tenant.of(record) for record in tenants.tenant_list(deps, actor)])


@router.post("/v1/tenants", status_code=201, response_model=Tenant)
def tenant_create(deps: Deps, actor: Who, once: OnceKey, body: TenantCreate) -> Response:
    """Create a tenant."""

    def render(record: TenantRecord) -> object:
        return Tenant.of(record).model_dump(mode="json")

    return reply_response(tenants.tenant_create(deps, actor, body.name, body.title, once, render))


@router.get("/v1/tenants/{tenant}")
def tenant_get(deps: Deps, actor: Who, tenant: TenantName) -> Tenant:
    """One tenant."""
    return Tenant.of(tenants.tenant_get(deps, actor, tenant))


@router.delete("/v1/tenants/{tenant}", status_code=204)
def tenant_delete(deps: Deps, actor: Who, tenant: TenantName) -> None:
    """Delete a tenant that has no live jobs."""
    tenants.tenant_delete(deps, actor, tenant)


@router.get("/v1/tenants/{tenant}/projects")
def project_list(deps: Deps, actor: Who, tenant: TenantName) -> Listing[Project]:
    """Projects of a tenant, by name."""
    return Listing(items=[Project.of(record) for record in tenants.project_list(deps, actor, tenant)])


@router.post("/v1/tenants/{tenant}/projects", status_code=201, response_model=Project)
def project_create(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, body: ProjectCreate) -> Response:
    """Create a project."""

    def render(record: ProjectRecord) -> object:
        return Project.of(record).model_dump(mode="json")

    return reply_response(tenants.project_create(deps, actor, tenant, body.name, once, render))


@router.delete("/v1/tenants/{tenant}/projects/{project}", status_code=204)
def project_delete(deps: Deps, actor: Who, tenant: TenantName, project: ProjectName) -> None:
    """Delete a project that has no live jobs."""
    tenants.project_delete(deps, actor, tenant, project)


@router.get("/v1/tenants/{tenant}/members")
def member_list(deps: Deps, actor: Who, tenant: TenantName) -> Listing[Member]:
    """Members of a tenant, by name."""
    return Listing(items=[Member.of(record) for record in users.member_list(deps, actor, tenant)])


@router.put("/v1/tenants/{tenant}/members/{user}")
def member_put(deps: Deps, actor: Who, tenant: TenantName, user: UserName, body: MemberPut) -> Member:
    """Give a user a role in a tenant; the one it had there is replaced."""
    return Member.of(users.member_put(deps, actor, tenant, user, body.role))


@router.delete("/v1/tenants/{tenant}/members/{user}", status_code=204)
def member_delete(deps: Deps, actor: Who, tenant: TenantName, user: UserName) -> None:
    """Take a user's role in a tenant away."""
    users.member_delete(deps, actor, tenant, user)


@router.get("/v1/members", tags=["platform"])
def platform_member_list(deps: Deps, actor: Who) -> Listing[Member]:
    """Users with a role on the whole platform, by name."""
    return Listing(items=[Member.of(record) for record in users.member_list(deps, actor, "")])


@router.put("/v1/members/{user}", tags=["platform"])
def platform_member_put(deps: Deps, actor: Who, user: UserName, body: MemberPut) -> Member:
    """Give a user a role on the whole platform; the one it had is replaced."""
    return Member.of(users.member_put(deps, actor, "", user, body.role))


@router.delete("/v1/members/{user}", tags=["platform"], status_code=204)
def platform_member_delete(deps: Deps, actor: Who, user: UserName) -> None:
    """Take a user's role on the whole platform away."""
    users.member_delete(deps, actor, "", user)
