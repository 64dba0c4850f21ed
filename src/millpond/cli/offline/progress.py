"""Bars on a terminal, drawn by rich (imported only when one is drawn)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from millpond.domain.amounts import duration_format


class Bars:
    """One bar a run, on stderr, gone when it is left."""

    def __init__(self, names: Sequence[str], seconds: Sequence[int], *, colour: bool) -> None:
        console = Console(file=sys.stderr, no_color=not colour, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[said]}", markup=False),
            console=console,
            transient=True,
        )
        self._tasks: list[TaskID] = [
            self._progress.add_task(name, total=total, said="") for name, total in zip(names, seconds, strict=True)
        ]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def tell(self, number: int, time: int, events: int) -> None:
        """Run `number` has come to `time` (virtual seconds) with so many events."""
        self._progress.update(self._tasks[number], completed=time, said=f"t={duration_format(time)}  {events}")
