"""Isolation of a rank: bubblewrap's arguments, the devices it may see, and whether any of this works here.

As root, bubblewrap keeps root until the mounts are made (so that folders which the tenant's user cannot reach by name,
such as a 0700 state folder, can be shown), then ``setpriv`` drops to the tenant's user for good.  Without root it uses
a user namespace and the job runs as the engine's own user.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NOTICE_DIR = "/run/millpond"
"""Where an isolated job finds its deadline file."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/sys")
_RESOLVER = "/run/systemd/resolve"
_NVIDIA_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What works here.  ``bwrap`` empty: no isolation, and ``note`` says why.  ``visible``: more read-only folders."""

    bwrap: str
    setpriv: str
    visible: tuple[str, ...]
    note: str

    @property
    def works(self) -> bool:
        return bool(self.bwrap)


@dataclass(frozen=True, slots=True)
class View:
    """What one rank may see: folders to write, the folder with its deadline file, device nodes, MiB of /dev/shm
    (0: no limit)."""

    writable: tuple[str, ...]
    notice_dir: str
    devices: tuple[str, ...]
    shm: int


def sandbox_detect(wish: str, visible: tuple[str, ...]) -> Sandbox:
    """``wish``: auto, bubblewrap or none.  Raises RuntimeError when bubblewrap is demanded and does not work."""
    visible = tuple(place for place in visible if os.access(place, os.R_OK | os.X_OK))
    if wish == "none":
        return Sandbox("", "", visible, "isolation: none, as configured")
    bwrap, setpriv = shutil.which("bwrap") or "", shutil.which("setpriv") or ""
    problem = ""
    if not bwrap:
        problem = "bubblewrap is not installed"
    elif os.geteuid() == 0 and not setpriv:
        problem = "setpriv (util-linux) is not installed"
    else:
        problem = _try(Sandbox(bwrap, setpriv, visible, ""))
    if not problem:
        return Sandbox(bwrap, setpriv, visible, "isolation: bubblewrap")
    if wish == "bubblewrap":
        raise RuntimeError(f"isolation by bubblewrap was asked for, but {problem}")
    return Sandbox("", "", visible, f"isolation: none, {problem}")


def _try(sandbox: Sandbox) -> str:
    """Run ``true`` inside once; the reason why not, or nothing."""
    view = View(writable=(), notice_dir="", devices=(), shm=1)
    command = [*bwrap_arguments(sandbox, view, uid=65534 if os.geteuid() == 0 else 0), "/bin/sh", "-c", "exit 0"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False, env={"PATH": os.defpath})
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run here: {error}"
    if done.returncode == 0:
        return ""
    return f"it does not work here: {done.stderr.decode(errors='replace').strip()[:200] or done.returncode}"


def bwrap_arguments(sandbox: Sandbox, view: View, uid: int) -> list[str]:
    """Everything before the command itself.  The environment is passed as such, never by an argument."""
    words = [sandbox.bwrap, "--die-with-parent", "--unshare-pid", "--unshare-ipc"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", *(["--size", str(view.shm * 1024 * 1024)] if view.shm else []), "--tmpfs", "/dev/shm"]  # noqa: S108
    for place in ("/tmp", "/var/tmp"):  # noqa: S108
        words += ["--perms", "1777", "--tmpfs", place]
    words += ["--tmpfs", "/run"]
    for place in (*_SYSTEM, _RESOLVER):
        words += _system(place)
    words += _parents((*sandbox.visible, *view.writable))
    for place in sandbox.visible:
        words += ["--ro-bind-try", place, place]
    for device in view.devices:
        words += ["--dev-bind-try", device, device]
    for place in view.writable:
        words += ["--bind", place, place]
    if view.notice_dir:
        words += ["--ro-bind", view.notice_dir, NOTICE_DIR]
    words += ["--remount-ro", "/run", "--chdir", "/", "--cap-drop", "ALL"]
    if os.geteuid() != 0:
        return [*words, "--"]
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
        words += ["--cap-add", capability]
    return [*words, "--", *setpriv_arguments(sandbox, uid)]


def setpriv_arguments(sandbox: Sandbox, uid: int) -> list[str]:
    """Become the user `uid` (0: stay root, without capabilities) and nothing more, for ever."""
    user = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return [sandbox.setpriv, *user, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]


def _parents(places: tuple[str, ...]) -> list[str]:
    """bubblewrap makes the folders above a mount for itself alone (0700); the job's user must pass through them."""
    above = {str(parent) for place in places for parent in Path(place).parents}
    made = above - {"/", "/tmp", "/var/tmp", "/run"}  # noqa: S108
    hidden = sorted(folder for folder in made if not any(f"{folder}/".startswith(f"{own}/") for own in _SYSTEM))
    return [word for folder in hidden for word in ("--perms", "0755", "--dir", folder)]


def _system(place: str) -> list[str]:
    path = Path(place)
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), place]
    return ["--ro-bind", place, place] if path.exists() else []


def device_paths(cards: tuple[int, ...], uuids: tuple[str, ...]) -> tuple[str, ...]:
    """Device nodes of NVIDIA cards: by UUID where given (index and minor number may differ), else by index."""
    minors = _minors()
    wanted = [minors.get(uuid, card) for card, uuid in zip(cards, uuids, strict=True)] if uuids else list(cards)
    names = [*(f"nvidia{minor}" for minor in wanted), *_NVIDIA_SHARED] if wanted else []
    found = [f"/dev/{name}" for name in names if Path(f"/dev/{name}").exists()]
    if found and Path("/dev/nvidia-caps").is_dir():
        found.append("/dev/nvidia-caps")
    return tuple(found)


def _minors() -> dict[str, int]:
    """Minor number of each card by UUID, from the driver's own listing."""
    table: dict[str, int] = {}
    for path in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        text = path.read_text(errors="replace")
        uuid = re.search(r"GPU UUID:\s*(\S+)", text)
        minor = re.search(r"Device Minor:\s*(\d+)", text)
        if uuid and minor:
            table[uuid.group(1)] = int(minor.group(1))
    return table
