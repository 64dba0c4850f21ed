"""Invoices: lines summed, tax on the sum, and tax by line so that it adds up to the tax of the invoice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_round, money_split, money_sum
from millpond.domain.errors import Conflict, InvalidInput


@dataclass(frozen=True, slots=True)
class Totals:
    """``tax`` is net × rate, rounded once."""

    net: Money
    tax: Money
    total: Money
    currency: Currency


def invoice_totals(amounts: Iterable[Money], tax_rate: Decimal, currency: Currency) -> Totals:
    """The totals of an invoice whose lines, each rounded, are `amounts`, net of tax."""
    if not Decimal(0) <= tax_rate <= Decimal(1):
        raise InvalidInput(f"a tax rate of {tax_rate} is out of range", hint='from 0 to 1: write "0.06" for 6 %')
    net = money_sum(amounts, currency)
    tax = money_round(Fraction(net.amount) * Fraction(tax_rate), currency)
    return Totals(net, tax, net + tax, currency)


def tax_lines(amounts: Sequence[Money], tax: Money) -> tuple[Money, ...]:
    """`tax` split over lines by largest remainder: every line within one smallest unit, and the sum exact.

    Lines of both signs (charges and credits) are split apart, each by its own part of the tax.
    """
    positive = [amount if amount.amount > 0 else amount - amount for amount in amounts]
    negative = [-amount if amount.amount < 0 else amount - amount for amount in amounts]
    ups = sum((Fraction(amount.amount) for amount in positive), Fraction(0))
    downs = sum((Fraction(amount.amount) for amount in negative), Fraction(0))
    if not downs:
        return money_split(tax, [Fraction(amount.amount) for amount in positive])
    net = ups - downs
    credit = money_round(Fraction(tax.amount) * downs / net, tax.currency) if net else tax - tax
    charged = money_split(tax + credit, [Fraction(amount.amount) for amount in positive])
    given = money_split(credit, [Fraction(amount.amount) for amount in negative])
    return tuple(up - down for up, down in zip(charged, given, strict=True))


def issue_check(unrated: int) -> None:
    """`Conflict` while there is use without a price: it would be billed as nothing."""
    if unrated:
        raise Conflict(
            f"{unrated} lines of use have no price",
            hint="add a price version for them, and rate again",
            code="UNRATED",
        )
