"""Programs that a test starts: they log to a file, end by their pid, and die with the test run, however that ends."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

PORTS = range(20_000, 32_000)
"""Below those that the kernel gives to clients, so that nobody takes one between the choice and its use."""


class Program:
    """One program, to be started, stopped, killed and started again; each start is a process of its own.

    The kernel kills the process when the thread that started it ends (``setpriv --pdeathsig``), so start it in one that
    lives as long as it should.
    """

    def __init__(self, name: str, words: Sequence[str | Path | int], log: Path) -> None:
        self.name = name
        self.words = [str(word) for word in words]
        self.log = log
        self.started: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs; fails when none does."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.alive():
            return
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "GO", "ETCD"))}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "SIGKILL", "--", *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=kept,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self.started.append(self._process.pid)

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, grace_s: float = 10.0) -> None:
        """End it and wait until it is gone; it is killed when it does not end by itself."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """As a crash ends it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def memory(self) -> int:
        """MiB that it holds now; 0 when it does not run."""
        if not self.alive():
            return 0
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS:")), 0)

    def tail(self, lines: int = 6) -> str:
        """The end of its log, for the message of a failing test."""
        said = self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []
        return "\n".join([f"-- {self.name} ({self.log}) --", *(line[:400] for line in said)])


def ports_free(count: int) -> list[int]:
    """So many ports of 127.0.0.1, different and unused."""
    with ExitStack() as held:
        found: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            taken = held.enter_context(socket.socket())
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(f"127.0.0.1 has no {count} free ports in {PORTS}")
