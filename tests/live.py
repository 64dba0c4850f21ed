"""A whole millpond for live tests: its own state folder and port, started and stopped by its own commands."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from millpond.sdk import Client
from millpond.sdk.answers import Attempt, Job

T = TypeVar("T")

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})
UP_S, DOWN_S = 150.0, 150.0


class Millpond:
    """A state folder and the commands on it.  `isolation` none: tests need no sandbox unless they say so.

    ``python``: the interpreter that has the millpond to be run; this one's by default.
    """

    def __init__(
        self, state_dir: Path, pool: str, isolation: str = "none", python: str = sys.executable, **settings: str
    ) -> None:
        self.python = python
        self.state_dir = state_dir
        self.pool = pool
        self.isolation = isolation
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
        own = {"MILLPOND_STATE_DIR": str(state_dir), "HOME": str(state_dir), "LANG": "C.UTF-8"}
        self.environ = kept | own | {f"MILLPOND_{name.upper()}": value for name, value in settings.items()}

    def command(self, *words: str, timeout: float = 60.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``millpond WORDS``."""
        done = subprocess.run(
            [self.python, "-m", "millpond.cli.main", *words],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"millpond {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def up(self, *words: str) -> dict[str, Any]:
        options = ("--sim", self.pool, "--port", "0", "--isolation", self.isolation, "--json")
        answer: dict[str, Any] = json.loads(self.command("up", *options, *words, timeout=UP_S).stdout)
        return answer

    def down(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.command("down", "--json", *words, timeout=DOWN_S).stdout)
        return answer

    @property
    def run_dir(self) -> Path:
        return self.state_dir / "run"

    def server(self) -> Mapping[str, Any]:
        """``run/server.json``."""
        found: Mapping[str, Any] = json.loads((self.run_dir / "server.json").read_text())
        return found

    def client(self) -> Client:
        return Client(str(self.server()["address"]), (self.run_dir / "admin.token").read_text().strip())

    def log(self) -> str:
        return (self.state_dir / "logs" / "server.log").read_text(errors="replace")


@contextlib.contextmanager
def home_made() -> Iterator[Path]:
    """A folder that other users may pass through, gone with the block.

    Not below pytest's own: every session that begins closes that one to others, and a job runs as another user.
    """
    with tempfile.TemporaryDirectory(prefix="millpond-live-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def millpond_up(folder: Path, pool: str, isolation: str = "none", **settings: str) -> Iterator[Millpond]:
    """A running millpond below `folder`; everything of it ends with the block."""
    pond = Millpond(folder / "state", pool, isolation, **settings)
    try:
        pond.up()
        yield pond
    finally:
        pond.down("--grace", "0")


def wait_for(look: Callable[[], T | None], what: str, timeout_s: float = 60.0, step_s: float = 0.05) -> T:
    """What `look` finds as soon as it finds something; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f}s for {what}")
        time.sleep(step_s)


def spec(name: str, *commands: str, gpu: str = "1", queue: str = "batch", **more: Any) -> dict[str, Any]:
    """The JSON of a small task."""
    base: dict[str, Any] = {
        "type": "task",
        "name": name,
        "tenant": "default",
        "queue": queue,
        "resources": {"gpu": gpu},
        "commands": list(commands),
    }
    return base | more


def job_when(client: Client, job: str, *states: str, timeout_s: float = 60.0) -> Job:
    """The job as soon as it is in one of `states`."""

    def look() -> Job | None:
        found = client.jobs.get(job)
        if found["state"] in TERMINAL and found["state"] not in states:
            raise AssertionError(f"job {found['name']} is {found['state']}: {found['message']}")
        return found if found["state"] in states else None

    return wait_for(look, f"job {job} to be {' or '.join(states)}", timeout_s)


def attempts_of(client: Client, job: str) -> list[Attempt]:
    return list(client.jobs.attempts(job))
