"""What a fresh millpond begins with: a tenant, queues, an administrator with a token, the declared nodes.

Everything here may run again at each start and changes nothing that is already as it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from millpond.authz.actors import SYSTEM
from millpond.commands.places import file_write, token_path
from millpond.config import Settings
from millpond.db.session import Database, Tx
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.nodes import NodeChanges, node_list, node_sync
from millpond.db.stores.queues import queue_list, queues_replace
from millpond.db.stores.settings import settings_put
from millpond.db.stores.tenants import tenant_create, tenant_list
from millpond.db.stores.users import member_list, member_put, token_authenticate, token_create, token_list, token_revoke
from millpond.domain.errors import MillpondError, Refused, Unauthenticated
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.domain.records import Role

ADMIN = "admin"
TENANT = "default"
LABEL = "millpond up"


def database_prepare(database: Database, settings: Settings, now: datetime) -> None:
    """Tenant, administrator, policy numbers; and the admin's token file if it is missing or no longer valid."""
    database.run("bootstrap", partial(_begin, settings=settings, now=now))
    path = token_path(settings)
    try:
        secret = path.read_text(encoding="utf-8").strip()
        database.run("token", lambda tx: token_authenticate(tx, secret))
    except (OSError, UnicodeDecodeError, Unauthenticated):
        secret = database.run("admin token", _admin_token)
        file_write(path, secret + "\n", 0o600)


def _begin(tx: Tx, settings: Settings, now: datetime) -> None:
    if not tenant_list(tx, SYSTEM) and not member_list(tx, SYSTEM, ""):
        tenant_create(tx, SYSTEM, TENANT, "Default tenant")
        member_put(tx, SYSTEM, ADMIN, "", Role.PLATFORM_ADMIN)
        events_append(tx, "control", (NewEvent(kind="platform.begun", time=now, actor="system", tenant=TENANT),))
    numbers = {
        "min_runtime": settings.min_runtime,
        "cooldown": settings.cooldown,
        "hold_timeout": settings.hold_timeout,
        "lost_work_cap": settings.lost_work_cap,
        "assumed_limit": settings.assumed_limit,
        "reserve_after": settings.reserve_after,
        "consolidate_after": settings.consolidate_after,
        "regroup_after": settings.regroup_after,
        "hold_back": settings.hold_back,
        "hold_back_for": settings.hold_back_for,
    }
    settings_put(tx, SYSTEM, numbers)


def _admin_token(tx: Tx) -> str:
    """A new token for the administrator; older ones that `up` made are revoked."""
    for token in token_list(tx, SYSTEM, ADMIN):
        if token.label == LABEL and token.revoked_at is None:
            token_revoke(tx, SYSTEM, token.id)
    return token_create(tx, SYSTEM, ADMIN, LABEL)[1]


def pool_declare(
    database: Database, engine: str, specs: Sequence[NodeSpec], now: datetime, *, confirmed: bool
) -> NodeChanges:
    """Make `specs` the nodes of `engine`.  `Refused` if nodes would go that jobs sit on, unless `confirmed`."""
    return database.run("pool", partial(_pool_declare, engine=engine, specs=tuple(specs), now=now, confirmed=confirmed))


def _pool_declare(tx: Tx, engine: str, specs: tuple[NodeSpec, ...], now: datetime, confirmed: bool) -> NodeChanges:
    before = tuple(node.spec for node in node_list(tx, SYSTEM))
    changes = node_sync(tx, SYSTEM, engine, specs, now)
    if changes.missing and not confirmed:
        raise Refused(
            f"jobs run on nodes that the new pool does not have: {', '.join(changes.missing[:8])}",
            code="POOL_IN_USE",
            hint="start with the former --sim, stop those jobs first, or give --replace-pool to let them be evicted",
        )
    queues = queue_list(tx, SYSTEM)
    wanted = queues_default(specs)
    untouched = queues in ((), queues_default(before))
    if untouched and queues != wanted and any(tenant.name == TENANT for tenant in tenant_list(tx, SYSTEM)):
        queues_replace(tx, SYSTEM, wanted)
    return changes


def queues_default(specs: Sequence[NodeSpec]) -> tuple[QueueConfig, ...]:
    """Queues of the tenant `default`: batch deserves the whole pool, prod has no guarantee yet."""
    return (
        QueueConfig(f"{TENANT}/prod", QueueClass.PROD),
        QueueConfig(f"{TENANT}/batch", QueueClass.BATCH, deserved=pool_amounts(specs)),
        QueueConfig(f"{TENANT}/besteffort", QueueClass.BESTEFFORT),
    )


def pool_amounts(specs: Sequence[NodeSpec]) -> Mapping[str, int]:
    """Milli-cards per model, and of all."""
    amounts: dict[str, int] = {CARDS: 0}
    for spec in specs:
        if spec.cards is not None:
            amounts[spec.cards.model] = amounts.get(spec.cards.model, 0) + spec.cards.count * 1000
            amounts[CARDS] += spec.cards.count * 1000
    return amounts


def part_check(work: Callable[[], object]) -> Callable[[], str]:
    """A check for `/readyz`: ``ok``, or the sentence of the error."""

    def check() -> str:
        try:
            work()
        except (MillpondError, OSError) as error:
            return str(error)
        return "ok"

    return check
