"""Snapshot files (scheduling §9): the whole world in one YAML file, for ``plan``, ``simulate`` and tests.

Times in a file are ISO 8601 or relative to ``now``; in the snapshot they are seconds of one clock, Unix time when
``now`` is given and 0 = now when it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeVar

from millpond.domain.errors import InvalidInput, Position
from millpond.domain.queues import QueueConfig
from millpond.files.fields import (
    Fields,
    boolean_parse,
    datetime_parse,
    duration_between,
    integer_between,
    listing_read,
    scalar_read,
)
from millpond.files.nodes import NODE_KEYS, STATE_KEYS, index_reader, node_entries_parse
from millpond.files.overrides import Override, tree_override
from millpond.files.queues import pool_of, queues_checked, queues_parse
from millpond.files.seats import Floor, Wish, wish_read
from millpond.files.snapshot_jobs import Clock, job_entries_parse
from millpond.files.snapshot_text import snapshot_write
from millpond.files.tree import SNAPSHOT_FILE_LIMIT, Node, tree_from_yaml
from millpond.files.tree import Mapping as TreeMapping
from millpond.scheduling.mix import demand_parse
from millpond.scheduling.snapshot import (
    Hold,
    Job,
    NodeState,
    PastEviction,
    RunState,
    Seat,
    Settings,
    Snapshot,
)
from millpond.simulation.jobs import Work

__all__ = ["SnapshotFile", "Work", "snapshot_load", "snapshot_read", "snapshot_write"]

T = TypeVar("T")

TOP_KEYS = ("now", "settings", "nodes", "queues", "jobs", "holds", "evictions", "mix")
HOLD_KEYS = ("for", "node", "cards", "milli", "slice", "slot", "until", "victims")
DECADE = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file, understood.  ``arrivals`` are the jobs submitted after now; ``work`` is keyed by job id.

    ``zone`` is that of the file's ``now``, for showing times; ``warnings`` are about the queues.
    """

    snapshot: Snapshot
    arrivals: tuple[Job, ...] = ()
    work: Mapping[str, Work] = field(default_factory=dict)
    zone: tzinfo = UTC
    warnings: tuple[str, ...] = ()


def snapshot_load(text: str, source: str, overrides: Sequence[Override] = ()) -> SnapshotFile:
    """The snapshot in a file's text, with what-if changes made.  Raises `InvalidInput` naming line, column and key."""
    return snapshot_read(tree_from_yaml(text, source, SNAPSHOT_FILE_LIMIT), overrides)


def snapshot_read(tree: Node, overrides: Sequence[Override] = ()) -> SnapshotFile:
    """As `snapshot_load`, of a file's tree, so that several variants need not be parsed anew."""
    fields = Fields(tree_override(tree, overrides), TOP_KEYS, "a snapshot")
    clock = _clock(fields)
    settings, grace, drain = _settings(fields.node("settings"))
    nodes = _nodes(fields.required_node("nodes", "[{name: n1, cards: {model: A800-80GB, count: 8}}]"))
    queue_node = fields.required_node("queues", "[{name: team/batch, class: batch}]")
    queues = queues_parse(queue_node)
    warnings = queues_checked(queues, pool_of(tuple(node.spec for node in nodes)), queue_node)
    jobs_node = fields.node("jobs")
    entries = () if jobs_node is None else job_entries_parse(jobs_node, queues, clock, grace)
    floor = Floor({node.spec.name: node for node in nodes})
    seated = floor.seat_all(
        {entry.job.id: entry.job for entry in entries},
        {entry.job.id: entry.places for entry in entries if entry.places is not None},
    )
    present = tuple(job for job in seated.values() if job.submitted <= clock.now)
    holds_node, evictions_node, mix_node = fields.node("holds"), fields.node("evictions"), fields.node("mix")
    snapshot = Snapshot(
        now=clock.now,
        nodes=nodes,
        queues=queues,
        jobs=present,
        holds=() if holds_node is None else _holds(holds_node, present, floor, clock, settings),
        evictions=() if evictions_node is None else _evictions(evictions_node, queues, clock),
        settings=settings,
        mix={} if mix_node is None else _mix(mix_node),
    )
    return SnapshotFile(
        snapshot=snapshot,
        arrivals=tuple(job for job in seated.values() if job.submitted > clock.now),
        work={entry.job.id: Work(entry.duration, drain if entry.drain is None else entry.drain) for entry in entries},
        zone=clock.zone,
        warnings=tuple(warnings),
    )


def _clock(fields: Fields) -> Clock:
    moment = fields.optional("now", datetime_parse)
    if moment is None:
        return Clock(0, UTC, absolute=False)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    offset = moment.utcoffset() or timedelta(0)
    zone = moment.tzinfo or UTC
    return Clock(_unix(moment), zone if offset else UTC, absolute=True)


def _unix(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def _settings(node: Node | None) -> tuple[Settings, int, int]:
    """Settings, and the grace and drain of jobs that name none."""
    if node is None:
        return Settings(), 20, 0
    names = ("min_runtime", "cooldown", "hold_timeout", "lost_work_cap", "consolidate_after", "assumed_limit",
             "reserve_after", "regroup_after", "hold_back", "hold_back_for")  # fmt: skip
    fields = Fields(node, (*names, "grace", "drain"), "settings")
    seconds = duration_between(0, DECADE)
    default = Settings()
    settings = Settings(
        min_runtime=fields.value("min_runtime", seconds, default.min_runtime),
        cooldown=fields.value("cooldown", seconds, default.cooldown),
        hold_timeout=fields.value("hold_timeout", seconds, default.hold_timeout),
        lost_work_cap=fields.value("lost_work_cap", seconds, default.lost_work_cap),
        consolidate_after=fields.optional("consolidate_after", seconds),
        assumed_limit=fields.value("assumed_limit", seconds, default.assumed_limit),
        reserve_after=fields.value("reserve_after", seconds, default.reserve_after),
        regroup_after=fields.optional("regroup_after", seconds),
        hold_back=fields.value("hold_back", integer_between("number of jobs", 0, 100_000), default.hold_back),
        hold_back_for=fields.value("hold_back_for", seconds, default.hold_back_for),
    )
    return settings, fields.value("grace", seconds, 20), fields.value("drain", seconds, 0)


def _nodes(node: Node) -> tuple[NodeState, ...]:
    states = []
    for spec, fields in node_entries_parse(node, NODE_KEYS + STATE_KEYS):
        count = spec.cards.count if spec.cards else 0
        states.append(
            NodeState(
                spec=spec,
                cordoned=fields.value("cordoned", boolean_parse, False),
                draining=fields.value("draining", boolean_parse, False),
                lost=fields.value("lost", boolean_parse, False),
                bad_cards=frozenset(fields.items("bad_cards", index_reader(count), count)),
            )
        )
    return tuple(states)


def _holds(node: Node, jobs: tuple[Job, ...], floor: Floor, clock: Clock, settings: Settings) -> tuple[Hold, ...]:
    """One hold per job: entries of the same job are its nodes.  Victims default to who drains on those cards."""
    by_id = {job.id: job for job in jobs}
    holds: dict[str, Hold] = {}
    for entry in listing_read(node, lambda item: Fields(item, HOLD_KEYS, "a hold"), 10_000):
        name = entry.required("for", str, "t1")
        job = by_id.get(name)
        if job is None or job.state is RunState.RUNNING:
            raise InvalidInput(
                f"there is no queued job {name[:80]!r} to hold cards for", position=entry.entry("for").value.pos
            )
        place = _hold_place(entry)
        seat = floor.seat_named(job, place, take=False)
        victims = _victims(entry, seat, by_id)
        if job.state is RunState.DRAINING and name not in victims:
            hint = "a job that moves to other cards is among the victims itself"
            text = f"{name[:80]!r} is leaving, and what is held for it does not await that"
            raise InvalidInput(text, hint=hint, position=entry.entry("for").value.pos)
        last = max((by_id[victim].until or clock.now for victim in victims), default=clock.now)
        until = entry.value("until", clock.parse, last + settings.hold_timeout)
        before = holds.get(name, Hold(name, (), until))
        if seat.node in {other.node for other in before.seats} and not seat.slice:
            raise InvalidInput(f"{name} already holds cards on {seat.node}", position=place.pos)
        holds[name] = Hold(
            name,
            (*before.seats, seat),
            max(until, before.until),
            (*before.victims, *(victim for victim in victims if victim not in before.victims)),
        )
    return tuple(holds.values())


def _hold_place(entry: Fields) -> Wish:
    node = entry.required_node("node", "n1")
    entry.required_node("cards", "[0, 1]")
    keys = [entry.entry(key) for key in ("node", "cards", "milli", "slice", "slot") if key in entry]
    return replace(wish_read(TreeMapping(tuple(keys), entry.pos)), pos=node.pos)


def _victims(entry: Fields, seat: Seat, jobs: Mapping[str, Job]) -> tuple[str, ...]:
    named = entry.items("victims", lambda item: (scalar_read(item, str), item.pos), 10_000)
    for victim, pos in named:
        if victim not in jobs:
            raise InvalidInput(f"there is no job {victim[:80]!r}", position=pos)
    if "victims" in entry:
        return tuple(victim for victim, _ in named)
    cards = {(seat.node, card) for card in seat.cards}
    return tuple(
        sorted(
            job.id
            for job in jobs.values()
            if job.state is RunState.DRAINING and any((s.node, card) in cards for s in job.seats for card in s.cards)
        )
    )


def _evictions(node: Node, queues: tuple[QueueConfig, ...], clock: Clock) -> tuple[PastEviction, ...]:
    leaves = {queue.name for queue in queues if queue.leaf}

    def read(item: Node) -> PastEviction:
        fields = Fields(item, ("claimant", "victim", "time", "borrowed"), "an eviction")
        for key in ("claimant", "victim"):
            leaf = fields.required(key, str, "team/batch")
            if leaf not in leaves:
                raise InvalidInput(f"there is no leaf {leaf[:80]!r}", position=fields.entry(key).value.pos)
        time = fields.required("time", clock.parse, "-30")
        if time > clock.now:
            raise InvalidInput("the eviction lies in the future", position=fields.entry("time").value.pos)
        return PastEviction(
            fields.required("claimant", str, ""),
            fields.required("victim", str, ""),
            time,
            fields.value("borrowed", boolean_parse, True),
        )

    return listing_read(node, read, 100_000)


def _mix(node: Node) -> dict[str, int]:
    """Recent requests, with milli-CPU where they ask for it, and how often: ``{A800:8 cpu=96000: 12}``."""
    if not isinstance(node, TreeMapping):
        raise InvalidInput("expected a mix as a block of keys", hint='write {"A800:8": 12}', position=node.pos)
    counts: dict[str, int] = {}
    for entry in node.entries:
        _placed(entry.pos, demand_parse, entry.key)
        counts[entry.key] = scalar_read(entry.value, integer_between("number of requests", 0, 10**9))
    return counts


def _placed(pos: Position, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except InvalidInput as error:
        raise error.at(pos) from error
