"""Records ↔ rows: the columns of a table in the order of a record's fields, so that ``Record(*row)`` is the record."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Table, Update, bindparam, update

from millpond.domain.errors import InvalidInput

PAGE_LIMIT = 1000
"""Most items on one page of any list."""


def fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def columns_of(table: Table, kind: type) -> list[Column[Any]]:
    return [table.c[name] for name in fields_of(kind)]


def values_of(record: Any, names: Collection[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def update_by_id(table: Table, names: Collection[str]) -> Update:
    """UPDATE of those columns where ``id`` is ``row_id``; the new values are ``new_<name>``."""
    return (
        update(table)
        .where(table.c.id == bindparam("row_id", type_=table.c.id.type))
        .values({name: bindparam(f"new_{name}", type_=table.c[name].type) for name in names})
    )


def update_values(record: Any, names: Collection[str]) -> dict[str, Any]:
    return {"row_id": record.id, **{f"new_{name}": getattr(record, name) for name in names}}


def reachable(transitions: Mapping[Any, frozenset[Any]]) -> dict[str, frozenset[str]]:
    """Every state that can come after each one, by any number of steps."""
    found = {str(state): {str(after) for after in nexts} for state, nexts in transitions.items()}
    for middle, beyond in found.items():
        for nexts in found.values():
            if middle in nexts:
                nexts |= beyond
    return {state: frozenset(nexts) for state, nexts in found.items()}


def limit_check(limit: int) -> int:
    if not 1 <= limit <= PAGE_LIMIT:
        raise InvalidInput(f"a page has 1 to {PAGE_LIMIT} items, not {limit}")
    return limit


def cursor_write(moment: datetime, key: str) -> str:
    """An opaque cursor: the place of an item in a list ordered by time and id."""
    text = f"{moment.astimezone(UTC).isoformat()}|{key}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cursor_read(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode()
        moment, _, key = text.partition("|")
        return datetime.fromisoformat(moment).astimezone(UTC), key
    except (ValueError, binascii.Error, OverflowError) as error:
        raise InvalidInput("this cursor is not one of ours", hint="use `next` of the page before, unchanged") from error
