"""Holding jobs back: a few wait although they fit, so that those go first whose placement wastes nothing.

Where an operator allows it (`hold_back`), a few jobs may wait while cards are free.  Each placement has a *gain*: of
what it gives out, the part that is not taken from the worth of the pool.  Jobs go while the best of them gains enough,
or while more are held than allowed; the others are held until their turn comes or the pool changes.  The gain is per
card, so that of two jobs that waste as much the larger goes: small ones still find room later.

`Window` is the planner's: it holds back only who may wait, and nobody longer than `hold_back_for` after he came.
`Holdback` is the same without queues and time, for packing alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from millpond.domain.amounts import CARD
from millpond.domain.jobs import QueueClass
from millpond.scheduling.board import Board, Row
from millpond.scheduling.decisions import Rank
from millpond.scheduling.options import Options
from millpond.scheduling.prices import ONE
from millpond.scheduling.score import TIE_BITS
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.waiting import Group, GroupKey

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


Place = tuple[tuple[Seat, ...], Rank]
"""Where a job starts, and its rank there."""


class Window:
    """Who is held back in one pass, in the order in which they were judged.

    Never who belongs to production, whose cards are guaranteed, who stands in a first-in-first-out queue, or who asks
    for several nodes, slices or a choice of sizes, whose gain is not known.
    """

    def __init__(self, state: State, options: Options) -> None:
        self._state, self._options = state, options
        self.held: dict[str, Job] = {}
        self._lost: dict[str, Job] = {}
        self._never: set[str] = set()
        """Who is not held back again in this pass, since others have taken his place."""

    def until(self, job: Job) -> int:
        """When a job has been held back for as long as it may be."""
        return job.submitted + self._state.settings.hold_back_for

    def wants(self, job: Job, seats: tuple[Seat, ...], rank: Rank) -> bool:
        """Whether a job that could start on these seats had better wait."""
        state, settings = self._state, self._state.settings
        if settings.hold_back <= 0 or rank is Rank.GUARANTEED or job.id in self._never:
            return False
        if state.now >= min(self.until(job), job.submitted + settings.reserve_after):
            return False
        group = state.group(job)
        if group.leaf.klass is QueueClass.PROD or group.leaf.fifo or not group.plain:
            return False
        return group.ask.nodes == 1 and group.ask.milli > 0 and self._gain(group, seats) <= ENOUGH

    def put(self, job: Job) -> bool:
        """Hold a job back; whether that makes too many."""
        self.held[job.id] = job
        return len(self.held) > self._state.settings.hold_back

    def take(self) -> tuple[Job, Place] | None:
        """The next who goes all the same: he gains enough by now, or too many are held.  The caller seats him.

        Who no longer fits is no longer held back (`lose`).
        """
        known: dict[GroupKey, tuple[int, Place] | None] = {}
        best: tuple[int, Job, Place] | None = None
        for job in list(self.held.values()):
            group = self._state.group(job)
            key = group.key
            if key not in known:
                place = self._options.start(job)
                known[key] = None if place is None else (self._gain(group, place[0]), place)
            found = known[key]
            if found is None:
                self._lost[job.id] = self.held.pop(job.id)
            elif best is None or found[0] > best[0]:
                best = (found[0], job, found[1])
        if best is None or (best[0] <= ENOUGH and len(self.held) <= self._state.settings.hold_back):
            return None
        del self.held[best[1].id]
        return best[1], best[2]

    def lose(self) -> list[Job]:
        """Those who were held back and no longer fit, each once."""
        found, self._lost = list(self._lost.values()), {}
        self._never.update(job.id for job in found)
        return found

    def _gain(self, group: Group, seats: tuple[Seat, ...]) -> int:
        state = self._state
        row = state.placer.row(group.job.gpu, group.ask, state.model_of(seats))
        return gain_of(state.placer.board(), row, state.pool.by_name[seats[0].node].index)


def gain_of(board: Board, row: Row, index: int) -> int:
    """Cards given out less worth taken by placing on a node, in millionths of the cards given out."""
    milli = row.ask.milli
    return (milli * (ONE // CARD) + (board.score(row, index) >> TIE_BITS)) * CARD // milli
