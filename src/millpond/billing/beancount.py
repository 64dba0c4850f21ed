"""The ledger as beancount text, so that anybody can check it with a program that is not ours.

Signs turn round: beancount's assets and expenses are positive where ours (cash, receivables) are negative.  Only what
is posted is written; holds are no bookings.  Beancount knows days, not moments: a booking has the day of its account's
zone, and its moments stand in its metadata.  Syntax: beancount 3, "Beancount Language Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Final

from millpond.billing.ledger import Ledger
from millpond.billing.transfers import Account, AccountKind, Entry, Times, Transfer
from millpond.domain.errors import InvalidInput

ROOTS: Final[dict[AccountKind, str]] = {
    AccountKind.WALLET: "Liabilities:Wallet",
    AccountKind.CREDIT: "Liabilities:Credit",
    AccountKind.PACK: "Liabilities:Pack",
    AccountKind.RECEIVABLE: "Assets:Receivable",
    AccountKind.ACCRUED: "Liabilities:Accrued",
    AccountKind.DEFERRED: "Liabilities:Deferred",
    AccountKind.EARNINGS: "Income:Earnings",
    AccountKind.TAX: "Liabilities:Tax",
    AccountKind.CREDIT_NOTES: "Income:Credit-Notes",
    AccountKind.BREAKAGE: "Income:Breakage",
    AccountKind.PROMOTION: "Expenses:Promotion",
    AccountKind.CASH: "Assets:Cash",
    AccountKind.CARD_TIME: "Assets:Card-Time",
}
"""Where each kind stands in beancount's five trees."""

_ODD = re.compile(r"[^a-z0-9-]")
_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": " ", "\r": " "})


def account_name(account: Account) -> str:
    """``wallet/alpha/3f…/CNY`` → ``Liabilities:Wallet:Of-alpha:G-3f…``: no two accounts of a unit share a name.

    Characters that beancount does not take are written as their code between two X.
    """
    parts = [ROOTS[account.kind]]
    for prefix, text in (("Of", account.owner), ("G", account.of)):
        if text:
            parts.append(f"{prefix}-" + _ODD.sub(lambda match: f"X{ord(match.group()):x}X", text))
    return ":".join(parts)


def beancount_text(ledger: Ledger, zone: tzinfo, before: datetime) -> Iterator[str]:
    """Lines of a beancount file: what was booked before `before`, and the balances of all accounts then.

    `before` is a midnight in `zone`, since beancount compares balances at the beginning of a day.
    """
    local = before.astimezone(zone)
    if (local.hour, local.minute, local.second, local.microsecond) != (0, 0, 0, 0):
        raise InvalidInput("a beancount export ends at a midnight", hint="give the first moment of a day in the zone")
    bookings = sorted(_bookings(ledger, before), key=lambda one: (one[1].booked_at, one[0].id))
    opened: dict[str, tuple[datetime, dict[str, Account]]] = {}
    for _, times, entries in bookings:
        for account in (entry.account for entry in entries):
            units = opened.setdefault(account_name(account), (times.booked_at, {}))[1]
            units.setdefault(account.unit.code, account)
    yield 'option "title" "millpond ledger"'
    yield 'option "tolerance_multiplier" "0"'
    codes = sorted({code for _, units in opened.values() for code in units})
    yield from (f'option "operating_currency" "{code}"' for code in codes)
    yield ""
    for name, (begin, units) in sorted(opened.items()):
        yield f"{_day(begin, zone)} open {name} {','.join(sorted(units))}"
    for transfer, times, entries in bookings:
        yield ""
        yield from _transaction(transfer, times, entries, zone)
    yield ""
    for name, (_, units) in sorted(opened.items()):
        for code, account in sorted(units.items()):
            posted = -ledger.balance(account, booked_before=before).posted
            yield f"{_day(before, zone)} balance {name}  {posted.text()} ~ 0 {code}"


def _bookings(ledger: Ledger, before: datetime) -> Iterator[tuple[Transfer, Times, tuple[Entry, ...]]]:
    """Everything posted, with when."""
    for transfer in ledger.transfers.values():
        resolution = ledger.resolutions.get(transfer.id)
        times, entries = transfer.times, transfer.entries
        if transfer.pending:
            times, entries = (resolution.times, resolution.entries) if resolution is not None else (times, ())
        if entries and times.booked_at < before:
            yield transfer, times, entries


def _transaction(transfer: Transfer, times: Times, entries: tuple[Entry, ...], zone: tzinfo) -> Iterator[str]:
    source = " ".join(filter(None, transfer.source)).translate(_QUOTED)
    yield f'{_day(times.booked_at, zone)} * "{transfer.text.translate(_QUOTED)}" "{source}"'
    yield f'  transfer: "{transfer.id}"'
    yield f'  booked: "{times.booked_at.astimezone(zone).isoformat()}"'
    if times.service is not None:
        begin, end = (moment.astimezone(zone).isoformat() for moment in times.service)
        yield f'  service: "{begin}/{end}"'
    yield from (f"  {account_name(entry.account)}  {-entry.amount}" for entry in entries)


def _day(moment: datetime, zone: tzinfo) -> str:
    return moment.astimezone(zone).date().isoformat()
