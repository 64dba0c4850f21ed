"""How long from submit to running on an idle pool, and what the idle platform costs.

    python benchmarks/start_latency.py [--jobs 200] [--idle 10]

Each job is submitted alone, through the SDK, and has ended before the next one.  *Running* is the engine's own time at
which every rank's process ran, *submit* is taken before the request is sent; both by the clock of this machine.  The
counterpart is fork + exec of the same shell command, by the same Python, in the same run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime

import psutil
from stand import Figure, Pond, pond_open, quantile, result_write

COMMAND = "true"
WARM_UP = 5
TARGET = "target of the platform"


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


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Submit-to-running latency, and the cost of the idle platform.")
    parser.add_argument("--jobs", type=int, default=200, help="jobs to start one after the other")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds to watch the idle platform")
    options = parser.parse_args(argv)
    with pond_open("1x8xA100-40GB") as pond:
        for number in range(WARM_UP):
            start_once(pond, number)
        starts, spawns = [], []
        for number in range(options.jobs):
            starts.append(start_once(pond, WARM_UP + number))
            spawns.append(spawn_once())
        time.sleep(2)
        cpu, memory = idle_cost(pond, options.idle)
    count = options.jobs
    figures = [
        Figure("start", "start_p50_ms", quantile([start.total for start in starts], 0.50), "ms", count, 50, TARGET),
        Figure("start", "start_p99_ms", quantile([start.total for start in starts], 0.99), "ms", count, 200, TARGET),
        Figure("start", "stored_p50_ms", quantile([start.stored for start in starts], 0.50), "ms", count),
        Figure("start", "decided_p50_ms", quantile([start.decided for start in starts], 0.50), "ms", count),
        Figure("start", "running_p50_ms", quantile([start.running for start in starts], 0.50), "ms", count),
        Figure("start", "spawn_p50_ms", quantile(spawns, 0.50), "ms", count),
        Figure("start", "spawn_p99_ms", quantile(spawns, 0.99), "ms", count),
        Figure("idle", "idle_cpu_percent", cpu, "% of one core", 1, 3, TARGET),
        Figure("idle", "idle_memory_mb", memory, "MB", 1, 300, TARGET),
    ]
    print(f"written: {result_write('start_latency', figures)}")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
