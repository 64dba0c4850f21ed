"""The engine contract: verbs, the meaning of their errors, capabilities as data.

Every verb is idempotent by attempt id and prompt (it starts work, it does not wait for it).  An engine never decides:
an order names nodes, cards and limits, and leaves nothing to choose.  What happened comes back as *facts*, each with
the engine's own time and a sequence number, through `observe`; a fact is reported until a later cursor is passed, so
the reader stores facts and cursor in one transaction and sees each exactly once.

Errors: `Retry` = not now, the same call may work later; `Refused` = this order never will (the attempt ends as
``start_failed``); `Lost` = the engine has no memory of that attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from millpond.domain.errors import MillpondError
from millpond.domain.nodes import NodeSpec


class EngineError(MillpondError):
    code = "ENGINE"


class Retry(EngineError):
    """Not now; the same call may work later."""

    code = "ENGINE_RETRY"


class Refused(EngineError):
    """This order can never be carried out as it stands."""

    code = "ENGINE_REFUSED"


class Lost(EngineError):
    """The engine has no memory of that attempt."""

    code = "ENGINE_LOST"


Geometry = tuple[tuple[str, int], ...]
"""The slices of a card: (profile, first memory slot) each; empty = not divided."""


class Isolation(StrEnum):
    NONE = "none"
    MEMORY = "memory"
    MEMORY_COMPUTE = "memory+compute"
    HARDWARE = "hardware"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do, as data.  ``isolation`` is keyed by ``whole``, ``fraction``, ``slice``."""

    name: str
    isolation: Mapping[str, Isolation]
    fractions: bool
    mig: bool
    gang: bool
    exec: bool
    checkpoint_signals: tuple[str, ...]
    max_start_rate: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankOrder:
    """One process slot.  ``cards`` are indexes on the node, ``uuids`` theirs; ``milli`` of each card (1000 = whole).

    ``slices`` are slices of these cards, written ``card:profile@slot`` (`engines.slices`); with them ``milli`` is what
    they count together.
    """

    rank: int
    local_rank: int
    node: str
    cards: tuple[int, ...]
    uuids: tuple[str, ...] = ()
    milli: int = 1000
    slices: tuple[str, ...] = ()
    port: int = 0


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Everything needed to run one attempt.  ``env`` is complete but for what the engine alone knows (`design` §5:
    rank, addresses, card visibility, paths of its own making).  ``tenant_uid`` 0 = run as the engine itself does.
    Amounts are per node: milli-CPU and MiB; 0 = unlimited.  ``ready_path`` empty = ready when all ranks have started.
    ``work_root`` is the folder that the job may write and calls its home; it holds ``work_dir``, and empty means that
    they are the same.
    """

    attempt: str
    epoch: int
    tenant: str
    tenant_uid: int
    commands: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    ranks: tuple[RankOrder, ...]
    work_dir: str
    checkpoint_dir: str
    log_dir: str
    cpu: int = 0
    memory: int = 0
    shm: int = 0
    isolated: bool = True
    simulated: bool = False
    warning_signal: str = "USR1"
    ready_path: str = ""
    ready_timeout: int = 60
    service: bool = False
    work_root: str = ""


class FactKind(StrEnum):
    STARTED = "started"
    READY = "ready"
    CHECKPOINTED = "checkpointed"
    EXITED = "exited"
    EVICTED = "evicted"
    NODE_LOST = "node_lost"
    CARD_FAULT = "card_fault"
    START_FAILED = "start_failed"


@dataclass(frozen=True, slots=True)
class Fact:
    """What happened, once.

    ``sequence`` grows by one (it may jump when the machine crashed) and never repeats within an engine's life;
    ``time_ms`` is Unix milliseconds by the engine's clock.

    STARTED: every rank's process runs; ``detail`` lists the ranks' ports, comma-separated.
    READY: every rank answers its probe (services only).  CHECKPOINTED: a new or newer file appeared in the checkpoint
    directory (``detail`` its name).  EXITED comes once per attempt when **every** process of it is gone: ``code`` is 0,
    or that of the first rank that failed (128 + signal if killed, None if nobody can know).  ``natural`` is true when
    the ranks ended by themselves before any TERM or KILL was sent.
    Two may come instead of EXITED, and like it as the last of their attempt: START_FAILED when a rank's process could
    not be made at all, EVICTED when the engine lost the attempt for reasons of its own (the machine was restarted).
    NODE_LOST and CARD_FAULT name ``node`` and ``card`` and concern no single attempt.
    """

    sequence: int
    time_ms: int
    kind: FactKind
    attempt: str = ""
    code: int | None = None
    natural: bool = True
    node: str = ""
    card: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    facts: tuple[Fact, ...]
    cursor: int


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """What an engine knows of one attempt, for reconciling after a restart."""

    attempt: str
    running: bool
    ranks: int
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LogChunk:
    """``offset`` is that of the byte after ``data``: pass it back to continue."""

    rank: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Inventory:
    nodes: tuple[NodeSpec, ...]
    notes: tuple[str, ...] = field(default=())


class ExecSession(Protocol):
    """A command running beside a rank.  `read` gives output until b"" at its end (None: nothing within the timeout);
    `finish` says that no more input will come; `close` kills it.  One thread may read while another writes."""

    def read(self, timeout_s: float) -> bytes | None: ...
    def write(self, data: bytes) -> None: ...
    def finish(self) -> None: ...
    def resize(self, rows: int, columns: int) -> None: ...
    def exit_code(self) -> int | None: ...
    def close(self) -> None: ...


class Engine(Protocol):
    """See the module's docstring.  Thread-safe: loops and request handlers share one object."""

    def capabilities(self) -> Capabilities: ...

    def epoch(self) -> int:
        """The newest epoch that an order was taken of; 0 = none yet.  Asked anew each time."""

    def inventory(self) -> Inventory:
        """Nodes and cards as they are now."""

    def start(self, order: StartOrder) -> None:
        """Record the order durably, then start it.  A second call with the same attempt does nothing, also after it
        ended.  An order of an older epoch than one already seen raises `Refused`."""

    def signal(self, attempt: str, what: str, deadline_ms: int | None = None) -> None:
        """Send a signal (``USR1``) to every rank's main process.

        With a deadline (Unix ms), begin to drain: write the deadline file (``MILLPOND_DEADLINE_FILE``: whole Unix
        seconds, absent before), send the warning now, TERM 5 s before the deadline (of a grace of 5 s or less, when a
        quarter is left), KILL the whole tree at it.  The earliest deadline wins.  Nothing to do for an ended attempt;
        `Lost` for an unknown one.
        """

    def stop(self, attempt: str, grace_ms: int) -> None:
        """`signal` with the warning and a deadline of now + grace; 0 kills at once.  Also forbids a start not yet made:
        an unknown attempt is remembered as stopped and EXITED (code None) is reported for it."""

    def observe(self, cursor: int, wait_s: float = 0.0) -> Observed:
        """Facts after `cursor` in order, at most 1000, waiting up to `wait_s` for the first.  Facts at or before the
        cursor may be forgotten."""

    def recover(self) -> tuple[AttemptStatus, ...]:
        """Every attempt that is not known to be gone."""

    def logs(self, attempt: str, rank: int, offset: int = 0, limit: int = 65536) -> LogChunk:
        """Bytes of a rank's output from `offset`; empty data = nothing new yet.  `Lost` if there never was any."""

    def exec(self, attempt: str, rank: int, argv: tuple[str, ...], tty: bool = False) -> ExecSession:
        """Run a command beside a running rank: same user, isolation, limits and environment."""

    def reshape(self, node: str, card: int, geometry: Geometry) -> None:
        """Divide a card into exactly these slices; nothing to do where it is.  Slices in use stay and must be among
        them: `Retry` while others are in use.  `Refused` where the engine or the card cannot.  A slice must exist when
        an order for it is started (else `Refused`); a card whose slices are all idle becomes whole again by itself
        when it is ordered as a card.
        """

    def fault(self, node: str, card: int | None) -> None:
        """Make trouble on purpose on a *simulated* node (lost node) or card; `Refused` on real ones."""

    def close(self) -> None:
        """Let go of connections.  Stops nothing."""
