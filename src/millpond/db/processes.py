"""Processes of a folder: who still works in it, and how to end them by id.  Linux (``/proc``)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def process_in(pid: int, folder: Path) -> bool:
    """Whether `pid` is alive and works in `folder` (a PostgreSQL process works in its data directory)."""
    try:
        return os.path.samefile(_PROC / str(pid) / "cwd", folder) and not _zombie(pid)  # noqa: PTH121
    except OSError:
        return False


def processes_in(folder: Path) -> list[int]:
    """Every process named ``postgres`` that works in `folder`."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and process_in(int(entry.name), folder):
            with suppress(OSError):
                if (entry / "comm").read_text().strip() == "postgres":
                    found.append(int(entry.name))
    return sorted(found)


def processes_end(folder: Path, patience_s: float) -> None:
    """Wait `patience_s` for the processes of `folder` to go by themselves, then end those that did not."""
    for kill, wait_s in ((None, patience_s), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + wait_s
        if kill is not None:
            for pid in processes_in(folder):
                with suppress(ProcessLookupError):
                    os.kill(pid, kill)
        while processes_in(folder):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        else:
            return


def _zombie(pid: int) -> bool:
    stat = (_PROC / str(pid) / "stat").read_text()
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}
