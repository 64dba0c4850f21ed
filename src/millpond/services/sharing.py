"""One computation for everybody who asks at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Gives each caller a value whose making began after the call, and makes at most one at a time.

    So an answer never misses what its caller has just changed, and a crowd of callers costs two makings, not one each.
    """

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self._making = threading.Lock()
        self._begun = 0
        self._made: tuple[int, T] | None = None

    def get(self, make: Callable[[], T]) -> T:
        """The value of a `make` that begins from now on: one's own, or that of another caller who waited too."""
        with self._counting:
            wanted = self._begun + 1
        with self._making:
            if self._made is not None and self._made[0] >= wanted:
                return self._made[1]
            with self._counting:
                self._begun += 1
                mine = self._begun
            value = make()
            self._made = (mine, value)
            return value

    def alone(self) -> AbstractContextManager[object]:
        """Nothing is made meanwhile, but for what the holder makes himself."""
        return self._making
