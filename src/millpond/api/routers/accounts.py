"""Billing accounts: settings, balance, lines, grants, top-ups, payments."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from starlette.responses import StreamingResponse

from millpond.api.context import PAGE, Cursor, Deps, Limit, OnceKey, TenantName, Who, reply_response
from millpond.api.schemas.accounts import (
    Account,
    AccountOpen,
    AccountSettings,
    BalanceSheet,
    GrantGive,
    GrantInfo,
    LedgerLine,
    MoneyMoved,
    Payment,
    TopUp,
    TrialGive,
)
from millpond.api.schemas.base import Listing
from millpond.billing.accounts import AccountRecord
from millpond.billing.grants import Grant
from millpond.billing.transfers import AccountKind
from millpond.services import accounts, balances, grants, payments

router = APIRouter(tags=["accounts"])

AsOf = Annotated[datetime | None, Query(description="Only what was booked before this moment (with its zone).")]
KnownAt = Annotated[datetime | None, Query(description="Only what was written before this moment (with its zone).")]
Every = Annotated[bool, Query(alias="all", description="Also grants of which nothing is left.")]
From = Annotated[datetime | None, Query(alias="from", description="Booked at or after.")]
To = Annotated[datetime | None, Query(description="Booked before.")]
Kinds = Annotated[list[AccountKind], Query(description="Only accounts of these kinds; may be repeated.")]
GrantId = Annotated[str, Path(max_length=32, description="Id of the grant.")]
Zone = Annotated[str, Query(max_length=64, description="IANA zone of the days; empty: the account's, or UTC.")]
Before = Annotated[str, Query(max_length=10, description="First day that is left out; empty: tomorrow.")]


def _account_json(record: AccountRecord) -> object:
    return Account.of(record).model_dump(mode="json")


def _grant_json(grant: Grant) -> object:
    return GrantInfo.of(grant).model_dump(mode="json")


def _moved_json(moved: payments.Moved) -> object:
    return MoneyMoved.of(moved).model_dump(mode="json")


@router.get("/v1/accounts")
def account_list(deps: Deps, actor: Who, cursor: Cursor = "", limit: Limit = PAGE) -> Listing[Account]:
    """Accounts that the caller may read, by tenant."""
    page = accounts.account_list(deps, actor, cursor, limit)
    return Listing(items=[Account.of(record) for record in page.items], next=page.next)


@router.post("/v1/accounts", status_code=201, response_model=Account)
def account_open(deps: Deps, actor: Who, once: OnceKey, body: AccountOpen) -> Response:
    """Open an account: from then on the tenant's use is billed."""
    return reply_response(accounts.account_open(deps, actor, body.tenant, body.given(), once, _account_json))


@router.get("/v1/accounts/{tenant}")
def account_get(deps: Deps, actor: Who, tenant: TenantName) -> Account:
    """How a tenant pays."""
    return Account.of(accounts.account_get(deps, actor, tenant))


@router.patch("/v1/accounts/{tenant}")
def account_set(deps: Deps, actor: Who, tenant: TenantName, body: AccountSettings) -> Account:
    """Change settings; they count for the open month as a whole."""
    return Account.of(accounts.account_set(deps, actor, tenant, body.given()))


@router.get("/v1/accounts/{tenant}/balance")
def balance_get(
    deps: Deps,
    actor: Who,
    tenant: TenantName,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    every: Every = False,
) -> BalanceSheet:
    """What the account stands at, now or as of a moment."""
    return BalanceSheet.of(*balances.balance_get(deps, actor, tenant, as_of, known_at, all_grants=every))


@router.get("/v1/accounts/{tenant}/lines")
def balance_lines(
    deps: Deps,
    actor: Who,
    tenant: TenantName,
    kind: Kinds = [],  # noqa: B006 - FastAPI copies it
    grant: Annotated[str, Query(max_length=32, description="Only of this grant.")] = "",
    begin: From = None,
    to: To = None,
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> Listing[LedgerLine]:
    """Bookings on the tenant's accounts, the last first."""
    page = balances.balance_lines(
        deps,
        actor,
        tenant,
        kinds=kind,
        grant=grant,
        booked_from=begin,
        booked_before=to,
        cursor=cursor,
        limit=limit,
    )
    return Listing(items=[LedgerLine.of(line) for line in page.items], next=page.next)


@router.get("/v1/accounts/{tenant}/beancount", response_class=StreamingResponse)
def balance_beancount(
    deps: Deps, actor: Who, tenant: TenantName, zone: Zone = "", before: Before = ""
) -> StreamingResponse:
    """The tenant's bookings as beancount text, to be checked with another program."""
    lines = balances.beancount_export(deps, actor, tenant, zone, before)
    return StreamingResponse((f"{line}\n" for line in lines), media_type="text/plain; charset=utf-8")


@router.get("/v1/ledger/beancount", response_class=StreamingResponse)
def ledger_beancount(deps: Deps, actor: Who, zone: Zone = "", before: Before = "") -> StreamingResponse:
    """Everybody's bookings as beancount text."""
    lines = balances.beancount_export(deps, actor, "", zone, before)
    return StreamingResponse((f"{line}\n" for line in lines), media_type="text/plain; charset=utf-8")


@router.post("/v1/accounts/{tenant}/top-ups", status_code=201, response_model=GrantInfo)
def top_up(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, body: TopUp) -> Response:
    """Add paid money; a debt is paid from it first."""
    payment = (body.provider, body.reference)
    return reply_response(grants.top_up(deps, actor, tenant, body.amount, payment, once, _grant_json))


@router.post("/v1/accounts/{tenant}/trial", status_code=201, response_model=GrantInfo)
def trial_give(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, body: TrialGive) -> Response:
    """Give trial credit, once for each verified identity; again: the grant that there is."""
    return reply_response(
        grants.trial_give(deps, actor, tenant, body.identity, body.amount, body.days, once, _grant_json)
    )


@router.post("/v1/accounts/{tenant}/grants", status_code=201, response_model=GrantInfo)
def grant_give(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, body: GrantGive) -> Response:
    """Give a voucher, or a pack."""
    return reply_response(grants.grant_give(deps, actor, tenant, body.gift(), once, _grant_json))


@router.post("/v1/accounts/{tenant}/grants/{grant}/revoke", status_code=201, response_model=GrantInfo)
def grant_revoke(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, grant: GrantId) -> Response:
    """Take back what is left of trial credit or a voucher."""
    return reply_response(grants.grant_revoke(deps, actor, tenant, grant, once, _grant_json))


@router.post("/v1/accounts/{tenant}/payments", status_code=201, response_model=MoneyMoved)
def payment_add(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, body: Payment) -> Response:
    """Book a payment of what the tenant owes."""
    payment = (body.provider, body.reference)
    return reply_response(payments.payment_add(deps, actor, tenant, body.amount, payment, once, _moved_json))


@router.post("/v1/accounts/{tenant}/paybacks", status_code=201, response_model=MoneyMoved)
def pay_back(deps: Deps, actor: Who, once: OnceKey, tenant: TenantName, body: Payment) -> Response:
    """Pay free money back to whoever paid it."""
    payment = (body.provider, body.reference)
    return reply_response(payments.pay_back(deps, actor, tenant, body.amount, payment, once, _moved_json))
