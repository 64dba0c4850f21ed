"""Files of the state folder that the life cycle needs: where the server is, the admin token, the declared pool."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from millpond.commands.processes import Process, process_alive
from millpond.config import Settings
from millpond.domain.errors import InvalidInput, Position

REAL = ("none", "real")
"""Words for ``--sim`` that mean this machine's own cards."""


@dataclass(frozen=True, slots=True)
class ServerFile:
    """``run/server.json``: how clients find the server, and which process it is."""

    address: str
    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return process_alive(Process(self.pid, self.started))


@dataclass(frozen=True, slots=True)
class Pool:
    """A declared simulated pool: what was written, and the text it stands for (of a file, its content)."""

    label: str = ""
    text: str = ""


def folders_make(settings: Settings) -> None:
    """The state folder and its parts.  Tenants' users may enter ``jobs`` and pass ``engine``; the rest is ours."""
    try:
        for folder in (settings.state_dir, settings.jobs_dir):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Jobs without a sandbox pass through the engine's folder to their deadline files, and can list nothing there.
        for folder, mode in ((settings.run_dir, 0o700), (settings.engine_dir, 0o711), (logs_dir(settings), 0o700)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            folder.chmod(mode)
    except OSError as error:
        raise InvalidInput(
            f"cannot use {settings.state_dir} as state folder: {error.strerror}", hint="choose another with --state-dir"
        ) from error


def logs_dir(settings: Settings) -> Path:
    return settings.state_dir / "logs"


def server_log(settings: Settings) -> Path:
    return logs_dir(settings) / "server.log"


def token_path(settings: Settings) -> Path:
    return settings.run_dir / "admin.token"


def server_path(settings: Settings) -> Path:
    return settings.run_dir / "server.json"


def server_read(settings: Settings) -> ServerFile | None:
    """Where the server of this state folder is, or was."""
    try:
        found = json.loads(server_path(settings).read_text(encoding="utf-8"))
        return ServerFile(str(found["address"]), int(found["pid"]), int(found["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def server_write(settings: Settings, server: ServerFile) -> None:
    file_write(server_path(settings), json.dumps(asdict(server)) + "\n", 0o644)


def server_forget(settings: Settings) -> None:
    server_path(settings).unlink(missing_ok=True)


def pool_read(settings: Settings) -> Pool:
    """The pool that this state folder was started with last."""
    try:
        found = json.loads((settings.state_dir / "pool.json").read_text(encoding="utf-8"))
        return Pool(str(found["label"]), str(found["text"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Pool()


def pool_write(settings: Settings, pool: Pool) -> None:
    file_write(settings.state_dir / "pool.json", json.dumps(asdict(pool), ensure_ascii=False) + "\n", 0o600)


def pool_resolve(wanted: str, stored: Pool) -> Pool:
    """What ``--sim`` means: nothing = as before, ``none`` = this machine, a file = its content, else a short form."""
    if not wanted:
        return stored
    if wanted in REAL:
        return Pool()
    path = Path(wanted)
    if not path.is_file():
        if path.suffix in (".yaml", ".yml") or "/" in wanted:
            raise InvalidInput(f"there is no file {wanted}", hint="write 8x8xA800-80GB, or name a file with nodes")
        return Pool(wanted, wanted)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {wanted}", position=Position(1, 1, "", wanted)) from error
    # A text of one line would be taken for the short form.
    return Pool(path.name, text if "\n" in text else text + "\n")


def file_write(path: Path, text: str, mode: int) -> None:
    """Write a small file in one step, so that a reader sees the old or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as sink:
        sink.write(text)
        sink.flush()
        os.fsync(handle)
    fresh.chmod(mode)
    fresh.replace(path)
