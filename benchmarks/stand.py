"""A whole millpond, or its database alone, for benchmarks that need one running."""

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

import psutil

from millpond.db.embedded import EmbeddedPostgres
from millpond.db.schema import upgrade
from millpond.db.session import Database
from millpond.sdk import Client


@dataclass(frozen=True, slots=True)
class Pond:
    """A running millpond of our own."""

    state_dir: Path
    client: Client

    def processes(self) -> list[psutil.Process]:
        """The control plane: server, supervisor and PostgreSQL, with all that PostgreSQL started."""
        server = json.loads((self.state_dir / "run" / "server.json").read_text())["pid"]
        found = {server: psutil.Process(server)}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(self.state_dir) in word for word in process.cmdline()):
                    found[process.pid] = process
                    found |= {child.pid: child for child in process.children(recursive=True)}
        found.pop(os.getpid(), None)
        return list(found.values())


@contextlib.contextmanager
def pond_open(pool: str, isolation: str = "none") -> Iterator[Pond]:
    """``millpond up`` in a temporary state folder on a free port, ended and removed afterwards."""
    state_dir = Path(tempfile.mkdtemp(prefix="millpond-bench-"))
    state_dir.chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
    environ |= {"MILLPOND_STATE_DIR": str(state_dir), "MILLPOND_PORT": "0", "MILLPOND_ISOLATION": isolation}
    program = str(Path(sys.executable).with_name("millpond"))
    try:
        subprocess.run([program, "up", "--sim", pool], env=environ, check=True, timeout=120, stdout=subprocess.DEVNULL)
        address = json.loads((state_dir / "run" / "server.json").read_text())["address"]
        token = (state_dir / "run" / "admin.token").read_text().strip()
        with Client(address, token) as client:
            yield Pond(state_dir, client)
    finally:
        subprocess.run([program, "down"], env=environ, check=False, timeout=120, stdout=subprocess.DEVNULL)
        shutil.rmtree(state_dir, ignore_errors=True)


@contextlib.contextmanager
def database_open() -> Iterator[Database]:
    """A migrated, empty database on a PostgreSQL of our own with the product's settings, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="millpond-bench-"))
    server = EmbeddedPostgres(folder / "postgres", folder / "run")
    try:
        url = server.ensure()
        upgrade(url)
        database = Database(url)
        try:
            yield database
        finally:
            database.close()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
