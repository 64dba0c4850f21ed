"""Members of tenants, and tokens.  A user is a name; it exists as soon as a role or a token names it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actions import Action, scopes_cover, scopes_parse
from millpond.authz.actors import Actor
from millpond.authz.policy import Reach, authorize, reach
from millpond.db.session import Tx
from millpond.db.stores.rows import columns_of
from millpond.db.tables.tenants import MEMBERS, TENANTS
from millpond.db.tables.users import TOKENS
from millpond.domain.errors import Conflict, Forbidden, InvalidInput, NotFound, Unauthenticated
from millpond.domain.names import id_make, user_parse
from millpond.domain.records import MemberRecord, Role, TokenRecord

TOKEN_PREFIX = "mp_"  # noqa: S105
_TOKEN_LENGTH = len(TOKEN_PREFIX) + 43
_USED_EVERY = timedelta(minutes=1)
_PLATFORM_ROLES = frozenset({Role.PLATFORM_ADMIN, Role.AUDITOR})
_MEMBER = columns_of(MEMBERS, MemberRecord)
_TOKEN = columns_of(TOKENS, TokenRecord)


def member_put(tx: Tx, actor: Actor, user: str, tenant: str, role: Role) -> MemberRecord:
    """Give `user` a role in `tenant` (empty: on the platform), replacing the one it had there.

    `Conflict` if that would take the role from the last platform-admin.
    """
    authorize(actor, Action.MEMBER_WRITE, tenant)
    user_parse(user)
    if (tenant == "" and role not in _PLATFORM_ROLES) or (tenant and role is Role.PLATFORM_ADMIN):
        where = f"in tenant {tenant!r}" if tenant else "on the whole platform"
        raise InvalidInput(
            f"{role.value} is no role {where}",
            hint="in a tenant: tenant-admin, member, auditor; on the platform: platform-admin, auditor",
        )
    if tenant and not _tenant_stands(tx, tenant):
        raise NotFound(f"no tenant {tenant!r}", code="NO_SUCH_TENANT", hint="millpond tenants lists them")
    if not tenant and role is not Role.PLATFORM_ADMIN:
        _last_admin_check(tx, user)
    row = tx.execute(
        upsert(MEMBERS)
        .values(user=user, tenant=tenant, role=role)
        .on_conflict_do_update(index_elements=[MEMBERS.c.user, MEMBERS.c.tenant], set_={"role": role})
        .returning(*_MEMBER)
    ).one()
    return MemberRecord(*row)


def member_list(tx: Tx, actor: Actor, tenant: str) -> tuple[MemberRecord, ...]:
    """Who belongs to `tenant` (empty: who has a role on the platform), by user."""
    authorize(actor, Action.MEMBER_READ, tenant)
    here = MEMBERS.c.tenant == tenant if tenant else MEMBERS.c.tenant.is_(None)
    return tuple(MemberRecord(*row) for row in tx.execute(select(*_MEMBER).where(here).order_by(MEMBERS.c.user)))


def member_delete(tx: Tx, actor: Actor, user: str, tenant: str) -> None:
    """Take `user`'s role in `tenant` (empty: on the platform).  `Conflict` for the last platform-admin."""
    authorize(actor, Action.MEMBER_WRITE, tenant)
    if not tenant:
        _last_admin_check(tx, user)
    here = MEMBERS.c.tenant == tenant if tenant else MEMBERS.c.tenant.is_(None)
    if tx.execute(delete(MEMBERS).where(MEMBERS.c.user == user, here)).rowcount == 0:
        where = f"tenant {tenant!r}" if tenant else "the platform"
        raise NotFound(f"{user!r} has no role in {where}", code="NO_SUCH_MEMBER")


def token_create(
    tx: Tx, actor: Actor, user: str, label: str, scopes: tuple[str, ...] = (), expires_at: datetime | None = None
) -> tuple[TokenRecord, str]:
    """A new token of `user` and its secret, which is shown this once.

    A token cannot make one that may do more than itself, or that outlives it.  Raises `InvalidInput` for unknown
    scopes, an expiry in the past, or a label over 200 characters.
    """
    authorize(actor, Action.TOKEN_CREATE, owner=user)
    user_parse(user)
    if len(label) > 200:
        raise InvalidInput("a label has at most 200 characters")
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise InvalidInput("this token would have expired already", hint="choose a time in the future")
    wanted = scopes_parse(scopes)
    if actor.scopes and (not wanted or not all(scopes_cover(actor.scopes, scope) for scope in wanted)):
        raise Forbidden(
            "a token cannot make one with more scopes than its own", details={"scopes": sorted(actor.scopes)}
        )
    if actor.expires_at is not None and (expires_at is None or expires_at > actor.expires_at):
        raise Forbidden(
            "a token cannot make one that outlives it",
            hint=f"let it expire by {actor.expires_at.isoformat(timespec='seconds')}, or use a token without an end",
        )
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    row = tx.execute(
        insert(TOKENS)
        .values(
            id=id_make("t", time.time_ns() // 1_000_000, secrets.token_bytes(10)),
            user=user,
            label=label,
            scopes=wanted,
            secret_hash=_secret_hash(secret),
            expires_at=expires_at,
        )
        .returning(*_TOKEN)
    ).one()
    return TokenRecord(*row), secret


def token_authenticate(tx: Tx, secret: str) -> Actor:
    """Who holds `secret`.  `Unauthenticated` if nobody does, or the token was revoked or has expired.

    One indexed query reads the token and its user's roles; the time of use is written at most once a minute.
    """
    digest = _secret_hash(secret)
    rows = tx.execute(_AUTHENTICATE, {"digest": digest}).all() if len(secret) == _TOKEN_LENGTH else []
    if not rows or not hmac.compare_digest(rows[0].secret_hash, digest):
        raise Unauthenticated("this token is not valid", hint="millpond login sets a new one")
    token = rows[0]
    if token.revoked_at is not None:
        raise Unauthenticated("this token was revoked", hint="millpond login sets a new one")
    if token.expires_at is not None and token.expires_at <= token.moment:
        raise Unauthenticated("this token has expired", hint="millpond login sets a new one")
    if token.last_used_at is None or token.moment - token.last_used_at > _USED_EVERY:
        tx.execute(update(TOKENS).where(TOKENS.c.id == token.id).values(last_used_at=func.now()))
    roles = {row.tenant: row.role for row in rows if row.role is not None}
    platform = roles.pop("", None)
    scopes = frozenset(token.scopes)
    return Actor(user=token.user, platform=platform, roles=roles, scopes=scopes, expires_at=token.expires_at)


def token_list(tx: Tx, actor: Actor, user: str = "") -> tuple[TokenRecord, ...]:
    """Tokens, the newest first; `user` empty: one's own, or everybody's for who may see them."""
    authorize(actor, Action.TOKEN_READ, owner=user or None)
    if not user and reach(actor, Action.TOKEN_READ) is not Reach.ALL:
        user = actor.user
    statement = select(*_TOKEN).order_by(TOKENS.c.created_at.desc(), TOKENS.c.id)
    if user:
        statement = statement.where(TOKENS.c.user == user)
    return tuple(TokenRecord(*row) for row in tx.execute(statement))


def token_revoke(tx: Tx, actor: Actor, token: str) -> TokenRecord:
    """Make a token worthless from now on.  Revoking again changes nothing."""
    authorize(actor, Action.TOKEN_REVOKE)
    statement = select(*_TOKEN).where(TOKENS.c.id == token)
    if reach(actor, Action.TOKEN_REVOKE) is not Reach.ALL:
        statement = statement.where(TOKENS.c.user == actor.user)
    if tx.execute(statement.with_for_update()).one_or_none() is None:
        raise NotFound(f"no token {token[:40]!r}", code="NO_SUCH_TOKEN", hint="millpond login --list shows yours")
    row = tx.execute(
        update(TOKENS)
        .where(TOKENS.c.id == token)
        .values(revoked_at=func.coalesce(TOKENS.c.revoked_at, func.now()))
        .returning(*_TOKEN)
    ).one()
    return TokenRecord(*row)


def _secret_hash(secret: str) -> bytes:
    # Secrets are 256 random bits, so a fast hash is enough: there is nothing to guess.
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _tenant_stands(tx: Tx, tenant: str) -> bool:
    statement = select(TENANTS.c.name).where(TENANTS.c.name == tenant, TENANTS.c.deleted_at.is_(None))
    return tx.execute(statement.with_for_update(read=True)).one_or_none() is not None


def _last_admin_check(tx: Tx, user: str) -> None:
    admins = tx.execute(
        select(MEMBERS.c.user)
        .where(MEMBERS.c.tenant.is_(None), MEMBERS.c.role == Role.PLATFORM_ADMIN)
        .order_by(MEMBERS.c.user)
        .with_for_update()
    ).scalars()
    if list(admins) == [user]:
        raise Conflict(f"{user!r} is the last platform-admin", hint="give somebody else the role first")


_AUTHENTICATE = (
    select(
        TOKENS.c.id,
        TOKENS.c.user,
        TOKENS.c.scopes,
        TOKENS.c.secret_hash,
        TOKENS.c.expires_at,
        TOKENS.c.revoked_at,
        TOKENS.c.last_used_at,
        MEMBERS.c.tenant,
        MEMBERS.c.role,
        func.now().label("moment"),
    )
    .select_from(TOKENS.outerjoin(MEMBERS, TOKENS.c.user == MEMBERS.c.user))
    .where(TOKENS.c.secret_hash == bindparam("digest", type_=TOKENS.c.secret_hash.type))
)
