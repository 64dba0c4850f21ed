"""Folders of a job, made by root in places where a tenant may already have written: no link of theirs is followed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PASS_MODE = 0o711
"""Parents: others may pass, not list."""

_OURS: set[str] = set()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder wanted, its mode, and whose it is (0: nobody else's)."""

    path: Path
    mode: int
    uid: int = 0


def folder_make(path: Path, mode: int, uid: int = 0) -> None:
    """`folders_make` for one."""
    folders_make((Folder(path, mode, uid),))


def folders_make(wanted: Iterable[Folder]) -> None:
    """Make folders and their parents where they are missing, and give them to their users.

    A symbolic link is followed only where root or we ourselves put it.  What is made inside somebody else's folder
    belongs to `uid` as well.  Raises OSError.
    """
    with contextlib.ExitStack() as stack:
        walked: dict[str, Place] = {}
        for folder in wanted:
            try:
                _walk(folder, walked, stack)
            except OSError as error:
                error.filename = str(folder.path)
                raise


@dataclass(frozen=True, slots=True)
class Place:
    """An open folder; ``trusted``: it is ours; ``safe``: so is all that leads to it."""

    descriptor: int
    trusted: bool
    safe: bool


def _walk(folder: Folder, walked: dict[str, Place], stack: contextlib.ExitStack) -> None:
    """One folder, from where an earlier one of this call, or of an earlier call, has led."""
    above = [str(parent) for parent in folder.path.parents]
    start = next((name for name in above if name in walked or name in _OURS), "/")
    if start not in walked:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        walked[start] = _place(os.open(start, flags), stack, safe=True)
    place = walked[start]
    parts = folder.path.parts[len(Path(start).parts) :]
    name = start.rstrip("/")
    for number, part in enumerate(parts, 1):
        name = f"{name}/{part}"
        last = number == len(parts)
        child = _step(place, part, folder.mode if last else 0, folder.uid)
        place = _place(child, stack, safe=place.safe)
        walked[name] = place
        if place.safe and number < len(parts) - 1:
            _remember(name)


def _place(descriptor: int, stack: contextlib.ExitStack, *, safe: bool) -> Place:
    stack.callback(os.close, descriptor)
    trusted = os.fstat(descriptor).st_uid in {0, os.geteuid()}
    return Place(descriptor, trusted, safe and trusted)


def _remember(path: str) -> None:
    """Nobody else can change what this path leads to; the walk may begin here next time."""
    if len(_OURS) > 100:
        _OURS.clear()
    _OURS.add(path)


def _step(place: Place, name: str, mode: int, uid: int) -> int:
    """Descriptor of `name` in a folder; `mode` 0 marks a parent."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if place.trusted else os.O_NOFOLLOW)
    given = uid if mode or not place.trusted else 0
    try:
        child = os.open(name, flags, dir_fd=place.descriptor)
    except FileNotFoundError:
        return _make(place, name, mode or (PASS_MODE if place.trusted else 0o700), given)
    _give(child, given)
    return child


def _make(place: Place, name: str, mode: int, uid: int) -> int:
    """A new folder.  In a place of ours it is settled under another name first, so that after a kill -9 nobody takes a
    half-made one for done; in a tenant's own place only the owner is missing then, and given the next time."""
    first = f".{name}.new" if place.trusted else name
    with contextlib.suppress(FileExistsError):
        os.mkdir(first, 0o700, dir_fd=place.descriptor)
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    child = os.open(first, flags, dir_fd=place.descriptor)
    os.chmod(_path(child), mode)  # noqa: PTH101
    _give(child, uid)
    if first != name:
        os.rename(first, name, src_dir_fd=place.descriptor, dst_dir_fd=place.descriptor)
    return child


def _give(folder: int, uid: int) -> None:
    """To its user, unless it has one already."""
    if uid and os.fstat(folder).st_uid == 0:
        os.chown(_path(folder), uid, uid)


def _path(folder: int) -> str:
    """The descriptor's own name: an O_PATH descriptor takes neither mode nor owner directly."""
    return f"/proc/self/fd/{folder}"
