"""One way to drive any engine: scenarios that real processes and the fake both know, and a clock that moves."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from millpond.domain.nodes import CardKind, NodeSpec
from millpond.engines.base import Engine, Fact, FactKind, RankOrder, StartOrder
from millpond.engines.fake import Behaviour, FakeEngine
from millpond.engines.local.engine import LocalEngine

LAST = (FactKind.EXITED, FactKind.START_FAILED)
NODES = tuple(
    NodeSpec(
        name=f"n{number}",
        cpu=128_000,
        memory=2_097_152,
        cards=CardKind(model="A800-80GB", memory=81_920, count=8),
        simulated=True,
    )
    for number in (1, 2)
)

_LOOP = "while :; do sleep 0.02; done"


@dataclass(frozen=True)
class Scenario:
    """The same thing, as commands for a shell and as behaviour of the fake."""

    commands: tuple[str, ...]
    behaviour: Behaviour


SUCCEED = Scenario(("true",), Behaviour())
FAIL = Scenario(("exit 7",), Behaviour(code=7))
CRASH = Scenario(("kill -9 $$",), Behaviour(code=137))
TALK = Scenario(("printf 'one\\ntwo\\n'",), Behaviour(output=b"one\ntwo\n"))
SLEEP = Scenario(("trap '' USR1", "sleep 60"), Behaviour(run_ms=None))
SAVE = Scenario((f"trap 'exit 75' USR1; {_LOOP}",), Behaviour(run_ms=None, save_ms=20))
STUBBORN = Scenario((f"trap '' USR1 TERM; {_LOOP}",), Behaviour(run_ms=None, stubborn=True))
CHECKPOINT = Scenario(
    ("echo 1 > $MILLPOND_CHECKPOINT_DIR/.hidden", "echo 1 > $MILLPOND_CHECKPOINT_DIR/checkpoint-1", "sleep 60"),
    Behaviour(run_ms=None, checkpoint_ms=50),
)
GANG_FAILS = Scenario(("[ $RANK = 0 ] || exit 3", "sleep 60"), Behaviour(run_ms=None, ranks={1: (10, 3)}))
NEVER_READY = Scenario(("sleep 60",), Behaviour(run_ms=None, ready_ms=10_000_000))
SERVE = Scenario(
    ("exec /usr/bin/python3 -m http.server --bind 127.0.0.1 $MILLPOND_PORT",), Behaviour(run_ms=None, ready_ms=30)
)


class Bench(Protocol):
    engine: Engine
    facts: list[Fact]

    def order(self, attempt: str, scenario: Scenario, **changes: object) -> StartOrder: ...
    def now_ms(self) -> int: ...
    def look(self, wait_ms: int) -> None:
        """Let up to so much time pass, and observe."""
        ...


@dataclass
class FakeBench:
    """Time is a number that `look` moves."""

    scenarios: dict[str, Scenario] = field(default_factory=dict)
    time_ms: int = 1_750_000_000_000
    facts: list[Fact] = field(default_factory=list)
    cursor: int = 0

    def __post_init__(self) -> None:
        self.engine: Engine = FakeEngine(NODES, lambda order: self.scenarios[order.attempt].behaviour, self.now_ms)

    def now_ms(self) -> int:
        return self.time_ms

    def order(self, attempt: str, scenario: Scenario, **changes: object) -> StartOrder:
        self.scenarios[attempt] = scenario
        return order_make(attempt, scenario, Path("/nowhere"), **changes)

    def look(self, wait_ms: int) -> None:
        self.time_ms += min(wait_ms, 10)
        seen = self.engine.observe(self.cursor)
        self.facts += seen.facts
        self.cursor = seen.cursor


@dataclass
class LocalBench:
    """Real processes in `root`."""

    root: Path
    isolated: bool
    uid: int
    facts: list[Fact] = field(default_factory=list)
    cursor: int = 0

    def __post_init__(self) -> None:
        self.engine: Engine = LocalEngine(self.root / "engine", self.root / "run", NODES)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def order(self, attempt: str, scenario: Scenario, **changes: object) -> StartOrder:
        given = {"isolated": self.isolated, "tenant_uid": self.uid, **changes}
        return order_make(attempt, scenario, self.root / "jobs" / attempt, **given)

    def look(self, wait_ms: int) -> None:
        seen = self.engine.observe(self.cursor, wait_ms / 1000)
        self.facts += seen.facts
        self.cursor = seen.cursor


def order_make(attempt: str, scenario: Scenario, root: Path, ranks: int = 1, **changes: object) -> StartOrder:
    """An order of `ranks` processes, one a node, each with card 0."""
    given: dict[str, object] = {
        "attempt": attempt,
        "epoch": 1,
        "tenant": "alpha",
        "tenant_uid": 0,
        "commands": scenario.commands,
        "env": (),
        "ranks": tuple(RankOrder(rank=rank, local_rank=0, node=f"n{rank + 1}", cards=(0,)) for rank in range(ranks)),
        "work_dir": str(root / "work"),
        "checkpoint_dir": str(root / "checkpoint"),
        "log_dir": str(root / "logs"),
        "simulated": True,
    }
    return StartOrder(**{**given, **changes})  # type: ignore[arg-type]


def until(bench: Bench, attempt: str, *kinds: FactKind, limit_ms: int = 20_000) -> Fact:
    """The attempt's first fact of one of these kinds, waiting for it."""
    end = bench.now_ms() + limit_ms
    while True:
        for fact in bench.facts:
            if fact.attempt == attempt and fact.kind in kinds:
                return fact
        left = end - bench.now_ms()
        assert left > 0, f"no {kinds} for {attempt} among {[f for f in bench.facts if f.attempt == attempt]}"
        bench.look(left)


def ended(bench: Bench, attempt: str, limit_ms: int = 20_000) -> Fact:
    """How the attempt ended."""
    return until(bench, attempt, *LAST, limit_ms=limit_ms)


def kinds(bench: Bench, attempt: str) -> list[FactKind]:
    return [fact.kind for fact in bench.facts if fact.attempt == attempt]
