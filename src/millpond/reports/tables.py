"""A report as facts and tables, before anybody has chosen a format or a language.

Rows are read once and in order, so a table may be of millions of rows while a few are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from enum import StrEnum
from fractions import Fraction

from millpond.billing.money import Money

Cell = str | int | Money | Fraction | datetime | date | None
"""``None`` is blank: nobody measured it, or it has no meaning in this row.  It is never written as 0."""

Row = tuple[Cell, ...]


class Kind(StrEnum):
    """What a cell is, and so how every format writes it.

    ``card_hours``: an integer of milli-card-seconds; ``ratio``: a `Fraction`, shown in percent; ``seconds``: an
    integer; ``milli``: an integer of milli-cards; ``money`` sums, ``price`` does not.
    """

    TEXT = "text"
    COUNT = "count"
    CARD_HOURS = "card_hours"
    MILLI = "milli"
    MONEY = "money"
    PRICE = "price"
    RATIO = "ratio"
    SECONDS = "seconds"
    MOMENT = "moment"
    DAY = "day"


SUMMED = frozenset({Kind.COUNT, Kind.CARD_HOURS, Kind.MILLI, Kind.MONEY})


@dataclass(frozen=True, slots=True)
class Field:
    """A column.  ``key`` names its label (``field.<key>`` of `texts`) and is its name for machines.

    ``sums``: adding it up over all rows means something.
    """

    key: str
    kind: Kind = Kind.TEXT
    sums: bool = False

    def __post_init__(self) -> None:
        assert not self.sums or self.kind in SUMMED, self.key  # noqa: S101  a mistake of ours


@dataclass(frozen=True, slots=True)
class Section:
    """A table.  ``rows`` is called for each reading.  ``said``: what the figures of a bill say the sums must be."""

    key: str
    fields: tuple[Field, ...]
    rows: Callable[[], Iterable[Row]]
    said: tuple[tuple[str, Cell], ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A label (``fact.<key>``) and its value, above the tables."""

    key: str
    value: Cell
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Report:
    """``kind`` names the title (``title.<kind>``).  ``zone`` is what moments are shown in.

    ``notes`` are keys (``note.<key>``) of sentences that say how to read it.  ``closing``: facts below the tables.
    """

    kind: str
    zone: tzinfo
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    closing: tuple[Fact, ...] = ()
    subject: str = ""
    signed: bool = False
    """Whether people sign it: prepared, checked, approved."""


class Sums:
    """The sums of a section, taken while its rows go by."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._places = [index for index, field in enumerate(fields) if field.sums]
        self._sums: dict[int, Cell] = {}
        self._width = len(fields)
        self.count = 0

    def passing(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, as they are."""
        for row in rows:
            self.count += 1
            for place in self._places:
                self._sums[place] = _plus(self._sums.get(place), row[place])
            yield row

    def row(self) -> Row | None:
        """Sums in their columns, blank elsewhere; ``None`` where nothing is summed or there was nothing to sum."""
        if not self._places or not self.count:
            return None
        return tuple(self._sums.get(place) for place in range(self._width))


def rows_of(rows: Iterable[Row]) -> Callable[[], Iterable[Row]]:
    """Rows that are in memory already."""
    kept = tuple(rows)
    return lambda: kept


def _plus(left: Cell, right: Cell) -> Cell:
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, Money) and isinstance(right, Money):
        return left + right
    assert isinstance(left, int) and isinstance(right, int), (left, right)  # noqa: S101, PT018  `Field` says so
    return left + right
