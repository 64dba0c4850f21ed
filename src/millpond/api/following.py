"""What the event streams send: async generators of SSE chunks.

Every stream looks again at who asks as often as a silent one would send a heartbeat, so that a revoked token or a lost
role ends it, however much there is to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from millpond.api.context import ApiState
from millpond.api.problems import problem_of
from millpond.api.schemas.jobs import AttemptEvent, JobChange, LogEvent
from millpond.api.shapes import change_shape
from millpond.api.streams import HEARTBEAT, HEARTBEAT_S, event_bytes, offsets_format
from millpond.authz.actors import Actor
from millpond.domain.errors import MillpondError
from millpond.domain.jobs import JOB_TERMINAL, AttemptState, JobState
from millpond.domain.records import AttemptRecord, JobRecord
from millpond.services.identity import actor_authenticate
from millpond.services.jobs import JobRef, job_view
from millpond.services.logs import LogPiece, LogTarget, engine_of, log_target, piece_read
from millpond.services.planning import Sight, sight_of
from millpond.services.views import JobView

WAITING_LOOK_S = 2.0
"""How often a waiting job's place is looked at again while the pool changes."""

SETTLE_S = 0.25
"""How long a stream waits for a job just submitted to start, before it says why it waits."""

IDLE_FIRST_S, IDLE_LAST_S = 0.1, 1.0
"""Pause between looks at the output of a running job: doubles while nothing comes."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who follows, and how to look again whether they still may."""

    state: ApiState
    secret: str
    actor: Actor

    def again(self) -> Caller:
        """The caller as of now.  `Unauthenticated` if the token has ceased to work.  Blocking."""
        return replace(self, actor=actor_authenticate(self.state.services, self.secret))


async def guarded(caller: Caller, make: Callable[[Caller], AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    """The chunks that `make` gives, counted as an open stream.  An error in the middle becomes an event `error`, then
    the stream ends."""
    gauge = caller.state.metrics.streams
    gauge.inc()
    try:
        async for chunk in make(caller):
            yield chunk
    except MillpondError as error:
        yield event_bytes("error", problem_of(error).model_dump(mode="json", exclude_none=True))
    finally:
        gauge.dec()


async def job_chunks(caller: Caller, ref: JobRef, job: str) -> AsyncIterator[bytes]:
    """Event `job` now and after every change of the job, its place or its reasons; ends when the job has ended."""
    state, hub = caller.state, caller.state.hub
    last = b""
    beat = _Beat()
    with hub.subscribe(lambda view: view.job.id == job) as subscription:
        while not hub.closing:
            if beat.look():
                caller = await hub.read(caller.again)
            subscription.take()
            view = await hub.read(job_view, state.services, caller.actor, ref)
            if not last and _fresh(view, state.services.clock()) and await subscription.wait(SETTLE_S):
                continue
            change = await hub.read(_change, caller, view)
            chunk = event_bytes("job", change.model_dump(mode="json"))
            if chunk != last:
                last = chunk
                yield chunk
                beat.reset()
            if view.job.state in JOB_TERMINAL:
                return
            waiting = view.job.state is JobState.QUEUED
            while not await subscription.wait(WAITING_LOOK_S if waiting else beat.left()):
                if beat.due():
                    yield HEARTBEAT
                    break
                if waiting and subscription.others:
                    break


async def pool_chunks(caller: Caller) -> AsyncIterator[bytes]:
    """Event `job` for every change of a job in sight, and `reset` when some may have been missed.  Without end."""
    hub = caller.state.hub
    sight = sight_of(caller.actor)
    beat = _Beat()
    with hub.subscribe(lambda view: sight.sees(view.job.tenant)) as subscription:
        yield HEARTBEAT
        while not hub.closing:
            if beat.look():
                caller = await hub.read(caller.again)
                sight = sight_of(caller.actor)
            if not await subscription.wait(beat.left()):
                if beat.due():
                    yield HEARTBEAT
                continue
            views, missed = subscription.take()
            if missed:
                yield event_bytes("reset", {})
            for view in views:
                yield event_bytes("job", change_shape(view, None, ()).model_dump(mode="json"))
            beat.reset()


def _fresh(view: JobView, now: datetime) -> bool:
    """Whether a waiting job was submitted a moment ago: most of those start at once, and planning for the mere sight of
    it would slow down just that."""
    return view.job.state is JobState.QUEUED and abs((now - view.job.submitted_at).total_seconds()) < SETTLE_S


def _change(caller: Caller, view: JobView) -> JobChange:
    """The job with its place and reasons while it waits.  Blocking."""
    if view.job.state is not JobState.QUEUED:
        return change_shape(view, None, ())
    outlook = caller.state.outlooks.recent()
    sight: Sight = sight_of(caller.actor)
    return change_shape(view, outlook.position(view.job.id), outlook.reasons(view.job.id, sight))


@dataclass(slots=True)
class LogPlace:
    """Where a log stream stands: attempt number (0: before the first) and next byte by rank."""

    number: int = 0
    offsets: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogWish:
    """``attempt``: only this one; ``rank``: only this one; ``tail``: only what comes from now on."""

    attempt: int | None = None
    rank: int | None = None
    tail: bool = False


async def log_chunks(
    caller: Caller, ref: JobRef, job: str, wish: LogWish, place: LogPlace, resumed: bool
) -> AsyncIterator[bytes]:
    """Events `attempt`, `log` and at last `end`: output of every rank, attempt after attempt."""
    hub = caller.state.hub
    beat = _Beat()
    idle = IDLE_FIRST_S
    announced = place.number if resumed else 0
    with hub.subscribe(lambda view: view.job.id == job) as subscription:
        target: LogTarget | None = None
        while not hub.closing:
            if beat.look():
                caller, target = await hub.read(caller.again), None
            changes, missed = subscription.take()
            if target is None or changes or missed:
                target = await hub.read(_target, caller, ref, wish, place)
            attempt = target.attempt
            if attempt is not None and announced != attempt.number:
                announced = attempt.number
                yield event_bytes("attempt", _attempt_event(target.job, attempt), offsets_format(attempt.number, {}))
            quiet = attempt is None or attempt.state is AttemptState.ENDED
            if attempt is not None:
                pieces = await hub.read(_pieces, caller, target, wish, place)
                for piece in pieces:
                    place.offsets[piece.rank] = piece.offset
                    event = LogEvent(rank=piece.rank, offset=piece.offset, text=piece.text)
                    yield event_bytes("log", event.model_dump(), offsets_format(attempt.number, place.offsets))
                if pieces:
                    idle = IDLE_FIRST_S
                    beat.reset()
                    continue
            if quiet and _finished(target, wish):
                yield event_bytes("end", _attempt_event(target.job, attempt))
                return
            if quiet and attempt is not None and target.job.attempts > attempt.number:
                place.number, place.offsets, target = attempt.number + 1, {}, None
                continue
            wish = replace(wish, tail=False)
            pause = beat.left() if quiet else min(idle, beat.left())
            if not await subscription.wait(pause) and beat.due():
                yield HEARTBEAT
            idle = min(idle * 2, IDLE_LAST_S)


def _target(caller: Caller, ref: JobRef, wish: LogWish, place: LogPlace) -> LogTarget:
    """The attempt to read now; on the first call chooses where to begin.  Blocking."""
    services = caller.state.services
    if wish.attempt is not None:
        place.number = wish.attempt
    elif place.number == 0:
        found = log_target(services, caller.actor, ref)
        place.number = 0 if found.attempt is None else found.attempt.number if wish.tail else 1
    return log_target(services, caller.actor, ref, place.number or None)


def _pieces(caller: Caller, target: LogTarget, wish: LogWish, place: LogPlace) -> list[LogPiece]:
    """What is new of every rank wanted.  With ``tail`` what is there already is passed over.  Blocking."""
    attempt = target.attempt
    assert attempt is not None  # noqa: S101 - the caller has looked
    engine = engine_of(caller.state.services)
    ranks = range(target.job.spec.ranks) if wish.rank is None else (wish.rank,)
    found: list[LogPiece] = []
    for rank in ranks:
        piece = piece_read(engine, attempt, rank, place.offsets.get(rank, 0))
        while wish.tail and piece.text:
            place.offsets[rank] = piece.offset
            piece = piece_read(engine, attempt, rank, piece.offset)
        if piece.text:
            found.append(piece)
    return found


def _finished(target: LogTarget, wish: LogWish) -> bool:
    """Whether nothing can follow: the wanted attempt has ended, or the job has and this was its last attempt."""
    if wish.attempt is not None:
        return True
    last = target.attempt is None or target.attempt.number >= target.job.attempts
    return target.job.state in JOB_TERMINAL and last


def _attempt_event(job: JobRecord, attempt: AttemptRecord | None) -> object:
    return AttemptEvent(
        attempt=attempt.id if attempt is not None else "",
        state=job.state,
        reason=attempt.reason if attempt is not None else None,
        exit_code=attempt.exit_code if attempt is not None else None,
    ).model_dump(mode="json")


class _Beat:
    """When the next heartbeat is due."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or asyncio.get_running_loop().time
        self._next = 0.0
        self._looked = self._now()
        self.reset()

    def reset(self) -> None:
        self._next = self._now() + HEARTBEAT_S

    def look(self) -> bool:
        """Whether it is time to look again at who asks; sending does not put it off."""
        if self._now() < self._looked + HEARTBEAT_S:
            return False
        self._looked = self._now()
        return True

    def left(self) -> float:
        return max(0.0, self._next - self._now())

    def due(self) -> bool:
        """Whether it is time; then the next one is a full pause away."""
        if self.left() > 0:
            return False
        self.reset()
        return True
