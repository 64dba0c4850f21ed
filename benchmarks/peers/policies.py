"""The six policies of the FGD experiments: Random, DotProd, GpuClustering, GpuPacking, BestFit and FGD.

Written anew from the published recipe; `policies.c` says what each does.  `run` gives the placements of one arrival
list, `course` the share of the cards allocated as the load arrives.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from benchmarks import openb
from benchmarks.openb import Course, Node, Pod, Shape
from benchmarks.peers.kernel import kernel
from millpond.domain.errors import Unavailable

POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
"""By their published names, in the order of the kernel."""

Tie = Literal["name", "random"]
TIES: tuple[Tie, ...] = ("name", "random")
"""Who wins among nodes of equal score: the smallest node name, as in the published runs, or any of them."""

TYPICAL_SHARE = 0.95
"""FGD looks at the most frequent shapes until they make up so much of the pods."""

_CARDS = 8
_CLASSES = 6


class _Shape(ctypes.Structure):
    _fields_ = (
        ("cpu", ctypes.c_int32),
        ("memory", ctypes.c_int32),
        ("cards", ctypes.c_int32),
        ("milli", ctypes.c_int32),
        ("models", ctypes.c_uint64),
    )


class _Typical(ctypes.Structure):
    _fields_ = (
        ("cpu", ctypes.c_int32),
        ("cards", ctypes.c_int32),
        ("milli", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("models", ctypes.c_uint64),
    )


class _Node(ctypes.Structure):
    _fields_ = (
        ("cpu", ctypes.c_int32),
        ("memory", ctypes.c_int32),
        ("cards", ctypes.c_int32),
        ("model", ctypes.c_int32),
        ("left", ctypes.c_int32 * _CARDS),
        ("placed", ctypes.c_int32 * _CLASSES),
        ("fragments", ctypes.c_int64),
    )


class _Input(ctypes.Structure):
    _fields_ = (
        ("policy", ctypes.c_int32),
        ("tie", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("nodes", ctypes.c_int32),
        ("shapes", ctypes.c_int32),
        ("typicals", ctypes.c_int32),
        ("arrivals", ctypes.c_int32),
        ("node", ctypes.POINTER(_Node)),
        ("shape", ctypes.POINTER(_Shape)),
        ("typical", ctypes.POINTER(_Typical)),
        ("arrival", ctypes.POINTER(ctypes.c_int32)),
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one pod of the list went: index of the node, and of the card for a fraction (else -1)."""

    node: int
    card: int


def typical_pods(pods: Sequence[Pod], share: float = TYPICAL_SHARE) -> list[tuple[Shape, int]]:
    """The most frequent shapes (memory aside) that make up `share` of the pods, with the number of pods like each."""
    counts = Counter(Shape(pod.shape.cpu, 0, pod.shape.cards, pod.shape.milli, pod.shape.models) for pod in pods)
    chosen: list[tuple[Shape, int]] = []
    covered = 0
    for shape, count in sorted(counts.items(), key=lambda item: (-item[1], _key(item[0]))):
        if covered >= share * len(pods):
            break
        covered += count
        chosen.append((shape, count))
    return chosen


def _key(shape: Shape) -> tuple[int, int, int, tuple[str, ...]]:
    return shape.cards, shape.milli, shape.cpu, shape.models


def run(
    policy: str, nodes: Sequence[Node], pods: Sequence[Pod], order: Sequence[int], tie: Tie = "name", seed: int = 0
) -> list[Placement | None]:
    """Place `pods` in `order` (indexes) on empty `nodes`; None stands for a pod that fits nowhere.

    ``tie="name"`` takes the first of equal nodes, so `nodes` come in the order of their names.  ``seed`` is for what is
    drawn at random.  Raises Unavailable where there is no C compiler.
    """
    models = {name: number for number, name in enumerate(sorted({node.model for node in nodes}))}
    shapes = sorted({pod.shape for pod in pods}, key=lambda shape: (_key(shape), shape.memory))
    index = {shape: number for number, shape in enumerate(shapes)}
    typical = typical_pods(pods)
    given = _Input(
        POLICIES.index(policy), TIES.index(tie), seed, len(nodes), len(shapes), len(typical), len(order),
        (_Node * len(nodes))(*(_node(node, models) for node in nodes)),
        (_Shape * len(shapes))(
            *(_Shape(item.cpu, item.memory, item.cards, item.milli, _mask(item, models)) for item in shapes)
        ),
        (_Typical * len(typical))(
            *(_Typical(item.cpu, item.cards, item.milli, count, _mask(item, models)) for item, count in typical)
        ),
        (ctypes.c_int32 * len(order))(*(index[pods[number].shape] for number in order)),
    )  # fmt: skip
    chosen, card = (ctypes.c_int32 * len(order))(), (ctypes.c_int8 * len(order))()
    if kernel().peers_run(ctypes.byref(given), chosen, card):
        raise Unavailable("there is not enough memory for the scores of all nodes and shapes")
    return [Placement(node, card[number]) if node >= 0 else None for number, node in enumerate(chosen)]


def _node(node: Node, models: dict[str, int]) -> _Node:
    left = [1000 if card < node.cards else 0 for card in range(_CARDS)]
    return _Node(node.cpu, node.memory, node.cards, models[node.model], (ctypes.c_int32 * _CARDS)(*left))


def _mask(shape: Shape, models: dict[str, int]) -> int:
    """The models that a shape may use as bits; a model that no node has is left out."""
    if not shape.models:
        return (1 << len(models)) - 1
    return sum(1 << models[name] for name in shape.models if name in models)


def course(policy: str, workload: str, seed: int, tie: Tie = "name") -> Course:
    """The course of one published experiment: a policy, a pod file, a seed."""
    nodes, pods = openb.nodes_read(), openb.pods_read(workload)
    milli = openb.capacity(nodes)
    order = openb.arrivals(pods, seed, milli)
    placed = run(policy, nodes, pods, order, tie, seed)
    asked = [pods[number].shape.volume for number in order]
    return openb.course(((want, want if got else 0) for want, got in zip(asked, placed, strict=True)), milli)


def courses(
    policies: Sequence[str], workloads: Sequence[str], seeds: Sequence[int], tie: Tie, threads: int = 2
) -> dict[tuple[str, str], list[Course]]:
    """All courses of policies × workloads × seeds, on threads: the kernel works outside Python's lock."""
    jobs = [(policy, workload, seed) for workload in workloads for policy in policies for seed in seeds]
    with ThreadPoolExecutor(threads) as pool:
        done = list(pool.map(lambda job: course(job[0], job[1], job[2], tie), jobs))
    found: dict[tuple[str, str], list[Course]] = {}
    for (policy, workload, _), result in zip(jobs, done, strict=True):
        found.setdefault((policy, workload), []).append(result)
    return found
