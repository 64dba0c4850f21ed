"""The policy: which role may do what, as data.  The golden file ``tests/golden/authz_policy.txt`` shows it whole.

A platform-admin or auditor may hold the role for the whole platform; then it counts in every tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from millpond.authz.actions import Action, scopes_cover
from millpond.authz.actors import Actor
from millpond.domain.errors import Forbidden, NotFound
from millpond.domain.records import Role


class Reach(IntEnum):
    """How far a right goes: ``OWN`` only to what the actor itself made (its jobs, its tokens)."""

    NONE = 0
    OWN = 1
    ALL = 2


POOL_ACTIONS = frozenset(
    {
        Action.QUEUE_READ,
        Action.NODE_READ,
        Action.CARD_READ,
        Action.TOKEN_READ,
        Action.TOKEN_CREATE,
        Action.TOKEN_REVOKE,
    }
)
"""Actions that belong to no tenant and that a role in any tenant allows: the pool is shared, and so is sight of it."""

_OWN_TOKENS = {
    Action.TOKEN_READ: Reach.OWN,
    Action.TOKEN_CREATE: Reach.OWN,
    Action.TOKEN_REVOKE: Reach.OWN,
}
_SIGHT = {
    Action.TENANT_READ: Reach.ALL,
    Action.PROJECT_READ: Reach.ALL,
    Action.MEMBER_READ: Reach.ALL,
    Action.QUEUE_READ: Reach.ALL,
    Action.NODE_READ: Reach.ALL,
    Action.CARD_READ: Reach.ALL,
    Action.JOB_READ: Reach.ALL,
    Action.JOB_LOGS: Reach.ALL,
}

POLICY: Mapping[Role, Mapping[Action, Reach]] = {
    Role.PLATFORM_ADMIN: dict.fromkeys(Action, Reach.ALL),
    Role.TENANT_ADMIN: {
        **_SIGHT,
        **_OWN_TOKENS,
        Action.PROJECT_CREATE: Reach.ALL,
        Action.PROJECT_DELETE: Reach.ALL,
        Action.MEMBER_WRITE: Reach.ALL,
        Action.JOB_SUBMIT: Reach.ALL,
        Action.JOB_CONTROL: Reach.ALL,
        Action.JOB_EXEC: Reach.ALL,
        Action.EVENT_READ: Reach.ALL,
        Action.USAGE_READ: Reach.ALL,
        Action.PRICE_READ: Reach.ALL,
        Action.BUDGET_READ: Reach.ALL,
        Action.BUDGET_WRITE: Reach.ALL,
        Action.ACCOUNT_READ: Reach.ALL,
        Action.INVOICE_READ: Reach.ALL,
        Action.REPORT_READ: Reach.ALL,
    },
    Role.MEMBER: {
        **_SIGHT,
        **_OWN_TOKENS,
        Action.USAGE_READ: Reach.OWN,
        Action.PRICE_READ: Reach.ALL,
        Action.BUDGET_READ: Reach.ALL,
        Action.ACCOUNT_READ: Reach.ALL,
        Action.JOB_SUBMIT: Reach.ALL,
        Action.JOB_CONTROL: Reach.OWN,
        Action.JOB_EXEC: Reach.OWN,
    },
    Role.AUDITOR: {
        **_SIGHT,
        **_OWN_TOKENS,
        Action.EVENT_READ: Reach.ALL,
        Action.SNAPSHOT_READ: Reach.ALL,
        Action.METRICS_READ: Reach.ALL,
        Action.USAGE_READ: Reach.ALL,
        Action.PRICE_READ: Reach.ALL,
        Action.BUDGET_READ: Reach.ALL,
        Action.ACCOUNT_READ: Reach.ALL,
        Action.INVOICE_READ: Reach.ALL,
        Action.REPORT_READ: Reach.ALL,
    },
}


def reach(actor: Actor, action: Action, tenant: str = "") -> Reach:
    """How far `actor`'s right to `action` goes in `tenant` (empty: the platform), scopes included."""
    if actor.system:
        return Reach.ALL
    if not scopes_cover(actor.scopes, action.value):
        return Reach.NONE
    return _role_reach(actor, action, tenant)


def _role_reach(actor: Actor, action: Action, tenant: str) -> Reach:
    roles = [actor.platform] if actor.platform is not None else []
    if action in POOL_ACTIONS:
        roles.extend(actor.roles.values())
    elif tenant in actor.roles:
        roles.append(actor.roles[tenant])
    return max((POLICY[role].get(action, Reach.NONE) for role in roles), default=Reach.NONE)


def authorize(actor: Actor, action: Action, tenant: str = "", *, owner: str | None = None) -> None:
    """Return if `actor` may do `action` in `tenant` (empty: on the platform), else raise.

    ``owner`` is whose thing it is (a job's or token's user); where the right is only to one's own, it must be the
    actor.  ``None``: the thing has no owner yet or it does not matter.  Raises `NotFound` when the actor may not even
    see the tenant, so that its existence does not leak; `Forbidden` otherwise.
    """
    far = reach(actor, action, tenant)
    if far is Reach.ALL or (far is Reach.OWN and owner in (None, actor.user)):
        return
    if tenant and not actor.system and _role_reach(actor, Action.TENANT_READ, tenant) is Reach.NONE:
        raise NotFound(f"no tenant {tenant!r}", code="NO_SUCH_TENANT", hint="millpond tenants lists yours")
    raise _forbidden(actor, action, tenant, owned=far is Reach.OWN)


def system_only(actor: Actor) -> None:
    """Return if `actor` is the platform itself, else raise `Forbidden`."""
    if not actor.system:
        raise Forbidden("only the platform itself may do this")


def tenants_visible(actor: Actor, action: Action) -> frozenset[str] | None:
    """The tenants in which `actor` may do `action`; ``None`` means all.  `Forbidden` if there are none at all."""
    if actor.system:
        return None
    if not scopes_cover(actor.scopes, action.value):
        raise _forbidden(actor, action, "", owned=False)
    if actor.platform is not None and POLICY[actor.platform].get(action, Reach.NONE) is Reach.ALL:
        return None
    tenants = frozenset(tenant for tenant in actor.roles if reach(actor, action, tenant) is not Reach.NONE)
    if not tenants:
        raise _forbidden(actor, action, "", owned=False)
    return tenants


def _forbidden(actor: Actor, action: Action, tenant: str, *, owned: bool) -> Forbidden:
    details: dict[str, object] = {"action": action.value, "tenant": tenant}
    if not scopes_cover(actor.scopes, action.value):
        return Forbidden(
            f"this token is not scoped for {action.value}",
            hint=f"use a token with the scope {action.value}, or one without scopes",
            details=details,
        )
    where = f" in tenant {tenant!r}" if tenant else ""
    if owned:
        return Forbidden(
            f"{actor.user} may do {action.value}{where} only to what is their own",
            hint="ask its owner or a tenant-admin",
            details=details,
        )
    who = "a tenant-admin" if tenant else "a platform-admin"
    return Forbidden(f"{actor.user} may not do {action.value}{where}", hint=f"ask {who}", details=details)


def policy_text() -> str:
    """The whole table for people and for the golden file: one line per action, one column per role."""
    roles = list(Role)
    lines = ["action".ljust(16) + "".join(role.value.ljust(16) for role in roles).rstrip()]
    words = {Reach.NONE: "-", Reach.OWN: "own", Reach.ALL: "all"}
    for action in Action:
        cells = (words[POLICY[role].get(action, Reach.NONE)].ljust(16) for role in roles)
        pool = " (pool)" if action in POOL_ACTIONS else ""
        lines.append((action.value.ljust(16) + "".join(cells)).rstrip() + pool)
    return "\n".join(lines) + "\n"
