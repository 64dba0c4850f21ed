"""Random kill -9 of the meter while attempts start, save and end.

Afterwards every bucket, every attempt and the chain of events are what one undisturbed meter says of the whole log.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.control.context import Control
from millpond.control.meter import MeterMemory, facts_of, meter_run
from millpond.db.leader import Leader
from millpond.db.session import Database
from millpond.db.stores.events import NewEvent, chain_verify, events_append
from millpond.db.stores.meter import meter_events, meter_mark
from millpond.db.stores.usage import attempt_list, booking_list
from millpond.domain.jobs import EndReason
from millpond.metering.hours import Hours
from millpond.metering.meter import Ended, Meter, Span
from millpond.metering.sealing import span_book
from tests.fault.meterer import BEGIN, control_make

JOBS = 4
"""Jobs at a time, each on a card of its own."""

Row = tuple[int, str, int, str, int, int]
"""Hour, job, attempt, user, milli-card-seconds, lost."""


@dataclass
class Load:
    """Writes what happens to attempts: several jobs at a time, in transactions of some events."""

    database: Database
    dice: random.Random
    stop: threading.Event = field(default_factory=threading.Event)
    jobs: list[str] = field(default_factory=list)

    def run(self) -> None:
        second = 0
        while not self.stop.is_set():
            names = [f"j{len(self.jobs) + number:05}" for number in range(JOBS)]
            events = sorted(
                (event for card, name in enumerate(names) for event in self._job(name, card, second)),
                key=lambda event: event.time,
            )
            second = max(int((event.time - BEGIN).total_seconds()) for event in events) + 1
            self.jobs += names
            while events:
                size = self.dice.randint(1, 6)
                now, events = events[:size], events[size:]
                self.database.run("load", lambda tx, now=now: events_append(tx, "control", now))
                self.stop.wait(0.005)

    def _job(self, job: str, card: int, second: int) -> Iterator[NewEvent]:
        """Some attempts that are evicted or lose their node, and one that ends the job."""
        usage = {
            "milli": self.dice.choice((250, 1000, 8000)), "sku": "A800-80GB", "class": "batch", "project": "",
            "user": f"u{card}", "service": False, "cards": [[f"n1/{card}", 1_000_000]],
        }  # fmt: skip

        def event(kind: str, number: int, **data: object) -> NewEvent:
            moment = BEGIN + timedelta(seconds=second)
            return NewEvent(f"attempt.{kind}", moment, "control", "alpha", job, f"{job}-{number}", data)

        last = self.dice.randint(1, 3)
        for number in range(1, last + 1):
            yield event("started", number, usage=usage)
            for _ in range(self.dice.randint(0, 2)):
                second += self.dice.randint(1, 900)
                yield event("checkpointed", number)
            second += self.dice.randint(1, 2000)
            again = self.dice.choice((EndReason.PREEMPTED, EndReason.NODE_LOST, EndReason.RECLAIMED))
            reason = EndReason.COMPLETED if number == last else again
            yield event("ended", number, reason=reason.value, ran=True)
            second += self.dice.randint(0, 60)


@dataclass
class Whole:
    """What one meter tells of the whole log."""

    sums: Counter[tuple[int, str, int, str]] = field(default_factory=Counter)
    lost: Counter[tuple[int, str, int, str]] = field(default_factory=Counter)
    hours: Hours = field(default_factory=lambda: Hours(UTC))

    def span(self, span: Span) -> None:
        for booking in span_book(span, self.hours, 0):
            key = (booking.hour, booking.job, booking.attempt, booking.shape.user)
            self.sums[key] += booking.milli_seconds
            self.lost[key] += booking.lost_milli_seconds

    def ended(self, ended: Ended) -> None:
        """Sums are enough."""

    def alarm(self, alarm: object) -> None:
        raise AssertionError(alarm)

    def rows(self) -> list[Row]:
        return sorted((*key, used, self.lost[key]) for key, used in self.sums.items() if used or self.lost[key])


class Nursery:
    """Children that meter.  They are forked by a process that has loaded everything, so that each starts at once."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "tests.fault.meterer", url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self) -> int:
        self._write("next\n")
        return int(self._read())

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        assert self._read() == "gone\n"

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def _cursor(database: Database) -> int:
    return database.run("mark", lambda tx: meter_mark(tx, SYSTEM)).cursor


def _meter_to_the_end(control: Control) -> None:
    leader = Leader(control.database)
    epoch = leader.acquire(30.0)
    assert epoch is not None
    memory = MeterMemory()
    while True:
        step = meter_run(control, epoch, memory)
        if not step.events and not step.more:
            break
    leader.release()
    control.database.close()


def _metering_survives(database: Database, url: str, kills: int) -> None:
    seed = int(os.environ.get("MILLPOND_TEST_SEED") or secrets.randbelow(10**9))
    print(f"MILLPOND_TEST_SEED={seed}")
    dice = random.Random(seed)
    load = Load(database, random.Random(seed + 1))
    writer = threading.Thread(target=load.run, daemon=True)
    nursery = Nursery(url)
    writer.start()
    moved = 0
    for _ in range(kills):
        before = _cursor(database)
        pid = nursery.start()
        time.sleep(dice.uniform(0.0, 0.2))
        nursery.kill(pid)
        moved += _cursor(database) > before
    load.stop.set()
    writer.join(60)
    assert not writer.is_alive()
    nursery.close()
    _meter_to_the_end(control_make(url))
    print(f"jobs: {len(load.jobs)}; the meter had gone on before {moved} of {kills} kills")
    assert moved > kills // 2, f"seed {seed}: most children did nothing before they were killed"
    _verify(database, load.jobs, seed)


def _verify(database: Database, jobs: list[str], seed: int) -> None:
    events, _ = database.run("events", lambda tx: meter_events(tx, SYSTEM, 0, 10**6))
    whole = Whole()
    meter = Meter(whole)
    for fact in facts_of(events, {}):
        meter.take([fact])
    stored = database.run("usage", lambda tx: list(booking_list(tx, SYSTEM, "alpha", 0, 2**36)))
    found = sorted(
        (one.hour, one.job, one.attempt, one.shape.user, one.milli_seconds, one.lost_milli_seconds)
        for one in stored
        if one.milli_seconds or one.lost_milli_seconds
    )
    assert found == whole.rows(), f"seed {seed}"
    assert all(one.booked == one.hour for one in stored), f"seed {seed}: nothing is sealed, so nothing is a correction"
    sums = Counter[tuple[str, int]]()
    for _, job, attempt, _, used, _ in found:
        sums[job, attempt] += used
    attempts = [
        one for job in jobs for one in database.run("a", lambda tx, job=job: attempt_list(tx, SYSTEM, "alpha", job))
    ]
    assert {(one.job, one.attempt): one.milli_seconds for one in attempts} == dict(sums), f"seed {seed}"
    for one in attempts:
        assert one.ended is not None, f"seed {seed}: {one}"
        assert one.milli_seconds == one.milli * int((one.ended - one.started).total_seconds()), f"seed {seed}: {one}"
    assert database.run("chain", lambda tx: chain_verify(tx, SYSTEM)) == [], f"seed {seed}"


@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_twenty_kills_while_the_meter_runs(database: Database, database_url: str) -> None:
    _metering_survives(database, database_url, 20)


@pytest.mark.postgres
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_hundred_more(database: Database, database_url: str) -> None:
    _metering_survives(database, database_url, 200)
