"""An engine in memory, for tests and demonstrations: the same contract, no processes, any clock.

What an order does is decided by a *script*: a function from the order to a `Behaviour`.  With a clock of your own,
nothing happens until that clock moves and somebody calls; with the system's clock `observe` waits like a real engine.
"""

from __future__ import annotations

import heapq
import itertools
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millpond.domain.nodes import NodeSpec
from millpond.engines.base import (
    AttemptStatus,
    Capabilities,
    ExecSession,
    Fact,
    FactKind,
    Geometry,
    Inventory,
    Isolation,
    LogChunk,
    Lost,
    Observed,
    RankOrder,
    Refused,
    Retry,
    StartOrder,
)
from millpond.engines.slices import geometry_check, slice_parse

TERM_LEAD_MS = 5000
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one attempt does.  Times in ms, each after the one before it.

    ``retries``: how many times `start` raises `Retry` first; ``refused``: it raises `Refused` with this text;
    ``start_error``: START_FAILED with this text.  ``start_ms`` to STARTED, then ``ready_ms`` to READY, ``run_ms`` from
    STARTED to its own end with ``code`` (None: never by itself).  ``checkpoint_ms``: a checkpoint each so often.
    ``save_ms``: how long after a warning it ends with ``save_code`` (None: it ignores warnings).  ``stubborn``: ignores
    TERM as well.  ``ranks`` overrides how single ranks end: {rank: (run_ms, code)}.  ``output`` is each rank's log.
    """

    retries: int = 0
    refused: str = ""
    start_error: str = ""
    start_ms: int = 0
    ready_ms: int = 0
    run_ms: int | None = 0
    code: int = 0
    checkpoint_ms: int = 0
    save_ms: int | None = None
    save_code: int = 75
    stubborn: bool = False
    ranks: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    output: bytes = b""


Script = Callable[[StartOrder], Behaviour]


def script_default(order: StartOrder) -> Behaviour:
    """Everything succeeds at once."""
    del order
    return Behaviour()


@dataclass(slots=True)
class _Attempt:
    order: StartOrder
    does: Behaviour
    started: bool = False
    ready: bool = False
    ended: bool = False
    begun_ms: int = 0
    deadline_ms: int | None = None
    hard_ms: int | None = None
    detail: str = ""
    checkpoints: int = 0


def system_clock() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


class FakeEngine:
    """See `millpond.engines.base.Engine`.  ``clock`` gives Unix ms; None: the system's, and `observe` really waits."""

    def __init__(
        self,
        nodes: tuple[NodeSpec, ...] = (),
        script: Script = script_default,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._nodes = nodes
        self._script = script
        self._clock = clock or system_clock
        self._waits = clock is None
        self._changed = threading.Condition(threading.RLock())
        self._attempts: dict[str, _Attempt] = {}
        self._stopped: set[str] = set()
        self._retries: dict[str, int] = {}
        self._facts: deque[Fact] = deque()
        self._sequence = 0
        self._epoch = 0
        self._count = itertools.count()
        self._due: list[tuple[int, int, Callable[[int], None]]] = []
        self._shapes: dict[tuple[str, int], Geometry] = {}

    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="fake",
            isolation={"whole": Isolation.NONE, "fraction": Isolation.NONE, "slice": Isolation.NONE},
            fractions=True,
            mig=True,
            gang=True,
            exec=False,
            checkpoint_signals=("USR1", "USR2", "TERM"),
            max_start_rate=100_000,
            notes=("nothing runs: an engine in memory",),
        )

    def epoch(self) -> int:
        with self._changed:
            return self._epoch

    def inventory(self) -> Inventory:
        return Inventory(self._nodes)

    def start(self, order: StartOrder) -> None:
        with self._changed:
            if order.epoch < self._epoch:
                raise Refused(f"the order is of epoch {order.epoch}, and {self._epoch} has begun")
            self._epoch = order.epoch
            if order.attempt in self._attempts or order.attempt in self._stopped:
                return
            does = self._script(order)
            if does.refused:
                raise Refused(does.refused)
            tries = self._retries.get(order.attempt, 0)
            if tries < does.retries:
                self._retries[order.attempt] = tries + 1
                raise Retry("not now, as scripted")
            self._shapes_check(order)
            attempt = _Attempt(order, does)
            self._attempts[order.attempt] = attempt
            self._plan(does.start_ms, lambda now: self._begin(attempt, now))
            self._advance()

    def signal(self, attempt: str, what: str, deadline_ms: int | None = None) -> None:
        if f"SIG{what.removeprefix('SIG')}" not in signal.Signals.__members__:
            raise Refused(f"there is no signal {what!r}")
        with self._changed:
            self._advance()
            known = self._find(attempt)
            if known is None:
                return
            if deadline_ms is not None:
                self._drain(known, deadline_ms)
            elif what.removeprefix("SIG") in {"TERM", "KILL"}:
                known.hard_ms = min(self._clock(), known.hard_ms or self._clock())
                self._end(known, 128 + (9 if what.endswith("KILL") else 15), self._clock())
            elif what.removeprefix("SIG") == known.order.warning_signal:
                self._warn(known)
            self._advance()

    def stop(self, attempt: str, grace_ms: int) -> None:
        with self._changed:
            self._advance()
            if attempt not in self._attempts:
                if attempt not in self._stopped:
                    self._stopped.add(attempt)
                    self._fact(FactKind.EXITED, self._clock(), attempt, natural=False, detail="stopped before start")
                return
            known = self._find(attempt)
            if known is not None:
                self._drain(known, self._clock() + max(0, grace_ms))
            self._advance()

    def observe(self, cursor: int, wait_s: float = 0.0) -> Observed:
        until = time.monotonic() + wait_s
        with self._changed:
            # A reader that is further than we are knows a former life of this engine: go on from there.
            self._sequence = max(self._sequence, cursor)
            while True:
                self._advance()
                while self._facts and self._facts[0].sequence <= cursor:
                    self._facts.popleft()
                left = until - time.monotonic()
                if self._facts or not self._waits or left <= 0:
                    break
                due = (self._due[0][0] - self._clock()) / 1000 if self._due else left
                self._changed.wait(max(0.001, min(left, due)))
            facts = tuple(itertools.islice(self._facts, _AT_ONCE))
            return Observed(facts, facts[-1].sequence if facts else cursor)

    def recover(self) -> tuple[AttemptStatus, ...]:
        with self._changed:
            self._advance()
            return tuple(
                AttemptStatus(name, known.started, len(known.order.ranks))
                for name, known in self._attempts.items()
                if not known.ended
            )

    def logs(self, attempt: str, rank: int, offset: int = 0, limit: int = 65536) -> LogChunk:
        with self._changed:
            self._advance()
            known = self._attempts.get(attempt)
            if known is None:
                raise Lost(f"attempt {attempt} has no log here")
            there = known.does.output if known.started and rank < len(known.order.ranks) else b""
            data = there[offset : offset + limit]
            return LogChunk(rank, offset + len(data), data)

    def exec(self, attempt: str, rank: int, argv: tuple[str, ...], tty: bool = False) -> ExecSession:
        del argv, tty
        with self._changed:
            self._advance()
            known = self._find(attempt)
        if known is None or not known.started or rank >= len(known.order.ranks):
            raise Lost(f"attempt {attempt} has no running rank {rank}")
        raise Refused("the fake engine runs no commands")

    def reshape(self, node: str, card: int, geometry: Geometry) -> None:
        self._card_check(node, card)
        kind = next((spec.cards for spec in self._nodes if spec.name == node), None)
        geometry_check(node, kind, card, geometry)
        with self._changed:
            self._advance()
            left = self._slices_used(node, card) - set(geometry)
            if left or (geometry and self._whole_used(node, card)):
                raise Retry(f"card {card} of {node} is in use")
            self._shapes[node, card] = geometry

    def _slices_used(self, node: str, card: int) -> set[tuple[str, int]]:
        """Slices of a card on which attempts run."""
        texts = (text for rank in self._ranks_on(node) for text in rank.slices)
        return {(profile, slot) for at, profile, slot in map(slice_parse, texts) if at == card}

    def _whole_used(self, node: str, card: int) -> bool:
        return any(card in rank.cards and not rank.slices for rank in self._ranks_on(node))

    def _ranks_on(self, node: str) -> list[RankOrder]:
        live = (known.order for known in self._attempts.values() if not known.ended)
        return [rank for order in live for rank in order.ranks if rank.node == node]

    def _shapes_check(self, order: StartOrder) -> None:
        """Slices of an order must be there; cards ordered as cards are made whole."""
        for rank in order.ranks:
            for card, profile, slot in map(slice_parse, rank.slices):
                if (profile, slot) not in self._shapes.get((rank.node, card), ()):
                    raise Refused(f"card {card} of {rank.node} has no slice mig-{profile} at slot {slot}")
            for card in rank.cards if not rank.slices else ():
                if self._slices_used(rank.node, card):
                    raise Retry(f"slices of card {card} of {rank.node} are in use")
                self._shapes.pop((rank.node, card), None)

    def fault(self, node: str, card: int | None) -> None:
        self._card_check(node, card)
        with self._changed:
            self._advance()
            now = self._clock()
            if card is None:
                self._fact(FactKind.NODE_LOST, now, node=node, detail="made on purpose")
            else:
                self._fact(FactKind.CARD_FAULT, now, node=node, card=card, detail="made on purpose")
            for known in list(self._attempts.values()):
                if self._uses(known, node, card):
                    known.hard_ms = now
                    known.detail = f"node {node} was lost" if card is None else f"card {card} of {node} failed"
                    self._end(known, 137, now)

    def close(self) -> None:
        """Nothing to let go of."""

    def _card_check(self, node: str, card: int | None) -> None:
        known = next((spec for spec in self._nodes if spec.name == node), None)
        if known is None or not known.simulated:
            raise Refused(f"{node} is not a simulated node")
        if card is not None and (known.cards is None or not 0 <= card < known.cards.count):
            raise Refused(f"{node} has no card {card}")

    @staticmethod
    def _uses(known: _Attempt, node: str, card: int | None) -> bool:
        beside = [rank for rank in known.order.ranks if rank.node == node]
        return not known.ended and any(card is None or card in rank.cards for rank in beside)

    def _find(self, attempt: str) -> _Attempt | None:
        known = self._attempts.get(attempt)
        if known is None and attempt not in self._stopped:
            raise Lost(f"attempt {attempt} is not known here")
        return None if known is None or known.ended else known

    def _plan(self, delay_ms: int, work: Callable[[int], None], base_ms: int | None = None) -> None:
        base = self._clock() if base_ms is None else base_ms
        heapq.heappush(self._due, (base + delay_ms, next(self._count), work))

    def _advance(self) -> None:
        """Let everything happen that is due by now, in the order of its times."""
        while self._due and self._due[0][0] <= self._clock():
            due, _, work = heapq.heappop(self._due)
            work(due)

    def _begin(self, attempt: _Attempt, now: int) -> None:
        if attempt.ended:
            return
        does = attempt.does
        if does.start_error:
            attempt.ended = True
            self._fact(FactKind.START_FAILED, now, attempt.order.attempt, detail=does.start_error)
            return
        attempt.started, attempt.begun_ms = True, now
        self._fact(FactKind.STARTED, now, attempt.order.attempt)
        if attempt.order.service or attempt.order.ready_path:
            self._plan(does.ready_ms, lambda due: self._ready(attempt, due), now)
            limit = attempt.order.ready_timeout * 1000
            self._plan(limit, lambda due: self._late(attempt, due), now)
        if does.checkpoint_ms:
            self._plan(does.checkpoint_ms, lambda due: self._checkpoint(attempt, due), now)
        for run_ms, code in does.ranks.values():
            if code:
                self._plan(run_ms, lambda due, code=code: self._end(attempt, code, due), now)  # type: ignore[misc]
        if does.run_ms is not None:
            last = max([does.run_ms, *(run_ms for run_ms, _ in does.ranks.values())])
            self._plan(last, lambda due: self._end(attempt, does.code, due), now)

    def _ready(self, attempt: _Attempt, now: int) -> None:
        if not attempt.ended:
            attempt.ready = True
            self._fact(FactKind.READY, now, attempt.order.attempt)

    def _late(self, attempt: _Attempt, now: int) -> None:
        if not attempt.ended and not attempt.ready:
            attempt.hard_ms, attempt.detail = now, "not ready in time"
            self._end(attempt, 137, now)

    def _checkpoint(self, attempt: _Attempt, now: int) -> None:
        if not attempt.ended:
            attempt.checkpoints += 1
            self._fact(FactKind.CHECKPOINTED, now, attempt.order.attempt, detail=f"checkpoint-{attempt.checkpoints}")
            self._plan(attempt.does.checkpoint_ms, lambda due: self._checkpoint(attempt, due), now)

    def _drain(self, attempt: _Attempt, deadline_ms: int) -> None:
        now = self._clock()
        if attempt.deadline_ms is not None and attempt.deadline_ms <= deadline_ms:
            return
        first = attempt.deadline_ms is None
        attempt.deadline_ms = deadline_ms
        grace = deadline_ms - now
        term = deadline_ms - (TERM_LEAD_MS if grace > TERM_LEAD_MS else max(0, grace) // 4)
        if first and grace > 0:
            self._warn(attempt)
        self._plan(0, lambda due: self._hard(attempt, 143, due), term)
        self._plan(0, lambda due: self._hard(attempt, 137, due), deadline_ms)

    def _warn(self, attempt: _Attempt) -> None:
        if attempt.does.save_ms is not None:
            self._plan(attempt.does.save_ms, lambda due: self._end(attempt, attempt.does.save_code, due))

    def _hard(self, attempt: _Attempt, code: int, now: int) -> None:
        """TERM or KILL."""
        if not attempt.ended:
            attempt.hard_ms = min(now, attempt.hard_ms or now)
            if code == 137 or (attempt.started and not attempt.does.stubborn):
                self._end(attempt, code, now)

    def _end(self, attempt: _Attempt, code: int, now: int) -> None:
        if attempt.ended:
            return
        attempt.ended = True
        natural = attempt.hard_ms is None or now < attempt.hard_ms
        known = code if attempt.started else None
        self._fact(FactKind.EXITED, now, attempt.order.attempt, code=known, natural=natural, detail=attempt.detail)

    def _fact(
        self,
        kind: FactKind,
        time_ms: int,
        attempt: str = "",
        *,
        code: int | None = None,
        natural: bool = True,
        node: str = "",
        card: int | None = None,
        detail: str = "",
    ) -> None:
        self._sequence += 1
        self._facts.append(Fact(self._sequence, time_ms, kind, attempt, code, natural, node, card, detail))
        self._changed.notify_all()
