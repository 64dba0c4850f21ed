"""``millpond accounts``: how tenants pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Column
from millpond.cli.session import Session
from millpond.cli.values import local, zoned

if TYPE_CHECKING:
    from millpond.sdk.accounts import Account

COLUMNS = (
    Column("tenant"),
    Column("mode"),
    Column("currency"),
    Column("zone"),
    Column("tax_rate", right=True),
    Column("sealed"),
    Column("title", fold=True),
)


accounts = group("accounts")


@verb(accounts, "list")
def accounts_list(session: Session) -> None:
    """Accounts that the caller may read."""
    found = list(session.client.accounts.list())
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("accounts.empty"))
    else:
        rows = [
            [
                item["tenant"],
                session.texts.word("word", item["mode"]),
                item["currency"],
                item["zone"],
                item["tax_rate"],
                local(item["sealed_until"]),
                item["title"],
            ]
            for item in found
        ]
        session.output.table(COLUMNS, rows)


@verb(accounts, "show")
@argument("name", metavar="TENANT")
def accounts_show(session: Session, name: str) -> None:
    """All settings of one."""
    _show(session, session.client.accounts.get(name))


def _settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for what may be set; all are optional."""
    options = [
        option("--tax-rate", metavar="RATE", help="accounts.tax_rate"),
        option("--inclusive/--exclusive", default=None, help="accounts.inclusive"),
        option("--mode", type=click.Choice(["prepaid", "postpaid"]), help="accounts.mode"),
        option("--minimum-seconds", type=int, metavar="SECONDS", help="accounts.minimum_seconds"),
        option("--increment-seconds", type=int, metavar="SECONDS", help="accounts.increment_seconds"),
        option("--bill-lost-work/--no-bill-lost-work", default=None, help="accounts.bill_lost_work"),
        option("--notice", type=int, metavar="SECONDS", help="accounts.notice"),
        option("--stretch", type=int, metavar="SECONDS", help="accounts.stretch"),
        option("--title", metavar="TEXT", help="accounts.title"),
        option("--address", metavar="TEXT", help="accounts.address"),
        option("--tax-id", metavar="TEXT", help="accounts.tax_id"),
    ]
    for add in reversed(options):
        function = add(function)
    return function


@verb(accounts, "open")
@argument("name", metavar="TENANT")
@option("--currency", metavar="CODE", required=True, help="accounts.currency")
@option("--zone", metavar="ZONE", required=True, help="accounts.zone")
@option("--from", "opened_at", metavar="TIME", default="", help="accounts.from")
@_settings
def accounts_open(session: Session, name: str, opened_at: str, **settings: Any) -> None:
    """From now on its use is billed."""
    given = _given(settings) | ({"opened_at": zoned(opened_at)} if opened_at else {})
    account = session.client.accounts.open(name, given)
    if session.json:
        session.output.data(account)
        return
    start = local(account["opened_at"])
    session.output.note(session.texts("accounts.opened", tenant=name, time=start), "green")
    if account["mode"] == "prepaid":
        session.output.note(session.texts("accounts.now_top_up", tenant=name))


@verb(accounts, "set")
@argument("name", metavar="TENANT")
@option("--currency", metavar="CODE", help="accounts.currency")
@option("--zone", metavar="ZONE", help="accounts.zone")
@_settings
def accounts_set(session: Session, name: str, **settings: Any) -> None:
    """Change settings."""
    given = _given(settings)
    if not given:
        raise click.UsageError(session.texts("accounts.nothing_given"))
    account = session.client.accounts.set(name, given)
    if session.json:
        session.output.data(account)
    else:
        session.output.note(session.texts("accounts.changed", tenant=name), "green")


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _show(session: Session, account: Account) -> None:
    if session.json:
        session.output.data(account)
        return
    texts = session.texts
    yes = {True: texts.word("word", "yes"), False: texts.word("word", "no")}
    session.output.fields(
        [
            ("tenant", account["tenant"]),
            ("mode", texts.word("word", account["mode"])),
            ("currency", account["currency"]),
            ("zone", account["zone"]),
            ("tax_rate", account["tax_rate"]),
            ("inclusive", yes[account["inclusive"]]),
            ("minimum_seconds", str(account["minimum_seconds"])),
            ("increment_seconds", str(account["increment_seconds"])),
            ("bill_lost_work", yes[account["bill_lost_work"]]),
            ("notice", str(account["notice"])),
            ("stretch", str(account["stretch"])),
            ("opened", local(account["opened_at"])),
            ("sealed", local(account["sealed_until"])),
            ("title", account["title"]),
            ("address", account["address"]),
            ("tax_id", account["tax_id"]),
        ]
    )
