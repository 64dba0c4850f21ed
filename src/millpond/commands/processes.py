"""Processes of this machine: who is alive, starting one that outlives us, ending one that we know.

A pid alone may belong to somebody else by now; together with its start time it names one process for ever.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millpond.domain.errors import Conflict

LOG_LIMIT = 16 * 1024 * 1024
"""A log larger than this is set aside (one generation) when its process starts."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process by pid and start time (clock ticks since boot)."""

    pid: int
    started: int


def process_find(pid: int) -> Process | None:
    """The live process with that pid; zombies are not alive."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else Process(pid, int(fields[19]))


def process_alive(process: Process) -> bool:
    return process_find(process.pid) == process


def process_spawn(argv: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a background process in a session of its own, its output appended to `log`."""
    log_rotate(log)
    with log.open("ab") as sink:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=dict(env),
            start_new_session=True,
            cwd="/",
        )


def log_rotate(log: Path) -> None:
    """Keep one older generation of a log that has grown too large."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_name(log.name + ".1"))


def log_tail(log: Path, lines: int = 12) -> list[str]:
    """The last lines of a log, for the message of a failed start."""
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - 16_384))
            text = source.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


def process_end(process: Process, patience_s: float) -> bool:
    """TERM, then KILL after `patience_s`; true if it went by itself."""
    if not _signal(process, signal.SIGTERM) or wait_until(lambda: not process_alive(process), patience_s):
        return True
    _signal(process, signal.SIGKILL)
    wait_until(lambda: not process_alive(process), 5.0)
    return False


def _signal(process: Process, number: int) -> bool:
    if not process_alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_until(done: Callable[[], bool], timeout_s: float, step_s: float = 0.02) -> bool:
    """Whether `done` became true within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(step_s)
    return True


@contextmanager
def file_locked(path: Path, what: str, timeout_s: float = 0.0) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel frees it when the process dies.  `Conflict` if another holds it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not wait_until(lambda: _lock_try(handle), timeout_s):
            raise Conflict(f"{what} is in progress already", hint="wait for it, or look with millpond ps")
        yield
    finally:
        os.close(handle)


def _lock_try(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
