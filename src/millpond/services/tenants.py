"""Tenants and their projects."""

from __future__ import annotations

from collections.abc import Callable

from millpond.authz.actors import Actor
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores import tenants as store
from millpond.domain.names import label_parse
from millpond.domain.records import ProjectRecord, TenantRecord
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run


def tenant_list(deps: Services, actor: Actor) -> tuple[TenantRecord, ...]:
    """Tenants that the actor may see, by name."""
    return tuple(deps.database.run("tenant_list", lambda tx: store.tenant_list(tx, actor)))


def tenant_get(deps: Services, actor: Actor, name: str) -> TenantRecord:
    return deps.database.run("tenant_get", lambda tx: store.tenant_get(tx, actor, name))


def tenant_create(
    deps: Services, actor: Actor, name: str, title: str, once: Once, render: Callable[[TenantRecord], object]
) -> Reply:
    """Create a tenant.  `Conflict` if the name is taken."""
    label_parse(name, "tenant")

    def work(tx: Tx) -> TenantRecord:
        record = store.tenant_create(tx, actor, name, title)
        event_write(deps, tx, actor, "tenant.created", tenant=name, data={"title": title})
        return record

    return once_run(deps, "tenant_create", actor, once, work, render)


def tenant_delete(deps: Services, actor: Actor, name: str) -> None:
    """Delete a tenant without live jobs and queues; `Conflict` otherwise."""

    def work(tx: Tx) -> None:
        store.tenant_delete(tx, actor, name)
        event_write(deps, tx, actor, "tenant.deleted", tenant=name)
        notify(tx, WORK_CHANNEL, "schedule")

    deps.database.run("tenant_delete", work)


def project_list(deps: Services, actor: Actor, tenant: str) -> tuple[ProjectRecord, ...]:
    """Projects of a tenant, by name."""
    return tuple(deps.database.run("project_list", lambda tx: store.project_list(tx, actor, tenant)))


def project_create(
    deps: Services, actor: Actor, tenant: str, name: str, once: Once, render: Callable[[ProjectRecord], object]
) -> Reply:
    """Create a project.  `Conflict` if the name is taken."""
    label_parse(name, "project")

    def work(tx: Tx) -> ProjectRecord:
        record = store.project_create(tx, actor, tenant, name)
        event_write(deps, tx, actor, "project.created", tenant=tenant, data={"project": name})
        return record

    return once_run(deps, "project_create", actor, once, work, render)


def project_delete(deps: Services, actor: Actor, tenant: str, name: str) -> None:
    """Delete a project without live jobs; `Conflict` otherwise."""

    def work(tx: Tx) -> None:
        store.project_delete(tx, actor, tenant, name)
        event_write(deps, tx, actor, "project.deleted", tenant=tenant, data={"project": name})

    deps.database.run("project_delete", work)
