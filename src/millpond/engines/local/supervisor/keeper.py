"""The keeper: one small process per rank that outlives the supervisor and knows the rank's exit code.

It is forked from the supervisor without exec.  In order: it claims the rank (a file made by link(2), so that of two
keepers only one starts anything), starts the main process, records it, moves its output to the log, waits, kills what
the main process left behind, and leaves the exit status in a file that is on disk before the keeper ends.  SIGTERM
tells it to kill the whole tree.  If the keeper itself is killed, the kernel kills the main process.

A keeper on standby was forked before there was anything to run: its child waits inside control groups of its own, and
an order makes the two a rank like any other.  Without one they end with the supervisor, or with each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import process
from .child import LAUNCH_BYTES, Ends, Launch, child_run, launch_decode
from .files import claim, socket_address, write_whole

KEEPERS_SOCKET = "keepers.sock"
CLAIM_LOST = 3
KEEPER, MAIN, STATUS = FILES = ("keeper", "main", "status")

_PIPE_BYTES = 1024 * 1024
_LOG_FULL = b"\n[millpond: the log is full, later output of this rank is not kept]\n"


def rank_file(base: Path, kind: str) -> Path:
    """The file of a rank that says who keeps it, what its main process is, or how it ended."""
    return base.with_name(f"{base.name}.{kind}")


def keeper_fork(launch: Launch) -> int:
    """Fork a keeper; its pid."""
    return process_fork(lambda: Keeper().run(launch))


def standby_fork(doors: tuple[Path, ...], orders: socket.socket) -> int:
    """Fork a keeper that waits for one message from `orders`, a `Launch` with these `doors`; its pid."""
    return process_fork(lambda: Keeper().stand_by(doors, orders))


def process_fork(work: Callable[[], int]) -> int:
    """Do `work` in a process of its own.  Signals are held back until it has its own handlers."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        child = os.fork()
        if child == 0:
            _work(work)
        return child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _work(work: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        code = work()
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's frames
        with contextlib.suppress(Exception):
            print(f"keeper {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


@dataclass(frozen=True, slots=True)
class Joint:
    """The keeper's ends of what joins it to its child; ``into`` is the child's own output, kept to give it away."""

    output: int
    into: int
    began: int
    orders: socket.socket


class Keeper:
    _launch: Launch

    def __init__(self) -> None:
        self._killing = False
        self._child = 0
        self._status: tuple[int, int] | None = None
        self._began = False
        self._error = ""
        self._log_left = 0

    def _file(self, kind: str) -> Path:
        return rank_file(self._launch.base, kind)

    def run(self, launch: Launch) -> int:
        return self._keep(launch, self._detach(), None, b"go")

    def stand_by(self, doors: tuple[Path, ...], orders: socket.socket) -> int:
        """As `run`, once there is a launch; nothing has happened if there never is."""
        wake = self._detach(orders.fileno())
        joint = self._spawn(None, doors)
        message = self._await(wake, orders)
        orders.close()
        return self._keep(launch_decode(message), wake, joint, message) if message else 0

    def _keep(self, launch: Launch, wake: int, joint: Joint | None, message: bytes) -> int:
        self._launch = launch
        self._log_left = launch.log_bytes
        me = os.getpid()
        if not claim(self._file(KEEPER), {"pid": me, "start": process.start_time(me)}):
            return CLAIM_LOST
        if self._killing:
            self._finish()
            return 0
        log = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        joint = joint or self._spawn(launch, launch.doors)
        if launch.uid:
            os.fchown(joint.into, launch.uid, launch.uid)
        os.close(joint.into)
        with contextlib.suppress(OSError), joint.orders:
            joint.orders.send(message)
        self._watch(wake, joint.began, joint.output, log)
        self._end_tree()
        self._copy(joint.output, log)
        os.close(log)
        self._finish()
        return 0

    def _spawn(self, launch: Launch | None, doors: tuple[Path, ...]) -> Joint:
        """Fork the child, which waits for a message before it runs anything."""
        me = os.getpid()
        output, into = os.pipe()
        os.set_blocking(output, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        began, announce = os.pipe()
        tell, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if self._child == 0:
            tell.close()
            child_run(launch, doors, Ends(into, announce, orders), me)
        os.close(announce)
        orders.close()
        return Joint(output, into, began, tell)

    def _await(self, wake: int, orders: socket.socket) -> bytes:
        """The launch; nothing if it will not come, or if the child did not live to hear it."""
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(orders, select.POLLIN)
        while True:
            poll.poll()
            _read_now(wake)
            message = None
            with contextlib.suppress(BlockingIOError):
                message = orders.recv(LAUNCH_BYTES, socket.MSG_DONTWAIT)
            self._reap()
            if self._status is not None:
                return b""
            if message is not None or self._killing:
                return message or b""

    def _detach(self, kept: int = 2) -> int:
        """Leave everything of the supervisor's but one descriptor; what wakes `poll` at a signal."""
        os.setsid()
        gc.disable()
        os.closerange(3, kept)
        os.closerange(kept + 1, process.FILES_MAX)
        process.prctl(process.PR_SET_NAME, b"millpond-keeper")
        process.prctl(process.PR_SET_CHILD_SUBREAPER, 1)
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._kill_wanted)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return wake

    def _kill_wanted(self, *_: object) -> None:
        self._killing = True

    def _watch(self, wake: int, began: int, output: int, log: int) -> None:
        """Until the main process has ended: its beginning, its output, signals."""
        poll = select.poll()
        for descriptor in (wake, began, output):
            poll.register(descriptor, select.POLLIN)
        news = False
        while True:
            if self._killing:
                self._kill_tree()
            for descriptor, _ in poll.poll(20 if self._killing or news else None):
                if descriptor == wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 512)
                elif descriptor == output:
                    if not self._copy(output, log):
                        poll.unregister(output)
                else:
                    poll.unregister(began)
                    news = self._begin(os.read(began, 4096))
            news = news and not self._notify()
            self._reap()
            if self._status is not None:
                if not self._began and not self._error:
                    self._begin(_read_now(began))
                return

    def _begin(self, message: bytes) -> bool:
        """The start's outcome: a sandboxed program writes a newline, any other closes the pipe by its exec."""
        if self._launch.sandboxed:
            self._began = message == b"\n"
            self._error = "" if self._began else (message.decode(errors="replace") or "the sandbox could not be made")
        else:
            self._began = not message
            self._error = message.decode(errors="replace")
        if not self._began:
            return False
        main = _inner(self._child, self._launch.doors) if self._launch.sandboxed else self._child
        value = {"pid": main, "start": process.start_time(main), "time_ms": process.now_ms()}
        write_whole(self._file(MAIN), value, durable=False)
        return True

    def _notify(self) -> bool:
        """Tell the supervisor that the main process runs; False: ask again soon.  One that is not there will look."""
        try:
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller,
                socket_address(self._launch.run_dir, KEEPERS_SOCKET) as address,
            ):
                caller.setblocking(False)
                caller.sendto(f"{self._launch.attempt} {self._launch.rank}".encode(), address)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _copy(self, output: int, log: int) -> bool:
        """Output to the log while there is any now; False at its end.  Never lets the job wait for a full log."""
        for _ in range(64):
            try:
                data = os.read(output, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            if self._log_left <= 0:
                continue
            kept = data[: self._log_left]
            self._log_left -= len(kept)
            with contextlib.suppress(OSError):
                os.write(log, kept if self._log_left else kept + _LOG_FULL)
        return True

    def _reap(self) -> bool:
        """Bury the dead; False when no child is left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self._status = (os.waitstatus_to_exitcode(status), process.now_ms())

    def _kill_tree(self) -> None:
        for pid in process.descendants(os.getpid()):
            process.kill(pid)

    def _end_tree(self) -> None:
        """Kill what the main process left behind; orphans come to us, so no child left means nobody is left."""
        pause = 0.001
        while self._reap():
            self._kill_tree()
            time.sleep(pause)
            pause = min(0.05, pause * 2)

    def _finish(self) -> None:
        code, time_ms = self._status or (-signal.SIGKILL, process.now_ms())
        value = {
            "code": code if code >= 0 else 128 - code,
            "time_ms": time_ms,
            "began": self._began,
            "detail": self._error,
        }
        write_whole(self._file(STATUS), value, durable=True)


def _read_now(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, 4096)
    return b""


def _inner(outer: int, doors: tuple[Path, ...]) -> int:
    """The job's main process inside bubblewrap: the only child of the only child.  0 when it is gone already."""
    table: dict[int, int] = {}
    for door in doors[:1]:
        for pid in map(int, door.read_text().split()):
            with contextlib.suppress(OSError, IndexError):
                table[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    if not table:
        table = process.parents()
    first = [pid for pid, parent in table.items() if parent == outer]
    second = [pid for pid, parent in table.items() if first and parent == first[0]]
    return min(second, default=0)
