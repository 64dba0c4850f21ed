"""What the meter has counted: card time by clock hour, attempts, alarms, and what it remembers to go on.

No foreign keys: history outlives what it is about, and names its owners in words.  Only the meter's transaction writes
here, together with how far it has read the event log, so that every event counts once, for ever.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Integer, Table, Text, text

from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Json, Moment, Word
from millpond.domain.jobs import EndReason
from millpond.metering.alarms import AlarmCode


def _owner(*, key: bool) -> list[Column[object]]:
    """Whose card time it is, as texts of that moment."""
    return [
        Column("tenant", Text, primary_key=key, nullable=False),
        Column("job", Text, primary_key=True),
        Column("attempt", Integer, primary_key=True),
        Column("project", Text, primary_key=key, nullable=False),
        Column("username", Text, primary_key=key, nullable=False),
        Column("sku", Text, primary_key=key, nullable=False),
        Column("class", Text, key="klass", primary_key=key, nullable=False),
        Column("service", Boolean, primary_key=key, nullable=False),
    ]


USAGE_BUCKETS = Table(
    "usage_buckets",
    METADATA,
    *_owner(key=True),
    Column("booked", Moment, primary_key=True),
    Column("hour", Moment, primary_key=True),
    Column("milli_seconds", BigInteger, nullable=False),
    Column("lost_milli_seconds", BigInteger, nullable=False),
    CheckConstraint("hour <= booked", name="booked"),
    Index("ix_usage_buckets_tenant_booked", "tenant", "booked"),
    Index("ix_usage_buckets_booked", "booked"),
)
"""``hour`` is when it happened, ``booked`` the hour that carries it: a later one where the first is sealed.

Sums in milli-card-seconds, all use and the lost part of it; negative ones take back what a sealed hour says too much.
"""

ATTEMPT_USAGES = Table(
    "attempt_usages",
    METADATA,
    *_owner(key=False),
    Column("milli", BigInteger, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("reason", Word(EndReason)),
    Column("lost", Boolean, nullable=False, server_default=text("false")),
    Column("disputed", Boolean, nullable=False, server_default=text("false")),
    Column("milli_seconds", BigInteger, nullable=False, server_default=text("0")),
    Column("lost_milli_seconds", BigInteger, nullable=False, server_default=text("0")),
    Column("start_event", BigInteger, nullable=False),
    Column("end_event", BigInteger),
    check_word("reason", EndReason, "reason"),
    CheckConstraint("milli >= 0", name="milli"),
    CheckConstraint("(ended_at IS NULL) = (reason IS NULL)", name="ended"),
    Index("ix_attempt_usages_tenant_started", "tenant", "started_at"),
    Index("ix_attempt_usages_tenant_ended", "tenant", "ended_at"),
)
"""One row an attempt that has started.  ``ended_at`` set: it is over and metered whole."""

METER_ALARMS = Table(
    "meter_alarms",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("time", Moment, nullable=False),
    Column("code", Word(AlarmCode), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("card", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("raised_at", Moment, nullable=False),
    check_word("code", AlarmCode, "code"),
    Index("ix_meter_alarms_time", "time"),
)

METER_STATE = Table(
    "meter_state",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Json(list), nullable=False),
)
"""`metering.state.state_rows`: open attempts and unfinished jobs, a row each."""

METER_MARK = Table(
    "meter_mark",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("cursor", BigInteger, nullable=False),
    Column("settled_until", Moment, nullable=False),
    CheckConstraint("id = 1", name="id"),
    CheckConstraint("cursor >= 0", name="cursor"),
)
"""``cursor``: the last event that was read.  ``settled_until``: up to when open attempts are counted."""
