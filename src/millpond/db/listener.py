"""LISTEN on a connection of its own.

A broken connection is made anew, and that is reported, because what was sent meanwhile is lost.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

RECONNECTED = ("reconnected", "")
"""Synthetic notification: whoever waits must look at the tables, as it may have missed some."""

_PAUSE_S = 0.5


class Listener:
    """Use in a ``with``; one thread."""

    def __init__(self, conninfo: str, channels: Collection[str]) -> None:
        self._conninfo = conninfo
        self._channels = tuple(channels)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def __enter__(self) -> Self:
        self._connection = self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wait(self, timeout_s: float) -> list[tuple[str, str]]:
        """(channel, payload) of what arrived, equal ones once; empty after `timeout_s` seconds of silence.

        After a lost connection: tries to reconnect for `timeout_s`; once it succeeds it returns `RECONNECTED`.
        Never raises for a lost connection.
        """
        deadline = time.monotonic() + timeout_s
        if self._connection is None:
            return self._reconnect(deadline)
        try:
            found = [
                (notice.channel, notice.payload)
                for notice in self._connection.notifies(timeout=max(timeout_s, 0.0), stop_after=1)
            ]
        except psycopg.Error:
            self.close()
            return self._reconnect(deadline)
        return list(dict.fromkeys(found))

    def _reconnect(self, deadline: float) -> list[tuple[str, str]]:
        while True:
            try:
                self._connection = self._connect()
                return [RECONNECTED]
            except psycopg.Error:
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                time.sleep(min(_PAUSE_S, left))

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = psycopg.connect(
            self._conninfo, autocommit=True, connect_timeout=5, application_name="millpond-listen"
        )
        for channel in self._channels:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        return connection
