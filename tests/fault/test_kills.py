"""Random kill -9 of server, supervisor and PostgreSQL under a load of short jobs.

Each job writes one line per attempt into its own folder and exits with a given code.  Afterwards: no job is lost, no
attempt ran twice, retries are as configured, every exit code is right, the event chain is whole.  The seed is printed;
``MILLPOND_TEST_SEED`` repeats a run (of the same choices; what the kill hits depends on the machine's timing).
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from millpond.domain.errors import MillpondError
from millpond.engines.local.launch import supervisor_pid
from millpond.sdk import Client
from tests.live import TERMINAL, Millpond, millpond_up, spec, wait_for

RETRIES = 2
TARGETS = ("server", "supervisor", "postgres")
ATTEMPTS = {0: 1, 1: 1 + RETRIES, 3: 1}
"""How often a job with that exit code runs: code 1 is configured to be tried again."""


@dataclass
class Load:
    """Submits a job every so often until told to stop; each with an idempotency key, so that asking again is safe."""

    pond: Millpond
    seed: int
    codes: dict[str, int] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)
    failure: str = ""

    def run(self) -> None:
        dice = random.Random(self.seed)
        number = 0
        while not self.stop.is_set():
            code = dice.choice((0, 0, 0, 1, 3))
            body = _body(f"short-{number}", code, dice.choice((0, 0, 0.1, 0.4, 1.0)))
            job = self._submit(body, f"key-{self.seed}-{number}")
            if job in self.codes:
                self.failure = f"two submissions gave the same job {job}"
            self.codes[job] = code
            number += 1
            self.stop.wait(dice.uniform(0.05, 0.3))

    def _submit(self, body: dict[str, object], key: str) -> str:
        """Try until the server answers: it may be dead for a while."""
        while True:
            try:
                with self.pond.client() as client:
                    return client.jobs.submit(body, key)["id"]
            except (MillpondError, OSError, ValueError) as error:
                self.failure = f"last error of a submission: {error}"
                time.sleep(0.1)


def _body(name: str, code: int, seconds: float) -> dict[str, object]:
    lines = (f'echo "$MILLPOND_ATTEMPT $$" >> runs; sync runs; sleep {seconds}', f"exit {code}")
    retry = {"exits": ["1"], "limit": str(RETRIES), "backoff": "1s..2s"}
    return spec(name, *lines, retry=retry)


def _victim_pid(pond: Millpond, target: str) -> int | None:
    if target == "server":
        return int(pond.server()["pid"])
    if target == "supervisor":
        return supervisor_pid(pond.run_dir)
    try:
        return int((pond.state_dir / "postgres" / "cluster" / "postmaster.pid").read_text().split("\n")[0])
    except (OSError, ValueError):
        return None


def _kill(pond: Millpond, target: str) -> bool:
    pid = _victim_pid(pond, target)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _unfinished(client: Client, jobs: dict[str, int]) -> list[str]:
    states = {job["id"]: job["state"] for job in client.jobs.list()}
    return [job for job in jobs if states.get(job) not in TERMINAL]


def _verify(pond: Millpond, codes: dict[str, int]) -> list[str]:
    """Everything that is not as it must be."""
    wrong: list[str] = []
    with pond.client() as client:
        stored = {job["id"]: job for job in client.jobs.list()}
        wrong += [f"{job} was never submitted" for job in stored.keys() - codes.keys()]
        for job, code in codes.items():
            if job not in stored:
                wrong.append(f"{job} is lost")
                continue
            found = stored[job]
            wanted = ("succeeded" if code == 0 else "failed", code, ATTEMPTS[code])
            if (found["state"], found["exit_code"], found["attempts"]) != wanted:
                ends = [
                    (attempt["reason"], attempt["exit_code"], attempt["message"])
                    for attempt in client.jobs.attempts(job)
                ]
                saw = f"{found['name']} {job}: {found['state']} {found['exit_code']}"
                wrong.append(f"{saw}, not {wanted}: {ends}")
            wrong += _runs_check(pond.state_dir / "jobs" / job / "work" / "runs", job, ATTEMPTS[code])
    return wrong


def _runs_check(path: Path, job: str, attempts: int) -> list[str]:
    """The lines that the attempts themselves wrote."""
    try:
        ran = [line.split()[0] for line in path.read_text().splitlines()]
    except OSError:
        return [f"{job} left no trace of a run"]
    wanted = [str(number) for number in range(1, attempts + 1)]
    return [] if ran == wanted else [f"{job} ran attempts {ran}, not {wanted}"]


def _kills_survive(folder: Path, kills: int) -> None:
    seed = int(os.environ.get("MILLPOND_TEST_SEED") or secrets.randbelow(10**9))
    print(f"MILLPOND_TEST_SEED={seed}")
    dice = random.Random(seed)
    done: list[str] = []
    with millpond_up(folder, "2x4xA800-80GB") as pond:
        load = Load(pond, seed)
        thread = threading.Thread(target=load.run, daemon=True)
        thread.start()
        while len(done) < kills:
            time.sleep(dice.uniform(0.1, 1.5))
            target = dice.choice(TARGETS)
            if not _kill(pond, target):
                continue
            done.append(target)
            if target == "server":
                time.sleep(dice.uniform(0.0, 0.3))
                pond.up()
        load.stop.set()
        thread.join(60.0)
        assert not thread.is_alive(), f"seed {seed}: {load.failure}"
        with pond.client() as client:
            wait_for(
                lambda: not _unfinished(client, load.codes),
                f"all {len(load.codes)} jobs to end (seed {seed})",
                180.0,
                0.5,
            )
        wrong = _verify(pond, load.codes)
        check = pond.command("db", "check", check=False)
        print(f"kills: {', '.join(done)}; jobs: {len(load.codes)}")
        assert not wrong, f"seed {seed}: " + "\n".join(wrong[:20])
        assert check.returncode == 0, f"seed {seed}: {check.stdout}{check.stderr}"


@pytest.mark.live
@pytest.mark.timeout(600)
def test_twenty_kills(home: Path) -> None:
    _kills_survive(home, 20)


@pytest.mark.live
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_and_eighty_more(home: Path) -> None:
    _kills_survive(home, 180)
