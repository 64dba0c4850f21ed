"""Runs side by side: order, Ctrl-C, a process that dies, files that are whole or not there."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from millpond.cli.file_write import file_write, file_write_check
from millpond.cli.offline.interrupt import Interrupt
from millpond.cli.offline.runs import Case, RunFailed, Tell, cases_run, parallel_default
from millpond.domain.errors import InvalidInput
from millpond.files.snapshots import SnapshotFile
from millpond.simulation.jobs import Work
from tests.builders import job, pool, queue, snapshot

UNTIL = 10_000_000


def case(name: str, count: int) -> Case:
    arrivals = tuple(job(f"j{n}", "a/batch", 1, submitted=n * 20) for n in range(1, count + 1))
    work = {entry.id: Work(15) for entry in arrivals}
    world = SnapshotFile(snapshot(pool(1), (queue("a/batch"),), []), arrivals, work)
    return Case(name, (), world, UNTIL)


def test_outcomes_come_in_the_order_of_the_cases() -> None:
    told: list[int] = []
    outcomes = cases_run([case("long", 60), case("short", 1)], 2, lambda number, time, events: told.append(number))
    assert [(each.name, each.record.total("ended"), each.stopped) for each in outcomes] == [
        ("long", 60, False),
        ("short", 1, False),
    ]
    assert set(told) == {0, 1}
    assert parallel_default() >= 1


def test_interrupt_ends_every_run_with_what_it_has() -> None:
    handler = signal.getsignal(signal.SIGINT)
    outcomes = cases_run([case("a", 4_000), case("b", 4_000)], 2, interrupt_once())
    assert all(outcome.stopped and outcome.record.total("ended") < 4_000 for outcome in outcomes)
    assert [outcome.name for outcome in outcomes] in (["a"], ["b"], ["a", "b"])
    assert signal.getsignal(signal.SIGINT) is handler
    assert multiprocessing.active_children() == []


def interrupt_once() -> Tell:
    """Ctrl-C at the first word of any run."""
    sent: list[int] = []

    def tell(number: int, time: int, events: int) -> None:
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), signal.SIGINT)

    return tell


def test_a_run_is_born_deaf_to_interrupts() -> None:
    """What a terminal's Ctrl-C sends to all is blocked before the process has set anything itself."""
    blocked: list[bool] = []

    def tell(number: int, time: int, events: int) -> None:
        for child in multiprocessing.active_children():
            status = Path(f"/proc/{child.pid}/status").read_text(encoding="utf-8")
            mask = int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)
            blocked.append(bool(mask >> (signal.SIGINT - 1) & 1))

    cases_run([case("a", 4_000)], 1, tell)
    assert blocked
    assert all(blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_interrupt_begins_no_further_run() -> None:
    outcomes = cases_run([case("a", 4_000), case("b", 1)], 1, interrupt_once())
    assert [outcome.name for outcome in outcomes] == ["a"]


def test_a_second_interrupt_stops_at_once_and_leaves_nobody() -> None:
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        cases_run([case("a", 4_000)], 1, lambda *said: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)])
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_is_told_of() -> None:
    def kill(number: int, time: int, events: int) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    with pytest.raises(RunFailed, match=r"the run 'a' died \(exit code -9\)"):
        cases_run([case("a", 4_000)], 1, kill)
    assert multiprocessing.active_children() == []


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    file_write(str(path), "one")
    path.chmod(0o640)
    file_write(str(path), "two")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o640)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="cannot write"):
        file_write(str(tmp_path / "folder"), "three")
    with pytest.raises(InvalidInput, match="cannot write"):
        file_write(str(tmp_path / "none" / "x"), "three")
    file_write_check(str(path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "r.html"]
    for place in (tmp_path / "folder", tmp_path / "none" / "x", Path("/proc/x.html")):
        with pytest.raises(InvalidInput, match="cannot write"):
            file_write_check(str(place))
