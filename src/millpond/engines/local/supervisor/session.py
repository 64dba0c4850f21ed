"""exec: a command beside a running rank, relayed over the caller's own connection by a helper process.

Frames, both ways: one letter, four bytes of length (big-endian), payload.  From the caller: I input (empty: end of
input), R "rows columns".  To the caller: O output, X exit code as text.  Closing the connection kills the command.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import shutil
import signal
import socket
import struct
import termios
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import process
from .child import enter, signals_restore, user_switch
from .script import SHELL

HEADER = struct.Struct(">cI")
NS_GET_USERNS = 0xB701

_IN_FOLDER = 'cd "$1" && shift && unset OLDPWD && exec "$@"'


@dataclass(frozen=True, slots=True)
class Session:
    """``beside``: main process of the rank, or the first process of its sandbox.  ``setpriv`` holds the words
    that drop to the tenant's user inside a sandbox; empty when the rank is not sandboxed."""

    beside: int
    argv: tuple[str, ...]
    env: dict[str, str]
    work_dir: str
    uid: int
    tty: bool
    doors: tuple[Path, ...]
    sandboxed: bool
    setpriv: tuple[str, ...] = ()


def session_fork(session: Session, connection: socket.socket) -> int:
    """Fork the helper; its pid.  The caller lets go of `connection`."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        child = os.fork()
        if child == 0:
            _help(session, connection.fileno())
        return child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _help(session: Session, connection: int) -> NoReturn:
    try:
        Helper(session, connection).run()
    finally:
        os._exit(0)


class Helper:
    def __init__(self, session: Session, connection: int) -> None:
        self._session = session
        self._connection = os.dup2(connection, 3, inheritable=False)
        self._child = 0
        self._code: int | None = None
        self._ending = False
        self._received = b""

    def run(self) -> None:
        gc.disable()
        os.setsid()
        os.closerange(4, process.FILES_MAX)
        process.prctl(process.PR_SET_NAME, b"millpond-exec")
        process.prctl(process.PR_SET_CHILD_SUBREAPER, 1)
        process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        inside, outside, output = self._pipes()
        self._child = os.fork()
        if self._child == 0:
            _become(self._session, inside)
        for descriptor in set(inside):
            os.close(descriptor)
        self._relay(wake, outside, output)
        self._kill_all()
        self._send(b"X", str(self._code if self._code is not None else 128 + signal.SIGKILL).encode())

    def _end(self, *_: object) -> None:
        self._ending = True

    def _pipes(self) -> tuple[tuple[int, int], int, int]:
        """((stdin, stdout) of the command, where to write its input, where to read its output)."""
        if self._session.tty:
            master, slave = os.openpty()
            if self._session.uid:
                os.fchown(slave, self._session.uid, -1)
            return (slave, slave), master, master
        stdin, into = os.pipe()
        output, stdout = os.pipe()
        for descriptor in (stdin, stdout):
            if self._session.uid:
                os.fchown(descriptor, self._session.uid, self._session.uid)
        return (stdin, stdout), into, output

    def _relay(self, wake: int, into: int, output: int) -> None:
        poll = select.poll()
        for descriptor in (wake, self._connection, output):
            poll.register(descriptor, select.POLLIN)
        open_output = True
        while not self._ending and (self._code is None or open_output):
            events = poll.poll(None if self._code is None else 100)
            if self._code is not None and not events:
                return
            for descriptor, _ in events:
                if descriptor == wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 512)
                elif descriptor == output:
                    data = _read(output)
                    open_output = bool(data) and self._send(b"O", data)
                    if not data:
                        poll.unregister(output)
                elif not self._receive(into):
                    self._ending = True
            self._reap()

    def _receive(self, into: int) -> bool:
        data = _read(self._connection)
        if not data:
            return False
        self._received += data
        while len(self._received) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._received)
            if size > 1 << 20:
                return False
            if len(self._received) < HEADER.size + size:
                break
            payload = self._received[HEADER.size : HEADER.size + size]
            self._received = self._received[HEADER.size + size :]
            self._handle(kind, payload, into)
        return True

    def _handle(self, kind: bytes, payload: bytes, into: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            if kind == b"R" and self._session.tty:
                rows, columns = map(int, payload.split())
                fcntl.ioctl(into, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            elif kind == b"I" and payload:
                view = memoryview(payload)
                while view:
                    view = view[os.write(into, view) :]
            elif kind == b"I" and self._session.tty:
                os.write(into, b"\x04")
            elif kind == b"I":
                os.close(into)

    def _send(self, kind: bytes, payload: bytes) -> bool:
        view = memoryview(HEADER.pack(kind, len(payload)) + payload)
        try:
            while view:
                view = view[os.write(self._connection, view) :]
        except OSError:
            self._ending = True
            return False
        return True

    def _reap(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code

    def _kill_all(self) -> None:
        while self._reap():
            for pid in process.descendants(os.getpid()):
                process.kill(pid)
            select.select([], [], [], 0.005)


def _read(descriptor: int) -> bytes:
    """b"" at the end; a pty whose other side is closed answers EIO."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def _become(session: Session, inside: tuple[int, int]) -> NoReturn:
    """In the new child: become the command."""
    helper = os.getppid()
    try:
        enter(session.doors)
        process.files_restore()
        os.umask(0o022)
        signals_restore()
        os.setsid()
        stdin, stdout = inside
        for number, source in enumerate((stdin, stdout, stdout)):
            os.dup2(source, number)
        words = _words(session)
        if not session.sandboxed:
            if session.tty:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            user_switch(session.uid)
            os.chdir(session.work_dir)
        process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != helper:
            os._exit(1)
        os.execvpe(words[0], words, session.env)  # noqa: S606 - that is what exec is for
    except BaseException as error:  # noqa: BLE001 - report, then end; never return
        with contextlib.suppress(OSError):
            os.write(2, f"millpond: {session.argv[0]}: {getattr(error, 'strerror', '') or error!r}\n".encode())
    finally:
        os._exit(127)


def _words(session: Session) -> list[str]:
    """The command, entered into the sandbox's namespaces where there is one."""
    if not session.sandboxed:
        return list(session.argv)
    # What runs before setpriv has our rights and the job's environment: nothing of it may be looked up in PATH.
    setsid, nsenter = (shutil.which(name) or f"/usr/bin/{name}" for name in ("setsid", "nsenter"))
    command = [SHELL, "-c", _IN_FOLDER, "millpond", session.work_dir, *session.argv]
    tail = [*((setsid, "--ctty") if session.tty else ()), *session.setpriv, *command]
    enter_all = ["--target", str(session.beside), "--mount", "--pid", "--ipc", "--root"]
    if os.geteuid() == 0:
        return [nsenter, *enter_all, "--", *tail]
    owner, own = _user_namespaces(session.beside)
    words = [nsenter, f"--user=/proc/self/fd/{owner}", "--preserve-credentials", *enter_all, "--"]
    if own >= 0:
        words += [nsenter, f"--user=/proc/self/fd/{own}", "--preserve-credentials", "--"]
    return [*words, *tail]


def _user_namespaces(pid: int) -> tuple[int, int]:
    """Descriptors of the user namespace that owns a process's other namespaces, and of the process's own if that is
    another (bubblewrap nests one that has no rights over the sandbox; only the owner lets us in); else -1."""
    other = os.open(f"/proc/{pid}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)
    own = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(other, NS_GET_USERNS)
    nested = os.fstat(owner).st_ino != os.fstat(own).st_ino
    os.set_inheritable(owner, True)
    os.set_inheritable(own, nested)
    return owner, own if nested else -1
