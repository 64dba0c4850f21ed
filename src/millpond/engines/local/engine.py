"""The local engine: this machine's processes, through the supervisor; its cards, real or simulated."""

from __future__ import annotations

import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from millpond.domain.nodes import NodeSpec
from millpond.engines.base import (
    AttemptStatus,
    Capabilities,
    Fact,
    FactKind,
    Geometry,
    Inventory,
    Isolation,
    LogChunk,
    Lost,
    Observed,
    Refused,
    StartOrder,
)
from millpond.engines.local.inventory import inventory_read
from millpond.engines.local.protocol import ANSWER_S, Caller, answer_read
from millpond.engines.local.session import LocalSession
from millpond.engines.local.supervisor.index import STOPPED, Index, log_path
from millpond.engines.slices import geometry_check

MAX_START_RATE = 80
"""Starts a second: measured on two cores, jobs of one process without isolation, each ordered after the other."""


class LocalEngine:
    """See `millpond.engines.base.Engine`.  Thread-safe; survives the supervisor's restart (calls raise `Retry`
    meanwhile).  With `nodes` the pool is simulated: their cards are names, the processes real."""

    def __init__(self, engine_dir: Path, run_dir: Path, nodes: tuple[NodeSpec, ...] = ()) -> None:
        self._nodes = nodes
        self._caller = Caller(run_dir)
        self._index = Index(engine_dir)
        self._hello: dict[str, Any] | None = None
        self._inventory: Inventory | None = None
        self._guard = threading.Lock()

    def _greeting(self) -> dict[str, Any]:
        with self._guard:
            known = self._hello
        if known is None:
            known = self._caller.call("hello")
            with self._guard:
                self._hello = known
        return known

    def capabilities(self) -> Capabilities:
        hello = self._greeting()
        whole = Isolation.HARDWARE if hello["isolated"] and not self._nodes else Isolation.NONE
        simulated = ("simulated cards",) if self._nodes else ()
        return Capabilities(
            name="local",
            isolation={"whole": whole, "fraction": Isolation.NONE, "slice": whole},
            fractions=True,
            mig=bool(self._nodes),
            gang=True,
            exec=True,
            checkpoint_signals=("USR1", "USR2", "TERM", "INT", "HUP"),
            max_start_rate=MAX_START_RATE,
            notes=(*hello["notes"], *simulated),
        )

    def epoch(self) -> int:
        return int(self._caller.call("hello")["epoch"])

    def inventory(self) -> Inventory:
        """Simulated nodes as given; else this machine, its cards asked for anew each time."""
        if self._nodes:
            return Inventory(self._nodes, ("simulated pool: cards are names, processes are real",))
        return inventory_read()

    def start(self, order: StartOrder) -> None:
        self._caller.call("start", order=asdict(order))

    def signal(self, attempt: str, what: str, deadline_ms: int | None = None) -> None:
        self._caller.call("signal", attempt=attempt, what=what, deadline_ms=deadline_ms)

    def stop(self, attempt: str, grace_ms: int) -> None:
        self._caller.call("stop", attempt=attempt, grace_ms=grace_ms)

    def observe(self, cursor: int, wait_s: float = 0.0) -> Observed:
        answer = self._caller.call("observe", wait_s + ANSWER_S, cursor=cursor, wait_ms=int(wait_s * 1000))
        facts = tuple(Fact(**{**fact, "kind": FactKind(fact["kind"])}) for fact in answer["facts"])
        return Observed(facts, answer["cursor"])

    def recover(self) -> tuple[AttemptStatus, ...]:
        answer = self._caller.call("recover")
        return tuple(
            AttemptStatus(one["attempt"], one["running"], one["ranks"], tuple(one["pids"]))
            for one in answer["attempts"]
        )

    def logs(self, attempt: str, rank: int, offset: int = 0, limit: int = 65536) -> LogChunk:
        """Read from the file itself: works while no supervisor runs, and after the attempt has ended."""
        folder = self._index.get(attempt)
        if folder is None or folder == STOPPED:
            raise Lost(f"attempt {attempt} has no log here")
        try:
            descriptor = os.open(log_path(folder, attempt, rank), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return LogChunk(rank, offset, b"")
        try:
            data = os.pread(descriptor, max(0, limit), max(0, offset))
        finally:
            os.close(descriptor)
        return LogChunk(rank, max(0, offset) + len(data), data)

    def exec(self, attempt: str, rank: int, argv: tuple[str, ...], tty: bool = False) -> LocalSession:
        line = self._caller.line()
        try:
            answer_read(line.ask({"op": "exec", "attempt": attempt, "rank": rank, "argv": argv, "tty": tty}, ANSWER_S))
        except BaseException:
            line.close()
            raise
        return LocalSession(line.socket)

    def reshape(self, node: str, card: int, geometry: Geometry) -> None:
        """Simulated cards only: to divide a real one, its processes, drivers' clients and monitors must let go of it
        first, which this engine cannot ask of them."""
        known = next((spec for spec in self._nodes if spec.name == node), None)
        if known is None or not known.simulated:
            raise Refused(
                f"card {card} of {node} is real, and this engine divides only simulated ones",
                code="SLICES_UNSUPPORTED",
                hint="ask for whole cards or for fractions",
            )
        geometry_check(node, known.cards, card, geometry)
        self._caller.call("reshape", node=node, card=card, geometry=geometry)

    def fault(self, node: str, card: int | None) -> None:
        known = next((spec for spec in self._nodes if spec.name == node), None)
        if known is None or not known.simulated:
            raise Refused(f"{node} is not a simulated node", hint="faults are made on simulated pools only")
        count = known.cards.count if known.cards is not None else 0
        if card is not None and not 0 <= card < count:
            raise Refused(f"{node} has no card {card}", hint=f"its cards are 0 to {count - 1}" if count else "")
        self._caller.call("fault", node=node, card=card)

    def close(self) -> None:
        self._caller.close()
