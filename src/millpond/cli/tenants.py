"""``millpond tenants``: tenants, their projects and members."""

from __future__ import annotations

import click

from millpond.cli.confirm import confirmed
from millpond.cli.errors import Exit
from millpond.cli.lazy import argument, group, option, subgroup, verb
from millpond.cli.output import Column
from millpond.cli.session import Session
from millpond.cli.values import local
from millpond.domain.records import Role

TENANTS = (Column("tenant"), Column("title"), Column("uid", right=True), Column("created"))
PROJECTS = (Column("project"), Column("tenant"), Column("created"))
MEMBERS = (Column("user"), Column("role"), Column("tenant"), Column("created"))


tenants = group("tenants")


@verb(tenants, "list")
def tenants_list(session: Session) -> None:
    """Tenants that the caller may see."""
    found = list(session.client.tenants.list())
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("tenants.empty"))
    else:
        rows = [[item["name"], item["title"], str(item["uid"]), local(item["created_at"])] for item in found]
        session.output.table(TENANTS, rows)


@verb(tenants, "create")
@argument("name")
@option("--title", metavar="TEXT", default="", help="tenants.title")
def tenants_create(session: Session, name: str, title: str) -> None:
    """A new tenant; it has no queues yet."""
    created = session.client.tenants.create(name, title)
    if session.json:
        session.output.data(created)
    else:
        session.output.note(session.texts("tenants.created", name=created["name"]), "green")


@verb(tenants, "delete")
@argument("name")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def tenants_delete(session: Session, name: str, yes: bool) -> int | None:
    """Only a tenant without live jobs can go."""
    if not confirmed(session, session.texts("tenants.ask", name=name), yes=yes):
        return Exit.CANCELLED
    session.client.tenants.delete(name)
    _gone(session, name)
    return None


def _gone(session: Session, name: str) -> None:
    if session.json:
        session.output.data({"deleted": name})
    else:
        session.output.note(session.texts("confirm.deleted", name=name))


def tenant_chosen(session: Session) -> str:
    """``--tenant``, else the only tenant of the caller; a usage error that names the choices."""
    if session.tenant:
        return session.tenant
    names = [item["name"] for item in session.client.tenants.list()]
    if len(names) == 1:
        return names[0]
    raise click.UsageError(session.texts("tenants.which", names=", ".join(names) or "-"))


projects = subgroup(tenants, "projects")


@verb(projects, "list")
def projects_list(session: Session) -> None:
    """Projects of a tenant."""
    tenant = tenant_chosen(session)
    found = list(session.client.projects.list(tenant))
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("projects.empty", tenant=tenant))
    else:
        rows = [[item["name"], item["tenant"], local(item["created_at"])] for item in found]
        session.output.table(PROJECTS, rows)


@verb(projects, "create")
@argument("name")
def projects_create(session: Session, name: str) -> None:
    """A new project."""
    created = session.client.projects.create(tenant_chosen(session), name)
    if session.json:
        session.output.data(created)
    else:
        session.output.note(session.texts("projects.created", name=name, tenant=created["tenant"]), "green")


@verb(projects, "delete")
@argument("name")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def projects_delete(session: Session, name: str, yes: bool) -> int | None:
    """Only a project without live jobs can go."""
    tenant = tenant_chosen(session)
    if not confirmed(session, session.texts("projects.ask", name=name, tenant=tenant), yes=yes):
        return Exit.CANCELLED
    session.client.projects.delete(tenant, name)
    _gone(session, name)
    return None


members = subgroup(tenants, "members")


ROLES = tuple(role.value for role in Role)


def _scope(session: Session, *, platform: bool) -> str:
    """The tenant meant; empty: the whole platform."""
    return "" if platform else tenant_chosen(session)


@verb(members, "list")
@option("--platform", is_flag=True, help="members.platform")
def members_list(session: Session, platform: bool) -> None:
    """Who is what in a tenant, or on the platform."""
    tenant = _scope(session, platform=platform)
    found = list(session.client.members.list(tenant))
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("members.empty", tenant=tenant or "platform"))
    else:
        rows = [[item["user"], item["role"], item["tenant"], local(item["created_at"])] for item in found]
        session.output.table(MEMBERS, rows)


@verb(members, "add")
@argument("user")
@option("--role", type=click.Choice(ROLES), default=Role.MEMBER.value, show_default=True, help="members.role")
@option("--platform", is_flag=True, help="members.platform")
def members_add(session: Session, user: str, role: str, platform: bool) -> None:
    """Give a user a role, or another one."""
    member = session.client.members.put(_scope(session, platform=platform), user, role)
    if session.json:
        session.output.data(member)
    else:
        where = member["tenant"] or "platform"
        session.output.note(session.texts("members.added", user=user, role=member["role"], tenant=where), "green")


@verb(members, "remove")
@argument("user")
@option("--platform", is_flag=True, help="members.platform")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def members_remove(session: Session, user: str, platform: bool, yes: bool) -> int | None:
    """Take a user's role away."""
    tenant = _scope(session, platform=platform)
    if not confirmed(session, session.texts("members.ask", user=user, tenant=tenant or "platform"), yes=yes):
        return Exit.CANCELLED
    session.client.members.delete(tenant, user)
    _gone(session, user)
    return None
