"""Small files that must be whole or absent, and unix socket addresses of any length."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def sync_dir(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, value: dict[str, Any], *, durable: bool, mode: int = 0o600) -> None:
    """Replace a file by a JSON object: readers see the old one or the new one, and after a crash of the machine, if it
    is there, its content is too."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    _write(temporary, _text(value), durable=durable, mode=mode)
    temporary.rename(path)


def claim(path: Path, value: dict[str, Any]) -> bool:
    """Create a file with its content in one step; False if somebody was first."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    _write(temporary, _text(value), durable=False, mode=0o600)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def write_text_whole(path: Path, text: str, mode: int) -> None:
    """As `write_whole`, for plain text and whatever the umask."""
    temporary = path.with_name(f".{path.name}.tmp")
    _write(temporary, text.encode(), durable=False, mode=mode)
    temporary.chmod(mode)
    temporary.rename(path)


def _text(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _write(path: Path, data: bytes, *, durable: bool, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.write(descriptor, data)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_whole(path: Path) -> dict[str, Any] | None:
    """What `write_whole` or `claim` left there; None if nothing."""
    with contextlib.suppress(FileNotFoundError):
        value = json.loads(path.read_bytes())
        if isinstance(value, dict):
            return value
    return None


@contextlib.contextmanager
def socket_address(folder: Path, name: str) -> Any:
    """An address of a unix socket in `folder` that is short however long the folder's own name is."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
