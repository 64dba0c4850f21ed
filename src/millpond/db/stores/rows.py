"""Records ↔ rows: the columns of a table in the order of a record's fields, so that ``Record(*row)`` is the record."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ScalarSelect,
    Table,
    TableValuedAlias,
    Text,
    TypeDecorator,
    Update,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.types import TypeEngine

from millpond.db.session import Tx
from millpond.domain.errors import InvalidInput

PAGE_LIMIT = 1000
"""Most items on one page of any list."""


def fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def columns_of(table: Table, kind: type) -> list[Column[Any]]:
    return [table.c[name] for name in fields_of(kind)]


def values_of(record: Any, names: Collection[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def rows_print(table: Table) -> ScalarSelect[str]:
    """A text that is another one after any change of a small table: a hash of where its rows lie and who wrote them."""
    row = func.hashtextextended(literal_column(f"{table.name}.ctid::text || ' ' || {table.name}.xmin::text"), 0)
    return select(func.concat(func.count(), " ", func.sum(row))).select_from(table).scalar_subquery()


def insert_many(table: Table, names: Sequence[str], order: str = "") -> Insert:
    """INSERT of the rows in the parameter ``rows`` (`rows_text`): one statement however many there are.

    They go in by `order` if it is given, so that identities count up in that order.
    """
    given = rows_given(table, names)
    rows = select(*given.c)
    return insert(table).from_select(
        [table.c[name] for name in names], rows.order_by(given.c[order]) if order else rows
    )


def update_many(table: Table, names: Sequence[str]) -> Update:
    """UPDATE of those columns by ``id``, from the parameter ``rows`` (`rows_text` of ``id`` and those)."""
    given = rows_given(table, ("id", *names))
    return update(table).where(table.c.id == given.c.id).values({name: given.c[table.c[name].name] for name in names})


def rows_given(table: Table, names: Sequence[str]) -> TableValuedAlias:
    """The rows of the parameter ``rows`` (`rows_text`) as a table to join with."""
    rows = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON))
    columns = [column(table.c[name].name, table.c[name].type) for name in names]
    return rows.table_valued(*columns).render_derived("given", with_types=True)


def rows_text(tx: Tx, table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, str]:
    """The parameter ``rows`` from the values of at least one row, in the order of `names`.

    One JSON text costs both sides far less than a statement a row or an array a column.
    """
    columns = [
        _bound(tx, table.c[name].type, values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    ]
    labels = [table.c[name].name for name in names]
    given = [dict(zip(labels, row, strict=True)) for row in zip(*columns, strict=True)]
    return {"rows": json.dumps(given, ensure_ascii=False, separators=(",", ":"), default=datetime.isoformat)}


def _bound(tx: Tx, kind: TypeEngine[Any], values: Sequence[Any]) -> Sequence[Any]:
    if not isinstance(kind, TypeDecorator):
        return values
    return [kind.process_bind_param(value, tx.dialect) for value in values]


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
