"""B6: how long an eviction takes to decide in a storm, and how close to the least lost work it comes.

    python -m benchmarks.eviction [--full]

A storm is a pool that is full of preemptible jobs shaped like openb's pods, into which guaranteed claims break one by
one: fractions, cards, whole nodes, gangs (``benchmarks/peers/storms.py``).  A decision is one pass of the planner for
one claim, its victims and its hold taken over.

The lost work is compared on random small pools with what an exact program finds (``peers/eviction_milp.py``).  It
minimises the tuple of scheduling §3 as the planner does: highest victim rank, inversions, lost work, milli-cards,
victims; node key and names are left out, as they only break ties.  The ratio is of lost work, over the cases in which
the highest rank is equal.  Beaten are cases in which a lower rank could have gone, and, up to the 16 candidates for
which the choice is to be exact, those in which any part of the tuple could have been smaller.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from benchmarks.figures import Figure, Mode, benchmark_main, progress, quantile
from benchmarks.peers.eviction_cases import EXACT, cases
from benchmarks.peers.eviction_milp import best_milp
from benchmarks.peers.evictions import Best, Case, Cost
from benchmarks.peers.storms import storm_make
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident

SIZES = (500, 1000, 5000)
CLAIMS: dict[Mode, int] = {"short": 16, "full": 64}
CASES: dict[Mode, int] = {"short": 60, "full": 1000}
FIRST_SEED = 1

KAI: dict[int, tuple[float | None, str]] = {
    500: (8970.0, "KAI reclaim, published"),
    1000: (None, "KAI reclaim, published: not done after 40 min"),
    5000: (None, ""),
}
AIMS = {1000: 50.0, 5000: 250.0}


@dataclass(frozen=True, slots=True)
class Compared:
    """One small case: the planner's set beside the best one.  ``ours`` is None if the planner's set does not count."""

    seed: int
    candidates: int
    ours: Cost | None
    best: Cost

    @property
    def beaten(self) -> bool:
        """Whether a lower rank could have gone or, where the choice is to be exact, anything was better."""
        return self.ours is None or self.ours[0] > self.best[0] or (self.candidates <= EXACT and self.ours > self.best)

    @property
    def inverted(self) -> bool:
        """Whether fewer inversions were to be had at the same rank."""
        return self.ours is not None and self.ours[0] == self.best[0] and self.ours[1] > self.best[1]

    @property
    def ratio(self) -> float | None:
        """Lost work over that of the best set; None where the ranks differ."""
        if self.ours is None or self.ours[0] != self.best[0]:
            return None
        return max(1, self.ours[2]) / max(1, self.best[2])


def storm_times(nodes: int, claims: int) -> tuple[list[float], float]:
    """Milliseconds of each decision of a storm, and the mean of the CPU's."""
    snapshot, arriving = storm_make(nodes, claims)
    resident = Resident(snapshot)
    resident.adopt(resident.plan())
    times, cpu = [], 0.0
    for number, claim in enumerate(arriving):
        progress(f"storm on {nodes} nodes: claim {number + 1} of {claims}")
        begun, worked = time.perf_counter(), time.process_time()
        resident.job_put(claim)
        found = resident.plan()
        times.append(1000 * (time.perf_counter() - begun))
        cpu += 1000 * (time.process_time() - worked)
        resident.adopt(found)
        decided = any(hold.job == claim.id for hold in found.hold) or any(
            start.job == claim.id for start in found.start
        )
        if not decided:
            raise AssertionError(f"{claim.id} neither starts nor evicts its way in: the storm is not one")
    return times, cpu / claims


def storms(mode: Mode) -> list[Figure]:
    figures = []
    for nodes in SIZES:
        times, cpu = storm_times(nodes, CLAIMS[mode])
        mark, source = KAI[nodes]
        figures.append(
            Figure(
                "B6",
                f"ms_at_{nodes}",
                sum(times) / len(times),
                "ms",
                runs=len(times),
                mark=mark,
                mark_source=source,
                aim=AIMS.get(nodes),
                note=f"mean of a decision, {cpu:.1f} ms of it CPU; median {quantile(times, 0.5):.1f}, "
                f"slowest {max(times):.1f}",
            )
        )
    return figures


def compare(seed: int, case: Case, best: Best) -> Compared:
    """The planner's choice for a case, judged by the rules of the case."""
    found = plan(case.snapshot)
    gone = {evict.job for evict in found.evict if evict.claimant == case.claim.id}
    numbers = frozenset(number for number, use in enumerate(case.candidates) if use.job.id in gone)
    known = bool(gone) and len(numbers) == len(gone)
    return Compared(seed, len(case.candidates), case.cost(numbers) if known else None, best.cost)


def compared(count: int, seed: int = FIRST_SEED) -> list[Compared]:
    """The first `count` cases in which an eviction helps."""
    found: list[Compared] = []
    for number, case in cases(seed):
        best = best_milp(case)
        if best is not None:
            found.append(compare(number, case, best))
        if len(found) == count:
            break
        if len(found) % 20 == 0:
            progress(f"small cases: {len(found)} of {count}")
    return found


def lost_work(mode: Mode) -> list[Figure]:
    found = compared(CASES[mode])
    ratios = [case.ratio for case in found if case.ratio is not None]
    runs = len(ratios)
    crowded = f"{sum(case.candidates > EXACT for case in found)} of them with more than {EXACT} candidates"
    worse = _seeds([case for case in found if case.beaten])
    inverted = _seeds([case for case in found if case.inverted])
    return [
        Figure(
            "B6", "lost_work_vs_milp_mean", sum(ratios) / runs, "ratio", runs=runs, bound=1.0, aim=1.05, note=crowded
        ),
        Figure("B6", "lost_work_vs_milp_max", max(ratios), "ratio", runs=runs, bound=1.0, aim=1.2),
        Figure("B6", "cases_beaten", worse[0], "cases", runs=len(found), bound=0.0, aim=0.0, note=worse[1]),
        Figure("B6", "cases_more_inversions", inverted[0], "cases", runs=len(found), bound=0.0, note=inverted[1]),
    ]


def _seeds(found: list[Compared]) -> tuple[float, str]:
    """How many, and the seeds of the first: ``case_make(seed)`` gives the snapshot."""
    return float(len(found)), f"seeds {', '.join(str(case.seed) for case in found[:10])}" if found else ""


def run(mode: Mode) -> list[Figure]:
    return [*storms(mode), *lost_work(mode)]


if __name__ == "__main__":
    sys.exit(benchmark_main("eviction", run))
