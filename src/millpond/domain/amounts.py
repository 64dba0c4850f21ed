"""Amounts: what is counted, as integers.

Cards are counted in milli-cards (1 card = 1000), memory in MiB, CPU in milli-CPU, time in whole seconds.
GB means GiB = 1024 MiB, as GPU vendors and dstack mean it.  Parsing refuses what it would have to round.
"""

from __future__ import annotations

import re
from typing import Final

from millpond.domain.errors import InvalidInput

CARD: Final = 1000
"""Milli-cards in one card."""

MAX_AMOUNT: Final = 10**12
"""Larger numbers are refused everywhere: they are mistakes, and they must fit PostgreSQL's bigint."""

_DECIMAL = re.compile(r"(\d{1,12})(?:\.(\d+))?\Z", re.ASCII)
_MEMORY = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(MB|MIB|M|GB|GIB|G|TB|TIB|T)\Z", re.IGNORECASE | re.ASCII)
_MEMORY_MIB = {"M": 1, "G": 1024, "T": 1024 * 1024}
_DURATION_PART = re.compile(r"(\d{1,12})(w|d|h|m|s)", re.ASCII)
_DIGITS = re.compile(r"\d{1,12}\Z", re.ASCII)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


def milli_parse(text: str, what: str = "amount") -> int:
    """Thousandths in a plain decimal: ``"0.25"`` → 250, ``"8"`` → 8000.

    Raises `InvalidInput` for signs, exponents, words and anything finer than a thousandth.
    """
    match = _DECIMAL.match(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not a valid {what}", hint="write a plain number such as 2 or 0.25")
    whole, fraction = match.group(1), match.group(2) or ""
    if len(fraction.rstrip("0")) > 3:
        raise InvalidInput(f"{text!r} is finer than a thousandth", hint="use at most three decimals, such as 0.333")
    value = int(whole) * 1000 + int((fraction + "000")[:3])
    if value > MAX_AMOUNT:
        raise InvalidInput(f"{text!r} is too large for {what}")
    return value


def milli_format(milli: int) -> str:
    """The shortest decimal of thousandths: 250 → ``"0.25"``, 8000 → ``"8"``."""
    sign = "-" if milli < 0 else ""
    whole, rest = divmod(abs(milli), 1000)
    return f"{sign}{whole}.{rest:03d}".rstrip("0").rstrip(".") if rest else f"{sign}{whole}"


def integer_parse(text: str, what: str, low: int = 0, high: int = 1_000_000) -> int:
    """A whole number between `low` and `high`, both included."""
    text = text.strip()
    if not _DIGITS.match(text) or not low <= int(text) <= high:
        raise InvalidInput(f"{text!r} is not a valid {what}", hint=f"write a whole number from {low} to {high}")
    return int(text)


def memory_parse(text: str) -> int:
    """MiB in ``64GB``, ``512MB``, ``1.5GB``, ``2TB``; a unit is required, and GB is GiB."""
    match = _MEMORY.match(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not a memory size", hint="write a number and a unit, such as 64GB or 512MB")
    milli = milli_parse(match.group(1), "memory size") * _MEMORY_MIB[match.group(2)[0].upper()]
    if milli % 1000 or milli // 1000 > MAX_AMOUNT:
        raise InvalidInput(f"{text!r} is not a whole number of MB", hint="write it in MB")
    return milli // 1000


def memory_format(mib: int) -> str:
    """The largest unit that stays whole: 65536 → ``"64GB"``, 100 → ``"100MB"``."""
    for unit, size in (("TB", 1024 * 1024), ("GB", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}MB"


def cpu_parse(text: str) -> int:
    """Milli-CPU in ``16``, ``0.5`` or ``500m``."""
    text = text.strip()
    if text.endswith("m") and _DIGITS.match(text[:-1]):
        return int(text[:-1])
    return milli_parse(text, "CPU amount")


def duration_parse(text: str) -> int:
    """Seconds in ``8h``, ``1h30m``, ``45s``, ``2d`` or a bare number of seconds."""
    compact = text.strip()
    if _DIGITS.match(compact):
        return int(compact)
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise InvalidInput(f"{text!r} is not a duration", hint="write 30s, 10m, 8h, 2d or 1h30m")
    units = [unit for _, unit in parts]
    if sorted(units, key=list(_SECONDS).index) != units or len(set(units)) != len(units):
        raise InvalidInput(f"{text!r} is not a duration", hint="write each unit once, the largest first: 1h30m")
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > MAX_AMOUNT:
        raise InvalidInput(f"{text!r} is too long")
    return seconds


def duration_format(seconds: int) -> str:
    """Two units at most, for people: 192 → ``"3m12s"``, 90000 → ``"1d1h"``."""
    if seconds < 0:
        return f"-{duration_format(-seconds)}"
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return "".join(parts) or "0s"


def duration_write(seconds: int) -> str:
    """Exact, and readable by `duration_parse`: 5400 → ``"1h30m"``."""
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
