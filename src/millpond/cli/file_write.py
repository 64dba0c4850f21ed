"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from millpond.cli.errors import file_write_error
from millpond.cli.session import Session


def file_write(path: str, text: str) -> None:
    """Write `text` beside `path`, then move it there in one step; what was there stays until then."""
    pieces_write(path, [text.encode()])


def pieces_write(path: str, pieces: Iterable[bytes]) -> int:
    """As `file_write`, of bytes as they come; how many there were.  What making them raises leaves no file."""
    size = 0
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise file_write_error(error, path) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            for piece in pieces:
                size += stream.write(piece)
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        if isinstance(error, OSError):
            raise file_write_error(error, path) from error
        raise
    return size


def snapshot_put(session: Session, path: str, text: str) -> bool:
    """Give a snapshot to whoever asked: as JSON, to standard output (``-``), or as a file, which is when it is True."""
    if session.json:
        session.output.data({"snapshot": text})
        return False
    if path == "-":
        session.output.write(text)
        return False
    file_write(path, text)
    return True


def file_write_check(path: str) -> None:
    """Raise now what `file_write` would raise after the work: no such folder, none to write to, or `path` is one."""
    target = Path(path)
    if target.is_dir():
        raise file_write_error(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), path)
    try:
        # To ask for permissions is not enough: who may do everything still cannot write to some file systems.
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise file_write_error(error, path) from error
    os.close(handle)
    Path(name).unlink()


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
