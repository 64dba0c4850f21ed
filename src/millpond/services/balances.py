"""What accounts stand at, of now and of before; their lines; the ledger as beancount text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date, datetime, timedelta

from millpond.authz.actors import Actor
from millpond.billing.accounts import AccountRecord
from millpond.billing.beancount import beancount_text
from millpond.billing.ledger import Balance
from millpond.billing.sheets import Sheet, StatementLine, sheet_make
from millpond.billing.transfers import AccountKind
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_get
from millpond.db.stores.grants import grant_list
from millpond.db.stores.ledger import books_read_owned
from millpond.db.stores.statements import books_as_of, history_read, line_page
from millpond.domain.errors import InvalidInput
from millpond.domain.records import Page
from millpond.services.deps import Services
from millpond.zones import zone_find


def balance_get(
    deps: Services,
    actor: Actor,
    tenant: str,
    as_of: datetime | None,
    known_at: datetime | None,
    *,
    all_grants: bool = False,
) -> tuple[AccountRecord, Sheet]:
    """Of now; or by what was booked before ``as_of``, or known before ``known_at``, both exclusive.

    ``all_grants``: also those of which nothing is left.
    """
    for moment in (as_of, known_at):
        _zoned(moment)
    now = deps.clock()

    def work(tx: Tx) -> tuple[AccountRecord, Sheet]:
        account = account_get(tx, actor, tenant)
        present = as_of is None and known_at is None
        grants = grant_list(tx, actor, tenant, left_only=present and not all_grants)
        if present:
            books = books_read_owned(tx, actor, [tenant])
            return account, sheet_make(books, grants, tenant, account.currency, now)
        books = books_as_of(tx, actor, tenant, as_of, known_at)
        known = [grant for grant in grants if grant.account.id in books.accounts]
        if not all_grants:
            known = [grant for grant in known if _left(books.balance(grant.account))]
        return account, sheet_make(books, known, tenant, account.currency, min(as_of or now, now))

    return deps.database.run("balance_get", work, snapshot=True)


def balance_lines(
    deps: Services,
    actor: Actor,
    tenant: str,
    *,
    kinds: Collection[AccountKind],
    grant: str,
    booked_from: datetime | None,
    booked_before: datetime | None,
    cursor: str,
    limit: int,
) -> Page[StatementLine]:
    """Bookings on a tenant's accounts, the last first."""
    for moment in (booked_from, booked_before):
        _zoned(moment)

    def work(tx: Tx) -> Page[StatementLine]:
        account_get(tx, actor, tenant)
        return line_page(
            tx,
            actor,
            tenant,
            kinds=kinds,
            grant=grant,
            booked_from=booked_from,
            booked_before=booked_before,
            after=cursor,
            limit=limit,
        )

    return deps.database.run("balance_lines", work)


def beancount_export(deps: Services, actor: Actor, tenant: str, zone: str, before: str) -> Iterator[str]:
    """Lines of a beancount file: a tenant's bookings or (empty) everybody's, before the midnight that begins a day.

    ``before``: ``2026-12-01``; empty: tomorrow, so that all of today is in it.  ``zone`` empty: the account's, or
    UTC.
    """

    def work(tx: Tx) -> Iterator[str]:
        place = zone_find(zone or (account_get(tx, actor, tenant).zone if tenant else "UTC"))
        day = _day(before) if before else deps.clock().astimezone(place).date() + timedelta(days=1)
        midnight = datetime(day.year, day.month, day.day, tzinfo=place)
        return beancount_text(history_read(tx, actor, tenant, midnight), place, midnight)

    return deps.database.run("beancount_export", work, snapshot=True)


def _left(balance: Balance) -> bool:
    return bool(balance.posted or balance.held)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{text[:40]!r} is not a day", hint="write it like 2026-12-01") from error


def _zoned(moment: datetime | None) -> None:
    if moment is not None and moment.tzinfo is None:
        raise InvalidInput(f"{moment.isoformat()} has no zone", hint="write it like 2026-11-30T18:00:00+08:00")
