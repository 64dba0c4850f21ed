"""Where output goes: tables on a terminal, aligned columns in a pipe, JSON for machines; notes go to stderr.

Colours only on a terminal, and not with ``NO_COLOR`` or ``TERM=dumb``.
"""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from millpond.cli.errors import printable
from millpond.cli.texts import Texts

ANSI = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a table with a style (a name in `ANSI`, or empty)."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """``key`` names its head in the catalogue (``head.<key>``), unless it has a ``title``.

    ``fold``: may be broken over lines on a terminal.
    """

    key: str
    right: bool = False
    fold: bool = False
    title: str = ""


Row = Sequence[Cell | str]


class Output:
    """The one sink of a call."""

    def __init__(self, texts: Texts, environ: Mapping[str, str]) -> None:
        self.texts = texts
        self.terminal = sys.stdout.isatty()
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self.colour = self.terminal and not plain
        self.notes_terminal = sys.stderr.isatty() and environ.get("TERM") != "dumb"
        self.width = shutil.get_terminal_size((100, 24)).columns
        self._status = ""

    def data(self, value: object) -> None:
        """The machine form: the API's JSON."""
        self.line(json.dumps(value, indent=2, ensure_ascii=False))

    def record(self, value: object) -> None:
        """One JSON value a line, for streams."""
        self.line(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        sys.stdout.flush()

    def items(self, values: Iterable[object]) -> None:
        """A list in the API's form."""
        self.data({"items": list(values)})

    def line(self, text: str = "") -> None:
        self._clear()
        sys.stdout.write(text + "\n")

    def write(self, text: str) -> None:
        """Output of jobs, as it is."""
        self._clear()
        sys.stdout.write(text)
        sys.stdout.flush()

    def heading(self, text: str) -> None:
        self.line(self.style(text, "bold"))

    def style(self, text: str, style: str) -> str:
        return f"\x1b[{ANSI[style]}m{text}\x1b[0m" if self.colour and style else text

    def table(self, columns: Sequence[Column], rows: Sequence[Row], indent: int = 0) -> None:
        """Rows under heads; an empty cell shows as ``-`` so that columns can be counted."""
        heads = [column.title or self.texts(f"head.{column.key}") for column in columns]
        cells = [[_cell(value) for value in row] for row in rows]
        if self.terminal:
            draw: Callable[..., str] = import_module("millpond.cli.tables").table_draw
            text = draw(columns, heads, cells, width=self.width - indent, colour=self.colour)
            for line in text.splitlines():
                self.line(" " * indent + line)
            return
        for line in aligned([heads, *[[cell.text for cell in row] for row in cells]], columns):
            self.line(" " * indent + line)

    def fields(self, pairs: Sequence[tuple[str, str | Cell]]) -> None:
        """Labels and values, one a line; pairs without a value are left out."""
        shown = [(self.texts(f"field.{key}"), _cell(value)) for key, value in pairs if _cell(value).text != "-"]
        wide = max((text_width(label) for label, _ in shown), default=0)
        for label, cell in shown:
            gap = " " * (wide - text_width(label) + 2)
            self.line(f"{self.style(label, 'dim')}{gap}{self.style(cell.text, cell.style)}")

    def note(self, text: str, style: str = "") -> None:
        """For the person, on stderr."""
        self._clear()
        sys.stderr.write((f"\x1b[{ANSI[style]}m{text}\x1b[0m" if self.colour and style else text) + "\n")
        sys.stderr.flush()

    def status(self, text: str) -> None:
        """Progress: one line that is replaced on a terminal; in a pipe a line for each new text."""
        if text == self._status:
            return
        if self.notes_terminal:
            sys.stderr.write("\r\x1b[K" + clip(text, self.width - 1))
        elif text:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
        self._status = text

    def _clear(self) -> None:
        if self._status and self.notes_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        if self.notes_terminal:
            self._status = ""


def _cell(value: Cell | str) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    indent = " " * (len(cell.text) - len(cell.text.lstrip(" ")))
    return Cell(indent + printable(cell.text) or "-", cell.style)


def aligned(rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> list[str]:
    """Rows as lines; columns start at the same place and are at least two spaces apart."""
    widths = [max(text_width(row[index]) for row in rows) for index in range(len(columns))]
    lines = []
    for row in rows:
        padded = [_pad(text, width, column.right) for text, width, column in zip(row, widths, columns, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return lines


def _pad(text: str, width: int, right: bool) -> str:
    gap = " " * (width - text_width(text))
    return gap + text if right else text + gap


def text_width(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def clip(text: str, width: int) -> str:
    """As much of a text as fits, with an ellipsis if it was cut."""
    if text_width(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += text_width(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def plain(value: Any) -> str:
    """A value for a cell; None is empty."""
    return "" if value is None else str(value)
