"""``up``, ``down`` and ``db`` on real processes: adopting, keeping jobs, changing the pool, backup."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from millpond.engines.local.launch import supervisor_pid
from tests.live import Millpond, attempts_of, job_when, millpond_up, spec, wait_for

pytestmark = pytest.mark.live


@pytest.fixture
def pond(home: Path) -> Iterator[Millpond]:
    with millpond_up(home, "2x4xA800-80GB") as running:
        yield running


def test_up_adopts_what_runs_and_down_is_idempotent(pond: Millpond) -> None:
    first = pond.server()
    again = pond.up()
    assert again["adopted"]
    assert (again["address"], again["pid"]) == (first["address"], first["pid"])
    token = pond.run_dir / "admin.token"
    assert token.stat().st_mode & 0o777 == 0o600
    secret = token.read_text()
    assert pond.down()["stopped"]
    assert not pond.down()["stopped"]
    assert not (pond.run_dir / "server.json").exists()
    assert pond.command("ps", check=False).returncode == 5
    fresh = json.loads(pond.command("up", "--port", "0", "--json").stdout)
    assert (fresh["adopted"], fresh["pool"], fresh["simulated"]) == (False, "2x4xA800-80GB", True)
    assert token.read_text() == secret


def test_jobs_survive_the_server_and_everything_else(pond: Millpond) -> None:
    """kill -9 of the server, then `down --keep-jobs`, which ends all but the keepers: the job notices nothing."""
    with pond.client() as client:
        job = client.jobs.submit(spec("survivor", "echo $$ > pid; while test ! -e go; do sleep 0.05; done; exit 3"))[
            "id"
        ]
        job_when(client, job, "running")
    work = pond.state_dir / "jobs" / job / "work"
    pid = int(wait_for(lambda: (work / "pid").exists() and (work / "pid").read_text(), "the job's pid"))
    os.kill(int(pond.server()["pid"]), signal.SIGKILL)
    assert not pond.up()["adopted"]
    stopped = pond.down("--keep-jobs")
    assert stopped["kept"] == 1
    assert supervisor_pid(pond.run_dir) is None
    assert os.path.exists(f"/proc/{pid}")  # noqa: PTH110
    (work / "go").touch()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the job to end without anybody")  # noqa: PTH110
    pond.up()
    with pond.client() as client:
        done = job_when(client, job, "failed")
        assert (done["exit_code"], done["attempts"]) == (3, 1)


def test_down_queues_jobs_again(pond: Millpond) -> None:
    with pond.client() as client:
        job = client.jobs.submit(spec("saver", "trap 'exit 75' USR1", "while true; do sleep 0.05; done"))["id"]
        job_when(client, job, "running")
    begun = time.monotonic()
    assert pond.down()["evicted"] == 1
    assert time.monotonic() - begun < 30
    pond.up()
    with pond.client() as client:
        back = job_when(client, job, "running")
        assert (back["attempts"], back["retries_spent"]) == (2, 0)
        assert attempts_of(client, job)[0]["reason"] == "saved"


def test_dead_parts_are_brought_back(pond: Millpond) -> None:
    supervisor = supervisor_pid(pond.run_dir)
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: supervisor_pid(pond.run_dir) not in (None, supervisor), "a new supervisor")
    postmaster = pond.state_dir / "postgres" / "cluster" / "postmaster.pid"
    os.kill(int(postmaster.read_text().split("\n")[0]), signal.SIGKILL)
    with pond.client() as client:
        job = wait_for(lambda: client.jobs.submit(spec("after", "true"), "once")["id"], "the database to be back")
        job_when(client, job, "succeeded")
    assert pond.up()["adopted"]


def test_the_pool_changes_only_when_nobody_loses_a_seat_unasked(pond: Millpond) -> None:
    with pond.client() as client:
        ids = [client.jobs.submit(spec(f"seat-{index}", "sleep 600", gpu="4"))["id"] for index in range(2)]
        nodes = {job_when(client, job, "running")["placement"][0]["node"]: job for job in ids}
    other = Millpond(pond.state_dir, "1x4xA800-80GB")
    refused = other.command("up", "--sim", other.pool, "--port", "0", check=False)
    assert refused.returncode == 4
    assert "runs already, with another pool" in refused.stderr
    pond.down("--keep-jobs")
    options = ("up", "--sim", other.pool, "--port", "0", "--isolation", "none")
    refused = other.command(*options, check=False)
    assert refused.returncode == 4
    assert "jobs run on nodes that the new pool does not have: n2" in refused.stderr
    assert "--replace-pool" in refused.stderr
    other.command(*options, "--replace-pool")
    with pond.client() as client:
        lost = nodes["n2"]
        wait_for(lambda: client.jobs.get(lost)["state"] == "queued", "the job of the vanished node to be queued again")
        assert attempts_of(client, lost)[0]["reason"] == "node_lost"
        assert client.jobs.get(lost)["retries_spent"] == 0
        assert client.jobs.get(nodes["n1"])["state"] == "running"


def test_a_taken_port_is_said(pond: Millpond, home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = Millpond(home / "other", "1x1xA800-80GB")
        refused = other.command("up", "--sim", other.pool, "--port", str(port), check=False)
    assert refused.returncode == 4
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "--port 0" in refused.stderr
    other.down()
    del pond


def test_bad_pools_are_refused_before_anything_starts(home: Path) -> None:
    pond = Millpond(home / "state", "eight")
    refused = pond.command("up", "--sim", "eight", check=False)
    assert refused.returncode == 2
    assert "is not a simulated pool" in refused.stderr
    assert not (home / "state").exists()
    missing = pond.command("up", "--sim", "pool.yaml", check=False)
    assert missing.returncode == 2
    assert "there is no file pool.yaml" in missing.stderr


def test_backup_and_restore(pond: Millpond, home: Path) -> None:
    with pond.client() as client:
        job = client.jobs.submit(spec("kept", "exit 0"))["id"]
        job_when(client, job, "succeeded")
    backup = home / "pond.backup"
    pond.command("db", "backup", str(backup))
    pond.down()
    restored = Millpond(home / "restored", pond.pool)
    restored.command("db", "restore", str(backup))
    assert restored.command("db", "check").stdout.strip() == "the database is sound"
    try:
        restored.up()
        with restored.client() as client:
            assert client.jobs.get(job)["state"] == "succeeded"
    finally:
        restored.down()


def test_a_database_of_ones_own(own_url: str, home: Path) -> None:
    """`MILLPOND_DATABASE_URL`: no PostgreSQL is started or stopped, and `down` queues jobs again there."""
    with millpond_up(home, "2x4xA800-80GB", database_url=own_url) as pond:
        assert not (pond.state_dir / "postgres" / "cluster").exists()
        with pond.client() as client:
            quick = client.jobs.submit(spec("quick", "true"))["id"]
            job_when(client, quick, "succeeded")
            slow = client.jobs.submit(spec("slow", "sleep 600"))["id"]
            job_when(client, slow, "running")
        pond.command("db", "check")
        assert pond.down("--grace", "1")["evicted"] == 1
        with psycopg.connect(own_url) as connection:
            assert connection.execute("SELECT state FROM jobs WHERE id = %s", (slow,)).fetchone() == ("queued",)
        pond.up()
        with pond.client() as client:
            job_when(client, slow, "running")
        assert pond.down("--keep-jobs")["kept"] == 1
