"""Are our six policies theirs?  Re-implementation beside the published means, for all 17 pod files.

    python -m benchmarks.peers.table [--seeds 10] [--orders 12] [--json FILE]

Three things differ from the published runs: the arrival lists (same recipe, another generator), the order of the node
names (theirs were lost when the trace was made anonymous), and nothing else on purpose.  The second matters where ties
are many, so the table also shows how far each figure moves when the nodes are named in other orders.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from benchmarks import openb
from benchmarks.peers import policies


@dataclass(frozen=True, slots=True)
class Row:
    """% allocated of one policy on one file, at 100 % and 130 % arrived load."""

    workload: str
    policy: str
    published: tuple[float, float]
    name: tuple[float, float]
    """Ours, ties to the smallest node name."""
    random: tuple[float, float]
    """Ours, ties at random."""
    orders: tuple[float, float]
    """Lowest and highest figure at 130 % of ours over shuffled node names, ties to the smallest."""

    @property
    def explained(self) -> bool:
        """Whether the published figure lies within half a point of what other node names give."""
        low, high = self.orders
        return low - 0.5 <= self.published[1] <= high + 0.5


def rows(workloads: Sequence[str], seeds: Sequence[int], orders: int) -> list[Row]:
    """The table, workload by workload."""
    published = openb.published_read()
    named = policies.courses(policies.POLICIES, workloads, seeds, "name")
    drawn = policies.courses(policies.POLICIES, workloads, seeds, "random")
    found = []
    for workload in workloads:
        for policy in policies.POLICIES:
            mean = published[workload][policy]
            means = [
                (
                    fmean(course.at(100) for course in runs[policy, workload]),
                    fmean(c.at(130) for c in runs[policy, workload]),
                )
                for runs in (named, drawn)
            ]
            spread = order_range(policy, workload, seeds[0], orders)
            found.append(Row(workload, policy, (mean.at(100), mean.at(130)), means[0], means[1], spread))
    return found


def order_range(policy: str, workload: str, seed: int, orders: int) -> tuple[float, float]:
    """Lowest and highest % allocated at the end over `orders` shuffles of the node names and the order as it stands."""
    nodes, pods = openb.nodes_read(), openb.pods_read(workload)
    milli = openb.capacity(nodes)
    arrivals = openb.arrivals(pods, seed, milli)

    def allocated(shuffle: int) -> float:
        order = list(nodes)
        draws = openb.Draws(shuffle)
        for place in range(len(order) - 1, 0, -1) if shuffle else ():
            other = draws.below(place + 1)
            order[place], order[other] = order[other], order[place]
        placed = policies.run(policy, order, pods, arrivals, "name", seed)
        got = sum(pods[pod].shape.volume for pod, seat in zip(arrivals, placed, strict=True) if seat)
        return 100.0 * got / milli

    with ThreadPoolExecutor(2) as pool:
        figures = list(pool.map(allocated, range(orders + 1)))
    return min(figures), max(figures)


def markdown(found: Sequence[Row]) -> str:
    """The table as Markdown; figures are % allocated at 100 / 130 % arrived load."""
    lines = [
        "| file | policy | published | ours, smallest name | apart | ours, random ties | other node names, at 130 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        apart = "/".join(f"{ours - theirs:+.2f}" for ours, theirs in zip(row.name, row.published, strict=True))
        cells = [_pair(pair) for pair in (row.published, row.name)]
        lines.append(
            f"| {row.workload} | {row.policy} | {cells[0]} | {cells[1]} | {apart} | {_pair(row.random)} "
            f"| {row.orders[0]:.2f}–{row.orders[1]:.2f} |"
        )
    return "\n".join(lines)


def _pair(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.2f} / {pair[1]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=10, help="runs of each experiment (default 10)")
    parser.add_argument("--orders", type=int, default=12, help="other orders of the node names (default 12)")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    given = parser.parse_args()
    found = rows(openb.WORKLOADS, openb.SEEDS[: given.seeds], given.orders)
    print(markdown(found))
    outside = [f"{row.workload}/{row.policy}" for row in found if not row.explained]
    print(f"\n{len(found) - len(outside)} of {len(found)} published figures lie within 0.5 points of our range; "
          f"outside: {', '.join(outside) or 'none'}")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
