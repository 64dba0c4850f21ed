"""Keepers on standby: forked while nothing else is to be done, so that a start need not wait for two forks and for the
kernel to move a process into its control groups.

Each waits with its child in control groups of its own, which are named by it; an attempt that takes it keeps that name
(the journal says it).  What is on standby ends when the supervisor does.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .cgroups import Groups
from .child import LAUNCH_BYTES, Launch, launch_encode
from .keeper import standby_fork

SIZE = 2
REST_MS = 40
"""A pause among starts, after which there is time to refill: refilling must not delay what is being started."""

END_MS = 1000


@dataclass(frozen=True, slots=True)
class Slot:
    """A keeper on standby: its control groups, its pid and a pidfd, and where to send its launch."""

    group: str
    pid: int
    descriptor: int
    orders: socket.socket


class StandbyPool:
    def __init__(self, groups: Groups, later: Callable[[int, Callable[[], None]], None]) -> None:
        self._groups = groups
        self._later = later
        self._prefix = f"standby.{os.urandom(4).hex()}"  # no attempt can be called so: the dot
        self._count = 0
        self._slots: deque[Slot] = deque()
        self._reserved: dict[str, Slot] = {}
        self._asked = 0
        self._open = False

    @property
    def pids(self) -> set[int]:
        return {slot.pid for slot in (*self._slots, *self._reserved.values())}

    def open(self) -> None:
        """Begin to fill it."""
        self._open = True
        self._refill_later()

    def reserve(self) -> str:
        """The control groups of a keeper on standby, which is now kept for `start`; "" if there is none."""
        self._asked += 1
        self._refill_later()
        if not self._slots:
            return ""
        slot = self._slots.popleft()
        self._reserved[slot.group] = slot
        return slot.group

    def has(self, group: str) -> bool:
        """Whether such a keeper waits, reserved, in these groups: then they need not be made."""
        return group in self._reserved

    def start(self, group: str, launch: Launch) -> tuple[int, int] | None:
        """Hand the launch to the keeper that `reserve` meant: its pid and pidfd; None if a new one has to be forked."""
        slot = self._reserved.pop(group, None)
        if slot is None:
            return None
        message = launch_encode(launch)
        with slot.orders, contextlib.suppress(OSError):
            if len(message) < LAUNCH_BYTES:
                slot.orders.send(message)
                return slot.pid, slot.descriptor
        os.close(slot.descriptor)
        return None

    def drop(self, group: str) -> None:
        """What was reserved is not wanted after all: it ends."""
        slot = self._reserved.pop(group, None)
        if slot is not None:
            slot.orders.close()
            os.close(slot.descriptor)

    def _refill_later(self) -> None:
        asked = self._asked
        if self._open:
            self._later(REST_MS, lambda: self._refill(asked))

    def _refill(self, asked: int) -> None:
        """Make one, unless something was started meanwhile: that start will ask again."""
        if not self._open or asked != self._asked or len(self._slots) >= SIZE:
            return
        with contextlib.suppress(OSError):  # without a keeper on standby a start is slower, nothing else
            self._slots.append(self._fork())
            self._refill_later()

    def _fork(self) -> Slot:
        self._count += 1
        group = f"{self._prefix}.{self._count}"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs:
                self._groups.make(group)
                pid = standby_fork(tuple(self._groups.doors(group)), theirs)
        except OSError:
            ours.close()
            self._groups.remove(group)
            raise
        return Slot(group, pid, os.pidfd_open(pid), ours)

    def close(self) -> None:
        """Let all that wait end, and take their control groups away."""
        self._open = False
        for slot in self._slots:
            slot.orders.close()
        for slot in self._slots:
            poll = select.poll()
            poll.register(slot.descriptor, select.POLLIN)
            poll.poll(END_MS)
            os.close(slot.descriptor)
            self._groups.kill(slot.group)
            until = time.monotonic() + END_MS / 1000
            while not self._groups.remove(slot.group) and time.monotonic() < until:
                time.sleep(0.001)
        self._slots.clear()
