"""Processes as the kernel shows them: identity, descent, and the few calls that Python lacks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int | bytes) -> None:
    """prctl(2) with one argument; raises OSError."""
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    zero = ctypes.c_ulong(0)
    if _LIBC.prctl(option, argument, zero, zero, zero) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


FILES_MAX = 65_536
_FILES_AT_FIRST = resource.getrlimit(resource.RLIMIT_NOFILE)


def files_raise() -> None:
    """Allow ourselves many open files: two for each rank."""
    hard = _FILES_AT_FIRST[1]
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def files_restore() -> None:
    """What a job gets is what we got."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES_AT_FIRST)


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def boot_id() -> str:
    """Differs after every boot of the machine: what ran before it cannot run any more."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[bytes] | None:
    """Fields of /proc/<pid>/stat after the command's name: state, ppid, ..."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _read(path: str) -> bytes:
    """A short file of /proc, with the fewest calls: this is done for every process of the machine."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def start_time(pid: int) -> int:
    """Clock ticks from boot to the start of a process: with the pid, its identity.  0: no such process."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def parent(pid: int) -> int:
    """The parent of a living process; 0: there is no such process, or it is dead."""
    fields = _stat(pid)
    return int(fields[1]) if fields and fields[0] not in {b"Z", b"X"} else 0


def pidfd_open(pid: int, started: int) -> int | None:
    """A pidfd of the process `pid` that began at `started`; None when that one is gone, even if the pid is reused."""
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return None
    fields = _stat(pid)
    if fields is None or int(fields[19]) != started or fields[0] in {b"Z", b"X"}:
        os.close(descriptor)
        return None
    return descriptor


def pidfd_signal(descriptor: int, number: int) -> bool:
    """Whether the signal was delivered to a process that still exists."""
    try:
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def processes() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - called often
        if name.isdigit():
            yield int(name)


def parents() -> dict[int, int]:
    """Every living process and its parent."""
    table: dict[int, int] = {}
    for pid in processes():
        fields = _stat(pid)
        if fields is not None and fields[0] not in {b"Z", b"X"}:
            table[pid] = int(fields[1])
    return table


def descendants(root: int, table: dict[int, int] | None = None) -> list[int]:
    """Every living process below `root`, nearest first."""
    below: dict[int, list[int]] = {}
    for pid, parent in (parents() if table is None else table).items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        children = below.get(queue.pop(0), [])
        found += children
        queue += children
    return found


def marked(mark: bytes) -> list[int]:
    """Every living process whose environment at its start held ``mark`` (NAME=value)."""
    found = []
    for pid in processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            if mark in file.read().split(b"\0"):
                found.append(pid)
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def peer_uid(connection: socket.socket) -> int:
    """User id of the process at the other end of a unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[4:8], "little")
