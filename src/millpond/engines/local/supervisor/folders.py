"""Folders of a job, made by root in places where a tenant may already have written: no link of theirs is followed."""

from __future__ import annotations

import os
from pathlib import Path

PASS_MODE = 0o711
"""Parents: others may pass, not list."""

_OURS: set[str] = set()


def folder_make(path: Path, mode: int, uid: int = 0) -> None:
    """Make a folder and its parents where they are missing, and give it to `uid` (0: nobody else).

    A symbolic link is followed only where root or we ourselves put it.  What is made inside somebody else's folder
    belongs to `uid` as well.  Raises OSError.
    """
    start = next((parent for parent in path.parents if str(parent) in _OURS), Path("/"))
    place = os.open(start, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ours = True
        parts = path.relative_to(start).parts
        for number, name in enumerate(parts, 1):
            child = _step(place, name, mode if number == len(parts) else 0, uid)
            os.close(place)
            place = child
            ours = ours and os.fstat(place).st_uid in {0, os.geteuid()}
            if ours and number < len(parts) - 1:
                _remember(start.joinpath(*parts[:number]))
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(place)


def _remember(path: Path) -> None:
    """Nobody else can change what this path leads to; the walk may begin here next time."""
    if len(_OURS) > 100:
        _OURS.clear()
    _OURS.add(str(path))


def _step(place: int, name: str, mode: int, uid: int) -> int:
    """Descriptor of `name` in the folder `place`; `mode` 0 marks a parent."""
    trusted = os.fstat(place).st_uid in {0, os.geteuid()}
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if trusted else os.O_NOFOLLOW)
    made = False
    try:
        child = os.open(name, flags, dir_fd=place)
    except FileNotFoundError:
        try:
            os.mkdir(name, 0o700, dir_fd=place)
            made = True
        except FileExistsError:
            pass
        child = os.open(name, flags | os.O_NOFOLLOW, dir_fd=place)
    if made or mode:
        _settle(child, mode or (PASS_MODE if trusted else 0o700), uid if mode or not trusted else 0, made=made)
    return child


def _settle(folder: int, mode: int, uid: int, *, made: bool) -> None:
    """Mode and owner, through the descriptor's own name: an O_PATH descriptor takes neither directly."""
    name = f"/proc/self/fd/{folder}"
    if made:
        os.chmod(name, mode)  # noqa: PTH101
    if uid and os.fstat(folder).st_uid == 0:
        os.chown(name, uid, uid)
