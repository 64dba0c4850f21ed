"""What cards did, for the audit of a period: who had them, and when they could not be used.  Platform only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.session import Tx
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.events import EVENTS
from millpond.db.tables.usage import USAGE_BUCKETS
from millpond.domain.amounts import CARD
from millpond.metering.facts import MICRO
from millpond.metering.hours import instant
from millpond.metering.occupancy import Down, Taken

_DOWN = ("node.lost", "card.quarantined")
_UP = ("node.repaired", "card.repaired")
_AT_ONCE = 2_000
_HOUR = timedelta(hours=1)


def cards_taken(tx: Tx, actor: Actor, start: datetime, end: datetime, now: datetime) -> Iterator[Taken]:
    """Shares of cards (``node/index``) that attempts had within [start, end); open ones until `now`."""
    authorize(actor, Action.REPORT_READ)
    made = ATTEMPTS.c
    statement = select(made.seats, made.started_at, made.ended_at).where(
        made.started_at < end, or_(made.ended_at.is_(None), made.ended_at > start)
    )
    for seats, started, ended in tx.execute(statement, execution_options={"yield_per": _AT_ONCE}):
        low, high = instant(started), instant(now if ended is None else ended)
        for seat in seats:
            for card in seat.cards:
                yield Taken(f"{seat.node}/{card}", low, high, min(MICRO, seat.milli * MICRO // CARD))


def cards_down(tx: Tx, actor: Actor, cards: Mapping[str, int], end: datetime) -> Iterator[Down]:
    """When cards could not be used, up to `end`, by the event log.  ``cards``: node → how many cards it has."""
    authorize(actor, Action.REPORT_READ)
    seen = EVENTS.c
    statement = (
        select(seen.kind, seen.time, seen.data)
        .where(seen.kind.in_((*_DOWN, *_UP)), seen.time < end)
        .order_by(seen.sequence)
    )
    since: dict[tuple[str, int | None], int] = {}
    for kind, time, data in tx.execute(statement):
        place = (str(data.get("node", "")), data.get("card") if kind.startswith("card.") else None)
        if kind in _DOWN:
            since.setdefault(place, instant(time))
        elif place in since:
            yield from _downs(place, since.pop(place), instant(time), cards)
    for place, begin in since.items():
        yield from _downs(place, begin, instant(end), cards)


def platform_began(tx: Tx, actor: Actor) -> datetime | None:
    """The first event of all; ``None`` while there is none."""
    authorize(actor, Action.REPORT_READ)
    first: datetime | None = tx.execute(select(EVENTS.c.time).order_by(EVENTS.c.sequence).limit(1)).scalar()
    return first


def metered_sum(tx: Tx, actor: Actor, start: datetime, end: datetime) -> int:
    """Milli-card-seconds that the meter has counted for [start, end), by when they happened: its hours are whole."""
    authorize(actor, Action.REPORT_READ)
    found = tx.execute(
        select(func.coalesce(func.sum(USAGE_BUCKETS.c.milli_seconds), 0)).where(
            USAGE_BUCKETS.c.hour > start - _HOUR, USAGE_BUCKETS.c.hour < end
        )
    ).scalar_one()
    return int(found)


def _downs(place: tuple[str, int | None], start: int, end: int, cards: Mapping[str, int]) -> Iterator[Down]:
    node, card = place
    for index in (card,) if card is not None else range(cards.get(node, 0)):
        yield Down(f"{node}/{index}", start, end)
