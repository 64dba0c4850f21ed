"""What the supervisor remembers of each attempt, and how the journal's records change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]

TERM_LEAD_MS = 5000
JUMP = 1_000_000
"""More facts than can have been written and not yet be on disk."""
STARTED, READY, CHECKPOINTED, EXITED = "started", "ready", "checkpointed", "exited"
START_FAILED, EVICTED, NODE_LOST, CARD_FAULT = "start_failed", "evicted", "node_lost", "card_fault"
LAST_FACTS = frozenset({EXITED, START_FAILED, EVICTED})


@dataclass(slots=True)
class Exit:
    """How a rank ended.  ``code`` None: nobody can know.  ``began``: the job's own process had been started."""

    code: int | None
    time_ms: int
    began: bool
    detail: str = ""


@dataclass(slots=True)
class Rank:
    """One process slot.  Descriptors are pidfds; -1 = none."""

    number: int
    order: Record
    port: int
    keeper: int = 0
    keeper_fd: int = -1
    main: int = 0
    main_fd: int = -1
    main_since_ms: int = 0
    forks: int = 0
    ready: bool = False
    exit: Exit | None = None

    @property
    def node(self) -> str:
        return str(self.order["node"])


@dataclass(slots=True)
class Drain:
    """``deadline_ms`` moves only to an earlier time."""

    what: str
    begun_ms: int
    deadline_ms: int

    @property
    def term_ms(self) -> int:
        """TERM 5 s before the deadline; of a grace of 5 s or less, when a quarter is left."""
        grace = self.deadline_ms - self.begun_ms
        return self.deadline_ms - (TERM_LEAD_MS if grace > TERM_LEAD_MS else max(0, grace) // 4)


@dataclass(slots=True)
class Attempt:
    """A live attempt.  ``order`` is the start order as it came; ``group`` names its control group; ``mark`` the newest
    checkpoint's time, ns."""

    id: str
    order: Record
    ranks: list[Rank]
    master_port: int
    boot: str
    group: str
    drain: Drain | None = None
    sent_ms: int | None = None
    started: bool = False
    ready: bool = False
    mark: int = 0
    reason: str = ""
    doomed: bool = False
    warned: bool = False
    termed: bool = False
    gang_ms: int | None = None
    sweep: bool = False
    closing: bool = False
    sessions: dict[int, int] = field(default_factory=dict)
    probing: bool = False

    @property
    def finished(self) -> bool:
        return all(rank.exit is not None for rank in self.ranks)

    @property
    def ports(self) -> list[int]:
        return [rank.port for rank in self.ranks]

    def first_failure(self) -> Rank | None:
        """The rank that failed first; one whose code is unknown counts as failed."""
        failed = [rank for rank in self.ranks if rank.exit is not None and rank.exit.code != 0]
        return min(failed, key=lambda rank: (rank.exit.time_ms if rank.exit else 0, rank.number), default=None)

    def hard_ms(self) -> int | None:
        """When TERM or KILL was first sent, or will be."""
        times = [self.sent_ms, self.drain.term_ms if self.drain else None]
        return min((time for time in times if time is not None), default=None)


@dataclass(slots=True)
class Memory:
    """All that the journal says."""

    epoch: int = 0
    sequence: int = 0
    cursor: int = 0
    boot: str = ""
    live: dict[str, Attempt] = field(default_factory=dict)
    facts: list[Record] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    shapes: dict[tuple[str, int], list[list[Any]]] = field(default_factory=dict)
    """The slices, [profile, slot] each, of every card that is divided, by node and index."""

    def apply(self, record: Record) -> None:
        kind = record["r"]
        if kind == "head":
            self.epoch, self.sequence, self.cursor = record["epoch"], record["sequence"], record["cursor"]
            self.boot = record.get("boot", "")
        elif kind == "ack":
            self.acknowledge(record["cursor"])
        elif kind == "order":
            attempt = attempt_make(record)
            self.epoch = max(self.epoch, attempt.order["epoch"])
            self.live[attempt.id] = attempt
        elif kind == "shape":
            self.shapes[record["node"], record["card"]] = record["geometry"]
            if not record["geometry"]:
                del self.shapes[record["node"], record["card"]]
        elif kind == "stopped":
            self.stopped.append(record["attempt"])
        elif kind == "fact":
            self._fact(record["fact"], record.get("mark"))
        elif (known := self.live.get(record["attempt"])) is not None:
            if kind == "drain":
                known.drain = Drain(record["what"], record["begun_ms"], record["deadline_ms"])
                known.reason = record.get("reason", "") or known.reason
            elif kind == "sent":
                known.sent_ms = min(known.sent_ms or record["time_ms"], record["time_ms"])
                known.reason = record.get("reason", "") or known.reason
                known.doomed = known.doomed or bool(record.get("kill"))

    def _fact(self, fact: Record, mark: int | None) -> None:
        self.sequence = fact["sequence"]
        if fact["sequence"] > self.cursor:
            self.facts.append(fact)
        attempt = self.live.get(fact["attempt"])
        if attempt is None:
            return
        if fact["kind"] == STARTED:
            attempt.started = True
        elif fact["kind"] == READY:
            attempt.ready = True
        elif fact["kind"] == CHECKPOINTED and mark is not None:
            attempt.mark = mark
        elif fact["kind"] in LAST_FACTS:
            del self.live[attempt.id]
            self.ended.append(attempt.id)

    def acknowledge(self, cursor: int) -> None:
        """Forget facts up to `cursor`."""
        if cursor > self.cursor:
            self.cursor = min(cursor, self.sequence)
            self.facts = [fact for fact in self.facts if fact["sequence"] > self.cursor]

    def records(self) -> Iterator[Record]:
        """The fewest records that make an equal memory (but for ended attempts, which the index of attempts keeps)."""
        yield {"r": "head", "epoch": self.epoch, "sequence": self.sequence, "cursor": self.cursor, "boot": self.boot}
        for (node, card), geometry in self.shapes.items():
            yield shape_record(node, card, geometry)
        for fact in self.facts:
            yield {"r": "fact", "fact": fact}
        for attempt in self.live.values():
            yield order_record(attempt)
            if attempt.drain is not None:
                yield drain_record(attempt)
            if attempt.sent_ms is not None:
                yield sent_record(attempt, attempt.sent_ms)

    def boot_set(self, boot: str) -> None:
        """The machine may have crashed since: facts that a reader has seen may be missing here, so numbers jump."""
        if self.boot not in {"", boot}:
            self.sequence += JUMP
        self.boot = boot

    def skip(self, cursor: int) -> None:
        """Continue after a reader's cursor that is ahead of us: it has seen an earlier life of this engine."""
        for number, fact in enumerate(self.facts, cursor + 1):
            fact["sequence"] = number
        self.cursor = cursor
        self.sequence = cursor + len(self.facts)


def shape_record(node: str, card: int, geometry: list[list[Any]]) -> Record:
    return {"r": "shape", "node": node, "card": card, "geometry": geometry}


def attempt_make(record: Record) -> Attempt:
    """A live attempt from its order record."""
    order = record["order"]
    ranks = [Rank(rank["rank"], rank, port) for rank, port in zip(order["ranks"], record["ports"], strict=True)]
    group = record.get("group") or order["attempt"]
    attempt = Attempt(order["attempt"], order, ranks, record["master_port"], record["boot"], group)
    attempt.started, attempt.ready, attempt.mark = record["started"], record["ready"], record["mark"]
    return attempt


def order_record(attempt: Attempt) -> Record:
    return {
        "r": "order",
        "order": attempt.order,
        "ports": attempt.ports,
        "master_port": attempt.master_port,
        "boot": attempt.boot,
        "group": attempt.group,
        "started": attempt.started,
        "ready": attempt.ready,
        "mark": attempt.mark,
    }


def drain_record(attempt: Attempt) -> Record:
    drain = attempt.drain
    assert drain is not None  # noqa: S101 - for the type checker; both callers have looked
    return {
        "r": "drain",
        "attempt": attempt.id,
        "what": drain.what,
        "begun_ms": drain.begun_ms,
        "deadline_ms": drain.deadline_ms,
        "reason": attempt.reason,
    }


def sent_record(attempt: Attempt, time_ms: int) -> Record:
    return {
        "r": "sent",
        "attempt": attempt.id,
        "time_ms": time_ms,
        "kill": attempt.doomed,
        "reason": attempt.reason,
    }
