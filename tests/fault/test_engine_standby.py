"""Keepers on standby: none outlives its supervisor, a rank that one has taken is a rank like any other."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millpond.engines.base import Fact, FactKind
from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_ensure, supervisor_stop
from millpond.engines.local.supervisor.files import read_whole
from millpond.engines.local.supervisor.process import descendants, parents
from millpond.engines.local.supervisor.standby import SIZE
from tests.conformance.bench import NODES, SLEEP, SUCCEED, Scenario, order_make

LIMIT_S = 20.0
PROCESSES = 2 * SIZE
"""Each has a child that waits with it."""

LAST = (FactKind.EXITED, FactKind.START_FAILED, FactKind.EVICTED)


class Site:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.engine = LocalEngine(root / "engine", root / "run", NODES)
        self.pid = self.guard()

    def guard(self) -> int:
        self.pid = supervisor_ensure(self.root / "engine", self.root / "run", isolation="none")
        return self.pid

    def start(self, attempt: str, *commands: str, **changes: object) -> None:
        scenario = Scenario(commands, SUCCEED.behaviour)
        self.engine.start(order_make(attempt, scenario, self.root / "jobs" / attempt, isolated=False, **changes))

    def facts(self, attempt: str) -> list[Fact]:
        return [fact for fact in self.engine.observe(0).facts if fact.attempt == attempt]

    def fact(self, attempt: str, *kinds: FactKind) -> Fact:
        _until(lambda: any(fact.kind in kinds for fact in self.facts(attempt)))
        return next(fact for fact in self.facts(attempt) if fact.kind in kinds)

    def waiting(self) -> list[int]:
        """The keepers on standby and their children, once all are there."""
        _until(lambda: len(descendants(self.pid)) == PROCESSES)
        return descendants(self.pid)

    def groups(self) -> list[Path]:
        """Every control group of this engine, without its own folder."""
        known = read_whole(self.root / "engine" / "groups.json")
        if known is None:
            pytest.skip("needs control groups that may be written")
        return [path for root in known["roots"].values() for path in Path(root).glob("*/")]


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def site() -> Iterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="millpond-standby-"))
    made = Site(root)
    yield made
    made.guard()
    for status in made.engine.recover():
        made.engine.stop(status.attempt, 0)
    made.engine.close()
    supervisor_stop(root / "run")
    shutil.rmtree(root)


def test_none_outlives_a_killed_supervisor(site: Site) -> None:
    waiting = site.waiting()
    os.kill(site.pid, signal.SIGKILL)
    _until(lambda: not set(waiting) & set(parents()))


def test_none_and_no_group_outlive_a_stopped_one(site: Site) -> None:
    waiting = site.waiting()
    groups = site.groups()
    supervisor_stop(site.root / "run")
    assert not set(waiting) & set(parents())
    assert groups
    assert not any(group.exists() for group in groups)


def test_killed_supervisor_s_groups_are_taken_away(site: Site) -> None:
    site.waiting()
    before = site.groups()
    os.kill(site.pid, signal.SIGKILL)
    site.guard()
    _until(lambda: not any(group.exists() for group in before))


@pytest.mark.parametrize("which", ["keepers", "children"])
def test_start_after_those_on_standby_were_killed(site: Site, which: str) -> None:
    keepers = [pid for pid in site.waiting() if parents().get(pid) == site.pid]
    for pid in site.waiting():
        if (pid in keepers) == (which == "keepers"):
            os.kill(pid, signal.SIGKILL)
    site.start("k-1", "echo ran >> ran; exit 6")
    last = site.fact("k-1", *LAST)
    assert (last.kind, last.code) == (FactKind.EXITED, 6)
    assert (site.root / "jobs" / "k-1" / "work" / "ran").read_text() == "ran\n"


def test_taken_one_is_found_and_killed_by_a_later_supervisor(site: Site) -> None:
    """What hides from its keeper's tree is still in the group whose name only the journal knows."""
    waiting = site.waiting()
    site.start("t-1", *SLEEP.commands)
    site.fact("t-1", FactKind.STARTED)
    main = site.engine.recover()[0].pids[0]
    assert main in waiting
    os.kill(site.pid, signal.SIGKILL)
    site.guard()
    assert [status.pids for status in site.engine.recover()] == [(main,)]
    site.engine.stop("t-1", 0)
    assert site.fact("t-1", *LAST).code == 137
    assert main not in parents()
    site.waiting()


def test_order_too_long_for_one_message(site: Site) -> None:
    site.waiting()
    site.start("l-1", 'exit "${#LONG}"', env=(("LONG", "x" * 100_000),))
    assert site.fact("l-1", *LAST).code == 100_000 % 256


def test_gang_starts_without_them(site: Site) -> None:
    site.waiting()
    site.start("g-1", "sleep 60", ranks=2)
    site.fact("g-1", FactKind.STARTED)
    site.engine.stop("g-1", 0)
    assert site.fact("g-1", *LAST).code == 137
