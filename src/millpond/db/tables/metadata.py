"""The one metadata, its naming conventions, and constraints that several tables share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import CheckConstraint, MetaData

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def words_sql(words: Iterable[StrEnum]) -> str:
    """``'a', 'b'``: enum members for an IN list, in a fixed order."""
    return ", ".join(f"'{word.value}'" for word in sorted(words, key=lambda word: word.value))


def check_word(column: str, kind: type[StrEnum], name: str) -> CheckConstraint:
    """The column is one of the enum's words."""
    return CheckConstraint(f"{column} IN ({words_sql(kind)})", name=name)
