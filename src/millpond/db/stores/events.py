"""The event log: append, read, verify.

Each source has a hash chain of its own: an event's hash is SHA-256 over the canonical JSON of its fields and the hash
before it.  Appends happen one after the other until their transactions end, so append last in a transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.db.session import Tx
from millpond.db.stores.rows import columns_of, fields_of, insert_many, limit_check, rows_text
from millpond.db.tables.events import EVENT_HEADS, EVENTS
from millpond.domain.errors import InvalidInput, Unavailable
from millpond.domain.records import EventRecord, Page

EVENT_COLUMNS = columns_of(EVENTS, EventRecord)
_FIELDS = tuple(name for name in fields_of(EventRecord) if name != "sequence")
_INSERT = insert_many(EVENTS, _FIELDS, order="source_sequence")
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
_PROBLEMS = 100
_BATCH = 2_000


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What happened.  ``time`` is the moment of the cause; ``data`` is plain JSON without fractions."""

    kind: str
    time: datetime
    actor: str
    tenant: str = ""
    job: str = ""
    attempt: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


def events_append(tx: Tx, source: str, events: Sequence[NewEvent]) -> None:
    """Append to the chain of `source`, in this transaction.  Not authorized: an event records what was allowed.

    Raises `ValueError` for data that would not come back as it went in (fractions, keys that are not text).
    """
    if not events:
        return
    if not source:
        raise InvalidInput("a source of events has a name")
    sequence, previous = _head_lock(tx, source)
    rows: list[dict[str, object]] = []
    for event in events:
        sequence += 1
        row: dict[str, object] = {
            "source": source,
            "source_sequence": sequence,
            "time": event.time.astimezone(UTC),
            "kind": event.kind,
            "actor": event.actor,
            "tenant": event.tenant,
            "job": event.job,
            "attempt": event.attempt,
            "data": _plain(event.data, event.kind),
            "previous": previous,
        }
        previous = event_hash(row)
        rows.append({**row, "hash": previous})
    tx.execute(_INSERT, rows_text(tx, EVENTS, _FIELDS, map(itemgetter(*_FIELDS), rows)))
    tx.execute(update(EVENT_HEADS).where(EVENT_HEADS.c.source == source).values(sequence=sequence, hash=previous))


def _head_lock(tx: Tx, source: str) -> tuple[int, str]:
    """Lock the whole log for appending, and read the head of `source`."""
    for _ in range(2):
        rows = {row.source: row for row in tx.execute(_HEADS, {"sources": ["", source]})}
        if len(rows) == 2:
            return int(rows[source].sequence), str(rows[source].hash)
        heads = [{"source": name, "sequence": 0, "hash": ""} for name in ("", source)]
        tx.execute(upsert(EVENT_HEADS).on_conflict_do_nothing(), heads)
    raise Unavailable("the heads of the event log cannot be locked")


def event_list(
    tx: Tx, actor: Actor, after: int = 0, limit: int = 100, tenant: str = "", job: str = ""
) -> Page[EventRecord]:
    """Events after a sequence number, the oldest first; of one tenant or job if named.  ``next`` is the last sequence.

    A job's events go with the right to read the job; all others need ``event.read``.
    """
    limit_check(limit)
    action = Action.JOB_READ if job else Action.EVENT_READ
    visible = tenants_visible(actor, action)
    statement = select(*EVENT_COLUMNS).where(EVENTS.c.sequence > after)
    if tenant:
        authorize(actor, action, tenant)
        statement = statement.where(EVENTS.c.tenant == tenant)
    elif visible is not None:
        statement = statement.where(EVENTS.c.tenant.in_(sorted(visible)))
    if job:
        statement = statement.where(EVENTS.c.job == job)
    rows = tx.execute(statement.order_by(EVENTS.c.sequence).limit(limit + 1)).all()
    records = tuple(EventRecord(*row) for row in rows)
    if len(records) <= limit:
        return Page(records)
    return Page(records[:limit], str(records[limit - 1].sequence))


def chain_verify(tx: Tx, actor: Actor) -> list[str]:
    """What is wrong with the chains, a sentence each (at most 100); empty if every event is as it was written.

    Reads the log in batches.  An end that was cut off shows against the stored heads.
    """
    authorize(actor, Action.EVENT_READ)
    heads = {
        source: (int(sequence), digest)
        for source, sequence, digest in tx.execute(
            select(EVENT_HEADS.c.source, EVENT_HEADS.c.sequence, EVENT_HEADS.c.hash).where(EVENT_HEADS.c.source != "")
        )
    }
    problems: list[str] = []
    ends: dict[str, tuple[int, str]] = {}
    statement = select(*EVENT_COLUMNS).order_by(EVENTS.c.source, EVENTS.c.source_sequence)
    rows = tx.execute(statement, execution_options={"stream_results": True, "yield_per": _BATCH})
    for row in rows:
        record = EventRecord(*row)
        sequence, digest = ends.get(record.source, (0, ""))
        place = f"event {record.sequence} ({record.source} {record.source_sequence})"
        if record.source_sequence != sequence + 1:
            problems.append(f"{place}: the one before it is missing")
        if record.previous != digest:
            problems.append(f"{place}: does not continue the chain")
        if record.hash != event_hash({name: getattr(record, name) for name in fields_of(EventRecord)}):
            problems.append(f"{place}: was changed after it was written")
        ends[record.source] = (record.source_sequence, record.hash)
        if len(problems) >= _PROBLEMS:
            rows.close()
            return problems[:_PROBLEMS]
    problems.extend(
        f"the chain of {source} does not end where its head says"
        for source in sorted(heads.keys() | ends.keys())
        if heads.get(source, (0, "")) != ends.get(source, (0, ""))
    )
    return problems


def event_hash(values: Mapping[str, object]) -> str:
    """SHA-256 over the canonical JSON of an event's fields and the hash before it, in hex."""
    moment = values["time"]
    if not isinstance(moment, datetime):
        raise TypeError("an event's time is a datetime")
    body = {
        name: values[name]
        for name in ("source", "source_sequence", "kind", "actor", "tenant", "job", "attempt", "data", "previous")
    }
    body["time"] = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(_canonical(body).encode()).hexdigest()


def _plain(value: object, kind: str) -> object:
    """Plain JSON that jsonb gives back unchanged: jsonb would rewrite fractions, and the hash would not match."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError(f"event {kind}: keys are text")
        return {str(key): _plain(item, kind) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, kind) for item in value]
    raise ValueError(f"event {kind}: {type(value).__name__} is not allowed in data")


_HEADS = (
    select(EVENT_HEADS.c.source, EVENT_HEADS.c.sequence, EVENT_HEADS.c.hash)
    .where(EVENT_HEADS.c.source.in_(bindparam("sources", expanding=True)))
    .order_by(EVENT_HEADS.c.source)
    .with_for_update()
)
