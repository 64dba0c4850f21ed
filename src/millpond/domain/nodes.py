"""Nodes and their cards, as configured and as found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Health(StrEnum):
    OK = "ok"
    QUARANTINED = "quarantined"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class CardKind:
    """``memory`` in MiB of one card; ``islands`` are sets of card indexes joined by fast links, disjoint."""

    model: str
    vendor: str = "nvidia"
    memory: int = 0
    count: int = 0
    islands: tuple[tuple[int, ...], ...] = ()
    uuids: tuple[str, ...] = ()
    mig: bool = False


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node of one card model (or none).  ``cpu`` milli-CPU, ``memory`` MiB."""

    name: str
    cpu: int = 0
    memory: int = 0
    cards: CardKind | None = None
    labels: tuple[tuple[str, str], ...] = field(default=())
    taints: tuple[str, ...] = ()
    simulated: bool = False
