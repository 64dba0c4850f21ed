"""What the demo shows while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from journal import Journal
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millpond.sdk import Client
from millpond.sdk.answers import Job
from millpond.sdk.errors import MillpondError

REFRESH_SECONDS = 1.5
STYLES = {"running": "green", "stopping": "yellow", "starting": "cyan", "queued": "magenta"}


class Board:
    """Use as a context manager.  `say` tells what happens; the table follows by itself."""

    def __init__(self, client: Client, journal: Journal, console: Console) -> None:
        self._client, self._journal, self._console = client, journal, console
        self._began = time.monotonic()
        self._said: list[str] = []
        self._stop = threading.Event()
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:5.1f} s  {text}"
        self._said.append(line)
        if self._live is None:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._live is not None:
            self._thread.join(timeout=10)
            self._live.stop()
            for line in self._said:
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _follow(self) -> None:
        while self._live is not None and not self._stop.wait(REFRESH_SECONDS):
            try:
                self._live.update(self._picture(), refresh=True)
            except MillpondError as error:
                self._live.update(Text(str(error)), refresh=True)

    def _picture(self) -> Group:
        tree = self._client.queues.tree()
        used, pool = tree["used"].get("cards", 0) // 1000, tree["pool"].get("cards", 0) // 1000
        title = f"{used} of {pool} cards in use" + (" (simulated)" if tree["simulated"] else "")
        table = Table("job", "queue", "state", "attempt", "nodes", "step", "loss", title=title)
        for job in sorted(self._client.jobs.list(limit=50), key=lambda job: (job["queue"], job["submitted_at"])):
            table.add_row(*self._row(job), style=STYLES.get(job["state"], "dim"))
        return Group(table, *(Text(line) for line in self._said[-8:]))

    def _row(self, job: Job) -> tuple[str, ...]:
        told = self._journal.last(job["id"], job["attempts"], "started", "resumed", "checkpoint", "saved")
        step, loss = (str(told["step"]), f"{told['loss']:.4f}") if told else ("", "")
        nodes = ",".join(seat["node"] for seat in job["placement"])
        return job["name"], job["queue"], job["state"], str(job["attempts"]), nodes, step, loss
