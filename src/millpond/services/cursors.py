"""Opaque cursors for lists that are small enough to be read whole."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from millpond.domain.errors import InvalidInput
from millpond.domain.records import Page

T = TypeVar("T")


def page_cut(items: Sequence[T], cursor: str, limit: int, key: Callable[[T], tuple[str, ...]]) -> Page[T]:
    """The page of `limit` items after `cursor`.  An item that is gone by then ends the list with a clear error."""
    begin = 0
    if cursor:
        wanted = cursor_read(cursor)
        places = (place for place, item in enumerate(items) if list(key(item)) == wanted)
        found = next(places, None)
        if found is None:
            raise InvalidInput("this cursor points at something that is gone", hint="start the list again")
        begin = found + 1
    page = tuple(items[begin : begin + limit])
    return Page(page, cursor_write(key(page[-1])) if page and begin + limit < len(items) else "")


def sequence_parse(cursor: str) -> int:
    """A cursor of the event log: the last sequence number seen; empty: from the beginning."""
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput("this cursor is not one of ours", hint="use `next` of the page before, unchanged")
    return int(cursor or "0")


def cursor_write(key: tuple[str, ...]) -> str:
    """The cursor of the place after this key."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def cursor_read(cursor: str) -> object:
    """The key of a cursor, as JSON has it.  `InvalidInput` for what is no cursor."""
    try:
        return json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise InvalidInput("this cursor is not one of ours", hint="use `next` of the page before, unchanged") from error
