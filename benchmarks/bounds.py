"""What nobody can pass in B1: linear programs over card patterns, solved exactly with HiGHS.

All three relax the cluster to its *types of nodes* (model, cards, CPU, memory): CPU, memory and cards of a type are
pooled, whole cards may be split over nodes, and each card that holds fractions follows a *pattern*, a multiset of
fractions that fits one card.  Patterns are made as they are needed (column generation: Gilmore and Gomory, 1961; the
pricing problem is an unbounded knapsack), and what the last round could still win is added, so a result is a bound even
where the rounds end early.

- `pattern_bound`: of the pods that arrived, serve the best selection; refuses freely.  Per file and seed.
- `monotone_bound`: in the fluid limit, a policy that refuses nothing that fits.  Then a shape that asks for more than
  another in every way stops being served no later than that other.
- `window_bound`: the same, for a policy that may hold `held` pods back: largest load that packs with nothing refused
  but those.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from benchmarks import openb
from benchmarks.openb import Node, Pod, Shape
from millpond.domain.errors import MillpondError

_ROUNDS = 200
_TOLERANCE = 1e-6
"""Reduced cost, in cards, below which a pattern is not worth another round."""


class NotSolved(MillpondError):
    """HiGHS gave no optimum."""

    code = "NOT_SOLVED"


@dataclass(frozen=True, slots=True)
class NodeType:
    """Nodes that are alike, with what all of them have together."""

    model: str
    cards: int
    cpu: int
    memory: int
    count: int

    def takes(self, shape: Shape) -> bool:
        """Whether an empty node of this type could run a pod."""
        enough = shape.cards <= self.cards and shape.cpu <= self.cpu and shape.memory <= self.memory
        return enough and (not shape.models or self.model in shape.models)


def solver() -> highspy.Highs:
    """A silent HiGHS on one thread.  The banner it prints when it is made goes to stderr: stdout is for figures."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        made = highspy.Highs()  # type: ignore[no-untyped-call]
        made.silent()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    made.setOptionValue("threads", 1)
    return made


def node_types(nodes: Iterable[Node]) -> list[NodeType]:
    counts = Counter((node.model, node.cards, node.cpu, node.memory) for node in nodes)
    return [NodeType(*key, count) for key, count in sorted(counts.items())]


def counted(pods: Sequence[Pod], order: Iterable[int]) -> dict[Shape, float]:
    """How many pods of each shape an arrival list has."""
    return {shape: float(count) for shape, count in Counter(pods[number].shape for number in order).items()}


def mix(pods: Sequence[Pod], milli: int) -> dict[Shape, float]:
    """Shapes of a file in such numbers that together they ask for `milli` milli-cards."""
    scale = milli / sum(pod.shape.volume for pod in pods)
    return {shape: count * scale for shape, count in Counter(pod.shape for pod in pods).items()}


def arrived(pods: Sequence[Pod], order: Sequence[int], milli: int, percent: int) -> list[int]:
    """The part of an arrival list until `percent` % of `milli` have arrived."""
    asked = 0
    for place, number in enumerate(order):
        if asked * 100 >= percent * milli:
            return list(order[:place])
        asked += pods[number].shape.volume
    return list(order)


Pattern = tuple[NodeType, tuple[tuple[int, int], ...]]
"""How the cards of a type may be cut: (milli, how many of them)."""


def pattern_bound(nodes: Sequence[Node], counts: Mapping[Shape, float], known: set[Pattern] | None = None) -> float:
    """% of the cards that the best selection of these pods can take.

    ``known`` are patterns that served for lists of the same file; new ones are added to it.  They save rounds.
    """
    program = _Program(nodes, counts, known)
    for number, shape in enumerate(program.shapes):
        program.limit(number, counts[shape])
        program.worth(number, shape.volume / 1000)
    return 100 * program.solve() / program.cards


def monotone_bound(nodes: Sequence[Node], counts: Mapping[Shape, float], load: float) -> float:
    """% of the cards allocated at `load` (1.0: `counts` have arrived once) if nothing that fits is refused."""
    program = _Program(nodes, counts)
    times = [
        program.column(counts[shape] * shape.volume / 1000, {number: counts[shape]}, upper=load)
        for number, shape in enumerate(program.shapes)
    ]
    for harder, easier in _covers(program.shapes):
        program.row({times[harder]: 1.0, times[easier]: -1.0}, 0.0)
    return 100 * program.solve() / program.cards


def window_bound(nodes: Sequence[Node], counts: Mapping[Shape, float], held: int, load: float = 1.3) -> float:
    """% of the cards allocated when more than `held` pods with cards would have to wait for the first time."""
    program = _Program(nodes, counts)
    arrive = {number: counts[shape] for number, shape in enumerate(program.shapes)}
    program.column(sum(count * program.shapes[number].volume for number, count in arrive.items()) / 1000, arrive, load)
    waiting = program.row({}, float(held))
    for number, shape in enumerate(program.shapes):
        if shape.cards:
            program.column(-shape.volume / 1000, {number: -1.0, waiting: 1.0})
    return 100 * program.solve() / program.cards


def _covers(shapes: Sequence[Shape]) -> list[tuple[int, int]]:
    """Pairs (harder, easier) of the domination order, without those that follow from others."""
    below = [
        sum(1 << other for other, easier in enumerate(shapes) if other != number and _dominates(harder, easier))
        for number, harder in enumerate(shapes)
    ]
    found: list[tuple[int, int]] = []
    for number, mask in enumerate(below):
        implied = 0
        for other in range(len(shapes)):
            if mask >> other & 1:
                implied |= below[other]
        found.extend((number, other) for other in range(len(shapes)) if (mask & ~implied) >> other & 1)
    return found


def _dominates(harder: Shape, easier: Shape) -> bool:
    """Whether wherever `harder` fits, `easier` fits too."""
    models = not easier.models or (bool(harder.models) and set(harder.models) <= set(easier.models))
    more = harder.cpu >= easier.cpu and harder.memory >= easier.memory
    return models and more and harder.cards >= easier.cards and harder.milli >= easier.milli


class _Program:
    """A linear program whose first rows are: served − placed ≤ 0 per shape, then what each type of node has.

    Columns say how many pods of a shape run on a type, and how many cards of a type follow a pattern; the caller adds
    what may be served and what that is worth, in cards.
    """

    def __init__(self, nodes: Sequence[Node], counts: Mapping[Shape, float], known: set[Pattern] | None = None) -> None:
        self.types = node_types(nodes)
        self.cards = sum(node.cards for node in nodes)
        runnable = (shape for shape in counts if any(kind.takes(shape) for kind in self.types))
        self.shapes = sorted(runnable, key=lambda item: (item.cards, item.milli, item.cpu, item.memory, item.models))
        self.sizes = sorted({shape.milli for shape in self.shapes if shape.cards == 1 and shape.milli < 1000})
        self._known = known if known is not None else set()
        self._solver = solver()
        self._rows()
        self._columns()

    def _rows(self) -> None:
        """Per shape; per type CPU, memory, cards; per size and type the fractions that patterns offer."""
        for _ in self.shapes:
            self.row({}, 0.0)
        for kind in self.types:
            for amount in (kind.cpu, kind.memory, kind.cards):
                self.row({}, float(kind.count * amount))
        for _ in range(len(self.sizes) * len(self.types)):
            self.row({}, 0.0)

    def _columns(self) -> None:
        self._placed: dict[int, list[int]] = {}
        for number, shape in enumerate(self.shapes):
            for kind, node in enumerate(self.types):
                if not node.takes(shape):
                    continue
                use = {number: -1.0, self._type(kind): float(shape.cpu), self._type(kind) + 1: float(shape.memory)}
                if shape.cards == 1 and shape.milli < 1000:
                    use[self._offer(self.sizes.index(shape.milli), kind)] = 1.0
                elif shape.cards:
                    use[self._type(kind) + 2] = float(shape.cards)
                self._placed.setdefault(number, []).append(self.column(0.0, use))
        for kind, node in enumerate(self.types):
            self._known.update((node, ((milli, 1000 // milli),)) for milli in self.sizes)
            for _, cut in sorted((item for item in self._known if item[0] == node), key=lambda item: item[1]):
                if all(milli in self.sizes for milli, _ in cut):
                    self._pattern(kind, {self.sizes.index(milli): count for milli, count in cut})

    def _type(self, kind: int) -> int:
        return len(self.shapes) + 3 * kind

    def _offer(self, size: int, kind: int) -> int:
        return len(self.shapes) + 3 * len(self.types) + size * len(self.types) + kind

    def _pattern(self, kind: int, fractions: Mapping[int, int]) -> None:
        """A card of this type that offers so many fractions of each size."""
        use = {self._offer(size, kind): -float(count) for size, count in fractions.items()}
        self.column(0.0, {self._type(kind) + 2: 1.0} | use)

    # -- what the callers add

    def row(self, use: Mapping[int, float], upper: float) -> int:
        """A row (sum over the columns of `use`) ≤ upper; its number."""
        self._solver.addRow(-highspy.kHighsInf, upper, len(use), list(use), list(use.values()))
        return int(self._solver.getNumRow()) - 1

    def column(self, worth: float, use: Mapping[int, float], upper: float = highspy.kHighsInf) -> int:
        """A variable from 0 to upper, worth so many cards, that uses so much of each row; its number."""
        kept = {row: value for row, value in use.items() if value}
        self._solver.addCol(-worth, 0.0, upper, len(kept), list(kept), list(kept.values()))
        return int(self._solver.getNumCol()) - 1

    def worth(self, number: int, value: float) -> None:
        """Count each pod of a shape that is placed."""
        for column in self._placed[number]:
            self._solver.changeColCost(column, -value)

    def limit(self, number: int, count: float) -> None:
        """At most so many pods of a shape are placed: its row becomes −placed ≥ −count."""
        self._solver.changeRowBounds(number, -count, highspy.kHighsInf)

    # -- solving

    def solve(self) -> float:
        """The largest worth, in cards; never below the optimum."""
        if not self._placed:  # nobody to serve: HiGHS has no word for an empty program
            return 0.0
        missing = 0.0
        for _ in range(_ROUNDS):
            self._solver.run()
            if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                raise NotSolved("the bound has no optimum", hint="look at the mix: does any pod ask for cards?")
            duals = -np.array(self._solver.getSolution().row_dual)
            missing, added = self._patterns_add(duals)
            if not added:
                break
        return float(-self._solver.getObjectiveValue()) + missing

    def _patterns_add(self, duals: NDArray[np.float64]) -> tuple[float, int]:
        """Add the best pattern of each type where it pays; what patterns could still win, and how many came."""
        if not self.sizes:
            return 0.0, 0
        first = self._offer(0, 0)
        prices = duals[first : first + len(self.sizes) * len(self.types)].reshape(len(self.sizes), len(self.types))
        best, picks = knapsack(self.sizes, prices)
        missing, added = 0.0, 0
        for kind, node in enumerate(self.types):
            gain = float(best[kind]) - float(duals[self._type(kind) + 2])
            missing += max(0.0, gain) * node.count * node.cards
            if gain > _TOLERANCE:
                self._pattern(kind, picks[kind])
                self._known.add((node, tuple((self.sizes[size], count) for size, count in sorted(picks[kind].items()))))
                added += 1
        return missing, added


def knapsack(sizes: Sequence[int], prices: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[dict[int, int]]]:
    """The dearest multiset of fractions that fits one card, for each column of `prices` (shape: sizes × types).

    Gives the values (one per type) and the multisets (index of size → how many).
    """
    unit = math.gcd(1000, *sizes)
    steps = np.array([size // unit for size in sizes])
    kinds = np.arange(prices.shape[1])
    best = np.zeros((1000 // unit + 1, prices.shape[1]))
    choice = np.full(best.shape, -1)
    for room in range(1, len(best)):
        fitting = int(np.searchsorted(steps, room, side="right"))
        best[room] = best[room - 1]
        if not fitting:
            continue
        offers = best[room - steps[:fitting]] + prices[:fitting]
        top = offers.argmax(axis=0)
        better = offers[top, kinds] > best[room] + 1e-12
        best[room] = np.where(better, offers[top, kinds], best[room])
        choice[room] = np.where(better, top, -1)
    picks = []
    for kind in kinds:
        room, found = len(best) - 1, Counter[int]()
        while room > 0:
            size = int(choice[room, kind])
            room -= 1 if size < 0 else int(steps[size])
            if size >= 0:
                found[size] += 1
        picks.append(dict(found))
    return best[-1], picks


def workload_bounds(workload: str, seeds: Sequence[int], percents: Sequence[int] = (100, 130)) -> list[float]:
    """The pattern bound of one pod file at each percentage, as a mean over the arrival lists of `seeds`."""
    nodes, pods = openb.nodes_read(), openb.pods_read(workload)
    milli = openb.capacity(nodes)
    orders = [openb.arrivals(pods, seed, milli) for seed in seeds]
    known: set[Pattern] = set()
    return [
        sum(pattern_bound(nodes, counted(pods, arrived(pods, order, milli, percent)), known) for order in orders)
        / len(orders)
        for percent in percents
    ]
