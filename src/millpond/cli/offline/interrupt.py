"""Ctrl-C as a wish to stop at the next event; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While it is entered, the first SIGINT only sets `asked`; the second raises `KeyboardInterrupt`."""

    def __init__(self) -> None:
        self.asked = False
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._heard)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if callable(self._before) or isinstance(self._before, signal.Handlers):
            signal.signal(signal.SIGINT, self._before)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
