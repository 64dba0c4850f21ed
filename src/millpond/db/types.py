"""Column types: Python values that mean something ↔ PostgreSQL's.

Types that a planning pass reads ten thousand times give their `result_processor` straight, without the decorator's
wrapper around it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlalchemy.types import TypeDecorator

from millpond.billing.currencies import Currency
from millpond.billing.transfers import unit_find


def json_text(data: str | bytes) -> str:
    """The driver's ``loads``: keeps the text, so that a `Json` column can look it up in a decode cache."""
    return data if isinstance(data, str) else bytes(data).decode()


class Moment(TypeDecorator[datetime]):
    """``timestamptz``; only aware datetimes, always UTC when read."""

    impl = TIMESTAMP(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored")
        return value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        return lambda value: None if value is None else value.astimezone(UTC)


class Word(TypeDecorator[StrEnum]):
    """Text that is a member of an enum."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind
        self._members: dict[str | None, StrEnum | None] = {None: None, **{member.value: member for member in kind}}

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else self.kind(value).value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        return self._members.__getitem__


class Blank(TypeDecorator[str]):
    """The empty string in records is NULL in the table, so that a foreign key can skip it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return value or None

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        return lambda value: value or ""


class Json(TypeDecorator[Any]):
    """``jsonb``, encoded and decoded by the functions given; ``decode`` gets the JSON text."""

    impl = JSONB
    cache_ok = True

    def __init__(self, encode: Callable[[Any], Any] = dict, decode: Callable[[str], Any] = json.loads) -> None:
        super().__init__()
        self.encode = encode
        self.decode = decode

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else self.encode(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        decode = self.decode
        return lambda value: None if value is None else decode(value)


class Names(TypeDecorator[tuple[str, ...]]):
    """``text[]`` ↔ a tuple."""

    impl = ARRAY(Text)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> list[str] | None:  # noqa: ARG002
        return None if value is None else list(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        return lambda value: None if value is None else tuple(value)


class Unit(TypeDecorator[Currency]):
    """A currency, or card time, by its code."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Currency | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.code

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        return lambda value: None if value is None else unit_find(value)
