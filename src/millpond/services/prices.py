"""Prices: list prices of the platform, and what was agreed with one tenant.  They are only ever added."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.billing.prices import PriceRecord, PriceVersion, version_check
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores import prices as store
from millpond.db.stores.accounts import account_get, account_list
from millpond.domain.errors import Conflict, InvalidInput
from millpond.files.prices import PriceFile, price_file_read, prices_read
from millpond.files.tree import tree_from_json
from millpond.metering.hours import instant
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run
from millpond.zones import zone_find


def price_list(deps: Services, actor: Actor, tenant: str = "") -> tuple[PriceRecord, ...]:
    """List prices, and what was agreed with `tenant`, or with all that the actor may see."""
    return deps.database.run("price_list", lambda tx: store.price_list(tx, actor, tenant))


def prices_add(
    deps: Services, actor: Actor, body: object, once: Once, render: Callable[[tuple[PriceRecord, ...]], object]
) -> Reply:
    """Add every version of a price list in a JSON body, or none of them.

    Raises `InvalidInput` with the position of what cannot be: a negative price, an unknown currency, an overlap, a
    beginning in a month that is closed.
    """
    file = price_file_read(tree_from_json(body, "body"))
    authorize(actor, Action.PRICE_WRITE, file.tenant)

    def work(tx: Tx) -> tuple[PriceRecord, ...]:
        store.prices_lock(tx, actor, file.tenant)
        zone = _zone(tx, file)
        now = deps.clock()
        added = _added(tx, file, zone)
        store.prices_add(tx, actor, file.tenant, added, now)
        data = {"currency": file.currency.code, "zone": zone, "versions": [_told(version) for version in added]}
        event_write(deps, tx, actor, "prices.added", tenant=file.tenant, data=data)
        notify(tx, WORK_CHANNEL, "schedule")
        return tuple(PriceRecord(file.tenant, version, version.end, now, actor.user) for version in added)

    return once_run(deps, "prices_add", actor, once, work, render)


def _added(tx: Tx, file: PriceFile, zone: str) -> list[PriceVersion]:
    """The versions of the file, each checked against all that it may meet."""
    known = store.prices_of(tx, SYSTEM, file.currency)
    closed = store.prices_closed(tx, SYSTEM, file.currency, file.tenant)
    until = None if closed is None else instant(closed[1])
    # A list price stands in everybody's book, so no contract may use its name for the same cards.
    groups = [file.tenant] if file.tenant else sorted(known)
    books = [[*known[""], *(known.get(group, ()) if group else ())] for group in groups]
    added: list[PriceVersion] = []

    def add(version: PriceVersion) -> None:
        for versions in books:
            try:
                version_check(versions, version, until)
            except Conflict as error:
                raise _explained(error, closed) from error
            versions.append(version)
        added.append(version)

    prices_read(file, zone_find(zone), add)
    if not added:
        raise InvalidInput("there are no prices in it", hint="add some: prices: [{version: v1, sku: A800-80GB, …}]")
    return added


def _explained(error: Conflict, closed: tuple[str, datetime] | None) -> Conflict:
    if error.reason != "CLOSED_PERIOD" or closed is None:
        return error
    until = closed[1].astimezone(UTC).isoformat(timespec="minutes")
    return Conflict(
        f"{error.message} ({closed[0]} is closed until {until})",
        hint=error.hint,
        code=error.reason,
        details={"tenant": closed[0], "closed_until": until},
    )


def _zone(tx: Tx, file: PriceFile) -> str:
    """Whose midnight a date is: what the file says, the zone of the tenant, or the one that all accounts share."""
    account = account_get(tx, SYSTEM, file.tenant) if file.tenant else None
    if account is not None and account.currency != file.currency:
        raise InvalidInput(
            f"the prices are in {file.currency}, and {file.tenant} pays in {account.currency}",
            hint=f"write currency: {account.currency}",
            code="CURRENCY_MISMATCH",
        )
    if file.zone:
        zone_find(file.zone)
        return file.zone
    if account is not None:
        return account.zone
    zones = sorted({one.zone for one in account_list(tx, SYSTEM)})
    if len(zones) != 1:
        said = ", ".join(zones) if zones else "none yet"
        raise InvalidInput(
            f"a date needs a zone, and the accounts' zones are: {said}", hint="add the zone: Asia/Shanghai"
        )
    return zones[0]


def _told(version: PriceVersion) -> dict[str, object]:
    return {
        "version": version.version,
        "sku": version.sku,
        "class": version.klass,
        "price": version.price.text(),
        "from": version.start,
        "to": version.end,
    }
