"""Credit notes: what a fault of the platform gives back, for a line of an issued invoice that is never edited.

Amounts telescope: a note is what the line would have been before it, less what it would be after it.  So all notes of a
line sum to at most the line, in net and in tax, and to exactly the line when all of it was faulty.  Naive rounding of
each note gives back a cent more than was charged (lago-api#2643).  Money goes back to where it came from, in the
reverse of the burn order: as if the faulty time had never been used.  Trial credit comes back as trial credit.

In PostgreSQL: ``credit_notes`` (primary key id, the hash of invoice, line and fault: a retry meets it; foreign key to
the line; CHECK net, tax, milli_seconds >= 0; a constraint trigger: the sums over a line do not exceed it; insert-only;
its gapless number is given at issue, as for invoices) and ``credit_returns`` (primary key note, grant).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final

from millpond.billing.burning import Draw
from millpond.billing.grants import Grant, grant_renewed, pack_moves
from millpond.billing.ledger import Books
from millpond.billing.money import Money, decimal_round_text, money_round, money_sum, money_zero
from millpond.billing.rating import card_hours
from millpond.billing.transfers import (
    CARD_SECONDS,
    Account,
    AccountKind,
    Times,
    Transfer,
    card_time,
    entries_join,
    fact_id,
)
from millpond.domain.errors import Conflict, InvalidInput, Refused

RENEWED_DAYS: Final = 30
"""How long credit can be spent that comes back to a grant which has expired."""


@dataclass(frozen=True, slots=True)
class BilledLine:
    """A line of an issued invoice.  ``tax`` is its part of the invoice's tax (`invoices.tax_lines`).

    ``draws``: the grants that paid it, in burn order; what they leave of net + tax was owed.  ``inclusive``: prices
    contain the tax, so that a part of the line is a part of net + tax.  Card time that packs paid is a line of its own,
    with no money in it.
    """

    invoice: str
    line: str
    owner: str
    milli_seconds: int
    net: Money
    tax: Money
    draws: tuple[Draw, ...] = ()
    inclusive: bool = False

    def __post_init__(self) -> None:
        units = {draw.amount.currency for draw in self.draws}
        packed = units == {CARD_SECONDS}
        if self.milli_seconds <= 0 or self.net.amount < 0 or self.tax.amount < 0:
            raise InvalidInput("only a charge for card time can be credited", hint="name a line with card time")
        if packed and (self.total or money_sum((draw.amount for draw in self.draws), CARD_SECONDS) != self.time):
            raise InvalidInput("a line that packs paid has their card time and no money", hint="split the line")
        if not packed and (units - {self.net.currency} or self.owed.amount < 0):
            raise InvalidInput("the grants paid more than the line, or another currency", hint="check the draws")

    @property
    def total(self) -> Money:
        return self.net + self.tax

    @property
    def time(self) -> Money:
        return card_time(self.milli_seconds)

    @property
    def packed(self) -> bool:
        return any(draw.amount.currency == CARD_SECONDS for draw in self.draws)

    @property
    def owed(self) -> Money:
        """What no grant paid."""
        return self.total - money_sum((draw.amount for draw in self.draws), self.net.currency)

    def parts(self, milli_seconds: int) -> tuple[Money, Money]:
        """(net, tax) of the first so many milli-card-seconds of it."""
        unit, total = self.net.currency, self.total
        if self.inclusive:
            gross = money_round(total.share(milli_seconds, self.milli_seconds), unit)
            net = _of(self.net, gross, total)
            return net, gross - net
        net = money_round(self.net.share(milli_seconds, self.milli_seconds), unit)
        return net, _of(self.tax, net, self.net)


def _hours(milli_seconds: int) -> str:
    return decimal_round_text(card_hours(milli_seconds), 4)


def _of(amount: Money, part: Money, whole: Money) -> Money:
    """`amount` × part ÷ whole, rounded; nothing of nothing."""
    if not whole:
        return money_zero(amount.currency)
    return money_round(Fraction(amount.amount) * Fraction(part.amount) / Fraction(whole.amount), amount.currency)


@dataclass(frozen=True, slots=True)
class Fault:
    """``source``: the fact, such as ``("card_fault", job, attempt, "3")``.  ``milli_seconds``: what it spoilt."""

    source: tuple[str, ...]
    milli_seconds: int
    service: tuple[datetime, datetime]
    text: str


@dataclass(frozen=True, slots=True)
class CreditNote:
    """``returns``: back to these grants.  ``owed``: taken off what the customer owes."""

    id: str
    line: BilledLine
    fault: Fault
    net: Money
    tax: Money
    returns: tuple[Draw, ...]
    owed: Money

    @property
    def total(self) -> Money:
        return self.net + self.tax


def creditable(line: BilledLine, notes: Sequence[CreditNote]) -> int:
    """Milli-card-seconds of the line that no note has given back yet."""
    return line.milli_seconds - sum(note.fault.milli_seconds for note in notes)


def note_decide(line: BilledLine, notes: Sequence[CreditNote], fault: Fault) -> CreditNote:
    """The note for `fault`; the one that there is already, when this is a retry.  ``notes``: all of this line.

    `Conflict` (``NOTE_DIFFERS``) for the same fault with other numbers, `Refused` (``OVER_LINE``) beyond the line.
    """
    name = fact_id("credit", line.invoice, line.line, *fault.source)
    for note in notes:
        if note.id == name:
            if note.fault.milli_seconds != fault.milli_seconds:
                raise Conflict(
                    f"{' '.join(fault.source)} is credited already, with other numbers",
                    hint="credit the difference with a source of its own",
                    code="NOTE_DIFFERS",
                )
            return note
    left = creditable(line, notes)
    if fault.milli_seconds <= 0:
        raise InvalidInput("a fault that spoilt nothing gives nothing back", hint="write no note")
    if fault.milli_seconds > left:
        raise Refused(
            f"{_hours(fault.milli_seconds)} card-hours are more than the {_hours(left)} of line {line.line} that are"
            " not credited",
            hint=f"credit at most {_hours(left)} card-hours",
            code="OVER_LINE",
            details={"need": fault.milli_seconds, "have": left, "limit": line.milli_seconds},
        )
    before = line.milli_seconds - left
    (net, tax), (net_before, tax_before) = line.parts(before + fault.milli_seconds), line.parts(before)
    net, tax = net - net_before, tax - tax_before
    if line.packed:
        returns, owed = _returns(line, notes, card_time(fault.milli_seconds)), money_zero(net.currency)
    else:
        owed = min(net + tax, line.owed - money_sum((note.owed for note in notes), net.currency))
        returns = _returns(line, notes, net + tax - owed)
    return CreditNote(name, line, fault, net, tax, returns, owed)


def _returns(line: BilledLine, notes: Sequence[CreditNote], amount: Money) -> tuple[Draw, ...]:
    """`amount` back to the line's grants, the last that was burnt first, less what earlier notes gave back."""
    returned: dict[str, Money] = {}
    for draw in (draw for note in notes for draw in note.returns):
        returned[draw.grant.id] = returned.get(draw.grant.id, money_zero(amount.currency)) + draw.amount
    found: list[Draw] = []
    for draw in reversed(line.draws):
        room = draw.amount - returned.get(draw.grant.id, money_zero(amount.currency))
        back = min(room, amount)
        if back:
            found.append(Draw(draw.grant, back))
            amount -= back
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Credited:
    """What books a note: the transfer, and new grants for credit whose grant has expired."""

    transfer: Transfer | None
    renewed: tuple[Grant, ...]


def credit_booking(books: Books, note: CreditNote, now: datetime, days: int = RENEWED_DAYS) -> Credited:
    """Earnings and tax go back to the grants, and to what is owed.  No transfer for a note that rounds to nothing.

    A pack that gets card time back counts its price as not earned again.
    """
    unit = note.net.currency
    moves: list[tuple[Account, Money]] = [
        (Account("", AccountKind.CREDIT_NOTES, unit), -note.net),
        (Account("", AccountKind.TAX, unit), -note.tax),
        (Account(note.line.owner, AccountKind.RECEIVABLE, unit), note.owed),
    ]
    renewed: list[Grant] = []
    for draw in note.returns:
        grant = draw.grant
        if grant.expires_at is not None and now >= grant.expires_at:
            grant = grant_renewed(grant, draw.amount, note.id, now, days)
            renewed.append(grant)
        moves.append((grant.account, draw.amount))
        if note.line.packed:
            moves.append((Account("", AccountKind.CARD_TIME, CARD_SECONDS), -draw.amount))
            moves += _unearned(books, draw, grant)
    entries = entries_join(moves)
    if not entries:
        return Credited(None, ())
    times = Times(now, now, note.fault.service)
    return Credited(Transfer(("credit", note.id), entries, times, text=note.fault.text), tuple(renewed))


def _unearned(books: Books, draw: Draw, grant: Grant) -> list[tuple[Account, Money]]:
    """The price of card time that comes back to a pack: from earnings to deferred."""
    if grant is draw.grant:
        return pack_moves(books, grant, -draw.amount, AccountKind.CREDIT_NOTES)
    price = grant.price or money_zero(draw.amount.currency)
    return [
        (Account(grant.owner, AccountKind.DEFERRED, price.currency), price),
        (Account("", AccountKind.CREDIT_NOTES, price.currency), -price),
    ]


def note_matches(line: BilledLine, notes: Sequence[CreditNote]) -> bool:
    """Whether the notes of a line stay within it, in net, tax, card time and every grant (an audit, and for tests)."""
    unit = line.net.currency
    drawn = {draw.grant.id: draw.amount for draw in line.draws}
    for draw in (draw for note in notes for draw in note.returns):
        drawn[draw.grant.id] -= draw.amount
    return (
        money_sum((note.net for note in notes), unit) <= line.net
        and money_sum((note.tax for note in notes), unit) <= line.tax
        and creditable(line, notes) >= 0
        and all(left.amount >= 0 for left in drawn.values())
    )
