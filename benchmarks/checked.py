"""A million decisions, each judged by the checker, which shares no code with the planner.

    python -m benchmarks.checked [--full] [--decisions N] [--seed N] [--workers N] [--out FOLDER] [--kept FOLDER]

Lives through whole days of invented clusters (`benchmarks.days`) and checks every plan.  A decision is a job that a
plan starts, one that it evicts, or one that it leaves waiting with its reasons; most are of the last kind, so the
figures tell starts and evictions apart.  Some plans are made again from the snapshot alone, and must be the same to the
byte.
At the first violation the run stops, and the snapshot is left in a file for ``millpond plan FILE``; exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir

from benchmarks.days import DAY, Cluster, Day
from benchmarks.figures import Figure, Mode, benchmark_run, progress
from millpond.files.snapshot_text import snapshot_write
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Snapshot

DECISIONS: dict[Mode, int] = {"short": 20_000, "full": 1_000_000}
AGAIN_EVERY = 100
"""Passes between two that are made again from the snapshot alone."""

Planner = Callable[[Snapshot], Plan]


@dataclass(slots=True)
class Tally:
    """What was decided, and how long the checking took."""

    passes: int = 0
    starts: int = 0
    evictions: int = 0
    waits: int = 0
    reservations: int = 0
    again: int = 0
    check_seconds: float = 0.0
    seconds: float = 0.0
    broken: str = ""
    """What is wrong, and where the snapshot lies; empty if nothing is."""

    @property
    def decisions(self) -> int:
        return self.starts + self.evictions + self.waits

    def add(self, other: Tally) -> None:
        """Count another day in."""
        self.passes += other.passes
        self.starts += other.starts
        self.evictions += other.evictions
        self.waits += other.waits
        self.reservations += other.reservations
        self.again += other.again
        self.check_seconds += other.check_seconds
        self.seconds += other.seconds
        self.broken = self.broken or other.broken


def day_check(
    seed: int, until: int, kept: Path, most: int | None = None, planner: Planner = plan, again: int = AGAIN_EVERY
) -> Tally:
    """One day of one cluster, every plan checked and every `again`-th made twice.

    Ends at the first violation, and after `most` decisions: a crowded day makes hundreds of thousands.
    """
    tally, begun = Tally(), time.perf_counter()
    for snapshot, found in Day(Cluster(seed)).plans(until):
        tally.passes += 1
        tally.starts += len(found.start)
        tally.evictions += len(found.evict)
        tally.waits += len(found.wait)
        tally.reservations += len(found.reservations)
        before = time.perf_counter()
        violations = check(snapshot, found)
        tally.check_seconds += time.perf_counter() - before
        wrong = "; ".join(f"{one.rule}: {one.text}" for one in violations)
        if not wrong and tally.passes % again == 0:
            tally.again += 1
            if plan_bytes(planner(snapshot)) != plan_bytes(found):
                wrong = "the planner that stays says something else than the one that begins anew"
        if wrong:
            tally.broken = f"day {seed}, {snapshot.now} s: {wrong}; see {keep(snapshot, seed, kept)}"
            break
        if most is not None and tally.decisions >= most:
            break
    tally.seconds = time.perf_counter() - begun
    return tally


def keep(snapshot: Snapshot, seed: int, folder: Path) -> Path:
    """Write a snapshot to a file for ``millpond plan``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"violation-{seed}-{snapshot.now}.yaml"
    path.write_text(snapshot_write(snapshot), encoding="utf-8")
    return path


def days_check(decisions: int, *, seed: int, workers: int, until: int, kept: Path) -> Tally:
    """Day after day until so many decisions have been made; ends at the first violation.  Days count in order."""
    total, days = Tally(), 0
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as crew:
        for found in _in_order(crew, seed, workers, until, kept, decisions):
            total.add(found)
            days += 1
            progress(f"{total.decisions} of {decisions} decisions, {days} days, {total.passes} plans")
            if total.broken or total.decisions >= decisions:
                break
        crew.shutdown(wait=False, cancel_futures=True)
    return total


def _in_order(crew: ProcessPoolExecutor, seed: int, workers: int, until: int, kept: Path, most: int) -> Iterator[Tally]:
    """The days in order of their numbers, some of them ahead."""
    ahead: list[Future[Tally]] = []
    while True:
        while len(ahead) < 2 * workers:
            ahead.append(crew.submit(day_check, seed, until, kept, most))
            seed += 1
        yield ahead.pop(0).result()


def figures(total: Tally) -> list[Figure]:
    """What a run says.  There must be no violation, so there is one line for that too."""
    note = "a job started, evicted, or left waiting with its reasons, in one plan"
    speed = total.decisions / total.check_seconds if total.check_seconds else 0.0
    return [
        Figure("check", "decisions checked", total.decisions, "", note=note),
        Figure("check", "of these starts", total.starts, ""),
        Figure("check", "of these evictions", total.evictions, ""),
        Figure("check", "plans checked", total.passes, ""),
        Figure("check", "plans made twice", total.again, "", note="from the snapshot alone, and equal to the byte"),
        Figure("check", "plans with a violation", 1 if total.broken else 0, "", aim=0),
        Figure("check", "decisions checked a second", speed, "/s", note="of the checker's own time, one core"),
    ]


def run(mode: Mode) -> list[Figure]:
    """As `main`, with the defaults.  Raises `AssertionError` at a violation."""
    return _run(DECISIONS[mode], seed=1, workers=2, until=DAY, kept=Path(gettempdir()))


def _run(decisions: int, *, seed: int, workers: int, until: int, kept: Path) -> list[Figure]:
    total = days_check(decisions, seed=seed, workers=workers, until=until, kept=kept)
    assert not total.broken, total.broken
    return figures(total)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.checked",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help=f"{DECISIONS['full']:,} decisions")
    parser.add_argument("--decisions", type=int, help="that many, in place of the short or the full form")
    parser.add_argument("--seed", type=int, default=1, help="number of the first day")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--hours", type=int, default=24, help="of each day")
    parser.add_argument("--out", type=Path, help="folder of the result file; by default benchmarks/results[/short]")
    parser.add_argument("--kept", type=Path, default=Path(gettempdir()), help="folder for the snapshot of a violation")
    options = parser.parse_args(argv)
    mode: Mode = "full" if options.full else "short"
    decisions = options.decisions or DECISIONS[mode]

    def chosen(_: Mode) -> list[Figure]:
        return _run(
            decisions, seed=options.seed, workers=options.workers, until=options.hours * 3600, kept=options.kept
        )

    try:
        result = benchmark_run("checked", chosen, mode, options.out)
    except AssertionError as error:
        print(f"a plan breaks a rule: {error}", file=sys.stderr)
        return 1
    for figure in result.figures:
        print(figure.line())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
