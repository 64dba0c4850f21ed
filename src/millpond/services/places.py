"""Where things belong: which tenant, project and leaf a caller means."""

from __future__ import annotations

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.db.session import Tx
from millpond.db.stores.queues import queue_list
from millpond.db.stores.tenants import project_list, tenant_get, tenant_list
from millpond.domain.errors import Refused
from millpond.domain.jobs import JobSpec
from millpond.domain.names import label_parse
from millpond.domain.queues import leaf_names

CHOICES = 20


def project_label(project: str) -> str:
    return label_parse(project, "project") if project else ""


def tenant_resolve(tx: Tx, actor: Actor, tenant: str, action: Action) -> str:
    """`tenant` if given; else the only tenant of the actor in which it may do `action` (design §8).

    Who has a role on the whole platform and none in a tenant means the platform's only tenant.  `NotFound` and
    `Forbidden` as the policy says; `Refused` AMBIGUOUS_TENANT names the choices.
    """
    if tenant:
        label_parse(tenant, "tenant")
        authorize(actor, action, tenant)
        tenant_get(tx, actor, tenant)
        return tenant
    visible = tenants_visible(actor, action)
    own = sorted(name for name in actor.roles if visible is None or name in visible)
    choices = own if own or visible is not None else [record.name for record in tenant_list(tx, actor)]
    if len(choices) == 1:
        return choices[0]
    if not choices:
        raise Refused("there is no tenant yet", code="NO_SUCH_TENANT", hint="millpond tenants create NAME")
    shown = choices[:CHOICES]
    raise Refused(
        f"which tenant? the choices are {', '.join(shown)}",
        code="AMBIGUOUS_TENANT",
        hint=f"write tenant: {shown[0]} in the job file, or give --tenant",
        details={"tenants": shown},
    )


def project_check(tx: Tx, actor: Actor, tenant: str, project: str) -> None:
    """`Refused` NO_SUCH_PROJECT, naming the choices, unless the project exists (or none is named)."""
    if not project:
        return
    names = [record.name for record in project_list(tx, actor, tenant)]
    if project not in names:
        raise Refused(
            f"tenant {tenant} has no project {project!r}",
            code="NO_SUCH_PROJECT",
            hint=f"its projects are {', '.join(names[:CHOICES])}" if names else "it has no projects: leave project out",
            details={"tenant": tenant, "projects": names[:CHOICES]},
        )


def leaf_resolve(tx: Tx, actor: Actor, spec: JobSpec, tenant: str) -> str:
    """The leaf that a job goes to.  `Refused` NO_SUCH_QUEUE names the leaves of its tenant."""
    leaves = {config.name for config in queue_list(tx, actor) if config.leaf}
    for name in leaf_names(tenant, spec.project, spec.queue):
        if name in leaves:
            return name
    own = sorted(name for name in leaves if name.startswith(f"{tenant}/"))
    wanted = leaf_names(tenant, spec.project, spec.queue)[-1]
    raise Refused(
        f"there is no queue {wanted}",
        code="NO_SUCH_QUEUE",
        hint=f"the tenant's queues are {', '.join(own[:CHOICES])}" if own else "ask for one: millpond quota apply",
        details={"queue": wanted, "queues": own[:CHOICES]},
    )
