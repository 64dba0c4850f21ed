"""Processes by pid and start time, locks, logs, the guard."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from millpond.commands.guard import Guard, Part
from millpond.commands.processes import (
    LOG_LIMIT,
    Process,
    file_locked,
    log_rotate,
    log_tail,
    process_alive,
    process_end,
    process_find,
    process_spawn,
)
from millpond.domain.errors import Conflict, Unavailable


def test_a_process_is_its_pid_and_start_time() -> None:
    me = process_find(os.getpid())
    assert me is not None
    assert process_alive(me)
    assert not process_alive(Process(me.pid, me.started + 1))
    assert process_find(2**22 + 1) is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    found = process_find(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert found is None or not process_alive(found)
    child.wait()


def test_spawn_writes_to_its_log_and_end_is_patient(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    code = "import time; print('here', flush=True); time.sleep(60)"
    child = process_spawn([sys.executable, "-c", code], {"PATH": os.defpath}, log)
    found = process_find(child.pid)
    assert found is not None
    assert os.getsid(child.pid) == child.pid
    reaper = threading.Thread(target=child.wait)
    reaper.start()
    assert process_end(found, 10.0)
    reaper.join()
    assert not process_alive(found)
    assert process_end(found, 0.0)


def test_end_kills_what_does_not_listen(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    log = tmp_path / "x.log"
    child = process_spawn([sys.executable, "-c", code], {"PATH": os.defpath}, log)
    found = process_find(child.pid)
    assert found is not None
    reaper = threading.Thread(target=child.wait)
    reaper.start()
    while log_tail(log) != ["deaf"]:
        pass
    assert not process_end(found, 0.2)
    reaper.join()
    assert child.returncode == -9


def test_one_holder_of_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "run" / "lock"
    with (
        file_locked(path, "this"),
        pytest.raises(Conflict, match="this is in progress already"),
        file_locked(path, "this"),
    ):
        pass
    with file_locked(path, "this"):
        pass


def test_logs_keep_one_older_generation(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("a\nb\nc\n")
    log_rotate(log)
    assert log_tail(log, 2) == ["b", "c"]
    os.truncate(log, LOG_LIMIT + 1)
    log_rotate(log)
    assert not log.exists()
    assert (tmp_path / "x.log.1").stat().st_size == LOG_LIMIT + 1
    assert log_tail(log) == []


def test_the_guard_brings_a_part_back_and_does_not_give_up() -> None:
    dead, tries, back = [True], [0], threading.Event()

    def revive() -> None:
        tries[0] += 1
        if tries[0] == 1:
            raise Unavailable("not yet")
        dead[0] = False
        back.set()

    guard = Guard(
        [Part("thing", lambda: not dead[0], revive), Part("other", lambda: True, lambda: pytest.fail("alive"))]
    )
    guard.look()
    assert not back.is_set()
    guard.look()
    assert back.is_set()
    guard.look()
    assert tries[0] == 2
