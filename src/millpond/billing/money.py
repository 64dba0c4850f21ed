"""Money: exact decimals with their currency.

Adding, subtracting and comparing are exact and refuse to mix currencies.  What may have no end (a price times a part of
an hour) is a `Fraction`, until `money_round` makes it an amount: half-up, once, at the line of an invoice.  Half-up
rounds halves away from zero, so that a credit takes back what the charge was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction

from millpond.billing.currencies import Currency
from millpond.domain.errors import InvalidInput

MAX_DIGITS = 40
"""Digits of an amount, before and after the point together; more than any sum of bills has."""

_EXACT = Context(prec=MAX_DIGITS, traps=[Inexact, InvalidOperation])
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,12})?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Money:
    """``amount`` in whole units of ``currency`` (yuan, not fen), exact; it may be finer than the smallest unit."""

    amount: Decimal
    currency: Currency

    def __post_init__(self) -> None:
        if not self.amount.is_finite():
            raise InvalidInput(f"{self.amount} is not an amount of money")

    def __add__(self, other: Money) -> Money:
        return Money(_EXACT.add(self.amount, self._same(other)), self.currency)

    def __sub__(self, other: Money) -> Money:
        return Money(_EXACT.subtract(self.amount, self._same(other)), self.currency)

    def __neg__(self) -> Money:
        return Money(_EXACT.minus(self.amount), self.currency)

    def __lt__(self, other: Money) -> bool:
        return self.amount < self._same(other)

    def __le__(self, other: Money) -> bool:
        return self.amount <= self._same(other)

    def __gt__(self, other: Money) -> bool:
        return self.amount > self._same(other)

    def __ge__(self, other: Money) -> bool:
        return self.amount >= self._same(other)

    def __bool__(self) -> bool:
        return bool(self.amount)

    def __str__(self) -> str:
        return f"{self.text()} {self.currency.code}"

    def times(self, factor: int) -> Money:
        """The amount so many times, exact."""
        return Money(_EXACT.multiply(self.amount, Decimal(factor)), self.currency)

    def share(self, numerator: int, denominator: int) -> Fraction:
        """The amount × numerator ÷ denominator, unrounded: ``price.share(milli_card_seconds, 3_600_000)``."""
        return Fraction(self.amount) * numerator / denominator

    def rounded(self) -> Money:
        """To the smallest unit, half-up."""
        return money_round(Fraction(self.amount), self.currency)

    def minor(self) -> int:
        """In smallest units (fen).  `InvalidInput` for an amount that is finer than those."""
        scaled = self.amount.scaleb(self.currency.minor_units, _EXACT)
        if scaled != scaled.to_integral_value():
            raise InvalidInput(f"{self.amount} {self.currency} is finer than the smallest unit", hint="round it first")
        return int(scaled)

    def text(self) -> str:
        """A plain decimal with at least the currency's places: ``928.00``, ``0.665``."""
        exponent = self.amount.as_tuple().exponent
        assert isinstance(exponent, int)  # noqa: S101  finite, see __post_init__
        places = max(self.currency.minor_units, -exponent)
        return f"{self.amount:.{places}f}"

    def _same(self, other: Money) -> Decimal:
        if self.currency != other.currency:
            raise InvalidInput(
                f"{self.currency} and {other.currency} cannot be added or compared",
                hint="keep one account per currency",
                code="CURRENCY_MISMATCH",
            )
        return other.amount


def money_zero(currency: Currency) -> Money:
    """Nothing, with the currency's places."""
    return money_of_minor(0, currency)


def money_of_minor(minor: int, currency: Currency) -> Money:
    """So many smallest units (fen)."""
    return Money(Decimal(minor).scaleb(-currency.minor_units, _EXACT), currency)


def money_sum(amounts: Iterable[Money], currency: Currency) -> Money:
    """All together; nothing makes zero."""
    total = money_zero(currency)
    for amount in amounts:
        total += amount
    return total


def money_parse(text: str, currency: Currency) -> Money:
    """An amount that somebody wrote: ``12.00``, ``-3.5``.  `InvalidInput` for more places than the currency has."""
    money = Money(decimal_parse(text, "an amount"), currency)
    if money.rounded() != money:
        raise InvalidInput(
            f"{text!r} is finer than the smallest unit of {currency}",
            hint=f"write at most {currency.minor_units} decimals",
        )
    return Money(money.rounded().amount, currency)


def decimal_parse(text: str, what: str) -> Decimal:
    """A plain decimal number, of at most 15 digits before the point and 12 behind: no exponent, no words."""
    if not _NUMBER.match(text.strip()):
        raise InvalidInput(f"{text[:80]!r} is not {what}", hint="write a plain number such as 12.00")
    return Decimal(text.strip())


def money_round(value: Fraction, currency: Currency) -> Money:
    """`value` to the smallest unit, halves away from zero: 0.665 → 0.67, −0.665 → −0.67."""
    scaled = abs(value) * 10**currency.minor_units
    minor = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    return money_of_minor(-minor if value < 0 else minor, currency)


def money_split(total: Money, weights: Sequence[Fraction | int]) -> tuple[Money, ...]:
    """`total`, which is whole smallest units, in parts as near to `weights` as those units allow; they sum to it.

    Largest remainder: every part is first cut to whole units, then the units that are left go one each to the largest
    remainders, earlier parts first where those are equal.  Where all weights are zero nothing can be told apart, and
    the units are spread evenly.  `InvalidInput` for negative weights and for parts of nobody.
    """
    if any(weight < 0 for weight in weights):
        raise InvalidInput("a part cannot have a negative weight")
    if not weights:
        if total:
            raise InvalidInput(f"{total} cannot be split among nobody")
        return ()
    if not any(weights):
        weights = [1] * len(weights)
    minor = abs(total.minor())
    whole = sum((Fraction(weight) for weight in weights), Fraction(0))
    exact = [minor * Fraction(weight) / whole for weight in weights]
    parts = [value.numerator // value.denominator for value in exact]
    order = sorted(range(len(parts)), key=lambda index: (parts[index] - exact[index], index))
    for index in order[: minor - sum(parts)]:
        parts[index] += 1
    sign = -1 if total.amount < 0 else 1
    return tuple(money_of_minor(sign * part, total.currency) for part in parts)


def decimal_round(value: Fraction, places: int) -> Decimal:
    """`value` with so many decimals, half-up: card-hours for people."""
    return money_round(value, Currency("", places)).amount


def decimal_round_text(value: Fraction, places: int) -> str:
    """As `decimal_round`, as text."""
    return f"{decimal_round(value, places):.{places}f}"
