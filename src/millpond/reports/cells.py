"""Cells as people read them, the same in every format that is text."""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from fractions import Fraction

from millpond.billing.money import Money, decimal_round_text
from millpond.billing.rating import card_hours
from millpond.domain.amounts import milli_format
from millpond.reports.tables import Cell, Kind

CARD_HOUR_PLACES = 4
RATIO_PLACES = 1


def cell_text(value: Cell, kind: Kind, zone: tzinfo) -> str:
    """Plain, without separators of thousands: for CSV and machines.  Blank stays blank."""
    if value is None:
        return ""
    if isinstance(value, Money):
        return value.text()
    if isinstance(value, Fraction):
        return decimal_round_text(value * 100, RATIO_PLACES)
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if kind is Kind.CARD_HOURS and isinstance(value, int):
        return decimal_round_text(card_hours(value), CARD_HOUR_PLACES)
    if kind is Kind.MILLI and isinstance(value, int):
        return milli_format(value)
    return str(value)


def cell_shown(value: Cell, kind: Kind, zone: tzinfo) -> str:
    """For paper: thousands apart, local time without its offset, percent signs, durations in units."""
    if isinstance(value, datetime):
        return value.astimezone(zone).strftime("%Y-%m-%d %H:%M")
    if isinstance(value, Fraction):
        return f"{cell_text(value, kind, zone)} %"
    if kind is Kind.SECONDS and isinstance(value, int):
        return seconds_shown(value)
    if kind in (Kind.MONEY, Kind.PRICE, Kind.CARD_HOURS, Kind.COUNT) and value is not None:
        return _grouped(cell_text(value, kind, zone))
    return cell_text(value, kind, zone)


def seconds_shown(seconds: int) -> str:
    """``1 d 02:03:04`` or ``02:03:04``; sorts and adds up in the head better than 93784 s."""
    days, rest = divmod(abs(seconds), 86_400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    text = f"{days} d {clock}" if days else clock
    return f"-{text}" if seconds < 0 else text


def _grouped(number: str) -> str:
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    whole, point, rest = digits.partition(".")
    return f"{sign}{int(whole):,}{point}{rest}" if whole.isdigit() else number
