"""The best eviction there is, by an exact mixed-integer program (HiGHS).

It minimises the tuple of `evictions`, part after part.  As ranks depend on who of the claim's own leaf goes, it is
solved once for each such selection and each lowest rank that may go, with constant ranks; what is left is linear but
for inversions and for sparing, which come as cuts when a solution violates them (both follow from sets that are enough,
and more is always enough too).
"""

from __future__ import annotations

import math

import highspy

from benchmarks.bounds import NotSolved, solver
from benchmarks.peers.evictions import WHOLE, Best, Case, Room, View
from millpond.scheduling.decisions import Rank


def best_milp(case: Case) -> Best | None:
    """The optimum, by HiGHS; None if no set of evictions helps."""
    best: Best | None = None
    for view in case.views() if case.firm else ():
        for tier in sorted(Rank, reverse=True):
            if best is not None and Rank.OPPORTUNISTIC - tier > best.cost[0]:
                break
            if any(view.ranks[number] < tier for number in view.own) or not case.enough(case.movable(view, tier)):
                continue
            gone = _Model(case, view, tier).solve()
            if gone is None:
                continue
            cost = case.cost(gone)
            if cost is None:
                raise NotSolved("the program chose a set that does not count")
            best = Best(cost, gone) if best is None or cost < best.cost else best
            break
    return best


class _Model:
    """One selection of own victims, who are gone; one tier; who else goes is to be found."""

    def __init__(self, case: Case, view: View, tier: Rank) -> None:
        self.case, self.view, self.tier = case, view, tier
        self.movable = case.movable(view, tier)
        self._solver = solver()
        for option, value in (("mip_rel_gap", 0.0), ("mip_abs_gap", 0.0), ("mip_feasibility_tolerance", 1e-9)):
            self._solver.setOptionValue(option, value)
        self._goes = {number: self._binary() for number in sorted(self.movable - view.own)}
        self._lower = {number: case.lower(number, view, tier) for number in sorted(self.movable)}
        self._inverted = {number: self._binary() for number, lower in self._lower.items() if lower}
        self._room_rows()
        for queue, over in case.caps:
            self._at_least(over, {n: case.candidates[n].milli for n in self.movable if case.under(n, queue)}, {})

    # -- building

    def _binary(self) -> int:
        self._solver.addCol(0.0, 0.0, 1.0, 0, [], [])
        column = int(self._solver.getNumCol()) - 1
        self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        return column

    def _at_least(self, lower: float, goes: dict[int, int], columns: dict[int, int]) -> None:
        """Σ of what goes (by candidate) + Σ of other columns ≥ lower.  Who is gone already counts as a constant."""
        constant = sum(value for number, value in goes.items() if number in self.view.own)
        use = {self._goes[number]: float(value) for number, value in goes.items() if number in self._goes}
        use |= {column: float(value) for column, value in columns.items()}
        self._solver.addRow(lower - constant, highspy.kHighsInf, len(use), list(use), list(use.values()))

    def _room_rows(self) -> None:
        taken = [self._room(room) for room in self.case.rooms]
        self._at_least(self.case.claim.nodes, {}, dict.fromkeys(taken, 1))

    def _room(self, room: Room) -> int:
        """The rows of one node; its column says that the claim runs there."""
        claim, taken = self.case.claim, self._binary()
        here = {number: seat for number, seat in room.seated.items() if number in self.movable}
        cpu = {number: self.case.candidates[number].job.cpu for number in here}
        memory = {number: self.case.candidates[number].job.memory for number in here}
        self._at_least(-room.cpu, cpu, {taken: -claim.cpu})
        self._at_least(-room.memory, memory, {taken: -claim.memory})
        want = claim.gpu.milli
        if want == 0:
            return taken
        cards: dict[int, int] = {}
        for card, free in enumerate(room.free):
            freed = {number: milli for number, (seats, milli) in here.items() if card in seats}
            column = self._binary()
            cards[column] = 1
            self._at_least(-free, freed, {column: -min(want, WHOLE)})
        self._at_least(0, {}, cards | {taken: -max(1, want // WHOLE)})
        return taken

    # -- solving

    def solve(self) -> frozenset[int] | None:
        """The best set of this selection and tier, inversions first, then lost work, milli-cards, victims."""
        case = self.case
        lost = {number: case.lost(number) for number in self._goes}
        unit = max(1, math.gcd(*lost.values()))
        gone: frozenset[int] | None = None
        for goal in (
            dict.fromkeys(self._inverted.values(), 1),
            {self._goes[number]: value // unit for number, value in lost.items()},
            {self._goes[number]: case.candidates[number].milli for number in self._goes},
            dict.fromkeys(self._goes.values(), 1),
        ):
            gone = self._least(goal)
            if gone is None:
                return None
        return gone

    def _least(self, goal: dict[int, int]) -> frozenset[int] | None:
        """Minimise one part of the tuple and fix it; None if there is no set at all."""
        for column in range(int(self._solver.getNumCol())):
            self._solver.changeColCost(column, float(goal.get(column, 0)))
        while True:
            self._solver.run()
            status = self._solver.getModelStatus()
            if status == highspy.HighsModelStatus.kInfeasible:
                return None
            if status != highspy.HighsModelStatus.kOptimal:
                raise NotSolved(f"HiGHS stopped with {status.name}")
            values = [round(value) for value in self._solver.getSolution().col_value]
            gone = self.view.own | {number for number, column in self._goes.items() if values[column]}
            inverted = {number for number, column in self._inverted.items() if values[column]}
            if not self._cuts(gone, inverted):
                break
        reached = sum(value * values[column] for column, value in goal.items())
        self._at_least(-reached, {}, {column: -value for column, value in goal.items()})
        return gone

    def _cuts(self, gone: frozenset[int], inverted: set[int]) -> int:
        """Forbid what makes this set not count, and charge the inversions that it hides; how many cuts came."""
        added = 0
        for number in sorted(gone):
            if self.case.enough(gone - {number}):
                kept = self._needed(gone - {number}, frozenset())
                self._not_all(kept | {number}, {})
                added += 1
            lower = self._lower[number]
            if number not in inverted and lower and self.case.enough((gone - {number}) | lower):
                kept = self._needed(gone - {number} - lower, lower)
                self._not_all(kept | {number}, {self._inverted[number]: 1})
                added += 1
        return added

    def _needed(self, gone: frozenset[int], fixed: frozenset[int]) -> frozenset[int]:
        """A smallest part of `gone` that is enough together with `fixed`: it makes the strongest cut."""
        for number in sorted(gone):
            if self.case.enough((gone - {number}) | fixed):
                gone -= {number}
        return gone

    def _not_all(self, numbers: frozenset[int], unless: dict[int, int]) -> None:
        """Not all of these go, unless one of those columns is 1."""
        open_ = [number for number in numbers if number in self._goes]
        self._at_least(1 - len(open_), dict.fromkeys(open_, -1), unless)
