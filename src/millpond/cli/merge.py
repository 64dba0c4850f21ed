"""Several blocking iterators as one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """A value of source number `source`; `error` instead when that source raised; `done` when it ended."""

    source: int
    value: Any = None
    error: BaseException | None = None
    done: bool = False


class Merged:
    """Items of several iterators in the order in which they come.

    Each is read by a daemon thread, so `next` may be interrupted (Ctrl-C) and called again.
    """

    def __init__(self, *sources: Iterable[Any]) -> None:
        self._items: queue.Queue[Item] = queue.Queue(maxsize=1000)
        for number, source in enumerate(sources):
            threading.Thread(target=self._read, args=(number, source), daemon=True).start()

    def next(self, timeout: float | None = None) -> Item | None:
        """The next item; None when `timeout` seconds passed first."""
        try:
            return self._items.get(timeout=timeout)
        except queue.Empty:
            return None

    def _read(self, number: int, source: Iterable[Any]) -> None:
        try:
            for value in source:
                self._items.put(Item(number, value))
        except BaseException as error:  # noqa: BLE001  the reader of the items raises it
            self._items.put(Item(number, error=error))
            return
        self._items.put(Item(number, done=True))
