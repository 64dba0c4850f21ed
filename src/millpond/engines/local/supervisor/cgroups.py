"""Control groups, version 1 or 2, or none: limits for an attempt, and the certainty that all of it is dead.

What this machine allows is found by trying it.  Each attempt has one group (in every version 1 hierarchy); the main
process of each rank moves itself in before it becomes the job, so that nothing can start outside.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .files import read_whole, write_whole
from .process import kill

PIDS_MAX = 16384
_MIB = 1024 * 1024
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class Limits:
    """``cpu`` milli-CPU, ``memory`` MiB; 0 = unlimited."""

    cpu: int = 0
    memory: int = 0


class Groups(Protocol):
    """A kind of control groups."""

    note: str

    def names(self) -> list[str]:
        """Groups that exist now."""
        ...

    def make(self, name: str) -> None: ...
    def limit(self, name: str, limits: Limits) -> None: ...
    def doors(self, name: str) -> list[Path]:
        """Files to write "0" to, to move oneself in."""
        ...

    def pids(self, name: str) -> list[int]: ...
    def kill(self, name: str) -> None:
        """SIGKILL to everything inside, nothing escapes by forking."""
        ...

    def out_of_memory(self, name: str) -> bool: ...
    def remove(self, name: str) -> bool:
        """False while something inside is not quite gone."""
        ...

    def discard(self) -> None:
        """Take our own folder away, if nothing is in it."""
        ...


class NoGroups:
    note = "no control groups: limits are not enforced, process trees are found by descent and by their environment"

    def names(self) -> list[str]:
        return []

    def make(self, name: str) -> None:
        del name

    def limit(self, name: str, limits: Limits) -> None:
        del name, limits

    def doors(self, name: str) -> list[Path]:
        del name
        return []

    def pids(self, name: str) -> list[int]:
        del name
        return []

    def kill(self, name: str) -> None:
        del name

    def out_of_memory(self, name: str) -> bool:
        del name
        return False

    def remove(self, name: str) -> bool:
        del name
        return True

    def discard(self) -> None:
        """There is none."""


class Version1:
    """One folder per hierarchy that can be written: memory, pids, cpu, freezer."""

    def __init__(self, roots: dict[str, Path]) -> None:
        self.roots = roots
        self._main = roots.get("freezer") or roots.get("pids") or next(iter(roots.values()))
        self.note = f"cgroup v1: {', '.join(sorted(roots))}"

    def names(self) -> list[str]:
        return sorted({name for root in self.roots.values() for name in _names(root)})

    def make(self, name: str) -> None:
        for root in self.roots.values():
            (root / name).mkdir(parents=True, exist_ok=True)
        if "pids" in self.roots:
            _put(self.roots["pids"] / name / "pids.max", PIDS_MAX)

    def limit(self, name: str, limits: Limits) -> None:
        if "memory" in self.roots and limits.memory:
            folder = self.roots["memory"] / name
            _put(folder / "memory.limit_in_bytes", limits.memory * _MIB)
            with contextlib.suppress(OSError):
                _put(folder / "memory.memsw.limit_in_bytes", limits.memory * _MIB)
        if "cpu" in self.roots and limits.cpu:
            folder = self.roots["cpu"] / name
            _put(folder / "cpu.shares", max(2, min(262_144, limits.cpu * 1024 // 1000)))
            with contextlib.suppress(OSError):
                _put(folder / "cpu.cfs_quota_us", max(1000, limits.cpu * _PERIOD_US // 1000))

    def doors(self, name: str) -> list[Path]:
        return [root / name / "cgroup.procs" for root in self.roots.values()]

    def pids(self, name: str) -> list[int]:
        return _pids(self._main / name)

    def kill(self, name: str) -> None:
        if "freezer" not in self.roots:
            _kill_until_empty(lambda: self.pids(name))
            return
        state = self.roots["freezer"] / name / "freezer.state"
        with contextlib.suppress(OSError):
            _put(state, "FROZEN")
        for pid in self.pids(name):
            kill(pid)
        with contextlib.suppress(OSError):
            _put(state, "THAWED")

    def out_of_memory(self, name: str) -> bool:
        if "memory" not in self.roots:
            return False
        return _counter(self.roots["memory"] / name / "memory.oom_control", "oom_kill") > 0

    def remove(self, name: str) -> bool:
        left = [root for root in self.roots.values() if not _remove(root / name)]
        return not left

    def discard(self) -> None:
        for root in self.roots.values():
            _remove(root)


class Version2:
    """A subtree of the unified hierarchy with the controllers that could be enabled in it."""

    def __init__(self, root: Path, controllers: frozenset[str]) -> None:
        self.root = root
        self.controllers = controllers
        self.note = f"cgroup v2: {', '.join(sorted(controllers)) or 'no controllers, only kill'}"

    def names(self) -> list[str]:
        return _names(self.root)

    def make(self, name: str) -> None:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        if "pids" in self.controllers:
            _put(folder / "pids.max", PIDS_MAX)

    def limit(self, name: str, limits: Limits) -> None:
        folder = self.root / name
        if "memory" in self.controllers and limits.memory:
            _put(folder / "memory.max", limits.memory * _MIB)
            with contextlib.suppress(OSError):
                _put(folder / "memory.swap.max", 0)
        if "cpu" in self.controllers and limits.cpu:
            _put(folder / "cpu.weight", max(1, min(10_000, limits.cpu // 10)))
            _put(folder / "cpu.max", f"{max(1000, limits.cpu * _PERIOD_US // 1000)} {_PERIOD_US}")

    def doors(self, name: str) -> list[Path]:
        return [self.root / name / "cgroup.procs"]

    def pids(self, name: str) -> list[int]:
        return _pids(self.root / name)

    def kill(self, name: str) -> None:
        try:
            _put(self.root / name / "cgroup.kill", 1)
        except OSError:
            _kill_until_empty(lambda: self.pids(name))

    def out_of_memory(self, name: str) -> bool:
        return _counter(self.root / name / "memory.events", "oom_kill") > 0

    def remove(self, name: str) -> bool:
        return _remove(self.root / name)

    def discard(self) -> None:
        _remove(self.root)


def groups_open(memory: Path, label: str) -> Groups:
    """The kind found by an earlier supervisor (in the file `memory`), whose groups may still hold attempts; else the
    best that works here, tried and remembered.  ``label`` names our folder below the supervisor's own group."""
    saved = read_whole(memory)
    if saved is not None:
        roots = {name: Path(place) for name, place in saved["roots"].items()}
        if roots and all(_usable(folder) for folder in roots.values()):
            return Version1(roots) if saved["version"] == 1 else Version2(roots[""], frozenset(saved["controllers"]))
    groups = _detect(label)
    if isinstance(groups, Version1):
        found = {"version": 1, "roots": {name: str(place) for name, place in groups.roots.items()}}
        write_whole(memory, found, durable=False)
    elif isinstance(groups, Version2):
        found = {"version": 2, "roots": {"": str(groups.root)}, "controllers": sorted(groups.controllers)}
        write_whole(memory, found, durable=False)
    return groups


def _detect(label: str) -> Groups:
    mounts = _mounts()
    own = _own_groups()
    second = [made for folder in mounts.get("", []) if (made := _version2(folder, own.get("", "/"), label))]
    if second and "memory" in second[0].note:
        return second[0]
    first = _version1(mounts, own, label)
    if first is not None:
        return first
    return second[0] if second else NoGroups()


def _version1(mounts: dict[str, list[Path]], own: dict[str, str], label: str) -> Version1 | None:
    roots: dict[str, Path] = {}
    for controller in ("memory", "pids", "cpu", "freezer"):
        for mount in mounts.get(controller, []):
            folder = mount / own.get(controller, "/").lstrip("/") / label
            if _usable(folder):
                roots[controller] = folder
                break
    return Version1(roots) if roots else None


def _version2(mount: Path, own: str, label: str) -> Version2 | None:
    """Below our own group, or below the top as root: a group with processes of its own cannot hand controllers on."""
    for base in dict.fromkeys((mount / own.lstrip("/"), mount)):
        folder = base / label
        if not _usable(folder):
            continue
        enabled = frozenset(name for name in ("memory", "pids", "cpu") if _enable(base, folder, name))
        if enabled or base == mount:
            return Version2(folder, enabled)
    return None


def _enable(base: Path, folder: Path, controller: str) -> bool:
    try:
        for place in (base, folder):
            if controller not in (place / "cgroup.controllers").read_text().split():
                return False
            _put(place / "cgroup.subtree_control", f"+{controller}")
    except OSError:
        return False
    return True


def _usable(folder: Path) -> bool:
    """Whether a group can be made in `folder` and a process can enter it."""
    probe = folder / f"probe-{os.getpid()}"
    try:
        folder.mkdir(exist_ok=True)
        probe.mkdir(exist_ok=True)
    except OSError:
        return False
    child = os.fork()
    if child == 0:
        try:
            (probe / "cgroup.procs").write_text("0")
            os._exit(0)
        finally:
            os._exit(1)
    entered = os.waitpid(child, 0)[1] == 0
    for _ in range(50):
        if _remove(probe):
            break
        time.sleep(0.002)
    return entered


def _mounts() -> dict[str, list[Path]]:
    """Mount points by controller; "" is the unified hierarchy."""
    found: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind, options = line.split()[:4]
            names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
            for name in names:
                found.setdefault(name, []).append(Path(place))
    return found


def _own_groups() -> dict[str, str]:
    table: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, place = line.split(":", 2)
            for name in names.split(","):
                table[name] = place
    return table


def _put(path: Path, value: int | str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_dir()] if folder.exists() else []


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _counter(path: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _kill_until_empty(pids: Callable[[], list[int]]) -> None:
    """A tree that forks while it is killed needs more than one pass; each leaves fewer that can fork."""
    for _ in range(100):
        living = pids()
        if not living:
            return
        for pid in living:
            kill(pid)
