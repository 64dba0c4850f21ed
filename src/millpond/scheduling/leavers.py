"""Whom a claim waits for at the seats that it has been given (scheduling §4)."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.scheduling.slices import seat_fits, seats_clash
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Task


class Awaited:
    """The seats of a job that are not free yet, and the nodes that lack CPU or memory for it."""

    def __init__(self, state: State, job: Job, seats: tuple[Seat, ...]) -> None:
        self._rooms = state.pool.by_name
        self._job = job
        self._seats = seats
        self._wanted = [seat for seat in seats if not self._short(seat)]
        self._nodes = {seat.node for seat in seats} - {seat.node for seat in self._wanted}

    def _short(self, seat: Seat) -> bool:
        """Whether a seat also waits for CPU or memory, so for everybody who leaves that node."""
        view = self._rooms[seat.node].now
        return (0 < self._job.cpu > view.cpu) or (0 < self._job.memory > view.memory)

    def free_now(self) -> bool:
        """Whether nobody is on the seats any more."""
        if self._nodes:
            return False
        for seat in self._seats:
            view = self._rooms[seat.node].now
            if not seat_fits(view, seat) if seat.slice else any(view.free[card] < seat.milli for card in seat.cards):
                return False
        return True

    def among(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of the tasks who sit on a wanted seat, or anywhere on a node that is short."""
        return [task for task in tasks if any(self._at(seat) for seat in task.seats)]

    def _at(self, seat: Seat) -> bool:
        return seat.node in self._nodes or any(
            seat.node == other.node and seats_clash(self._rooms[seat.node], seat, other) for other in self._wanted
        )
