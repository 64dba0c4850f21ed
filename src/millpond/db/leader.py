"""Leadership: one control plane at a time, by a session advisory lock, fenced by an epoch.

The lock says who may try; the epoch makes it safe: every write of the control plane calls `fence` in its transaction,
and a leader whose epoch is no longer the newest writes nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
from sqlalchemy import bindparam, select

from millpond.db.session import Database, Tx
from millpond.db.tables.control import LEADER
from millpond.domain.errors import MillpondError, Unavailable

LOCK_KEY = 0x6D696C6C706F6E64
"""``millpond`` in ASCII."""


class Fenced(MillpondError):
    """A newer leader has begun; this one must stop."""

    code = "FENCED"


class Leader:
    """Leadership of one process.  Not for sharing between threads, but `holds` may be asked from any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self.epoch = 0

    def acquire(self, timeout: float) -> int | None:
        """Wait up to `timeout` seconds for leadership: the new epoch, or ``None`` if another one still leads.

        Raises `Unavailable` when the database does not answer.
        """
        self.release()
        try:
            connection = self._database.connection()
        except psycopg.Error as error:
            raise Unavailable("the database does not answer (leadership)", code="DATABASE") from error
        try:
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{max(int(timeout * 1000), 1)}ms",))
            connection.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
            holder = f"{socket.gethostname()}:{os.getpid()}"
            row = connection.execute(
                "INSERT INTO leader (id, epoch, holder, since) VALUES (1, 1, %s, now()) ON CONFLICT (id) DO UPDATE"
                " SET epoch = leader.epoch + 1, holder = excluded.holder, since = now() RETURNING epoch",
                (holder,),
            ).fetchone()
        except psycopg.errors.LockNotAvailable:
            connection.close()
            return None
        except psycopg.Error as error:
            connection.close()
            raise Unavailable("the database does not answer (leadership)", code="DATABASE") from error
        assert row is not None  # noqa: S101  (INSERT … RETURNING always gives one)
        self._connection, self.epoch = connection, int(row[0])
        return self.epoch

    def exceed(self, seen: int) -> int:
        """Raise our epoch above `seen`, the highest that the engine has heard of, and return it.

        A database restored from a backup has forgotten epochs that the engine remembers; without this step the engine
        would refuse every order.  Raises `Unavailable` when leadership is lost.
        """
        if seen <= self.epoch:
            return self.epoch
        connection = self._connection
        try:
            row = (
                connection.execute(
                    "UPDATE leader SET epoch = %s WHERE id = 1 AND epoch = %s RETURNING epoch", (seen + 1, self.epoch)
                ).fetchone()
                if connection is not None
                else None
            )
        except psycopg.Error as error:
            raise Unavailable("the database does not answer (leadership)", code="DATABASE") from error
        if row is None:
            raise Unavailable("leadership was lost before the term began", code="DATABASE")
        self.epoch = int(row[0])
        return self.epoch

    def holds(self) -> bool:
        """Whether the lock's connection still answers: a broken one means that the lock is gone."""
        connection = self._connection
        if connection is None:
            return False
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def release(self) -> None:
        """Give leadership up.  Closing the connection frees the lock, also when it is already broken."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def fence(tx: Tx, epoch: int) -> None:
    """Return if `epoch` is still the newest, and keep it so until this transaction ends; else raise `Fenced`.

    The share lock makes a new leader wait for us, or us see its epoch; there is no moment between.
    """
    newest = tx.execute(_EPOCH).scalar()
    if newest != epoch:
        raise Fenced(f"epoch {epoch} is over: the newest is {newest}", details={"epoch": epoch, "newest": newest})


_EPOCH = select(LEADER.c.epoch).where(LEADER.c.id == bindparam("id", 1)).with_for_update(read=True)
