"""A terminal that passes every key on, and always gets its settings back."""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def raw_terminal(descriptor: int, resize: Callable[[int, int], None]) -> Iterator[None]:
    """Raw mode on `descriptor`; `resize(rows, columns)` is called when its window changes."""

    def changed(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        size = os.get_terminal_size(descriptor)
        resize(size.lines, size.columns)

    settings = termios.tcgetattr(descriptor)
    before = signal.signal(signal.SIGWINCH, changed)
    try:
        # Not the default, which would throw away what was typed ahead.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, settings)
        signal.signal(signal.SIGWINCH, before)
