"""Zones of the time zone database, by name."""

from __future__ import annotations

from datetime import tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from millpond.domain.errors import InvalidInput


def zone_find(name: str) -> tzinfo:
    """The zone of the time zone database with this name.  `InvalidInput` with the nearest name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = available_timezones()
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "write a name such as Asia/Shanghai or UTC"
        if not known:
            hint = "this machine has no time zone database: pip install tzdata"
        raise InvalidInput(f"{name[:80]!r} is not a time zone", hint=hint) from error
