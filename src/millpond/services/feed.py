"""The job feed: one thread and one LISTEN connection for all streams of the server.

It turns notifications into the changed jobs, read in one go for everybody, and hands them to its subscribers.  Who may
see what is the subscriber's to judge.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from millpond.authz.actors import SYSTEM
from millpond.db.session import JOBS_CHANNEL, Tx, notify
from millpond.domain.errors import MillpondError
from millpond.services.deps import Services
from millpond.services.views import JobView, views_read

RECONNECTED = "reconnected"
PAUSE_S = 1.0
BATCH = 500

_log = structlog.get_logger("millpond.feed")

Deliver = Callable[[tuple[JobView, ...] | None], None]
"""Called in the feed's thread with changed jobs, or with ``None``: changes may have been missed, look again."""


class JobFeed:
    """`start` it once; `subscribe` from any thread."""

    def __init__(self, deps: Services) -> None:
        self._deps = deps
        self._lock = threading.Lock()
        self._subscribers: dict[int, Deliver] = {}
        self._next = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ask the thread to end, and wait for it."""
        self._stopping.set()
        if self._thread.is_alive():
            with suppress(MillpondError):
                self._deps.database.run("job_feed_stop", lambda tx: notify(tx, JOBS_CHANNEL, ""))
            self._thread.join(timeout_s)

    def subscribe(self, deliver: Deliver) -> Callable[[], None]:
        """Hand every change to `deliver` until the returned function is called.  `deliver` must not block."""
        with self._lock:
            number = self._next
            self._next += 1
            self._subscribers[number] = deliver

        def leave() -> None:
            with self._lock:
                self._subscribers.pop(number, None)

        return leave

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._deps.database.listen((JOBS_CHANNEL,)) as listener:
                    self._deliver(None)
                    while not self._stopping.is_set():
                        self._handle(listener.wait(PAUSE_S))
            except Exception as error:  # noqa: BLE001 - streams must outlive whatever the database does
                _log.warning("job feed lost the database", error=str(error))
                self._stopping.wait(PAUSE_S)

    def _handle(self, notes: Sequence[tuple[str, str]]) -> None:
        if any(channel == RECONNECTED for channel, _ in notes):
            self._deliver(None)
        ids = list(dict.fromkeys(payload for channel, payload in notes if channel == JOBS_CHANNEL and payload))
        with self._lock:
            wanted = bool(self._subscribers)
        if not wanted:
            return
        for begin in range(0, len(ids), BATCH):
            part = tuple(ids[begin : begin + BATCH])

            def read(tx: Tx, part: tuple[str, ...] = part) -> tuple[JobView, ...]:
                return views_read(tx, SYSTEM, part)

            self._deliver(self._deps.database.run("job_feed", read))

    def _deliver(self, views: tuple[JobView, ...] | None) -> None:
        with self._lock:
            subscribers = tuple(self._subscribers.values())
        for deliver in subscribers:
            deliver(views)
