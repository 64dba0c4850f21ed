"""Tables with a header line (CSV and the like), a row at a time; every error has its line, column and field."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from millpond.domain.errors import InvalidInput, Position

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One line.  ``places`` maps a column's name to its place among ``cells``."""

    line: int
    text: str
    cells: Sequence[str]
    places: dict[str, int]
    delimiter: str
    source: str

    def has(self, name: str) -> bool:
        """Whether the row has a value in this column."""
        place = self.places.get(name)
        return place is not None and bool(self.cells[place].strip())

    def cell(self, name: str) -> str:
        """The text of a column, empty if the table has no such column."""
        place = self.places.get(name)
        return "" if place is None else self.cells[place].strip()

    def value(self, name: str, parse: Callable[[str], T], default: T | None = None) -> T:
        """The value of a column; `default` where it is empty, or an error if there is no default."""
        text = self.cell(name)
        if not text:
            if default is not None:
                return default
            raise InvalidInput("the value is missing", hint="every row needs one", position=self.position(name))
        try:
            return parse(text)
        except InvalidInput as error:
            raise error.at(self.position(name)) from error

    def position(self, name: str) -> Position:
        """Where the value of a column stands."""
        column = _column(self.text, self.places.get(name, 0), self.delimiter)
        return Position(self.line, column, name, self.source)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a format's header looks like.  ``synonyms``: other headers under which a column may stand."""

    what: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    delimiter: str = ","
    synonyms: tuple[tuple[str, str], ...] = ()

    def fits(self, header: str) -> bool:
        """Whether a header line has every column that is required."""
        names = {self._name(cell) for cell in header.lstrip("\ufeff").strip().split(self.delimiter)}
        return set(self.required) <= names

    def places(self, cells: Sequence[str], source: str) -> dict[str, int]:
        """Columns by name; raises `InvalidInput` for those that are missing or stand there twice."""
        places: dict[str, int] = {}
        text = self.delimiter.join(cells)
        for place, cell in enumerate(cells):
            name = self._name(cell)
            if name in places and name in (*self.required, *self.optional):
                where = Position(1, _column(text, place, self.delimiter), cell.strip(), source)
                raise InvalidInput(f"the column {name} is there twice", hint="keep one of them", position=where)
            places.setdefault(name, place)
        for name in self.required:
            if name not in places:
                near = difflib.get_close_matches(name, list(places), n=1, cutoff=0.6)
                hint = f"did you mean it by {near[0]}?" if near else f"expected columns: {', '.join(self.required)}"
                raise InvalidInput(
                    f"{self.what} needs the column {name}", hint=hint, position=Position(1, 1, name, source)
                )
        return places

    def _name(self, cell: str) -> str:
        name = cell.strip().strip('"')
        known = (*self.required, *self.optional)
        if name in known:
            return name
        other = {synonym.lower(): column for synonym, column in self.synonyms}
        other.update({column.lower(): column for column in known})
        return other.get(name.lower(), name)


def rows_read(lines: Iterable[str], shape: Shape, source: str) -> Iterator[Row]:
    """The rows below the header.  Empty lines are passed over."""
    places: dict[str, int] | None = None
    width = 0
    for number, raw in enumerate(lines, 1):
        text = raw.rstrip("\r\n")
        if not text.strip():
            continue
        if places is None:
            text = text.lstrip("\ufeff")
        cells = _split(text, shape.delimiter, Position(number, 1, "", source))
        if places is None:
            places, width = shape.places(cells, source), len(cells)
            continue
        # `sacct -p` (unlike -P) ends each line with a delimiter; its header does too, so the widths agree.
        if len(cells) != width:
            raise InvalidInput(
                f"this line has {len(cells)} fields, the header has {width}",
                hint="is the line cut off, or a delimiter inside a value?",
                position=Position(number, len(text) + 1 if len(cells) < width else 1, "", source),
            )
        yield Row(number, text, cells, places, shape.delimiter, source)
    if places is None:
        raise InvalidInput(
            "the file is empty",
            hint=f"expected a header: {shape.delimiter.join(shape.required)}",
            position=Position(1, 1, "", source),
        )


def _split(text: str, delimiter: str, where: Position) -> Sequence[str]:
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InvalidInput(
            f"the quotes of this line are wrong: {error}", hint="a value must end on its line", position=where
        ) from error


def _column(text: str, place: int, delimiter: str) -> int:
    """1-based column where the value number `place` begins."""
    quoted, seen = False, 0
    if place == 0:
        return 1
    for index, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == delimiter and not quoted:
            seen += 1
            if seen == place:
                return index + 2
    return len(text) + 1
