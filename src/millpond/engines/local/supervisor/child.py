"""The keeper's child: made ready as far as possible, told what to run, then it becomes the job's main process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import process

LOG_BYTES = 64 * 1024 * 1024
READY_DESCRIPTOR = 3
LAUNCH_BYTES = 65_536
"""What surely fits into one message between two processes; a larger launch has to be known when they are forked."""


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a keeper needs.

    ``base``: what the names of its files begin with.  ``uid`` 0 = keep the user; ``sandboxed``: the program announces
    itself on descriptor 3; ``doors`` are control groups to enter.
    """

    attempt: str
    rank: int
    base: Path
    run_dir: Path
    program: str
    arguments: tuple[str, ...]
    env: dict[str, str]
    work_dir: str
    log: Path
    uid: int
    sandboxed: bool
    doors: tuple[Path, ...]
    log_bytes: int = LOG_BYTES


def launch_encode(launch: Launch) -> bytes:
    return json.dumps({name: getattr(launch, name) for name in Launch.__slots__}, default=str).encode()


def launch_decode(message: bytes) -> Launch:
    value = json.loads(message)
    for name in ("base", "run_dir", "log"):
        value[name] = Path(value[name])
    value["doors"] = tuple(map(Path, value["doors"]))
    value["arguments"] = tuple(value["arguments"])
    return Launch(**value)


@dataclass(frozen=True, slots=True)
class Ends:
    """The child's ends of what joins it to its keeper: its output, its news, its orders."""

    output: int
    announce: int
    orders: socket.socket


def child_run(launch: Launch | None, doors: tuple[Path, ...], ends: Ends, keeper: int) -> NoReturn:
    """In the new child: become the job's main process when the keeper says so; what it says is the launch, if that was
    not known at the fork."""
    announce = ends.announce
    try:
        enter(doors)
        _settle(ends.output)
        if os.getppid() != keeper:
            os._exit(1)
        message = ends.orders.recv(LAUNCH_BYTES)
        if not message:
            os._exit(1)
        launch = launch or launch_decode(message)
        if launch.sandboxed:
            announce = descriptor_move(announce, READY_DESCRIPTOR)
        else:
            user_switch(launch.uid)
            os.chdir(launch.work_dir)
            # To change the user has ended what was asked for before.
            process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)
        os.execve(launch.program, launch.arguments, launch.env)  # noqa: S606 - that is what a keeper is for
    except BaseException as error:  # noqa: BLE001 - report, then end; never return
        with contextlib.suppress(OSError):
            os.write(announce, (getattr(error, "strerror", "") or repr(error)).encode()[:400])
    finally:
        os._exit(127)


def _settle(output: int) -> None:
    """Everything that does not depend on what is to be run."""
    process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.umask(0o022)
    process.files_restore()
    signals_restore()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def signals_restore() -> None:
    """The kernel's own answer to every signal; exec would keep what is ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)


def descriptor_move(descriptor: int, wanted: int) -> int:
    """`descriptor` as number `wanted`, inherited by exec."""
    if descriptor == wanted:
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(descriptor, wanted)
    return wanted


def enter(doors: tuple[Path, ...]) -> None:
    """Move this process into control groups."""
    for door in doors:
        door.write_text("0")


def user_switch(uid: int) -> None:
    """Become `uid` with no other group and no way to more rights; 0 keeps the user."""
    if uid and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
