"""Members of tenants and of the platform, and tokens."""

from __future__ import annotations

from datetime import datetime

from millpond.authz.actors import Actor
from millpond.db.session import Tx
from millpond.db.stores import users as store
from millpond.domain.records import MemberRecord, Role, TokenRecord
from millpond.services.deps import Services
from millpond.services.happenings import event_write


def member_list(deps: Services, actor: Actor, tenant: str) -> tuple[MemberRecord, ...]:
    """Members of a tenant, by name; an empty tenant: roles on the whole platform."""
    return tuple(deps.database.run("member_list", lambda tx: store.member_list(tx, actor, tenant)))


def member_put(deps: Services, actor: Actor, tenant: str, user: str, role: Role) -> MemberRecord:
    """Give a user a role; the one it had there is replaced."""

    def work(tx: Tx) -> MemberRecord:
        record = store.member_put(tx, actor, user, tenant, role)
        event_write(deps, tx, actor, "member.put", tenant=tenant, data={"user": user, "role": role.value})
        return record

    return deps.database.run("member_put", work)


def member_delete(deps: Services, actor: Actor, tenant: str, user: str) -> None:
    """Take a user's role away."""

    def work(tx: Tx) -> None:
        store.member_delete(tx, actor, user, tenant)
        event_write(deps, tx, actor, "member.deleted", tenant=tenant, data={"user": user})

    deps.database.run("member_delete", work)


def token_list(deps: Services, actor: Actor) -> tuple[TokenRecord, ...]:
    """The actor's tokens; a platform-admin's list has everybody's."""
    return tuple(deps.database.run("token_list", lambda tx: store.token_list(tx, actor)))


def token_create(
    deps: Services,
    actor: Actor,
    user: str,
    label: str,
    scopes: tuple[str, ...],
    expires_at: datetime | None,
) -> tuple[TokenRecord, str]:
    """A new token and its secret, which is not kept anywhere.  `user` empty: the actor's own."""
    user = user or actor.user

    def work(tx: Tx) -> tuple[TokenRecord, str]:
        record, secret = store.token_create(tx, actor, user, label, scopes, expires_at)
        data: dict[str, object] = {"token": record.id, "user": user, "label": label, "scopes": list(record.scopes)}
        event_write(deps, tx, actor, "token.created", data=data)
        return record, secret

    return deps.database.run("token_create", work)


def token_revoke(deps: Services, actor: Actor, token: str) -> None:
    """Make a token useless from now on."""

    def work(tx: Tx) -> None:
        record = store.token_revoke(tx, actor, token)
        event_write(deps, tx, actor, "token.revoked", data={"token": token, "user": record.user})

    deps.database.run("token_revoke", work)
