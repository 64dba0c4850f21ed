"""What business books besides use: an invoice issued or voided, a payment, a debt cleared, money paid back.

Each is one transfer whose id follows from its document, so that doing it again changes nothing.

In PostgreSQL: the transfers of ``invoices`` (UNIQUE (account, currency, period, kind); its number is given in the
transaction that books the issue) and ``payments`` (primary key id, the hash of provider and reference).
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.billing.burning import Draw
from millpond.billing.currencies import Currency
from millpond.billing.grants import Grant, GrantKind
from millpond.billing.ledger import Batch, Books
from millpond.billing.money import Money, money_zero
from millpond.billing.transfers import Account, AccountKind, Entry, Times, Transfer, entries_join
from millpond.domain.errors import InvalidInput, Refused


def invoice_issued(invoice: str, owner: str, net: Money, tax: Money, accrued: Money, times: Times) -> Transfer:
    """What was accrued for its lines becomes earnings and tax; what it exceeds that is owed.

    Postpaid use is not accrued, so all of it is owed.  A prepaid invoice owes at most the fen that rounding made.
    """
    unit = net.currency
    moves = [
        (Account(owner, AccountKind.ACCRUED, unit), -accrued),
        (Account("", AccountKind.EARNINGS, unit), net),
        (Account("", AccountKind.TAX, unit), tax),
        (Account(owner, AccountKind.RECEIVABLE, unit), accrued - net - tax),
    ]
    return Transfer(("invoice", invoice), entries_join(moves), times, text="invoice issued")


def transfer_reversed(transfer: Transfer, source: tuple[str, ...], times: Times, text: str) -> Transfer:
    """The same amounts the other way: how a voided invoice or a returned payment is taken back."""
    if transfer.pending:
        raise InvalidInput("a pending transfer is voided, not reversed", hint="void it")
    entries = tuple(Entry(entry.account, -entry.amount) for entry in transfer.entries)
    return Transfer(source, entries, times, text=text)


def payment_received(payment: str, owner: str, amount: Money, times: Times) -> Transfer:
    """Money for what is owed.  A top-up is a grant of kind ``paid`` instead."""
    if amount.amount <= 0:
        raise InvalidInput(f"a payment of {amount} pays nothing", hint="reverse a payment that was returned")
    moves = [
        (Account("", AccountKind.CASH, amount.currency), -amount),
        (Account(owner, AccountKind.RECEIVABLE, amount.currency), amount),
    ]
    return Transfer(("payment", payment), entries_join(moves), times, text="payment")


def payment_decide(books: Books, payment: str, owner: str, amount: Money, times: Times) -> Batch:
    """A payment of at most what is owed.  `Refused` (``NOT_OWED``) for more: the rest would be a top-up."""
    transfer = payment_received(payment, owner, amount, times)
    receivable = Account(owner, AccountKind.RECEIVABLE, amount.currency)
    owed = -books.balance(receivable).posted
    if amount > owed:
        raise Refused(
            f"{owner} owes {max(owed, money_zero(owed.currency))}, and {amount} was paid",
            hint=f"book {owed} as the payment, and the rest as a top-up"
            if owed.amount > 0
            else "book it as a top-up: it pays for what is used next",
            code="NOT_OWED",
            details={"owed": owed.minor()},
        )
    return Batch((transfer,), expect={receivable.id: books.version(receivable)})


def debt_cleared(books: Books, grants: Iterable[Grant], owner: str, unit: Currency, cause: str, times: Times) -> Batch:
    """Pays what `owner` owes out of free paid money, the oldest first; empty when nothing is owed or free.

    ``cause``: the top-up that made money free.  Trial credit and vouchers pay
    for use only, never for a debt.
    """
    receivable = Account(owner, AccountKind.RECEIVABLE, unit)
    debt = -books.balance(receivable).posted
    moves: list[tuple[Account, Money]] = []
    expect = {receivable.id: books.version(receivable)}
    paid = [grant for grant in grants if grant.owner == owner and grant.kind is GrantKind.PAID]
    for grant in sorted(paid, key=lambda grant: grant.burn_key):
        if grant.amount.currency != unit or not grant.live(times.booked_at):
            continue
        take = min(books.balance(grant.account).available, debt)
        if take.amount > 0:
            moves += [(grant.account, -take), (receivable, take)]
            expect[grant.account.id] = books.version(grant.account)
            debt -= take
    entries = entries_join(moves)
    if not entries:
        return Batch()
    return Batch((Transfer(("debt", owner, cause), entries, times, text="debt cleared"),), expect=expect)


def paid_back(books: Books, draw: Draw, source: tuple[str, ...], times: Times) -> Batch:
    """Free money of a top-up goes back to whoever paid it.  `Refused` for credit that nobody paid for."""
    grant, amount = draw.grant, draw.amount
    if grant.kind is not GrantKind.PAID:
        raise Refused(f"a {grant.kind} grant is not paid out", hint="only paid money can be paid back")
    if amount <= money_zero(amount.currency):
        raise InvalidInput(f"{amount} cannot be paid back", hint="write a positive amount")
    cash = Account("", AccountKind.CASH, amount.currency)
    transfer = Transfer(source, (Entry(grant.account, -amount), Entry(cash, amount)), times, text="paid back")
    return Batch((transfer,), expect={grant.account.id: books.version(grant.account)})


def paid_back_decide(
    books: Books, grants: Iterable[Grant], owner: str, amount: Money, source: tuple[str, ...], times: Times
) -> Batch:
    """Pays back free money, out of the last top-up first.  `Refused` (``NOT_FREE``) when there is less of it.

    One transfer for each top-up, its id after `source`.
    """
    if amount.amount <= 0:
        raise InvalidInput(f"{amount} cannot be paid back", hint="write a positive amount")
    batch, rest = Batch(), amount
    paid = [grant for grant in grants if grant.owner == owner and grant.kind is GrantKind.PAID]
    for grant in sorted(paid, key=lambda grant: grant.burn_key, reverse=True):
        if grant.amount.currency == amount.currency and rest:
            take = min(books.balance(grant.account).available, rest)
            if take.amount > 0:
                batch = batch.joined(paid_back(books, Draw(grant, take), (*source, grant.id), times))
                rest -= take
    if rest:
        raise Refused(
            f"{owner} has {amount - rest} of paid money free, and {amount} was asked for",
            hint="held money is free when its jobs end; trial credit and vouchers are never paid out",
            code="NOT_FREE",
            details={"free": (amount - rest).minor()},
        )
    return batch
