"""What the scheduler says: an immutable plan that leaves nothing to choose, and explanations.

``plan_json`` gives the form of scheduling.md §9, keys sorted; lists are in decision order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from millpond.domain.reasons import Reason
from millpond.scheduling.snapshot import Seat


class Rank(IntEnum):
    """Order of claims and running jobs (§2): the smaller number goes first and stays longer."""

    GUARANTEED = 0
    DESERVED = 1
    FAMILY = 2
    BORROWED_PROD = 3
    BORROWED_BATCH = 4
    OPPORTUNISTIC = 5

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(slots=True, init=False, unsafe_hash=True)
class Start:
    """Start `job` on exactly these seats, one a node, in rank order."""

    job: Final[str]
    rank: Final[Rank]
    seats: Final[tuple[Seat, ...]]

    def __init__(
        self,
        job: str,
        rank: Rank,
        seats: tuple[Seat, ...],
    ) -> None:
        self.job = job
        self.rank = rank
        self.seats = seats


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask `job` to leave for `claimant`.  ``why`` is preempt (same leaf), reclaim, or consolidate (it starts again
    elsewhere at once); lost work in milli-card-seconds.

    ``deadline``: in seconds of the snapshot's clock, when it must be gone (decision + grace).
    """

    job: str
    claimant: str
    why: str
    lost: int
    deadline: int
    borrowed: bool = False


@dataclass(frozen=True, slots=True)
class HoldFor:
    """Keep these seats for `job` until it binds or the clock passes ``until``."""

    job: str
    rank: Rank
    seats: tuple[Seat, ...]
    until: int
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """`job` does not start now.  ``position`` is 1-based in its leaf; ``reasons`` are all that bind, never empty."""

    job: str
    position: int
    rank: Rank | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Reservation:
    """The earliest moment at which a blocked job fits, and where (§5): others may not be in its way then.

    ``time`` in seconds of the snapshot's clock; ``seats`` as they would be then, all on cards of ``model``.  ``rank``
    is that of the claim.
    """

    job: str
    model: str
    time: int
    seats: tuple[Seat, ...]
    rank: Rank = field(default=Rank.OPPORTUNISTIC, compare=False)


@dataclass(frozen=True, slots=True)
class Reshape:
    """Divide a card into exactly these slices, (profile, first slot) each, before what starts on it does."""

    node: str
    card: int
    geometry: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The output of one planning pass.  ``drop_holds`` names jobs whose present hold ends with this plan.

    ``reservations``: at most one a card model, made anew by every pass.
    """

    now: int
    start: tuple[Start, ...] = ()
    evict: tuple[Evict, ...] = ()
    hold: tuple[HoldFor, ...] = ()
    wait: tuple[Wait, ...] = ()
    drop_holds: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    reshape: tuple[Reshape, ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """What `check` found wrong with a plan: a stable rule name, the sentence, and the names concerned."""

    rule: str
    text: str
    subjects: tuple[str, ...] = ()


def plan_json(plan: Plan) -> dict[str, object]:
    """The plan as plain values, in the form of scheduling.md §9; ``reserve`` only where something is reserved."""
    value: dict[str, object] = {
        "start": [{"job": s.job, "rank": s.rank.word, "placement": seats_json(s.seats)} for s in plan.start],
        "evict": [{"job": e.job, "for": e.claimant, "why": e.why, "lost_milli_seconds": e.lost} for e in plan.evict],
        "hold": [
            {"for": h.job, "until": h.until - plan.now, **seat_json(seat, milli=False)}
            for h in plan.hold
            for seat in h.seats
        ],
        "wait": [
            {
                "job": w.job,
                "position": w.position,
                "rank": w.rank.word if w.rank is not None else None,
                "reasons": [reason_json(reason, plan.now) for reason in w.reasons],
            }
            for w in plan.wait
        ],
        "reshape": [
            {
                "node": r.node,
                "card": r.card,
                "geometry": [{"slice": profile, "slot": slot} for profile, slot in r.geometry],
            }
            for r in plan.reshape
        ],
    }
    if plan.reservations:
        value["reserve"] = [
            {
                "job": found.job,
                "model": found.model,
                "time": found.time - plan.now,
                "placement": seats_json(found.seats),
            }
            for found in plan.reservations
        ]
    return value


def plan_bytes(plan: Plan) -> bytes:
    """Canonical bytes: equal snapshots give equal bytes."""
    return (json.dumps(plan_json(plan), sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def seats_json(seats: tuple[Seat, ...]) -> list[dict[str, object]]:
    return [seat_json(seat) for seat in seats]


def seat_json(seat: Seat, *, milli: bool = True) -> dict[str, object]:
    value: dict[str, object] = {"node": seat.node, "cards": list(seat.cards)}
    if milli:
        value["milli"] = seat.milli * len(seat.cards)
    if seat.slice:
        value["slice"] = seat.slice
        value["slot"] = seat.slot
    return value


def reason_json(reason: Reason, now: int) -> dict[str, object]:
    """Only the numbers that the code has; deadlines relative to `now`."""
    value: dict[str, object] = {"code": reason.code.value, "text": reason.text}
    for key in ("need", "have", "limit", "free"):
        number = getattr(reason, key)
        if number is not None:
            value[key] = number
    if reason.jobs:
        value["jobs"] = list(reason.jobs)
    if reason.queue:
        value["queue"] = reason.queue
    if reason.until is not None:
        value["until"] = reason.until - now
    return value
