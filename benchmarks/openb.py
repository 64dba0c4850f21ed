"""The openb cluster and its pods (Alibaba gpu-v2023), and the arrival lists of the FGD experiments.

1 213 nodes with 6 212 cards; pod files of about 8 000 pods that differ in the share of CPU-only, fractional, multi-card
and model-bound pods.  Only arrivals: nobody leaves, and a pod that does not fit is dropped.  An arrival list is the
shuffled file with clones appended, drawn with replacement, until the cards asked for reach 130 % of those there are
(Weng et al., "Beware of Fragmentation", USENIX ATC 2023; the recipe of the simulator published with it).

The lists are made by a generator written out here (`Draws`), so that they are the same on every machine, in every
version of Python and in any other language.  The published runs drew theirs from Go's generator: same recipe, other
lists; figures are compared as means over ten seeds.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data" / "openb"

WORKLOADS = (
    "default",
    *("cpu050", "cpu100", "cpu200", "cpu250"),
    *("gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
)
"""The 17 pod files of the published table."""

SEEDS = tuple(range(42, 52))

LOAD = 1300
"""Requested cards of a whole arrival list, in thousandths of the cards that there are."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    cpu: int
    """milli-CPU"""
    memory: int
    """MiB"""
    cards: int
    model: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod asks for.  ``milli`` is per card: 1000 for whole cards, less only with one card, 0 without cards."""

    cpu: int
    memory: int
    cards: int
    milli: int
    models: tuple[str, ...] = ()
    """The card models it may use; empty means any."""

    @property
    def volume(self) -> int:
        """Milli-cards in all."""
        return self.cards * self.milli


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    shape: Shape
    qos: str
    """`LS` (latency-sensitive), `BE` (best effort), `Burstable`, `Guaranteed`; empty in files that do not say."""


class Draws:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), whose first state is the seed itself."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1: the next 64-bit draw modulo `limit`."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % limit


@cache
def nodes_read() -> tuple[Node, ...]:
    """The GPU nodes, by name."""
    rows = csv.DictReader((DATA / "openb_node_list_gpu_node.csv").read_text().splitlines())
    found = [
        Node(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"]) for row in rows
    ]
    return tuple(sorted(found, key=lambda node: node.name))


@cache
def pods_read(workload: str) -> tuple[Pod, ...]:
    """The pods of one file, as they stand there.  A `gpu_milli` above 1000 means whole cards; 0 cards means 0 milli."""
    with lzma.open(DATA / f"openb_pod_list_{workload}.csv.xz", "rt", newline="") as lines:
        return tuple(Pod(row["name"], _shape(row), row.get("qos") or "") for row in csv.DictReader(lines))


def _shape(row: Mapping[str, str]) -> Shape:
    cards, milli = int(row["num_gpu"]), min(1000, int(row["gpu_milli"] or 0))
    if not cards or not milli:
        return Shape(int(row["cpu_milli"]), int(row["memory_mib"]), 0, 0)
    models = tuple(sorted(name for name in (row.get("gpu_spec") or "").split("|") if name))
    return Shape(int(row["cpu_milli"]), int(row["memory_mib"]), cards, milli, models)


def capacity(nodes: Sequence[Node]) -> int:
    """Milli-cards of a cluster."""
    return 1000 * sum(node.cards for node in nodes)


def arrivals(pods: Sequence[Pod], seed: int, milli: int, load: int = LOAD) -> list[int]:
    """One arrival list: indexes into `pods`.

    Fisher-Yates from the last place down, then clones while the next one (by its milli-cards *per card*, as the
    published simulator counts) stays within `milli` × `load` / 1000.  A file that asks for more loses pods at random.
    """
    draws = Draws(seed)
    order = list(range(len(pods)))
    for place in range(len(order) - 1, 0, -1):
        other = draws.below(place + 1)
        order[place], order[other] = order[other], order[place]
    target = milli * load // 1000
    asked = sum(pod.shape.volume for pod in pods)
    while asked > target:
        asked -= pods[order.pop(draws.below(len(order)))].shape.volume
    while True:
        clone = draws.below(len(pods))
        if asked + pods[clone].shape.milli > target:
            return order
        asked += pods[clone].shape.volume
        order.append(clone)


@dataclass(frozen=True, slots=True)
class Course:
    """Allocated milli-cards whenever another whole percent of the capacity has arrived."""

    capacity: int
    allocated: tuple[int, ...]

    def at(self, percent: int) -> float:
        """% of the cards allocated once `percent` % have arrived; the last value known if the list ends before."""
        return 100.0 * self.allocated[min(percent, len(self.allocated) - 1)] / self.capacity


def course(steps: Iterable[tuple[int, int]], milli: int, load: int = LOAD) -> Course:
    """The course of a run from its steps: (milli-cards that arrived, of these allocated), one per arrival.

    The last percent holds what was allocated at the end: a list stops just short of its full load.
    """
    marks = [0] * (load // 10 + 1)
    arrived = allocated = reached = 0
    for asked, got in steps:
        arrived, allocated = arrived + asked, allocated + got
        while reached + 1 < len(marks) and arrived * 100 >= (reached + 1) * milli:
            reached += 1
            marks[reached] = allocated
    for percent in range(reached + 1, len(marks)):
        marks[percent] = allocated
    return Course(milli, tuple(marks))


@dataclass(frozen=True, slots=True)
class Published:
    """Published results of one policy on one file: % allocated by seed, at each whole percent of arrived load."""

    policy: str
    rows: tuple[tuple[float, ...], ...]

    def at(self, percent: int) -> float:
        """The mean over the seeds; a run that ended before `percent` counts with its last value."""
        return sum(row[min(percent, len(row) - 1)] for row in self.rows) / len(self.rows)


@cache
def published_read() -> dict[str, dict[str, Published]]:
    """Published tables: workload → policy → results."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    with lzma.open(DATA / "expected_analysis_allo_discrete.csv.xz", "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            values = tuple(float(row[str(percent)]) for percent in range(LOAD // 10 + 1) if row.get(str(percent)))
            key = (row["workload"].removeprefix("openb_pod_list_"), row["sc_policy"].split("-", 1)[1])
            found.setdefault(key, []).append(values)
    tables: dict[str, dict[str, Published]] = {}
    for (workload, policy), rows in found.items():
        tables.setdefault(workload, {})[policy] = Published(policy, tuple(rows))
    return tables
