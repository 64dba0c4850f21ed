"""Holding jobs back: a few wait although they fit, so that those go first whose placement wastes nothing.

Where an operator allows it, a small share of the jobs may wait while cards are free.  Each placement has a *gain*: of
what it gives out, the part that is not taken from the worth of the pool.  Jobs go while the best of them gains enough,
or while more are held than allowed; the others are held until their turn comes or the pool changes.  The gain is per
card, so that of two jobs that waste as much the larger goes: small ones still find room later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from millpond.domain.amounts import CARD
from millpond.scheduling.board import Board, Row
from millpond.scheduling.prices import ONE
from millpond.scheduling.score import TIE_BITS

ENOUGH: Final = ONE // 50
"""A gain of 2 % of the cards given out: less is within what prices are wrong by."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Who goes now: ``index`` is its best node, None where it fits nowhere."""

    name: str
    row: Row
    index: int | None


@dataclass(slots=True)
class Holdback:
    """At most ``limit`` jobs with cards wait while they would fit; equals in the order in which they came."""

    board: Board
    limit: int
    _lines: dict[int, tuple[Row, deque[tuple[int, str]]]] = field(default_factory=dict)
    _serial: int = 0
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def put(self, row: Row, name: str) -> None:
        """A job has come that asks for what `row` scores."""
        line = self._lines.get(row.serial)
        if line is None:
            line = self._lines[row.serial] = (row, deque())
        line[1].append((self._serial, name))
        self._serial += 1
        self._count += 1

    def take(self) -> Turn | None:
        """The next that goes, or that fits nowhere; None while the others are better held.

        The caller seats it before it asks again.
        """
        best: tuple[int, int, Row, int] | None = None
        for row, line in self._lines.values():
            index = self.board.best(row)
            if index is None:
                return self._turn(row, None)
            gain = gain_of(self.board, row, index)
            if best is None or (gain, -line[0][0]) > best[:2]:
                best = (gain, -line[0][0], row, index)
        if best is None or (best[0] <= ENOUGH and self._count <= self.limit):
            return None
        return self._turn(best[2], best[3])

    def drain(self) -> Turn | None:
        """As `take`, when nobody is to be held any more."""
        limit, self.limit = self.limit, -1
        turn = self.take()
        self.limit = limit
        return turn

    def _turn(self, row: Row, index: int | None) -> Turn:
        line = self._lines[row.serial][1]
        name = line.popleft()[1]
        if not line:
            del self._lines[row.serial]
        self._count -= 1
        return Turn(name, row, index)


def gain_of(board: Board, row: Row, index: int) -> int:
    """Cards given out less worth taken by placing on a node, in millionths of the cards given out."""
    milli = row.ask.milli
    return (milli * (ONE // CARD) + (board.score(row, index) >> TIE_BITS)) * CARD // milli
