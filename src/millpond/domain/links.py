"""How the cards of a node are joined: NVLink, PCIe switches, NUMA halves, as vendors build their nodes.

A node that was asked says itself (`CardKind.islands`: NVML, or a file).  For the others this page knows what is certain
from model and number of cards; where nothing is known all cards of a node count as one island.

Sources: NVIDIA DGX A100 User Guide and DGX H100/H200/B200 User Guides, "System Topology" (NVSwitch joins all eight
cards; four cards to a CPU socket; on DGX A100 two cards below each PCIe switch), NVIDIA HGX data sheets for A800, H800
and H20, which are A100 and H100 boards with other cards; NVIDIA A30 product brief PB-10418 (an NVLink bridge joins two
cards); data sheets of L40S, L4, A10, T4 and GeForce RTX 4090 and 5090 (no NVLink).  Boxes without NVLink have four of
eight cards to a socket as well.  A node built otherwise names its own islands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from millpond.domain.names import model_matches
from millpond.domain.nodes import CardKind

NVLINK, PCIE, NUMA = "nvlink", "pcie", "numa"
LINK_LEVELS = {NVLINK: NVLINK, "link": NVLINK, "island": NVLINK, PCIE: PCIE, NUMA: NUMA}
"""The levels inside a node as a job may name them, and what each means; tightest first."""

Islands = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class LinkLevel:
    """One kind of link in a node: ``islands`` are disjoint sets of card indexes that it joins."""

    name: str
    islands: Islands


def _groups(count: int, size: int) -> Islands:
    return tuple(tuple(range(first, min(first + size, count))) for first in range(0, count, size))


_SWITCHED = ("A100", "A800", "H100", "H800", "H20", "H200", "B200")
_PLAIN = ("L40S", "L40", "L4", "A10", "T4", "4090", "5090")
_BRIDGED = ("A30",)


def link_levels(kind: CardKind) -> tuple[LinkLevel, ...]:
    """The link levels of a node, tightest first; empty where nothing is known.  Islands that were told come alone."""
    if kind.islands:
        return (LinkLevel(NVLINK, kind.islands),)
    return _known(kind.model, kind.count)


@lru_cache(maxsize=1024)
def _known(model: str, count: int) -> tuple[LinkLevel, ...]:
    if count < 2:
        return ()
    sockets = (LinkLevel(NUMA, _groups(8, 4)),) if count == 8 else ()
    pcie = any(word in model.upper() for word in ("PCIE", "NVL"))
    if _is(model, _SWITCHED) and not pcie and count in {4, 8}:
        pairs = (LinkLevel(PCIE, _groups(8, 2)),) if count == 8 and _is(model, ("A100", "A800")) else ()
        return (LinkLevel(NVLINK, _groups(count, count)), *pairs, *sockets)
    if _is(model, _BRIDGED) and count % 2 == 0:
        return (LinkLevel(NVLINK, _groups(count, 2)), *sockets)
    if _is(model, _PLAIN):
        return (LinkLevel(NVLINK, _groups(count, 1)), *sockets)
    return ()


def _is(model: str, names: Iterable[str]) -> bool:
    return any(model_matches(name, model) for name in names)
