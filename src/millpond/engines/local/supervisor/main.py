"""The supervisor's process: one per engine folder, in the background, ready when its socket answers."""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from . import process
from .cgroups import groups_open
from .core import NOTICES, RANKS, Core
from .files import read_whole, write_whole
from .folders import PASS_MODE, folder_make
from .lifecycle import attempt_adopt, checkpoint_look, group_remove, main_seen
from .operations import Operations
from .sandbox import sandbox_detect
from .server import SOCKET, Server

ALREADY_RUNS = 75
LOCK_WAIT_S = 3.0
LOOK_MS = 500


def main(arguments: list[str]) -> int:
    """Start the supervisor behind us and return 0 once it answers; else print why not."""
    parser = argparse.ArgumentParser(prog="millpond-supervisor")
    parser.add_argument("--engine-dir", type=Path, required=True)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--isolation", choices=("auto", "bubblewrap", "none"), default="auto")
    parser.add_argument("--visible", action="append", default=[], help="a folder that isolated jobs may read")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ready, tell = os.pipe()
    child = os.fork()
    if child:
        os.close(tell)
        with os.fdopen(ready, "rb") as answer:
            message = answer.read().decode(errors="replace")
        if message != "ready":
            print(message or "the supervisor ended at once; see supervisor.log", file=sys.stderr)
        return 0 if message == "ready" else ALREADY_RUNS if message == "already runs" else 1
    os.close(ready)
    os.setsid()
    try:
        _serve(options, tell)
    except RuntimeError as error:
        os.write(tell, str(error).encode())
        return 1
    return 0


def _serve(options: argparse.Namespace, tell: int) -> None:
    os.umask(0o077)
    os.chdir("/")
    process.files_raise()
    engine_dir, run_dir = options.engine_dir, options.run_dir
    lock = _lock(engine_dir / "lock")
    if lock < 0:
        raise RuntimeError("already runs")
    process.prctl(process.PR_SET_NAME, b"millpond-superv")
    process.prctl(process.PR_SET_CHILD_SUBREAPER, 1)
    mark = _mark(engine_dir)
    sandbox = sandbox_detect(options.isolation, tuple(options.visible))
    groups = groups_open(engine_dir / "groups.json", f"millpond-{mark}")
    user = "jobs run as their tenant's user" if os.geteuid() == 0 else "jobs run as the engine's own user (not root)"
    core = Core(engine_dir, run_dir, sandbox, groups, mark)
    core.load()
    operations = Operations(core, (sandbox.note, groups.note, user))
    server = Server(core, operations.table(), lambda attempt, rank: _news(core, attempt, rank))
    _signals(core)
    _take_up(core)
    server.listen()
    _look(core)
    gc.collect()
    gc.freeze()
    os.write(tell, b"ready")
    os.close(tell)
    core.standby.open()
    print(json.dumps({"started": os.getpid(), "time_ms": process.now_ms(), "live": len(core.memory.live)}), flush=True)
    core.run()
    core.standby.close()
    (run_dir / SOCKET).unlink(missing_ok=True)
    if not core.memory.live:
        groups.discard()


def _lock(path: Path) -> int:
    """The lock that makes us the only one; -1 if another holds it.  A dying one may hold it for a moment."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > until:
                return -1
            time.sleep(0.01)


def _mark(engine_dir: Path) -> str:
    """The engine's own name: made once."""
    path = engine_dir / "engine.json"
    saved = read_whole(path)
    if saved is None:
        saved = {"mark": os.urandom(6).hex()}
        write_whole(path, saved, durable=True)
    return str(saved["mark"])


def _signals(core: Core) -> None:
    """SIGTERM ends us (not the jobs); SIGCHLD wakes the loop, which buries the dead."""
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)

    def stop(*_: object) -> None:
        core.stopping = True

    def woken(_: int) -> None:
        try:
            os.read(wake, 4096)
        except BlockingIOError:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return

    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    core.watch(wake, woken)


def _take_up(core: Core) -> None:
    """Adopt what lives, and clear away what an earlier supervisor had no time to."""
    for kind, mode in ((RANKS, 0o700), (NOTICES, PASS_MODE)):
        folder_make(core.engine_dir / kind, mode)
    for path in list((core.engine_dir / RANKS).iterdir()):
        if path.name.partition(".")[0] not in core.memory.live:
            path.unlink(missing_ok=True)
    for path in list((core.engine_dir / NOTICES).iterdir()):
        if path.name not in core.memory.live:
            shutil.rmtree(path, ignore_errors=True)
    groups = {attempt.group for attempt in core.memory.live.values()}
    for name in core.groups.names():
        if name not in groups:
            core.groups.kill(name)
            group_remove(core, name)
    for attempt in list(core.memory.live.values()):
        attempt_adopt(core, attempt)
    core.settle()


def _news(core: Core, attempt: str, number: int) -> None:
    """A keeper says that its main process runs."""
    known = core.live(attempt)
    for rank in known.ranks if known is not None else []:
        if known is not None and rank.number == number:
            main_seen(core, known, rank)


def _look(core: Core) -> None:
    """Look for checkpoints twice a second while anything runs; less often when looking takes long."""
    before = process.now_ms()
    for attempt in list(core.memory.live.values()):
        if attempt.started and not attempt.closing:
            checkpoint_look(core, attempt)
    took = process.now_ms() - before
    core.later(max(LOOK_MS, 20 * took), lambda: _look(core))
