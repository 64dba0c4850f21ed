"""Every attempt that was ever ordered or stopped: a symbolic link each, to the folder of its logs.

This is the memory of attempts that have ended.  It costs nothing at start-up, however many there are.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from .files import sync_dir

STOPPED = "stopped"
"""Where the link of an attempt leads that was stopped before it was ordered."""

_ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")


def attempt_valid(attempt: str) -> bool:
    """Attempt ids become names of files and control groups."""
    return _ATTEMPT.match(attempt) is not None


class Index:
    def __init__(self, engine_dir: Path) -> None:
        self._root = engine_dir / "index"
        self._touched: set[Path] = set()

    def _path(self, attempt: str) -> Path:
        return self._root / f"{zlib.crc32(attempt.encode()) & 0xFF:02x}" / attempt

    def put(self, attempt: str, log_dir: str) -> None:
        """Remember an attempt; nothing happens if it is known."""
        path = self._path(attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.symlink_to(log_dir)
        except FileExistsError:
            return
        self._touched.add(path.parent)

    def get(self, attempt: str) -> str | None:
        """The folder of its logs, or `STOPPED`; None if it was never heard of."""
        try:
            return str(self._path(attempt).readlink())
        except FileNotFoundError:
            return None

    def sync(self) -> None:
        """Make what was put durable, before the journal forgets it."""
        for folder in self._touched:
            sync_dir(folder)
        if self._touched:
            sync_dir(self._root)
        self._touched.clear()


def log_path(log_dir: str, attempt: str, rank: int) -> Path:
    return Path(log_dir) / f"{attempt}.{rank}.log"
