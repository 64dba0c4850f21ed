"""What the training jobs print, read through the API: JSON lines such as {"event": "checkpoint", "step": 50, ...}."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import Any

from millpond.sdk import Client
from millpond.sdk.errors import MillpondError

Line = dict[str, Any]


class Journal:
    """Remembers how far it has read each rank's log, so that looking again costs little.  Threads may share one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._offsets: dict[tuple[str, int, int], int] = {}
        self._rest: dict[tuple[str, int, int], str] = defaultdict(str)
        self._lines: dict[tuple[str, int, int], list[Line]] = defaultdict(list)

    def lines(self, job: str, attempt: int, rank: int = 0) -> list[Line]:
        """All that this rank of this attempt has told so far."""
        key = (job, attempt, rank)
        with self._lock:
            try:
                offset = self._offsets.get(key, 0)
                for piece in self._client.jobs.logs(job, attempt=attempt, rank=rank, offset=offset):
                    self._offsets[key] = piece["offset"]
                    self._rest[key] += piece["text"]
            except MillpondError:
                # Not started yet, or its log is not there yet: nothing told.
                return list(self._lines[key])
            *whole, self._rest[key] = self._rest[key].split("\n")
            for text in whole:
                if text.startswith("{"):
                    self._lines[key].append(json.loads(text))
            return list(self._lines[key])

    def last(self, job: str, attempt: int, *events: str) -> Line | None:
        """The last line whose event is one of `events`."""
        found = [line for line in self.lines(job, attempt) if line["event"] in events]
        return found[-1] if found else None
