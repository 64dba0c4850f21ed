"""A millpond of its own for the demo: a temporary state folder, a free port, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millpond.sdk import Client

BROKER = Path(__file__).resolve().parent
UP_SECONDS, DOWN_SECONDS = 60, 60


class StageError(Exception):
    """The platform itself could not be brought up or down."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A running millpond: its state folder, the environment of its commands, a client that may do everything."""

    state_dir: Path
    environ: dict[str, str]
    client: Client

    def command(self, *words: str, timeout: float = 30) -> str:
        """Run ``millpond`` and give back what it prints; `StageError` with its message when it fails."""
        return _run(self.environ, *words, timeout=timeout)


def hidden_from_tenants() -> Path | None:
    """A folder that the jobs need and cannot enter; None when all is well.

    As root, millpond runs each tenant's jobs as an unprivileged user.  bubblewrap shows them what they need wherever
    it lies; without it, ordinary permissions decide.
    """
    if os.geteuid() != 0 or shutil.which("bwrap"):
        return None
    needed = (BROKER, Path(sys.prefix), Path(sys.executable).resolve())
    return next((path for place in needed for path in (place, *place.parents) if not path.stat().st_mode & 0o001), None)


@contextlib.contextmanager
def stage_open(pool: str) -> Iterator[Stage]:
    """``millpond up --sim POOL`` for as long as the block lasts."""
    hidden = hidden_from_tenants()
    if hidden is not None:
        raise StageError(f"jobs cannot enter {hidden}: install bubblewrap, or move the checkout out of it")
    state_dir = Path(tempfile.mkdtemp(prefix="millpond-demo-"))
    state_dir.chmod(0o755)
    environ = _environ(state_dir, pool)
    try:
        _run(environ, "up", "--sim", pool, timeout=UP_SECONDS)
        address = json.loads((state_dir / "run" / "server.json").read_text())["address"]
        token = (state_dir / "run" / "admin.token").read_text().strip()
        with Client(address, token) as client:
            yield Stage(state_dir, environ, client)
    finally:
        try:
            _run(environ, "down", timeout=DOWN_SECONDS)
        finally:
            shutil.rmtree(state_dir, ignore_errors=True)


def _environ(state_dir: Path, pool: str) -> dict[str, str]:
    """The caller's environment without any millpond of the caller's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
    return inherited | {
        "MILLPOND_STATE_DIR": str(state_dir),
        "MILLPOND_PORT": "0",
        "MILLPOND_SIM": pool,
        # Isolated jobs see the system's folders and millpond's own Python; here is their program.
        "MILLPOND_VISIBLE": str(BROKER),
    }


def _run(environ: dict[str, str], *words: str, timeout: float) -> str:
    command = [str(Path(sys.executable).with_name("millpond")), *words]
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise StageError(f"millpond {' '.join(words)} did not end within {timeout:.0f} s") from error
    if done.returncode != 0:
        raise StageError(f"millpond {' '.join(words)} failed ({done.returncode}):\n{done.stderr or done.stdout}")
    return done.stdout
