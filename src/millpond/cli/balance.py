"""``millpond balance``: what an account stands at, and what is added to it."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from millpond.cli.confirm import confirmed
from millpond.cli.errors import Exit
from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Cell, Column, clip
from millpond.cli.session import Session
from millpond.cli.tenants import tenant_chosen
from millpond.cli.values import local, zoned

if TYPE_CHECKING:
    from millpond.sdk.accounts import Balance, Grant, GrantBalance, LedgerLine

GRANTS = (
    Column("grant"),
    Column("kind"),
    Column("amount_left", right=True),
    Column("on_hold", right=True),
    Column("whole", right=True),
    Column("unit"),
    Column("expires"),
    Column("pays_for", fold=True),
)
LINES = (
    Column("booked"),
    Column("kind"),
    Column("amount", right=True),
    Column("unit"),
    Column("what", fold=True),
    Column("transfer"),
)
KINDS = ("wallet", "credit", "pack", "receivable", "accrued", "deferred")
SHOWN = 50
"""Lines without ``--all``."""

CARD_SECONDS = "CARD-S"
SOURCE_WIDTH = 20


balance = group("balance", default="show")


@verb(balance, "show")
@option("--as-of", metavar="TIME", default="", help="balance.as_of")
@option("--known-at", metavar="TIME", default="", help="balance.known_at")
@option("--all", "every", is_flag=True, help="balance.all_grants")
def balance_show(session: Session, as_of: str, known_at: str, every: bool) -> None:
    """Now, or as of a moment."""
    tenant = tenant_chosen(session)
    sheet = session.client.accounts.balance(tenant, zoned(as_of), zoned(known_at), every=every)
    if session.json:
        session.output.data(sheet)
    else:
        _sheet(session, sheet)


@verb(balance, "lines")
@option("--from", "begin", metavar="TIME", default="", help="balance.from")
@option("--to", metavar="TIME", default="", help="balance.to")
@option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="balance.kind")
@option("--grant", metavar="ID", default="", help="balance.grant")
@option("--all", "everything", is_flag=True, help="balance.all")
def balance_lines(session: Session, begin: str, to: str, kinds: tuple[str, ...], grant: str, everything: bool) -> None:
    """Bookings, the last first."""
    lines = session.client.accounts.lines(tenant_chosen(session), kinds, grant, zoned(begin), zoned(to))
    found = list(lines if everything else itertools.islice(lines, SHOWN + 1))
    shown = found if everything else found[:SHOWN]
    if session.json:
        session.output.items(shown)
    elif not shown:
        session.output.note(session.texts("balance.no_lines"))
    else:
        session.output.table(LINES, [_line(session, line) for line in shown])
    if len(shown) < len(found):
        session.output.note(session.texts("balance.more_lines", count=SHOWN))


@verb(balance, "top-up")
@argument("amount")
@option("--provider", metavar="NAME", default="manual", show_default=True, help="balance.provider")
@option("--reference", metavar="TEXT", required=True, help="balance.reference")
def balance_top_up(session: Session, amount: str, provider: str, reference: str) -> None:
    """Paid money."""
    tenant = tenant_chosen(session)
    _given(session, tenant, session.client.accounts.top_up(tenant, amount, provider, reference))


@verb(balance, "trial")
@option("--identity", metavar="DIGEST", required=True, help="balance.identity")
@option("--amount", metavar="AMOUNT", default="", help="balance.trial_amount")
@option("--days", type=int, default=0, metavar="DAYS", help="balance.trial_days")
def balance_trial(session: Session, identity: str, amount: str, days: int) -> None:
    """Once for each identity."""
    tenant = tenant_chosen(session)
    _given(session, tenant, session.client.accounts.trial(tenant, identity, amount, days))


@verb(balance, "grant")
@argument("kind", type=click.Choice(["voucher", "pack"]))
@option("--code", metavar="TEXT", required=True, help="balance.code")
@option("--amount", metavar="AMOUNT", default="", help="balance.amount")
@option("--card-hours", metavar="HOURS", default="", help="balance.card_hours")
@option("--price", metavar="AMOUNT", default="", help="balance.price")
@option("--expires", metavar="TIME", default="", help="balance.expires")
@option("--priority", type=int, default=100, show_default=True, help="balance.priority")
@option("--sku", "skus", metavar="MODEL", multiple=True, help="balance.sku")
@option("--class", "classes", metavar="CLASS", multiple=True, help="balance.class")
@option("--of-project", "projects", metavar="NAME", multiple=True, help="balance.project")
def balance_grant(
    session: Session,
    expires: str,
    skus: tuple[str, ...],
    classes: tuple[str, ...],
    projects: tuple[str, ...],
    **gift: Any,
) -> None:
    """A voucher or a pack."""
    tenant = tenant_chosen(session)
    scope = {"skus": list(skus), "classes": list(classes), "projects": list(projects)}
    body = {**gift, "scope": scope, "expires_at": zoned(expires) or None}
    _given(session, tenant, session.client.accounts.grant(tenant, body))


@verb(balance, "revoke")
@argument("grant")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def balance_revoke(session: Session, grant: str, yes: bool) -> int | None:
    """What is left of a trial or voucher."""
    tenant = tenant_chosen(session)
    if not confirmed(session, session.texts("balance.ask_revoke", grant=grant, tenant=tenant), yes=yes):
        return Exit.CANCELLED
    revoked = session.client.accounts.revoke(tenant, grant)
    if session.json:
        session.output.data(revoked)
    else:
        session.output.note(session.texts("balance.revoked", kind=_kind(session, revoked["kind"])))
    return None


@verb(balance, "pay")
@argument("amount")
@option("--provider", metavar="NAME", default="manual", show_default=True, help="balance.provider")
@option("--reference", metavar="TEXT", required=True, help="balance.reference")
def balance_pay(session: Session, amount: str, provider: str, reference: str) -> None:
    """What is owed."""
    moved = session.client.accounts.pay(tenant_chosen(session), amount, provider, reference)
    if session.json:
        session.output.data(moved)
    else:
        session.output.note(
            session.texts("balance.paid", amount=moved["amount"], currency=moved["currency"], tenant=moved["tenant"]),
            "green",
        )


@verb(balance, "back")
@argument("amount")
@option("--provider", metavar="NAME", default="manual", show_default=True, help="balance.provider")
@option("--reference", metavar="TEXT", required=True, help="balance.reference")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def balance_back(session: Session, amount: str, provider: str, reference: str, yes: bool) -> int | None:
    """Paid money that is free."""
    tenant = tenant_chosen(session)
    if not confirmed(session, session.texts("balance.ask_back", amount=amount, tenant=tenant), yes=yes):
        return Exit.CANCELLED
    moved = session.client.accounts.pay_back(tenant, amount, provider, reference)
    if session.json:
        session.output.data(moved)
    else:
        session.output.note(
            session.texts("balance.paid_back", amount=moved["amount"], currency=moved["currency"], tenant=tenant)
        )
    return None


@verb(balance, "beancount")
@option("--before", metavar="DAY", default="", help="balance.before")
@option("--zone", metavar="ZONE", default="", help="balance.zone")
@option("--platform", is_flag=True, help="balance.platform")
def balance_beancount(session: Session, before: str, zone: str, platform: bool) -> None:
    """The ledger as text for another program."""
    tenant = "" if platform else tenant_chosen(session)
    session.output.write(session.client.accounts.beancount(tenant, zone, before))


def _sheet(session: Session, sheet: Balance) -> None:
    texts, unit = session.texts, sheet["currency"]
    owes = not sheet["owed"].startswith("-") and sheet["owed"].strip("0.") != ""
    packs = sheet["packs"]
    session.output.fields(
        [
            ("account", f"{sheet['tenant']} ({texts.word('word', sheet['mode'])})"),
            ("at", local(sheet["at"])),
            ("available", Cell(f"{sheet['available']} {unit}", "bold")),
            ("on_hold", _amount(sheet["held"], unit)),
            ("owed", Cell(f"{sheet['owed']} {unit}", "red") if owes else ""),
            ("accrued", _amount(sheet["accrued"], unit)),
            ("packs", texts("balance.card_time", hours=packs["card_hours"]) if packs["posted"] else ""),
            ("deferred", _amount(sheet["deferred"], unit)),
        ]
    )
    if not sheet["grants"]:
        session.output.note(texts("balance.no_grants", tenant=sheet["tenant"]))
        return
    session.output.line()
    session.output.table(GRANTS, [_grant(session, row) for row in sheet["grants"]])


def _amount(text: str, unit: str) -> str:
    return f"{text} {unit}" if text.strip("-0.") else ""


def _grant(session: Session, row: GrantBalance) -> list[Cell | str]:
    style = "" if row["live"] else "dim"
    scope = [*row["scope"]["skus"], *row["scope"]["classes"], *row["scope"]["projects"]]
    return [
        Cell(row["id"], style),
        Cell(_kind(session, row["kind"]), style),
        Cell(_shown(row["available"], row["unit"]), style),
        _shown(row["held"], row["unit"]),
        _shown(row["amount"], row["unit"]),
        _unit(session, row["unit"]),
        local(row["expires_at"]),
        " ".join(scope),
    ]


def _line(session: Session, line: LedgerLine) -> list[Cell | str]:
    source = " ".join(clip(part, SOURCE_WIDTH) for part in line["source"][1:])
    what = f"{line['text']} ({source})" if source else line["text"]
    style = "red" if line["amount"].startswith("-") else "green"
    return [
        local(line["booked_at"]),
        _kind(session, line["kind"]),
        Cell(_shown(line["amount"], line["unit"]), style),
        _unit(session, line["unit"]),
        what,
        line["transfer"][:12],
    ]


def _shown(amount: str, unit: str) -> str:
    """Card time in card-hours with four decimals, money as it is."""
    return f"{Decimal(amount) / 3600:.4f}" if unit == CARD_SECONDS else amount


def _unit(session: Session, unit: str) -> str:
    return session.texts("balance.card_hours_unit") if unit == CARD_SECONDS else unit


def _kind(session: Session, kind: str) -> str:
    return session.texts.word("word", kind)


def _given(session: Session, tenant: str, grant: Grant) -> None:
    if session.json:
        session.output.data(grant)
        return
    amount = f"{grant['amount']} {grant['unit']}"
    if grant["card_hours"]:
        amount = session.texts("balance.card_time", hours=grant["card_hours"])
    kind = _kind(session, grant["kind"])
    session.output.note(session.texts("balance.given", tenant=tenant, amount=amount, kind=kind), "green")
