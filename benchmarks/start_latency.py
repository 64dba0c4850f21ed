"""How long from submit to running on an idle pool, and what the idle platform costs.

    python -m benchmarks.start_latency [--full]

Each job is submitted alone, through the SDK, and has ended before the next one.  *Running* is the engine's own time at
which every rank's process ran, *submit* is taken before the request is sent; both by the clock of this machine.  The
counterpart is fork + exec of the same shell command, by the same Python, in the same run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime

import psutil

from benchmarks.figures import Figure, Mode, benchmark_main, quantile
from benchmarks.stand import Pond, pond_open

COMMAND = "true"
WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Start:
    """One start in milliseconds: in all, and its parts: request stored, decided, running."""

    total: float
    stored: float
    decided: float
    running: float


def start_once(pond: Pond, number: int) -> Start:
    """Submit one job, wait for its end, and read from the API when what happened."""
    began = time.time()
    job = pond.client.jobs.submit(
        {"type": "task", "name": f"start-{number}", "commands": [COMMAND], "resources": {"gpu": 1}}
    )
    for _ in pond.client.jobs.watch(job["id"]):
        pass
    attempt = next(iter(pond.client.jobs.attempts(job["id"])))
    if attempt["exit_code"] != 0 or attempt["started_at"] is None:
        raise RuntimeError(f"the job did not run: {attempt}")
    moments = [datetime.fromisoformat(text).timestamp() for text in (job["submitted_at"], attempt["planned_at"])]
    stored, planned = moments
    running = datetime.fromisoformat(attempt["started_at"]).timestamp()
    return Start(
        *(1000 * seconds for seconds in (running - began, stored - began, planned - stored, running - planned))
    )


def spawn_once() -> float:
    """Milliseconds of fork + exec alone: `Popen` returns when the new program has been loaded."""
    began = time.perf_counter()
    process = subprocess.Popen(["/bin/sh", "-e", "-c", f"exec {COMMAND}"], stdout=subprocess.DEVNULL)
    spent = time.perf_counter() - began
    process.wait()
    return spent * 1000


def idle_cost(pond: Pond, seconds: float) -> tuple[float, float]:
    """(per cent of one core, MB without PostgreSQL's shared buffers) of server, supervisor and PostgreSQL."""
    before = {process.pid: _cpu_seconds(process) for process in pond.processes()}
    time.sleep(seconds)
    processes = pond.processes()
    spent = sum(_cpu_seconds(process) - before.get(process.pid, 0.0) for process in processes)
    # What a process has for itself alone: shared buffers are shared by all of PostgreSQL and drop out.
    memory = sum(process.memory_full_info().uss for process in processes)
    return 100 * spent / seconds, memory / 1e6


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def run(mode: Mode) -> list[Figure]:
    """``short`` starts 60 jobs and watches for 5 s, ``full`` 200 and 10 s."""
    count, idle = (200, 10.0) if mode == "full" else (60, 5.0)
    with pond_open("1x8xA100-40GB") as pond:
        for number in range(WARM_UP):
            start_once(pond, number)
        starts, spawns = [], []
        for number in range(count):
            starts.append(start_once(pond, WARM_UP + number))
            spawns.append(spawn_once())
        time.sleep(2)
        cpu, memory = idle_cost(pond, idle)
    totals = [start.total for start in starts]
    return [
        Figure("start", "start_p50_ms", quantile(totals, 0.50), "ms", runs=count, aim=50),
        Figure("start", "start_p99_ms", quantile(totals, 0.99), "ms", runs=count, aim=200),
        Figure("start", "stored_p50_ms", quantile([start.stored for start in starts], 0.50), "ms", runs=count),
        Figure("start", "decided_p50_ms", quantile([start.decided for start in starts], 0.50), "ms", runs=count),
        Figure("start", "running_p50_ms", quantile([start.running for start in starts], 0.50), "ms", runs=count),
        Figure("start", "spawn_p50_ms", quantile(spawns, 0.50), "ms", runs=count),
        Figure("start", "spawn_p99_ms", quantile(spawns, 0.99), "ms", runs=count),
        Figure("start", "idle_cpu_percent", cpu, "% core", aim=3),
        Figure("start", "idle_memory_mb", memory, "MB", aim=300),
    ]


if __name__ == "__main__":
    sys.exit(benchmark_main("start_latency", run))
