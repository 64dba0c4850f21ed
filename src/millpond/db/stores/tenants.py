"""Tenants and their projects."""

from __future__ import annotations

from sqlalchemy import delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.db.session import Tx
from millpond.db.stores.rows import columns_of
from millpond.db.tables.accounts import ACCOUNTS
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.queues import QUEUES
from millpond.db.tables.tenants import MEMBERS, PROJECTS, TENANTS
from millpond.domain.errors import Conflict, NotFound
from millpond.domain.names import label_parse
from millpond.domain.records import ProjectRecord, TenantRecord

_TENANT = columns_of(TENANTS, TenantRecord)
_PROJECT = columns_of(PROJECTS, ProjectRecord)


def tenant_create(tx: Tx, actor: Actor, name: str, title: str = "") -> TenantRecord:
    """A new tenant with a user id of its own.  `Conflict` if the name is taken, also by a deleted tenant."""
    authorize(actor, Action.TENANT_CREATE)
    label_parse(name, "tenant")
    statement = upsert(TENANTS).values(name=name, title=title).on_conflict_do_nothing().returning(*_TENANT)
    row = tx.execute(statement).one_or_none()
    if row is None:
        gone = tx.execute(select(TENANTS.c.deleted_at).where(TENANTS.c.name == name)).scalar() is not None
        if gone:
            raise Conflict(
                f"tenant {name!r} was deleted, and its name stays with its history", hint="choose another name"
            )
        raise Conflict(f"tenant {name!r} exists already", hint="millpond tenants lists them")
    return TenantRecord(*row)


def tenant_get(tx: Tx, actor: Actor, name: str) -> TenantRecord:
    authorize(actor, Action.TENANT_READ, name)
    row = tx.execute(select(*_TENANT).where(TENANTS.c.name == name, TENANTS.c.deleted_at.is_(None))).one_or_none()
    if row is None:
        raise _no_tenant(name)
    return TenantRecord(*row)


def tenant_list(tx: Tx, actor: Actor) -> tuple[TenantRecord, ...]:
    """The tenants that `actor` may see, by name."""
    visible = tenants_visible(actor, Action.TENANT_READ)
    statement = select(*_TENANT).where(TENANTS.c.deleted_at.is_(None)).order_by(TENANTS.c.name)
    if visible is not None:
        statement = statement.where(TENANTS.c.name.in_(sorted(visible)))
    return tuple(TenantRecord(*row) for row in tx.execute(statement))


def tenant_delete(tx: Tx, actor: Actor, name: str) -> None:
    """Delete a tenant with its projects, members and queues.  `Conflict` while it has live jobs.

    If it ever had a job or a billing account, the row stays, marked as deleted: history names it.
    """
    authorize(actor, Action.TENANT_DELETE, name)
    _tenant_lock(tx, name)
    live = tx.execute(select(func.count()).where(JOBS.c.tenant == name, JOBS.c.live_queue.is_not(None))).scalar_one()
    if live:
        raise Conflict(
            f"tenant {name!r} has {live} live jobs", hint="stop them first: millpond stop", details={"jobs": live}
        )
    tx.execute(delete(QUEUES).where(QUEUES.c.tenant == name))
    tx.execute(delete(MEMBERS).where(MEMBERS.c.tenant == name))
    known = or_(exists().where(JOBS.c.tenant == name), exists().where(ACCOUNTS.c.tenant == name))
    if tx.execute(select(known)).scalar_one():
        tx.execute(update(PROJECTS).where(PROJECTS.c.tenant == name).values(deleted_at=func.now()))
        tx.execute(update(TENANTS).where(TENANTS.c.name == name).values(deleted_at=func.now()))
    else:
        tx.execute(delete(PROJECTS).where(PROJECTS.c.tenant == name))
        tx.execute(delete(TENANTS).where(TENANTS.c.name == name))


def project_create(tx: Tx, actor: Actor, tenant: str, name: str) -> ProjectRecord:
    """A new project in `tenant`; one that was deleted comes back.  `Conflict` if it exists."""
    authorize(actor, Action.PROJECT_CREATE, tenant)
    label_parse(name, "project")
    _tenant_lock(tx, tenant)
    statement = upsert(PROJECTS).values(tenant=tenant, name=name)
    row = tx.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant", "name"],
            set_={"deleted_at": None, "created_at": func.now()},
            where=PROJECTS.c.deleted_at.is_not(None),
        ).returning(*_PROJECT)
    ).one_or_none()
    if row is None:
        raise Conflict(f"project {tenant}/{name} exists already")
    return ProjectRecord(*row)


def project_get(tx: Tx, actor: Actor, tenant: str, name: str) -> ProjectRecord:
    authorize(actor, Action.PROJECT_READ, tenant)
    row = tx.execute(
        select(*_PROJECT).where(PROJECTS.c.tenant == tenant, PROJECTS.c.name == name, PROJECTS.c.deleted_at.is_(None))
    ).one_or_none()
    if row is None:
        raise _no_project(tenant, name)
    return ProjectRecord(*row)


def project_list(tx: Tx, actor: Actor, tenant: str) -> tuple[ProjectRecord, ...]:
    """The projects of `tenant`, by name."""
    authorize(actor, Action.PROJECT_READ, tenant)
    statement = (
        select(*_PROJECT).where(PROJECTS.c.tenant == tenant, PROJECTS.c.deleted_at.is_(None)).order_by(PROJECTS.c.name)
    )
    return tuple(ProjectRecord(*row) for row in tx.execute(statement))


def project_delete(tx: Tx, actor: Actor, tenant: str, name: str) -> None:
    """Delete a project.  `Conflict` while it has live jobs or queues of its own."""
    authorize(actor, Action.PROJECT_DELETE, tenant)
    project_lock = select(PROJECTS.c.name).where(
        PROJECTS.c.tenant == tenant, PROJECTS.c.name == name, PROJECTS.c.deleted_at.is_(None)
    )
    if tx.execute(project_lock.with_for_update()).one_or_none() is None:
        raise _no_project(tenant, name)
    mine = (JOBS.c.tenant == tenant) & (JOBS.c.project == name)
    live = tx.execute(select(func.count()).where(mine, JOBS.c.live_queue.is_not(None))).scalar_one()
    if live:
        raise Conflict(f"project {tenant}/{name} has {live} live jobs", hint="stop them first: millpond stop")
    own = or_(QUEUES.c.name == f"{tenant}/{name}", QUEUES.c.name.startswith(f"{tenant}/{name}/", autoescape=True))
    if name not in {"prod", "batch", "besteffort"} and tx.execute(select(exists().where(own))).scalar_one():
        raise Conflict(
            f"project {tenant}/{name} has queues of its own", hint="take them out of the quota file and apply it"
        )
    here = (PROJECTS.c.tenant == tenant) & (PROJECTS.c.name == name)
    if tx.execute(select(exists().where(mine))).scalar_one():
        tx.execute(update(PROJECTS).where(here).values(deleted_at=func.now()))
    else:
        tx.execute(delete(PROJECTS).where(here))


def _tenant_lock(tx: Tx, name: str) -> None:
    """Keeps jobs and projects from appearing in `name` until this transaction ends."""
    statement = select(TENANTS.c.name).where(TENANTS.c.name == name, TENANTS.c.deleted_at.is_(None))
    if tx.execute(statement.with_for_update()).one_or_none() is None:
        raise _no_tenant(name)


def _no_tenant(name: str) -> NotFound:
    return NotFound(f"no tenant {name!r}", code="NO_SUCH_TENANT", hint="millpond tenants lists yours")


def _no_project(tenant: str, name: str) -> NotFound:
    return NotFound(
        f"no project {name!r} in tenant {tenant!r}",
        code="NO_SUCH_PROJECT",
        hint=f"millpond tenants projects {tenant} lists them",
    )
