"""Output of attempts, read from the engine."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempt_list
from millpond.domain.errors import NotFound, Unavailable
from millpond.domain.jobs import AttemptState
from millpond.domain.records import AttemptRecord, JobRecord
from millpond.engines.base import Engine, Lost
from millpond.services.deps import Services
from millpond.services.jobs import JobRef, job_find

PIECE = 65_536
"""Bytes read at a time."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Output of one rank.  ``offset`` is the byte after it; ``end``: the attempt has ended and nothing follows."""

    attempt: str
    rank: int
    offset: int
    text: str
    end: bool


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A job whose output may be read, and the attempt meant (``None``: there is none yet)."""

    job: JobRecord
    attempt: AttemptRecord | None


def log_target(deps: Services, actor: Actor, ref: JobRef, number: int | None = None) -> LogTarget:
    """The attempt of that number, else the latest.  `NotFound` for a number that never was."""

    def work(tx: Tx) -> LogTarget:
        job = job_find(tx, actor, ref)
        authorize(actor, Action.JOB_LOGS, job.tenant, owner=job.user)
        attempts = attempt_list(tx, actor, job.id)
        if number is None:
            return LogTarget(job, attempts[-1] if attempts else None)
        found = next((attempt for attempt in attempts if attempt.number == number), None)
        if found is None:
            raise NotFound(
                f"job {job.name} has no attempt {number}",
                code="NO_SUCH_ATTEMPT",
                hint=f"it has had {len(attempts)}: millpond describe {job.name}",
            )
        return LogTarget(job, found)

    return deps.database.run("log_target", work)


def log_read(
    deps: Services, actor: Actor, ref: JobRef, number: int | None, rank: int, offset: int, limit: int
) -> LogPiece:
    """One piece of one rank's output from byte `offset`; empty text: nothing new yet."""
    target = log_target(deps, actor, ref, number)
    if target.attempt is None:
        return LogPiece("", rank, 0, "", end=target.job.finished_at is not None)
    if not 0 <= rank < target.job.spec.ranks:
        raise NotFound(
            f"job {target.job.name} has no rank {rank}", code="NO_SUCH_RANK", hint=f"0 to {target.job.spec.ranks - 1}"
        )
    return piece_read(engine_of(deps), target.attempt, rank, offset, limit)


def piece_read(engine: Engine, attempt: AttemptRecord, rank: int, offset: int, limit: int = PIECE) -> LogPiece:
    """The text after `offset`, cut so that no UTF-8 character is torn while more may come."""
    ended = attempt.state is AttemptState.ENDED
    try:
        chunk = engine.logs(attempt.id, rank, offset, max(limit, 4))
    except Lost:
        return LogPiece(attempt.id, rank, offset, "", end=ended)
    data, kept = chunk.data, _torn(chunk.data)
    if kept and (len(data) > kept or not ended):
        data = data[:-kept]
    text = data.decode("utf-8", "replace").replace("\x00", "\ufffd")
    return LogPiece(attempt.id, rank, chunk.offset - (len(chunk.data) - len(data)), text, end=ended and not chunk.data)


def engine_of(deps: Services) -> Engine:
    """The engine; `Unavailable` if the server has none."""
    if deps.engine is None:
        raise Unavailable("no engine is connected", code="NO_ENGINE", hint="see /readyz")
    return deps.engine


def _torn(data: bytes) -> int:
    """How many bytes at the end belong to a character whose rest has not come yet (0 to 3)."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        need = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if need > back else 0
    return 0
