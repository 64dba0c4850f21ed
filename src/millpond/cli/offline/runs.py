"""Running simulations: one here, or several side by side, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event as Flag

from millpond.cli.offline.interrupt import Interrupt
from millpond.cli.offline.parcels import parcel_pack
from millpond.domain.errors import MillpondError
from millpond.files.snapshots import SnapshotFile
from millpond.simulation.driver import Event, Simulation
from millpond.simulation.outcome import Outcome
from millpond.simulation.recorder import Recorder

TELL_SECONDS = 0.2

Tell = Callable[[int, int, int], None]
"""(number of the run, virtual seconds, events so far)."""


class RunFailed(MillpondError):
    """A process of a comparison ended without a result."""

    code = "RUN_FAILED"


@dataclass(frozen=True, slots=True)
class Case:
    """One world to run for ``until`` seconds; ``changes`` are what makes it differ, as written.

    ``checked``: every plan is judged by the independent checker, too.
    """

    name: str
    changes: tuple[str, ...]
    world: SnapshotFile
    until: int
    checked: bool = True


class Run:
    """One simulation: `events` may be read once and be left early, `outcome` tells about the time up to then."""

    def __init__(self, case: Case, *, waits: bool = True) -> None:
        world = case.world
        self.case = case
        self.count = 0
        self.stopped = False
        self._simulation = Simulation(
            world.snapshot,
            arrivals=world.arrivals,
            work=world.work,
            until=case.until,
            checked=case.checked,
            waits=waits,
        )
        self._recorder = Recorder(world.snapshot, world.arrivals)

    def events(self, stop: Callable[[], bool]) -> Iterator[Event]:
        """Every event; ends early once `stop` says so."""
        for event in self._simulation.events():
            self._recorder.see(event)
            self.count += 1
            yield event
            if stop():
                self.stopped = True
                return

    def outcome(self) -> Outcome:
        summary = self._simulation.summary()
        record = self._recorder.close(self._simulation.time)
        return Outcome(self.case.name, self.case.changes, summary, record, self.count, self.stopped)


def cases_run(cases: Sequence[Case], parallel: int, tell: Tell) -> list[Outcome]:
    """The outcomes of all cases, in their order; at most `parallel` run at a time.

    Ctrl-C lets each run end at its next event; runs that had not begun have no outcome.  Raises what a run raised.
    """
    with Interrupt() as interrupt:
        crew = _Crew(cases, max(1, parallel), tell)
        try:
            return crew.work(interrupt)
        finally:
            crew.close()


def parallel_default() -> int:
    """As many runs at a time as this process may use processors."""
    return len(os.sched_getaffinity(0))


class _Crew:
    """The processes of a comparison."""

    def __init__(self, cases: Sequence[Case], parallel: int, tell: Tell) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._stop: Flag = self._context.Event()
        self._waiting = list(enumerate(cases))
        self._parallel = parallel
        self._tell = tell
        self._cases = cases
        self._live: dict[Connection, tuple[int, SpawnProcess]] = {}
        self._done: dict[int, Outcome] = {}

    def work(self, interrupt: Interrupt) -> list[Outcome]:
        while self._live or (self._waiting and not self._stop.is_set()):
            if interrupt.asked:
                self._stop.set()
            while self._waiting and len(self._live) < self._parallel and not self._stop.is_set():
                self._begin(*self._waiting.pop(0))
            for ready in wait(list(self._live), TELL_SECONDS):
                if isinstance(ready, Connection):
                    self._hear(ready)
        return [self._done[number] for number in sorted(self._done)]

    def close(self) -> None:
        """End what still runs (nothing does, unless something was raised)."""
        for connection, (_, process) in self._live.items():
            process.kill()
            process.join()
            connection.close()
        self._live.clear()

    def _begin(self, number: int, case: Case) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(theirs, self._stop, parcel_pack(case)), daemon=True)
        # A terminal's Ctrl-C goes to every process: one that is still being born must not die of it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._live[ours] = (number, process)

    def _hear(self, connection: Connection) -> None:
        number, process = self._live[connection]
        try:
            said = pickle.loads(connection.recv_bytes())  # noqa: S301  (written by our own process)
        except EOFError:
            process.join()
            raise RunFailed(
                f"the run {self._cases[number].name!r} died (exit code {process.exitcode})",
                hint="out of memory? try a --limit, or --parallel 1",
            ) from None
        if isinstance(said, tuple):
            self._tell(number, *said)
            return
        del self._live[connection]
        connection.close()
        process.join()
        if isinstance(said, MillpondError):
            raise said
        self._done[number] = said


def _work(connection: Connection, stop: Flag, parcel: bytes) -> None:
    """The life of one process: tell how far it is, then send the outcome, or the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    case: Case = pickle.loads(parcel)  # noqa: S301  (written by our own process)
    run, told = Run(case, waits=False), 0.0
    try:
        for event in run.events(stop.is_set):
            now = time.monotonic()
            if now - told > TELL_SECONDS:
                told = now
                connection.send_bytes(parcel_pack((event.time, run.count)))
        connection.send_bytes(parcel_pack(run.outcome()))
    except MillpondError as error:
        connection.send_bytes(parcel_pack(error))
    finally:
        connection.close()
