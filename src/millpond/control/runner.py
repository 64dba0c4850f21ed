"""The threads: leadership, and while it lasts the loops that schedule, apply, observe, meter, look ahead
and keep house.

Loops are woken by each other, by NOTIFY, and by the clock only when something falls due.  An error in a loop is logged,
counted and survived; losing leadership ends the term, and the server waits to lead again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from opentelemetry.trace import get_tracer

from millpond.control.apply import ApplyMemory, Untold, apply_run
from millpond.control.captures import holds_settle
from millpond.control.context import Control
from millpond.control.forecast import ForecastMemory, forecast_run
from millpond.control.housekeeping import housekeeping_run
from millpond.control.meter import MeterMemory, meter_run
from millpond.control.observe import cursor_load, observe_run
from millpond.control.recover import inventory_sync, reconcile_run
from millpond.control.schedule import PassMemory, pass_run
from millpond.db.leader import Fenced, Leader
from millpond.db.session import WORK_CHANNEL
from millpond.domain.errors import MillpondError, Unavailable
from millpond.engines.base import EngineError

log = structlog.get_logger("millpond.control")
_tracer = get_tracer("millpond.control")

OBSERVE_WAIT = 1.0
HOLD_CHECK = 2.0
APPLY_REST = 30.0
APPLY_AGAIN = 0.2
APPLY_BROKEN = 5.0
HOUSE_REST = 60.0
HOUSE_AGAIN = 0.5
METER_REST = 60.0
METER_BREATH = 0.5
"""Ends that come one after the other are metered together."""

LISTEN_WAIT = 1.0
PAUSE_FIRST, PAUSE_LAST = 0.1, 5.0


@dataclass(slots=True)
class Term:
    """One leadership: its epoch, its end, the wake-up of each loop, and what passes hand to the applier."""

    epoch: int
    over: threading.Event = field(default_factory=threading.Event)
    schedule: threading.Event = field(default_factory=threading.Event)
    apply: threading.Event = field(default_factory=threading.Event)
    house: threading.Event = field(default_factory=threading.Event)
    meter: threading.Event = field(default_factory=threading.Event)
    fresh: deque[Untold] = field(default_factory=deque)

    def end(self) -> None:
        self.over.set()
        for wake in (self.schedule, self.apply, self.house, self.meter):
            wake.set()


class Runner:
    """`start` once; `stop` ends the loops and leaves jobs running."""

    def __init__(self, control: Control, leader: Leader) -> None:
        self._control = control
        self._leader = leader
        self._stopping = threading.Event()
        self._term: Term | None = None
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the term and wait for its loops."""
        self._stopping.set()
        term = self._term
        if term is not None:
            term.end()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def state(self) -> str:
        """For `/readyz`: ``ok`` if the loops run here, or another server leads."""
        if not self._thread.is_alive():
            return "the control thread has ended"
        return "ok"

    @property
    def leading(self) -> bool:
        return self._term is not None

    def _run(self) -> None:
        pause = PAUSE_FIRST
        while not self._stopping.is_set():
            try:
                epoch = self._leader.acquire(5.0)
                if epoch is not None:
                    self._term_run(self._leader.exceed(self._control.engine.epoch()))
                pause = PAUSE_FIRST
            except MillpondError as error:
                log.warning("cannot lead yet", error=str(error))
                self._stopping.wait(pause)
                pause = min(PAUSE_LAST, pause * 2)
        self._leader.release()

    def _term_run(self, epoch: int) -> None:
        """Lead until told to stop, fenced, or the lock's connection breaks."""
        term = Term(epoch)
        self._term = term
        if self._stopping.is_set():
            return
        metrics = self._control.metrics
        metrics.epoch.set(epoch)
        metrics.leading.set(1)
        log.info("leading", epoch=epoch)
        loops = (
            ("listen", self._listen_loop),
            ("observe", self._observe_loop),
            ("schedule", self._schedule_loop),
            ("apply", self._apply_loop),
            ("house", self._house_loop),
            ("forecast", self._forecast_loop),
            ("meter", self._meter_loop),
        )
        threads = [threading.Thread(target=loop, args=(term,), name=name, daemon=True) for name, loop in loops]
        for thread in threads:
            thread.start()
        try:
            while not term.over.wait(HOLD_CHECK):
                if not self._leader.holds():
                    log.warning("leadership lost", epoch=epoch)
                    break
        finally:
            term.end()
            for thread in threads:
                thread.join()
            self._term = None
            metrics.leading.set(0)
            self._leader.release()
            log.info("no longer leading", epoch=epoch)

    def _loop(self, term: Term, name: str, wake: threading.Event | None, work: Callable[[], float]) -> None:
        """Run `work`, which returns the seconds to rest, until the term is over."""
        pause = PAUSE_FIRST
        while not term.over.is_set():
            if wake is not None:
                wake.clear()
            try:
                rest = work()
                pause = PAUSE_FIRST
            except Fenced as error:
                log.warning("fenced", loop=name, error=str(error))
                term.end()
                return
            except (Unavailable, EngineError) as error:
                log.warning("loop waits", loop=name, error=str(error))
                rest, pause = pause, min(PAUSE_LAST, pause * 2)
            except Exception:
                # A defect in one pass must not end the control plane.
                self._control.metrics.errors.labels(name).inc()
                log.exception("loop failed", loop=name)
                rest, pause = pause, min(PAUSE_LAST, pause * 2)
            if rest > 0:
                (wake or term.over).wait(rest)

    def _schedule_loop(self, term: Term) -> None:
        memory = PassMemory()

        def work() -> float:
            with _tracer.start_as_current_span("schedule.pass"):
                result = pass_run(self._control, term.epoch, memory)
            term.fresh.extend(untold for untold in result.untold if untold.attempts)
            if term.fresh:
                term.apply.set()
            term.over.wait(result.breath)
            return result.pause

        self._loop(term, "schedule", term.schedule, work)

    def _apply_loop(self, term: Term) -> None:
        memory = ApplyMemory()

        def work() -> float:
            # What a pass hands over needs no reading; whatever else there is, is found by the next round.
            fresh = term.fresh.popleft() if term.fresh else None
            with _tracer.start_as_current_span("apply"):
                result = apply_run(self._control, term.epoch, memory, fresh)
            if result.refused:
                term.schedule.set()
            if term.fresh:
                return 0.0
            if fresh is not None:
                return APPLY_AGAIN if result.again else 0.0
            if result.again > result.broken:
                return APPLY_AGAIN
            return APPLY_BROKEN if result.broken else APPLY_REST

        self._loop(term, "apply", term.apply, work)

    def _observe_loop(self, term: Term) -> None:
        cursor: int | None = None

        def work() -> float:
            nonlocal cursor
            if cursor is None:
                cursor = cursor_load(self._control)
            read, cursor = cursor, None  # an error below makes the next round read it from the database again
            cursor, ended = observe_run(self._control, term.epoch, read, OBSERVE_WAIT)
            if ended:
                term.schedule.set()
                term.meter.set()
            return 0.0

        self._loop(term, "observe", None, work)

    def _house_loop(self, term: Term) -> None:
        def work() -> float:
            inventory_sync(self._control)
            agreed = reconcile_run(self._control, term.epoch)
            self._wake_all(term)
            if not agreed:
                return HOUSE_AGAIN
            housekeeping_run(self._control, term.epoch)
            return HOUSE_REST

        self._loop(term, "house", term.house, work)

    def _forecast_loop(self, term: Term) -> None:
        memory = ForecastMemory()
        self._loop(term, "forecast", None, lambda: forecast_run(self._control, term.epoch, memory))

    def _meter_loop(self, term: Term) -> None:
        memory = MeterMemory()

        def work() -> float:
            step = meter_run(self._control, term.epoch, memory)
            if not step.more:
                if holds_settle(self._control, term.epoch):
                    term.schedule.set()  # money is free again
                term.over.wait(METER_BREATH)
            return 0.0 if step.more else METER_REST

        self._loop(term, "meter", term.meter, work)

    def _listen_loop(self, term: Term) -> None:
        def work() -> float:
            with self._control.database.listen((WORK_CHANNEL,)) as listener:
                self._wake_all(term)
                while not term.over.is_set():
                    for channel, payload in listener.wait(LISTEN_WAIT):
                        self._heard(term, channel, payload)
            return 0.0

        self._loop(term, "listen", None, work)

    def _heard(self, term: Term, channel: str, payload: str) -> None:
        if channel != WORK_CHANNEL:
            self._wake_all(term)
        elif payload == "apply":
            term.apply.set()
        else:
            term.schedule.set()

    def _wake_all(self, term: Term) -> None:
        term.schedule.set()
        term.apply.set()
