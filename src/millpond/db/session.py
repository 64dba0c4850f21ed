"""Sessions: `Database.run` is the only way to a transaction.

It retries what is safe to retry: serialization failures, deadlocks and a connection lost before the commit.  When the
connection is lost *in* the commit, it finds out what became of the transaction: each one that writes leaves a number
in the table ``commits``.  (PostgreSQL's own transaction ids do not serve: after a crash they may be given again.)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import psycopg
from sqlalchemy import Connection, Engine, bindparam, create_engine, event, exc, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from millpond.db.listener import Listener
from millpond.db.types import json_text
from millpond.domain.errors import Conflict, IllegalTransition, InvalidInput, MillpondError, Unavailable

R = TypeVar("R")
Tx: TypeAlias = Connection
"""An open transaction.  Only `Database.run` makes one."""

WORK_CHANNEL = "millpond_work"
"""Wakes the control loops; the payload names the loop (``schedule``, ``apply``…)."""

JOBS_CHANNEL = "millpond_jobs"
"""A job changed; the payload is its id."""

ATTEMPTS = 9
_PAUSE_S = 0.02
_RETRY_STATES = frozenset({"40001", "40P01"})
_BUSY_STATES = frozenset({"55P03", "57014"})
_LOST_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "53300", "25P03"})
_LOCKED = "millpond_locked"
_TOLD = "millpond_told"
_SLOT = "millpond_slot"
_NUMBER = "millpond_number"
_MARK_WRITE = (
    "INSERT INTO commits (slot, number) SELECT %s, %s WHERE pg_current_xact_id_if_assigned() IS NOT NULL"
    " ON CONFLICT (slot) DO UPDATE SET number = excluded.number, written_at = now()"
)
# Writing the row, not reading it, waits for a transaction that still holds it.
_MARK_READ = (
    "INSERT INTO commits (slot, number) VALUES (%s, 0)"
    " ON CONFLICT (slot) DO UPDATE SET number = commits.number RETURNING number"
)
_SNAPSHOT = "millpond_snapshot"


def url_for_driver(url: str) -> str:
    """``postgres://…`` and ``postgresql://…`` in the form that SQLAlchemy needs for psycopg."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"postgres", "postgresql", "postgresql+psycopg"}:
        raise InvalidInput(
            "the database URL must begin with postgresql://", hint="set MILLPOND_DATABASE_URL, or unset it"
        )
    return f"postgresql+psycopg://{rest}"


def url_for_libpq(url: str) -> str:
    """The form that libpq and its tools read."""
    return "postgresql://" + url_for_driver(url).partition("://")[2]


def url_database(url: str, database: str) -> str:
    """The same server and user, another database."""
    return urlsplit(url_for_libpq(url))._replace(path=f"/{quote(database, safe='')}").geturl()


class Database:
    """A pool of connections to one PostgreSQL database.  Threads may share it.

    ``statement_timeout_s`` bounds every statement, so that nothing hangs for ever behind a lock.
    """

    def __init__(self, url: str, pool_size: int = 8, *, statement_timeout_s: int = 30) -> None:
        self.url = url
        self._engine: Engine = create_engine(
            url_for_driver(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            pool_use_lifo=True,
            json_deserializer=json_text,
            # Parameters hold values of job variables, and errors are logged.
            hide_parameters=True,
            connect_args={
                "connect_timeout": 5,
                "application_name": "millpond",
                "options": (
                    f"-c timezone=UTC -c statement_timeout={statement_timeout_s}s -c lock_timeout=10s"
                    " -c idle_in_transaction_session_timeout=60s"
                ),
            },
        )

    def run(self, name: str, work: Callable[[Tx], R], *, snapshot: bool = False) -> R:
        """Run `work` in one transaction and commit it.  `work` may run more than once: it must only touch `tx`.

        ``snapshot``: read-only, every statement sees the same moment (REPEATABLE READ).  ``name`` is for messages.
        Raises what `work` raises (and rolls back), `InvalidInput` for values that PostgreSQL cannot store, `Conflict`
        for a broken constraint, `Unavailable` when the database cannot be reached after several tries.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self._run_once(name, work, snapshot=snapshot)
            except _CommitLost as lost:
                if self._committed(lost.mark):
                    return lost.result  # type: ignore[no-any-return]
            except exc.DBAPIError as error:
                if not _again(error):
                    raise _translate(name, error) from error
                if attempt == ATTEMPTS - 1:
                    raise _unavailable(name, error) from error
            except (UnicodeEncodeError, exc.TimeoutError) as error:
                raise _translate_other(name, error) from error
            time.sleep(_PAUSE_S * (1 << attempt))
        raise Unavailable(f"{name}: the database lost the connection each time it should commit")

    def _run_once(self, name: str, work: Callable[[Tx], R], *, snapshot: bool) -> R:
        with self._engine.connect() as connection:
            tx = connection
            if snapshot:
                tx = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            tx.info[_LOCKED] = {}
            tx.info[_TOLD] = set()
            tx.info[_SNAPSHOT] = snapshot
            with tx.begin() as transaction:
                result = work(tx)
                mark = None if snapshot else _mark(tx)
                if mark is None:
                    return result
                try:
                    transaction.commit()
                except exc.DBAPIError as error:
                    if not _lost(error):
                        raise
                    raise _CommitLost(name, mark, result) from error
                return result

    def _committed(self, mark: tuple[str, int]) -> bool:
        """Whether the transaction with that mark was committed.  Waits while the server still works on it."""
        slot, number = mark
        last = self.run("commit check", lambda tx: tx.exec_driver_sql(_MARK_READ, (slot,)).scalar_one())
        return bool(last == number)

    def listen(self, channels: Collection[str]) -> Listener:
        """A `Listener` on these channels, to be used in a ``with``.  It holds a connection of its own."""
        return Listener(url_for_libpq(self.url), channels)

    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A raw connection of one's own, in autocommit: for session locks.  The caller closes it."""
        return psycopg.connect(
            url_for_libpq(self.url), autocommit=True, connect_timeout=5, application_name="millpond-session"
        )

    def ping(self) -> None:
        """Return if the database answers now; `Unavailable` otherwise.  Does not retry."""
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("SELECT 1")
        except exc.SQLAlchemyError as error:
            raise _unavailable("ping", error) from error

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """Collects every statement that runs meanwhile, on any thread, marks of commits apart: for tests that count.

        One that the driver runs once for each row of many stands there as often.
        """
        seen: list[str] = []

        def record(
            _connection: Any, _cursor: Any, statement: str, given: Sequence[Any], _context: Any, executemany: bool
        ) -> None:
            if statement != _MARK_WRITE:
                seen.extend([statement] * (len(given) if executemany else 1))

        event.listen(self._engine, "before_cursor_execute", record)
        try:
            yield seen
        finally:
            event.remove(self._engine, "before_cursor_execute", record)


def notify(tx: Tx, channel: str, payload: str) -> None:
    """Tell listeners of `channel` when this transaction commits.  Equal payloads arrive once."""
    tx.execute(_NOTIFY, {"channel": channel, "payload": payload})


def notify_all(tx: Tx, channel: str, payloads: Iterable[str]) -> None:
    """One statement for many payloads; those that this transaction has told already are not told again."""
    told: set[tuple[str, str]] = tx.info[_TOLD]
    distinct = sorted({payload for payload in payloads if (channel, payload) not in told})
    if distinct:
        told.update((channel, payload) for payload in distinct)
        tx.execute(_NOTIFY_ALL, {"channel": channel, "payloads": distinct})


_NOTIFY = select(func.pg_notify(bindparam("channel", type_=Text), bindparam("payload", type_=Text)))
_NOTIFY_ALL = select(
    func.pg_notify(bindparam("channel", type_=Text), func.unnest(bindparam("payloads", type_=ARRAY(Text)), type_=Text))
)


def rows_locked(tx: Tx, states: Mapping[str, str]) -> None:
    """Remember the rows that this transaction has locked or inserted, with their state (key: id)."""
    tx.info[_LOCKED].update(states)


def rows_check(tx: Tx, states: Mapping[str, str], reachable: Mapping[str, frozenset[str]]) -> None:
    """Guard of whole-row saves: the rows are locked here, and may go from their state to the new one.

    A save of a row that was not locked could undo somebody's change: a bug, so it raises `RuntimeError`.  A step that
    the state machine does not have raises `IllegalTransition`.
    """
    locked: dict[str, str] = tx.info[_LOCKED]
    for key, wanted in states.items():
        current = locked.get(key)
        if current is None:
            raise RuntimeError(f"{key} is saved without having been locked in the same transaction")
        if wanted != current and wanted not in reachable[current]:
            raise IllegalTransition(f"{key} cannot go from {current} to {wanted}")
    locked.update(states)


def snapshot_check(tx: Tx) -> None:
    """Raise unless `tx` was begun with ``snapshot=True``."""
    if not tx.info.get(_SNAPSHOT):
        raise RuntimeError("this read needs one moment: use Database.run(..., snapshot=True)")


class _CommitLost(Exception):
    """The connection broke while committing."""

    def __init__(self, name: str, mark: tuple[str, int], result: Any) -> None:
        super().__init__(name)
        self.mark = mark
        self.result = result


def _mark(tx: Tx) -> tuple[str, int] | None:
    """Leave a mark in a transaction that wrote something: (the connection's slot, a number that counts up in it)."""
    slot = tx.info.setdefault(_SLOT, secrets.token_hex(16))
    number = tx.info.get(_NUMBER, 0) + 1
    tx.info[_NUMBER] = number
    written = tx.exec_driver_sql(_MARK_WRITE, (slot, number)).rowcount
    return (slot, number) if written else None


def _state(error: exc.DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _lost(error: exc.DBAPIError) -> bool:
    state = _state(error)
    if error.connection_invalidated or state in _LOST_STATES or state.startswith("08"):
        return True
    return not state and isinstance(error, exc.OperationalError | exc.InterfaceError)


def _again(error: exc.DBAPIError) -> bool:
    return _state(error) in _RETRY_STATES or _lost(error)


def _unavailable(name: str, error: Exception) -> Unavailable:
    cause = getattr(error, "orig", None) or error
    line = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    return Unavailable(
        f"the database does not answer ({name}): {line[:200]}", hint="millpond db check says more", code="DATABASE"
    )


def _translate(name: str, error: exc.DBAPIError) -> Exception:
    state = _state(error)
    if state.startswith("22") or isinstance(error, exc.DataError):
        return InvalidInput(
            "the database cannot store such a value", hint="look for control characters or huge numbers"
        )
    if state.startswith("23"):
        constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None) or ""
        return Conflict("this does not fit what is stored", details={"constraint": constraint, "while": name})
    if state.startswith("53") or state in _BUSY_STATES:
        return _unavailable(name, error)
    return error


def _translate_other(name: str, error: Exception) -> MillpondError:
    if isinstance(error, UnicodeEncodeError):
        return InvalidInput("the text has characters that cannot be stored", hint="write valid Unicode")
    return _unavailable(name, error)
