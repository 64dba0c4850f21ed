"""``millpond up``: start what is not running, adopt what is, and say how to go on."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from millpond.commands.places import (
    ServerFile,
    file_write,
    folders_make,
    pool_read,
    pool_resolve,
    server_log,
    server_read,
)
from millpond.commands.processes import file_locked, log_tail, process_spawn, wait_until
from millpond.config import Settings
from millpond.domain.errors import Conflict, MillpondError, Refused, Unavailable

START_S = 90.0
_OWN = ("MILLPOND_TOKEN", "MILLPOND_SERVER")


def settings_environ(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the server's process: ours, with every setting written out."""
    env = {name: value for name, value in environ.items() if name not in _OWN}
    for name, value in settings.model_dump().items():
        if value is not None:
            env[f"MILLPOND_{name.upper()}"] = str(value)
    return env


def server_argv(*, replace_pool: bool) -> list[str]:
    """The server's own process."""
    return [sys.executable, "-m", "millpond.main", *(["--replace-pool"] if replace_pool else [])]


def server_ensure(settings: Settings, *, replace_pool: bool) -> tuple[ServerFile, bool]:
    """The server of this state folder, running and ready; and whether it was started now."""
    folders_make(settings)
    with file_locked(settings.run_dir / "up.lock", "another millpond up", START_S):
        running = server_read(settings)
        if running is not None and running.alive:
            _same_pool_check(settings)
            if not wait_until(lambda: server_ready(running.address), START_S, 0.1):
                raise _not_ready(settings, f"the server (pid {running.pid}) does not become ready")
            return running, False
        return _server_spawn(settings, replace_pool=replace_pool), True


def _server_spawn(settings: Settings, *, replace_pool: bool) -> ServerFile:
    error_path(settings).unlink(missing_ok=True)
    process = process_spawn(
        server_argv(replace_pool=replace_pool), settings_environ(settings, os.environ), server_log(settings)
    )

    def settled() -> bool:
        return process.poll() is not None or _ready_of(settings, process) is not None

    if not wait_until(settled, START_S, 0.03):
        raise _not_ready(settings, "the server does not become ready")
    server = _ready_of(settings, process)
    if server is None:
        start_error_raise(settings)
        raise _not_ready(settings, f"the server ended with code {process.returncode}")
    return server


def _ready_of(settings: Settings, process: subprocess.Popen[bytes]) -> ServerFile | None:
    server = server_read(settings)
    if server is None or server.pid != process.pid or not server_ready(server.address):
        return None
    return server


def server_ready(address: str) -> bool:
    """Whether ``/readyz`` says yes."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port, timeout=3)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _same_pool_check(settings: Settings) -> None:
    stored = pool_read(settings)
    if pool_resolve(settings.sim, stored) != stored:
        raise Conflict(
            f"millpond runs already, with another pool ({stored.label or 'this machine'})",
            hint="millpond down first, then up with the new --sim",
            code="POOL_DIFFERS",
        )


def _not_ready(settings: Settings, what: str) -> Unavailable:
    log = server_log(settings)
    return Unavailable(what, hint=f"look at {log}", code="START", details={"log": log_tail(log)})


def error_path(settings: Settings) -> Path:
    return settings.run_dir / "start-error.json"


def start_error_write(settings: Settings, error: MillpondError) -> None:
    """What the server's process could not get over, for the `up` that waits for it."""
    value: dict[str, object] = {
        "message": error.message,
        "hint": error.hint,
        "code": error.reason,
        "details": error.details,
    }
    value["unavailable"] = isinstance(error, Unavailable)
    file_write(error_path(settings), json.dumps(value, default=str), 0o600)


def start_error_raise(settings: Settings) -> None:
    """Raise what the server's process wrote, if it did."""
    try:
        found = json.loads(error_path(settings).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    kind = Unavailable if found["unavailable"] else Refused
    raise kind(found["message"], hint=found["hint"], code=found["code"], details=found["details"])
