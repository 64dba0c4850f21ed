"""Random kill -9 of server and PostgreSQL while short jobs run and are metered.

Afterwards what `millpond usage` says is what `millpond rate` makes of the event log, a program that shares neither the
meter's loop nor its database: bucket by bucket and attempt by attempt, nothing twice, nothing missing.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from millpond.domain.errors import MillpondError
from millpond.sdk import Client
from tests.fault.test_kills import Load
from tests.live import TERMINAL, Millpond, millpond_up, spec, wait_for

KINDS = {"attempt.started": "started", "attempt.checkpointed": "checkpointed", "attempt.ended": "ended"}
Sums = dict[tuple[str, int], tuple[int, int]]
"""Milli-card-seconds, and of them the lost ones, by job and attempt."""


def _kill(pond: Millpond, target: str) -> bool:
    try:
        if target == "server":
            pid = int(pond.server()["pid"])
        else:
            pid = int((pond.state_dir / "postgres" / "cluster" / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return False
    return True


def _settled(pond: Millpond, load: Load) -> bool:
    """Whether all jobs are over, and the meter has seen the end of every attempt."""
    try:
        with pond.client() as client:
            states = {job["id"]: job["state"] for job in client.jobs.list()}
            if any(states.get(job) not in TERMINAL for job in load.codes):
                return False
            return all(
                attempt["ended_at"] for job in load.codes for attempt in client.usage.attempts(job)["attempts"]
            ) and len(_used(client, load)) == len({event["attempt"] for event in _ended(client)})
    except (MillpondError, OSError, ValueError):
        return False


def _ended(client: Client) -> list[Any]:
    """Events that end attempts which did run."""
    return [
        event
        for event in client.events.list()
        if event["kind"] == "attempt.ended"
        and event["data"]["reason"] != "start_failed"
        and event["data"].get("ran") is not False
    ]


def _used(client: Client, load: Load) -> Sums:
    return {
        (job, one["attempt"]): (one["milli_card_seconds"], one["lost_milli_card_seconds"])
        for job in load.codes
        for one in client.usage.attempts(job)["attempts"]
    }


def _rating_file(client: Client, path: Path) -> str:
    """The event log as facts of a rating file; the month that they are of.  A tenant's name stands for all of it."""
    facts: list[dict[str, Any]] = []
    ran = {event["attempt"] for event in _ended(client)}
    for event in client.events.list():
        if event["kind"] not in KINDS or event["attempt"] not in ran:
            continue
        job, _, number = event["attempt"].rpartition("-")
        fact = {"id": str(event["sequence"]), "time": event["time"], "event": KINDS[event["kind"]], "job": job}
        fact |= {"attempt": int(number)}
        if event["kind"] == "attempt.started":
            usage = event["data"]["usage"]
            fact |= {"milli": usage["milli"], "sku": usage["sku"], "class": usage["class"], "user": usage["user"]}
            fact |= {"project": usage["project"] or "none"}
            fact |= {"cards": {name: share // 1000 for name, share in usage["cards"]}}
        elif event["kind"] == "attempt.ended":
            fact |= {"reason": event["data"]["reason"]}
        facts.append(fact)
    facts.sort(key=lambda fact: str(fact["time"]))
    month = str(facts[0]["time"])[:7]
    head = {"account": {"name": "all", "zone": "UTC", "currency": "CNY"}, "period": month, "prices": []}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *facts)), encoding="utf-8")
    return month


def _rated(pond: Millpond, path: Path) -> tuple[Sums, Counter[str], int]:
    """By attempt, by hour, and alarms, as `millpond rate` has them."""
    found = json.loads(pond.command("rate", str(path), "--json").stdout)
    sums: Sums = {}
    hours: Counter[str] = Counter()
    for bucket in found["buckets"]:
        key = bucket["job"], bucket["attempt"]
        used, lost = sums.get(key, (0, 0))
        sums[key] = used + bucket["milli_seconds"], lost + bucket["lost_milli_seconds"]
        hours[bucket["job"]] += bucket["milli_seconds"]
    return sums, hours, len(found["alarms"])


def _metering_survives(folder: Path, kills: int) -> None:
    seed = int(os.environ.get("MILLPOND_TEST_SEED") or secrets.randbelow(10**9))
    print(f"MILLPOND_TEST_SEED={seed}")
    dice = random.Random(seed)
    done: list[str] = []
    with millpond_up(folder, "2x4xA800-80GB") as pond:
        load = Load(pond, seed)
        with pond.client() as client:
            # Runs through many kills, and is counted in parts.
            load.codes[client.jobs.submit(spec("lasting", "sleep 90", gpu="2"))["id"]] = 0
        thread = threading.Thread(target=load.run, daemon=True)
        thread.start()
        while len(done) < kills:
            time.sleep(dice.uniform(0.1, 1.5))
            target = dice.choice(("server", "server", "postgres"))
            if not _kill(pond, target):
                continue
            done.append(target)
            if target == "server":
                time.sleep(dice.uniform(0.0, 0.3))
                pond.up()
        load.stop.set()
        thread.join(60.0)
        assert not thread.is_alive(), f"seed {seed}: {load.failure}"
        wait_for(lambda: _settled(pond, load), f"all {len(load.codes)} jobs to be metered (seed {seed})", 240.0, 1.0)
        _verify(pond, load, folder / "facts.jsonl", f"seed {seed}: kills {', '.join(done)}; jobs {len(load.codes)}")


def _verify(pond: Millpond, load: Load, path: Path, run: str) -> None:
    print(run)
    with pond.client() as client:
        month = _rating_file(client, path)
        attempts, jobs, alarms = _rated(pond, path)
        used = {key: sums for key, sums in _used(client, load).items() if sums != (0, 0)}
        listed = client.usage.sums("job", month=month, zone="UTC")
        found = {str(row["job"]): row["milli_card_seconds"] for row in listed["items"]}
    assert used == {key: sums for key, sums in attempts.items() if sums != (0, 0)}, run
    assert found == {job: total for job, total in jobs.items() if total}, run
    assert listed["total"]["milli_card_seconds"] == sum(found.values()) > 0, run
    assert (listed["alarms"], alarms) == (0, 0), run
    assert pond.command("db", "check", check=False).returncode == 0, run


@pytest.mark.live
@pytest.mark.timeout(600)
def test_twenty_kills_while_jobs_are_metered(home: Path) -> None:
    _metering_survives(home, 20)


@pytest.mark.live
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_and_eighty_more(home: Path) -> None:
    _metering_survives(home, 180)
