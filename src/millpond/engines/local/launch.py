"""Starting and ending the supervisor's process."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from millpond.domain.errors import Unavailable
from millpond.engines.base import Retry
from millpond.engines.local.protocol import Caller
from millpond.engines.local.supervisor.main import ALREADY_RUNS

START_S = 30.0
STOP_S = 10.0
_PAUSE_S = 0.01


def supervisor_pid(run_dir: Path) -> int | None:
    """The pid of the supervisor that answers; None if none does."""
    caller = Caller(run_dir)
    try:
        return int(caller.call("hello", timeout_s=5.0)["pid"])
    except Retry:
        return None
    finally:
        caller.close()


def supervisor_ensure(
    engine_dir: Path,
    run_dir: Path,
    isolation: str = "auto",
    python: str = sys.executable,
    visible: Iterable[str] = (),
) -> int:
    """Start the supervisor if none runs, and wait until it answers; its pid.

    `visible` are folders that isolated jobs may read, beside the system's and the Python that runs millpond.  The
    process gets none of our environment.  Raises `Unavailable` with its own words when it cannot start.
    """
    running = supervisor_pid(run_dir)
    if running is not None:
        return running
    _folder(engine_dir, 0o711)
    _folder(run_dir, 0o700)
    words = [python, "-I", "-S", str(Path(__file__).with_name("supervisor"))]
    words += ["--engine-dir", str(engine_dir.resolve()), "--run-dir", str(run_dir.resolve()), "--isolation", isolation]
    for place in dict.fromkeys((*python_folders(), *visible)):
        words += ["--visible", place]
    log = os.open(engine_dir / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": os.defpath + ":/usr/sbin:/sbin", "LANG": "C.UTF-8"},
            cwd="/",
            timeout=START_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable("the supervisor did not answer in time", hint=f"see {engine_dir}/supervisor.log") from error
    finally:
        os.close(log)
    if done.returncode not in {0, ALREADY_RUNS}:
        raise Unavailable(f"the supervisor did not start: {_last_line(engine_dir)}", hint="see supervisor.log")
    return _answering(engine_dir, run_dir)


def _answering(engine_dir: Path, run_dir: Path) -> int:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        running = supervisor_pid(run_dir)
        if running is not None:
            return running
        time.sleep(_PAUSE_S)
    raise Unavailable("another supervisor holds the engine folder but does not answer", hint=f"see {engine_dir}")


def supervisor_stop(run_dir: Path, timeout_s: float = STOP_S) -> bool:
    """End the supervisor; its keepers and the jobs go on, and the next supervisor adopts them.  False if none ran."""
    caller = Caller(run_dir)
    try:
        pid = int(caller.call("hello", timeout_s=5.0)["pid"])
        descriptor = os.pidfd_open(pid)
    except (Retry, ProcessLookupError):
        caller.close()
        return False
    try:
        with contextlib.suppress(Retry):
            caller.call("shutdown", timeout_s=5.0)
        if not select.select([descriptor], [], [], timeout_s)[0]:
            raise Unavailable("the supervisor does not end", hint="see supervisor.log")
        return True
    finally:
        os.close(descriptor)
        caller.close()


def python_folders() -> tuple[str, ...]:
    """Where the Python that runs us and its packages live, unless the system's folders hold them."""
    folders = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    return tuple(sorted(folder for folder in folders if not folder.startswith(("/usr/", "/opt/")) and folder != "/usr"))


def _folder(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def _last_line(engine_dir: Path) -> str:
    with contextlib.suppress(OSError, IndexError):
        return (engine_dir / "supervisor.log").read_text(errors="replace").strip().splitlines()[-1]
    return "it said nothing"
