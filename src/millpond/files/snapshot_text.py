"""A snapshot as the text of a file (scheduling §9): one node, queue or job a line; loading gives an equal snapshot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime

from millpond.domain.amounts import CARD, memory_format, milli_format
from millpond.domain.cards import CardRequest
from millpond.files.nodes import node_json
from millpond.files.queues import queue_json
from millpond.scheduling.snapshot import Hold, Job, NodeState, RunState, Seat, Settings, Snapshot
from millpond.simulation.jobs import Work

_PLAIN = re.compile(r"(?:[A-Za-z0-9]|[+-][0-9])[A-Za-z0-9_./+-]*\Z")


def snapshot_write(snapshot: Snapshot, arrivals: Sequence[Job] = (), work: Mapping[str, Work] | None = None) -> str:
    """The text of a snapshot file.  Times are relative to its ``now``.  `arrivals` and `work` as in `SnapshotFile`."""
    now = datetime.fromtimestamp(snapshot.now, UTC)
    lines = [f"now: {now.isoformat()}"]
    settings = settings_json(snapshot.settings)
    if settings:
        lines.append(f"settings: {_flow(settings)}")
    lines += _block("nodes", (_node(state) for state in snapshot.nodes))
    lines += _block("queues", (queue_json(queue) for queue in snapshot.queues))
    done = work or {}
    lines += _block("jobs", (_job(job, snapshot.now, done.get(job.id)) for job in (*snapshot.jobs, *arrivals)))
    by_id = {job.id: job for job in snapshot.jobs}
    lines += _block("holds", (item for hold in snapshot.holds for item in _hold(hold, by_id, snapshot.now)))
    lines += _block(
        "evictions",
        (
            {"claimant": e.claimant, "victim": e.victim, "time": e.time - snapshot.now, "borrowed": e.borrowed}
            for e in snapshot.evictions
        ),
    )
    if snapshot.mix:
        lines.append(f"mix: {_flow(snapshot.mix)}")
    return "\n".join(lines) + "\n"


def settings_json(settings: Settings) -> dict[str, object]:
    """What differs from the defaults, in seconds."""
    default = Settings()
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def _block(name: str, items: Iterable[Mapping[str, object]]) -> Iterator[str]:
    lines = [f"  - {_flow(item)}" for item in items]
    yield f"{name}:" if lines else f"{name}: []"
    yield from lines


def _node(state: NodeState) -> dict[str, object]:
    flags: dict[str, object] = {
        "cordoned": state.cordoned,
        "draining": state.draining,
        "lost": state.lost,
        "bad_cards": sorted(state.bad_cards),
    }
    return {**node_json(state.spec), **{key: value for key, value in flags.items() if value}}


def _job(job: Job, now: int, work: Work | None) -> dict[str, object]:
    value: dict[str, object] = {"id": job.id, "queue": job.queue, "gpu": str(job.gpu)}
    optional: dict[str, object] = {
        "nodes": job.nodes if job.nodes != 1 else 0,
        "cpu": milli_format(job.cpu) if job.cpu else "",
        "memory": memory_format(job.memory) if job.memory else "",
        "user": job.user,
        "name": job.name,
        "service": job.service,
        "saves_on_signal": job.saves_on_signal,
        "topology": {k: v for k, v in (("require", job.require), ("prefer", job.prefer)) if v},
        "blocked": [{"code": code, "text": text or code.lower()} for code, text in job.blocked_by],
    }
    value.update({key: item for key, item in optional.items() if item})
    value["priority"] = job.priority
    value["preemptible"] = job.preemptible
    value["submitted"] = job.submitted - now
    value["grace"] = job.grace
    for key in ("max_duration", "checkpoint_every"):
        if getattr(job, key) is not None:
            value[key] = getattr(job, key)
    if work is not None and work.duration is not None:
        value["duration"] = work.duration
    if work is not None and work.drain:
        value["drain"] = work.drain
    if job.state is RunState.QUEUED:
        return value
    value["state"] = job.state.value
    for key in ("started", "checkpointed", "until"):
        if getattr(job, key) is not None:
            value[key] = getattr(job, key) - now
    value["at"] = [_seat(seat, job.gpu) for seat in job.seats]
    return value


def _seat(seat: Seat, request: CardRequest) -> dict[str, object]:
    value: dict[str, object] = {"node": seat.node, "cards": list(seat.cards)}
    if not seat.slice and seat.milli != (request.milli if request.fraction else CARD):
        value["milli"] = seat.milli
    if seat.slice != request.slice:
        value["slice"] = seat.slice
    if seat.slot is not None:
        value["slot"] = seat.slot
    return value


def _hold(hold: Hold, jobs: Mapping[str, Job], now: int) -> Iterator[dict[str, object]]:
    for seat in hold.seats:
        yield {
            "for": hold.job,
            **_seat(seat, jobs[hold.job].gpu),
            "until": hold.until - now,
            "victims": list(hold.victims),
        }


def _flow(value: object) -> str:
    """YAML in one line; words that could be read otherwise are quoted."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.match(text) else json.dumps(text, ensure_ascii=False)
