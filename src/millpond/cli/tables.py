"""Tables on a terminal, drawn by rich (imported only when a table is drawn)."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from millpond.cli.output import Cell, Column


def table_draw(
    columns: Sequence[Column], heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, width: int, colour: bool
) -> str:
    """The table as text, at most `width` columns wide where its ids and names allow."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", collapse_padding=True)
    for column, head in zip(columns, heads, strict=True):
        table.add_column(
            head,
            justify="right" if column.right else "left",
            no_wrap=not column.fold,
            overflow="fold" if column.fold else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    console = Console(
        file=io.StringIO(),
        width=max(width, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
