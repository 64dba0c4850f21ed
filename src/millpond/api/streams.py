"""Server-sent events: the wire format, and the hub that wakes streams.

One `JobFeed` thread serves every client: it hands changes to the hub with one call into the event loop, and the hub
puts them before each subscription.  A subscription keeps only the latest state of each job, so a slow client costs a
bounded amount of memory and then sees fewer steps, never wrong ones.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar, TypeVarTuple, Unpack

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse

from millpond.domain.errors import Unavailable
from millpond.services.feed import JobFeed
from millpond.services.views import JobView

T = TypeVar("T")
Args = TypeVarTuple("Args")

HEARTBEAT_S = 15.0
HEARTBEAT = b": alive\n\n"
BACKLOG = 10_000
STREAMS_MAX = 5_000
READERS = 8
"""Threads that read for streams, so that they cannot starve the request handlers."""
_PLACE = re.compile(r"[0-9]{1,9}:(?:[0-9]{1,9}=[0-9]{1,15}(?:,|\Z))*\Z")
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event_bytes(name: str, data: object, event_id: str = "") -> bytes:
    """One event on the wire; `data` is sent as one line of JSON."""
    head = f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "")
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def stream_response(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(chunks, media_type="text/event-stream", headers=_HEADERS)


class Subscription:
    """What has changed for one stream since it last looked.  Lives in the event loop."""

    def __init__(self, wants: Callable[[JobView], bool], leave: Callable[[Subscription], None]) -> None:
        self._wants = wants
        self._leave = leave
        self._changed: dict[str, JobView] = {}
        self._missed = False
        self.others = False
        """Whether other jobs have changed since `take`."""
        self._wake = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(self)

    def put(self, views: tuple[JobView, ...] | None) -> None:
        """Note changes; ``None``: some may have been missed."""
        if views is None or len(self._changed) + len(views) > BACKLOG:
            self._missed = True
            self._changed.clear()
            self._wake.set()
            return
        for view in views:
            if self._wants(view):
                self._changed.pop(view.job.id, None)
                self._changed[view.job.id] = view
                self._wake.set()
            else:
                self.others = True

    def take(self) -> tuple[tuple[JobView, ...], bool]:
        """(changes in the order of the last change of each, whether some were missed)."""
        taken = (tuple(self._changed.values()), self._missed)
        self._changed, self._missed, self.others = {}, False, False
        self._wake.clear()
        return taken

    async def wait(self, timeout_s: float) -> bool:
        """Wait for something of one's own; false when `timeout_s` has passed first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True


class StreamHub:
    """Fans the feed out to the subscriptions of one event loop; listens only while there are any."""

    def __init__(self, feed: JobFeed) -> None:
        self._feed = feed
        self._subscriptions: set[Subscription] = set()
        self._leave: Callable[[], None] | None = None
        self._readers = CapacityLimiter(READERS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def open(self) -> None:
        """Remember the running loop."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """End every stream at once.  From any thread, or from a signal handler."""
        self.closing = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, None)

    async def read(self, work: Callable[[Unpack[Args]], T], *args: *Args) -> T:
        """Run blocking `work` in one of the streams' own threads."""
        return await to_thread.run_sync(work, *args, limiter=self._readers)

    def subscribe(self, wants: Callable[[JobView], bool]) -> Subscription:
        """Begin to note changes; use it in a ``with``.  `Unavailable` when there are too many streams."""
        if len(self._subscriptions) >= STREAMS_MAX:
            raise Unavailable("too many streams are open", code="TOO_MANY_STREAMS", hint="try again later")
        subscription = Subscription(wants, self._drop)
        self._subscriptions.add(subscription)
        if self._leave is None:
            self._leave = self._feed.subscribe(self._deliver)
        return subscription

    def _deliver(self, views: tuple[JobView, ...] | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, views)

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        if not self._subscriptions and self._leave is not None:
            self._leave()
            self._leave = None

    def _put(self, views: tuple[JobView, ...] | None) -> None:
        for subscription in tuple(self._subscriptions):
            subscription.put(views)


def offsets_parse(text: str) -> tuple[int, Mapping[int, int]]:
    """(attempt number, offset by rank) of a log event's id; (0, {}) for anything else."""
    if not _PLACE.match(text):
        return 0, {}
    number, _, rest = text.partition(":")
    try:
        pairs = [part.split("=") for part in rest.split(",") if part]
        return int(number), {int(rank): int(offset) for rank, offset in pairs}
    except ValueError:
        return 0, {}


def offsets_format(number: int, offsets: Mapping[int, int]) -> str:
    """The id of a log event: where every rank's output stands after it."""
    return f"{number}:" + ",".join(f"{rank}={offset}" for rank, offset in sorted(offsets.items()))
