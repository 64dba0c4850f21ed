"""The loop and what everything in the supervisor shares.

One turn: handle what is ready, then write the journal once, then do what may only be done when that is on disk (fork,
answer, signal).  So many orders share one flush, and nobody is told of what could still be forgotten.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import selectors
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .attempts import Attempt, Memory, Record
from .cgroups import Groups
from .index import STOPPED, Index
from .journal import Journal
from .ports import Ports
from .process import boot_id, now_ms
from .sandbox import Sandbox
from .standby import StandbyPool

RANKS, NOTICES = "ranks", "notices"
FACTS_AT_ONCE = 1000
NOTE_EVERY = 100
"""How many facts a reader passes before the journal is told; a flush of its own would be too dear."""


class Core:
    def __init__(self, engine_dir: Path, run_dir: Path, sandbox: Sandbox, groups: Groups, mark: str) -> None:
        self.engine_dir = engine_dir
        self.run_dir = run_dir
        self.sandbox = sandbox
        self.groups = groups
        self.mark = mark
        self.memory = Memory()
        self.journal = Journal(engine_dir)
        self.index = Index(engine_dir)
        self.ports = Ports()
        self.standby = StandbyPool(groups, self.later)
        self.boot = boot_id()
        self.selector = selectors.DefaultSelector()
        self.stopping = False
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._after: deque[Callable[[], None]] = deque()
        self._noted = 0
        self._observers: list[tuple[int, int, Callable[[Record], None]]] = []

    def load(self) -> None:
        """Read the journal and begin a new segment."""
        for record in self.journal.records():
            self.memory.apply(record)
        self.memory.boot_set(self.boot)
        for name in self.memory.stopped:
            self.index.put(name, STOPPED)
        self._compact()
        for attempt in self.memory.live.values():
            self.ports.keep([*attempt.ports, attempt.master_port])

    def _compact(self) -> None:
        self.index.sync()
        self.memory.stopped.clear()
        self.memory.ended.clear()
        self.journal.rewrite(self.memory.records())

    def rank_base(self, attempt: str, rank: int) -> Path:
        """What the names of a rank's files begin with: ``.keeper``, ``.main``, ``.status``."""
        return self.engine_dir / RANKS / f"{attempt}.{rank}"

    def notice_dir(self, attempt: str) -> Path:
        """Holds the deadline file; shown to the job, which cannot write there."""
        return self.engine_dir / NOTICES / attempt

    def record(self, record: Record) -> None:
        """Record and apply a change."""
        self.journal.add(record)
        self.memory.apply(record)

    def fact(self, kind: str, attempt: str = "", *, mark: int | None = None, **fields: Any) -> None:
        fact: Record = {"sequence": self.memory.sequence + 1, "time_ms": now_ms(), "kind": kind, "attempt": attempt}
        fact.update(fields)
        record: Record = {"r": "fact", "fact": fact}
        if mark is not None:
            record["mark"] = mark
        self.record(record)

    def after(self, work: Callable[[], None]) -> None:
        """Do `work` once everything recorded so far is on disk."""
        self._after.append(work)

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        self.at(now_ms() + delay_ms, work)

    def at(self, time_ms: int, work: Callable[[], None]) -> None:
        """Do `work` at a Unix time in ms, or soon after."""
        heapq.heappush(self._timers, (time_ms, next(self._count), work))

    def watch(self, descriptor: int, work: Callable[[int], None]) -> None:
        """Call `work` whenever the descriptor can be read."""
        self.selector.register(descriptor, selectors.EVENT_READ, work)

    def unwatch(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)

    def observe(self, cursor: int, wait_ms: int, answer: Callable[[Record], None]) -> None:
        """Answer with the facts after `cursor`: now, when there are some, or when the wait is over."""
        if cursor > self.memory.sequence:
            self.memory.skip(cursor)
            self._compact()
        self.memory.acknowledge(cursor)
        until = now_ms() + wait_ms
        self._observers.append((until, cursor, answer))
        if wait_ms:
            self.at(until, lambda: None)

    def _answer_observers(self) -> None:
        waiting = []
        now = now_ms()
        for until, cursor, answer in self._observers:
            facts = self.facts_after(cursor)
            if facts or now >= until:
                answer({"facts": facts, "cursor": facts[-1]["sequence"] if facts else cursor})
            else:
                waiting.append((until, cursor, answer))
        self._observers = waiting

    def facts_after(self, cursor: int) -> list[Record]:
        facts = self.memory.facts
        first = bisect.bisect_right(facts, cursor, key=lambda fact: fact["sequence"])
        return facts[first : first + FACTS_AT_ONCE]

    def live(self, attempt: str) -> Attempt | None:
        return self.memory.live.get(attempt)

    def run(self) -> None:
        """Until `stopping`."""
        while not self.stopping:
            for key, mask in self.selector.select(self._timeout()):
                key.data(mask)
            self._run_timers()
            self._settle()
        self._compact()

    def _settle(self) -> None:
        if self.journal.pending and self.memory.cursor - self._noted >= NOTE_EVERY:
            self._noted = self.memory.cursor
            self.journal.add({"r": "ack", "cursor": self._noted})
        while True:
            self.journal.flush()
            work = list(self._after)
            self._after.clear()
            for step in work:
                step()
            if not self.journal.pending and not self._after:
                break
        self._answer_observers()
        if self.journal.grown:
            self._compact()

    def settle(self) -> None:
        """Write and do what is due, outside the loop (at start-up)."""
        self._settle()

    def _timeout(self) -> float | None:
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] / 1000 - time.time())

    def _run_timers(self) -> None:
        now = now_ms()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
