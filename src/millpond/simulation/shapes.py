"""How much of a node's free cards the usual jobs cannot use: fragmentation, as FGD defines it.

F_n(M) = Σ over request shapes m of p(m) · (free cards of n that m cannot use), with p from a mix of requests (Weng et
al., "Beware of Fragmentation", USENIX ATC 2023).  All of a node's free cards count where m does not fit at all; where
it fits, the cards whose rest is too small for m.  Amounts are milli-cards, weights counts: everything is an integer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.scheduling.snapshot import Job, NodeState

MAX_SHAPES = 16
"""The most frequent shapes that count; traces have few that matter."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one node of a job asks for, and how often."""

    gpu: CardRequest
    cpu: int
    memory: int
    weight: int

    @property
    def each(self) -> int:
        """Milli-cards that it needs of a card."""
        return min(CARD, self.gpu.milli_min or self.gpu.milli)


def shapes_of(jobs: Iterable[Job]) -> tuple[Shape, ...]:
    """The most frequent shapes of jobs with cards; slices are left out (what they leave depends on the card)."""
    counts = Counter((job.gpu, job.cpu, job.memory) for job in jobs if job.gpu.milli)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(Shape(gpu, cpu, memory, count) for (gpu, cpu, memory), count in ordered[:MAX_SHAPES])


class Floor:
    """One node: how much of each card is free, and what of it is stranded."""

    __slots__ = ("_asks", "_cpu", "_free", "_memory", "open")

    def __init__(self, state: NodeState, shapes: tuple[Shape, ...]) -> None:
        kind = state.spec.cards
        count = kind.count if kind else 0
        self.open = not (state.cordoned or state.draining or state.lost)
        self._free = [0 if card in state.bad_cards or not self.open else CARD for card in range(count)]
        self._cpu, self._memory = state.spec.cpu, state.spec.memory
        self._asks: list[tuple[int, int, int, int, int]] = []
        for shape in shapes:
            suits = kind is not None and shape.gpu.card_matches(kind.vendor, kind.model, kind.memory)
            need = -(-(shape.gpu.milli_min or shape.gpu.milli) // CARD)
            self._asks.append((need if suits else count + 1, shape.each, shape.cpu, shape.memory, shape.weight))

    def take(self, cards: Iterable[int], milli: int, cpu: int, memory: int) -> None:
        """Somebody takes `milli` of each of these cards (negative: gives them back), and cpu and memory."""
        for card in cards:
            if card < len(self._free):
                self._free[card] -= milli
        self._cpu -= cpu
        self._memory -= memory

    def stranded(self) -> int:
        """Σ weight · (free milli-cards that the shape cannot use)."""
        free = [left for left in self._free if left > 0]
        if not free:
            return 0
        total, whole = sum(free), 0
        for need, each, cpu, memory, weight in self._asks:
            usable = [left for left in free if left >= each]
            if len(usable) < need or cpu > max(self._cpu, 0) or memory > max(self._memory, 0):
                whole += weight * total
            else:
                whole += weight * (total - sum(usable))
        return whole
