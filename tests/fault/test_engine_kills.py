"""kill -9 of the supervisor at random moments, while many short jobs run: none lost, none twice, every code right."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.engines.base import Fact, FactKind, Retry, StartOrder
from millpond.engines.local import launch
from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_ensure, supervisor_pid, supervisor_stop
from millpond.engines.local.supervisor.main import ALREADY_RUNS
from tests.conformance.bench import NODES, SLEEP, SUCCEED, Scenario, order_make

LIMIT_S = 120.0


class Site:
    """An engine in a folder of its own, whose supervisor may be killed and started again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.engine = LocalEngine(root / "engine", root / "run", NODES)
        self.facts: list[Fact] = []
        self.cursor = 0
        self.guard()

    def guard(self) -> int:
        return supervisor_ensure(self.root / "engine", self.root / "run", isolation="none")

    def kill(self) -> None:
        """The running supervisor, by its pid."""
        pid = supervisor_pid(self.root / "run")
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def order(self, attempt: str, commands: tuple[str, ...], **changes: object) -> StartOrder:
        scenario = Scenario(commands, SUCCEED.behaviour)
        return order_make(attempt, scenario, self.root / "jobs" / attempt, isolated=False, **changes)

    def start(self, order: StartOrder) -> None:
        """As the applier does: again until it is taken."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                self.engine.start(order)
                return
            except Retry:
                assert time.monotonic() < end, "the supervisor never came back"
                time.sleep(0.01)

    def look(self, wait_s: float = 0.2) -> None:
        try:
            seen = self.engine.observe(self.cursor, wait_s)
        except Retry:
            time.sleep(0.01)
            return
        self.facts += seen.facts
        self.cursor = seen.cursor

    def last(self) -> dict[str, Fact]:
        return {fact.attempt: fact for fact in self.facts if fact.kind in (FactKind.EXITED, FactKind.START_FAILED)}

    def wait_for(self, attempts: set[str], limit_s: float = LIMIT_S) -> None:
        end = time.monotonic() + limit_s
        while missing := attempts - self.last().keys():
            assert time.monotonic() < end, f"never ended: {sorted(missing)[:5]} of {len(missing)}"
            self.look()

    def close(self) -> None:
        self.guard()
        for status in self.engine.recover():
            self.engine.stop(status.attempt, 0)
        self.engine.close()
        supervisor_stop(self.root / "run")


@pytest.fixture
def site() -> Iterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="millpond-kills-"))
    made = Site(root)
    yield made
    made.close()
    shutil.rmtree(root, ignore_errors=True)


def _alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def _gone(pid: int, limit_s: float = 10.0) -> bool:
    end = time.monotonic() + limit_s
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not _alive(pid)


def _kills_survive(site: Site, seed: int, jobs: int, kills: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    codes = {f"k{number}-1": chance.choice((0, 0, 1, 7, 75)) for number in range(jobs)}
    feeding = threading.Thread(target=_feed, args=(site, codes, chance.random()))
    feeding.start()
    for _ in range(kills):
        until = time.monotonic() + chance.uniform(0.0, 0.35)
        while time.monotonic() < until:
            site.look(0.02)
        site.kill()
        site.guard()
    feeding.join()
    site.wait_for(set(codes))
    wrong = {
        name: (fact.kind, fact.code, codes[name]) for name, fact in site.last().items() if fact.code != codes[name]
    }
    assert not wrong
    runs = {name: len((site.root / "jobs" / name / "work" / "ran").read_text().splitlines()) for name in codes}
    assert {name: count for name, count in runs.items() if count != 1} == {}
    told = Counter((fact.attempt, fact.kind) for fact in site.facts)
    assert {key: count for key, count in told.items() if count != 1} == {}
    assert all(told[name, FactKind.STARTED] == 1 for name in codes)
    numbers = [fact.sequence for fact in site.facts]
    assert numbers == list(range(1, len(numbers) + 1))
    assert list((site.root / "engine" / "ranks").iterdir()) == []


def _feed(site: Site, codes: dict[str, int], pace: float) -> None:
    for name, code in codes.items():
        site.start(site.order(name, (f"echo ran >> ran; sleep {pace / 10:.3f}; exit {code}",)))


def test_supervisor_killed_at_random(site: Site) -> None:
    _kills_survive(site, random.SystemRandom().randrange(2**32), jobs=100, kills=12)


@pytest.mark.long
def test_supervisor_killed_at_random_for_long(site: Site) -> None:
    _kills_survive(site, random.SystemRandom().randrange(2**32), jobs=1500, kills=150)


def test_keepers_and_supervisor_killed_at_random(site: Site) -> None:
    """Whoever dies: every attempt ends once, no command runs twice, and a code is right or unknown."""
    seed = random.SystemRandom().randrange(2**32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    names = {f"k{number}-1" for number in range(40)}
    feeding = threading.Thread(target=_feed, args=(site, dict.fromkeys(sorted(names), 7), 3.0))
    feeding.start()
    killed = 0
    while len(site.last()) < len(names):
        site.look(chance.uniform(0.0, 0.1))
        if chance.random() < 0.1:
            site.kill()
            site.guard()
        keepers = sorted((site.root / "engine" / "ranks").glob("*.keeper"))
        if keepers and chance.random() < 0.3:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(json.loads(chance.choice(keepers).read_text())["pid"], signal.SIGKILL)
                killed += 1
    feeding.join()
    codes = Counter(fact.code for fact in site.last().values())
    assert set(codes) <= {7, None}
    assert codes[None] <= killed
    assert all(len(path.read_text().splitlines()) == 1 for path in site.root.glob("jobs/*/work/ran"))
    told = Counter((fact.attempt, fact.kind) for fact in site.facts)
    assert set(told.values()) == {1}


def test_job_and_its_code_outlive_the_supervisor(site: Site) -> None:
    site.start(site.order("j-1", ("sleep 0.6; echo done; exit 9",)))
    while not site.facts:
        site.look()
    site.kill()
    time.sleep(1.0)
    site.guard()
    site.wait_for({"j-1"})
    assert site.last()["j-1"].code == 9
    assert site.engine.logs("j-1", 0).data == b"done\n"


def test_deadline_outlives_the_supervisor(site: Site) -> None:
    site.start(site.order("j-1", ("trap '' USR1 TERM; while :; do sleep 0.05; done",)))
    while not site.facts:
        site.look()
    time.sleep(0.2)
    deadline = time.time_ns() // 1_000_000 + 1500
    site.engine.signal("j-1", "USR1", deadline)
    site.kill()
    site.guard()
    site.wait_for({"j-1"}, 20)
    last = site.last()["j-1"]
    assert (last.code, last.natural) == (137, False)
    assert last.time_ms >= deadline


def test_killed_keeper_takes_its_tree_along(site: Site) -> None:
    script = "(setsid sleep 61 &) ; sh -c 'echo $$ > child; sleep 62' & echo $$ > main; wait"
    site.start(site.order("j-1", (script,)))
    work = site.root / "jobs" / "j-1" / "work"
    while not ((work / "child").exists() and (work / "child").read_text().strip()):
        site.look(0.05)
    keeper = _keeper(site, "j-1")
    pids = [int((work / name).read_text()) for name in ("main", "child")]
    os.kill(keeper, signal.SIGKILL)
    site.wait_for({"j-1"}, 20)
    last = site.last()["j-1"]
    assert (last.kind, last.code) == (FactKind.EXITED, None)
    assert "keeper" in last.detail
    assert all(_gone(pid, 0.5) for pid in pids)
    assert _strays(b"j-1", site) == []


def test_keeper_killed_while_no_supervisor_runs(site: Site) -> None:
    site.start(site.order("j-1", ("(setsid sleep 63 &); sleep 64",)))
    while not site.facts:
        site.look()
    keeper = _keeper(site, "j-1")
    site.kill()
    os.kill(keeper, signal.SIGKILL)
    site.guard()
    site.wait_for({"j-1"}, 20)
    assert site.last()["j-1"].code is None
    assert _strays(b"j-1", site) == []


def test_background_processes_die_with_the_main_one(site: Site) -> None:
    site.start(site.order("j-1", ("(setsid sleep 65 &); sleep 66 & true; exit 4",)))
    site.wait_for({"j-1"}, 20)
    assert site.last()["j-1"].code == 4
    assert _strays(b"j-1", site) == []


def test_tombstone_outlives_the_supervisor(site: Site) -> None:
    site.engine.stop("j-1", 0)
    site.kill()
    site.guard()
    site.start(site.order("j-1", ("echo ran > ran",)))
    site.start(site.order("j-2", ("true",)))
    site.wait_for({"j-1", "j-2"}, 20)
    assert not (site.root / "jobs" / "j-1").exists()
    assert [fact.kind for fact in site.facts if fact.attempt == "j-1"] == [FactKind.EXITED]


def test_second_supervisor_does_not_start(site: Site) -> None:
    first = supervisor_pid(site.root / "run")
    words = [sys.executable, "-I", "-S", str(Path(launch.__file__).with_name("supervisor"))]
    words += ["--engine-dir", str(site.root / "engine"), "--run-dir", str(site.root / "run")]
    done = subprocess.run(words, capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (ALREADY_RUNS, b"already runs\n")
    assert site.guard() == first


def _keeper(site: Site, attempt: str) -> int:
    path = site.root / "engine" / "ranks" / f"{attempt}.0.keeper"
    return int(path.read_text().split(":")[1].split(",")[0])


def _strays(attempt: bytes, site: Site) -> list[int]:
    """Living processes that carry the attempt's mark."""
    mark = (site.root / "engine" / "engine.json").read_text().split('"')[3].encode() + b"/" + attempt
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if b"MILLPOND_MARK=" + mark in path.read_bytes().split(b"\0") and _alive(int(path.parts[2])):
                found.append(int(path.parts[2]))
    return found


def test_many_ended_attempts_do_not_slow_the_start(site: Site) -> None:
    """The journal is rewritten as it grows, and what has ended costs nothing."""
    for index in range(400):
        site.engine.stop(f"never{index}-1", 0)
        site.look(0)
    supervisor_stop(site.root / "run")
    site.guard()
    journals = list((site.root / "engine").glob("journal.*"))
    assert len(journals) == 1
    assert journals[0].stat().st_size < 1000
    site.start(site.order("never7-1", SLEEP.commands))
    assert site.engine.recover() == ()
    site.look(0)
    assert [fact.sequence for fact in site.facts] == list(range(1, 401))
