"""Amounts as Kubernetes writes them, and cards as resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.domain.amounts import CARD
from millpond.engines.base import RankOrder, Refused
from millpond.engines.slices import slice_parse

WHOLE = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-"
VGPU_CARDS, VGPU_CORES, VGPU_MEMORY = (
    "volcano.sh/vgpu-number", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage",
)  # fmt: skip

HUNDREDTH = CARD // 100
"""Volcano shares cards by the hundredth."""

Amounts = dict[str, str]
"""A resource list: quantities by name."""


def cpu_quantity(milli: int) -> str:
    """Milli-CPU: ``4000`` → ``4``, ``250`` → ``250m``."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def memory_quantity(mib: int) -> str:
    """MiB: ``4096`` → ``4Gi``."""
    return f"{mib}Mi" if mib % 1024 else f"{mib // 1024}Gi"


def cards_quantity(milli: int, *, up: bool) -> str:
    """Milli-cards as whole cards, rounded up or down: Kubernetes counts cards in integers."""
    return str(-(-milli // CARD) if up else milli // CARD)


def cards_amounts(rank: RankOrder) -> Amounts:
    """What the pod of these cards asks for: whole cards, hundredths of each, or slices.

    Raises `Refused` for a share that Volcano cannot express.
    """
    if rank.slices:
        counts: dict[str, int] = {}
        for text in rank.slices:
            name = SLICE + slice_parse(text)[1].replace("+", ".")
            counts[name] = counts.get(name, 0) + 1
        return {name: str(count) for name, count in sorted(counts.items())}
    if not rank.cards:
        return {}
    if rank.milli == CARD:
        return {WHOLE: str(len(rank.cards))}
    if rank.milli % HUNDREDTH:
        raise Refused(
            f"{rank.milli} thousandths of a card cannot be given out on Kubernetes",
            hint="Volcano shares cards by the hundredth: ask for a multiple of 0.01",
        )
    share = str(rank.milli // HUNDREDTH)
    return {VGPU_CARDS: str(len(rank.cards)), VGPU_CORES: share, VGPU_MEMORY: share}


def node_amounts(cpu: int, memory: int, cards: Mapping[str, str]) -> Amounts:
    """A container's resources: milli-CPU and MiB, 0 = none asked."""
    amounts = dict(cards)
    if cpu:
        amounts["cpu"] = cpu_quantity(cpu)
    if memory:
        amounts["memory"] = memory_quantity(memory)
    return dict(sorted(amounts.items()))


def card_list(cards: Sequence[int]) -> str:
    """Card indexes for an annotation: ``0,3``."""
    return ",".join(str(card) for card in cards)
