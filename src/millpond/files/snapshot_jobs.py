"""The ``jobs`` of a snapshot file, and its clock (scheduling §9)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from millpond.domain.amounts import cpu_parse, duration_parse, memory_parse
from millpond.domain.cards import card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.names import label_parse, user_parse
from millpond.domain.queues import QueueConfig
from millpond.domain.reasons import Code
from millpond.files.fields import (
    Fields,
    boolean_parse,
    choice_parse,
    datetime_parse,
    duration_between,
    integer_between,
    listing_read,
    text_parse,
)
from millpond.files.seats import Wish, wishes_read
from millpond.files.tree import Node
from millpond.scheduling.snapshot import Job, RunState

JOB_KEYS = (
    "id", "queue", "gpu", "nodes", "cpu", "memory", "priority", "preemptible", "state", "submitted", "started",
    "checkpointed", "at", "max_duration", "duration", "user", "name", "topology", "grace", "drain", "saves_on_signal",
    "checkpoint_every", "until", "service", "blocked",
)  # fmt: skip
MAX_JOBS = 200_000
DECADE = 10 * 365 * 86_400

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_RELATIVE = re.compile(r"([+-]?)\s*([0-9wdhms]+)\Z")


@dataclass(frozen=True, slots=True)
class Clock:
    """``now`` in seconds.  ``absolute``: the file says when now is, so ISO times mean something."""

    now: int
    zone: tzinfo
    absolute: bool

    def parse(self, text: str) -> int:
        """ISO 8601, seconds relative to now (``-120``, ``+3600``), or a duration (``8h``)."""
        match = _RELATIVE.match(text.strip())
        if match is not None:
            seconds = duration_parse(match.group(2))
            return self.now + (-seconds if match.group(1) == "-" else seconds)
        moment = datetime_parse(text)
        if not self.absolute:
            raise InvalidInput(f"{text!r} needs a now to compare with", hint="add now: at the top, or write -120")
        moment = moment if moment.tzinfo else moment.replace(tzinfo=self.zone)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job of the file, not seated yet.  ``places`` is None for a job that does not run."""

    job: Job
    places: tuple[Wish, ...] | None
    duration: int | None
    drain: int | None


def job_entries_parse(node: Node, queues: tuple[QueueConfig, ...], clock: Clock, grace: int) -> tuple[JobEntry, ...]:
    """Jobs with distinct ids in known leaves, in the order of the file."""
    by_name = {queue.name: queue for queue in queues}
    inner = {name.rpartition("/")[0] for name in by_name} | {queue.name for queue in queues if not queue.leaf}
    lines: dict[str, int] = {}
    entries = []
    for fields in listing_read(node, lambda item: Fields(item, JOB_KEYS, "a job"), MAX_JOBS):
        entry = _entry(fields, by_name, inner, clock, grace)
        where = fields.entry("id").value.pos
        if entry.job.id in lines:
            raise InvalidInput(
                f"the job id {entry.job.id} is written twice, first in line {lines[entry.job.id]}",
                hint="give each job its own id",
                position=where,
            )
        lines[entry.job.id] = where.line
        entries.append(entry)
    return tuple(entries)


def _entry(fields: Fields, queues: dict[str, QueueConfig], inner: set[str], clock: Clock, grace: int) -> JobEntry:
    job_id = fields.required("id", _id, "f1")
    klass = _leaf(fields, queues, inner)
    state = RunState(fields.value("state", choice_parse(RunState), RunState.QUEUED.value))
    submitted, started, checkpointed = _times(fields, state, clock)
    topology = fields.node("topology")
    wish = None if topology is None else Fields(topology, ("require", "prefer"), "topology")
    seconds = duration_between(0, DECADE)
    job_grace = fields.value("grace", seconds, grace)
    job = Job(
        id=job_id,
        queue=fields.required("queue", str, "team/batch"),
        gpu=fields.value("gpu", card_request_parse, Job("", "").gpu),
        nodes=fields.value("nodes", integer_between("number of nodes", 1, 4096), 1),
        cpu=fields.value("cpu", cpu_parse, 0),
        memory=fields.value("memory", memory_parse, 0),
        priority=fields.value("priority", integer_between("priority", 0, 100), 50),
        preemptible=fields.value("preemptible", boolean_parse, klass is not QueueClass.PROD),
        submitted=submitted,
        state=state,
        started=started,
        checkpointed=checkpointed,
        max_duration=fields.optional("max_duration", duration_between(1, DECADE)),
        grace=job_grace,
        saves_on_signal=fields.value("saves_on_signal", boolean_parse, False),
        until=_until(fields, state, clock, job_grace),
        user=fields.value("user", user_parse, ""),
        name=fields.value("name", text_parse(63, "name"), ""),
        service=fields.value("service", boolean_parse, False),
        require="" if wish is None else wish.value("require", _level, ""),
        prefer="" if wish is None else wish.value("prefer", _level, ""),
        checkpoint_every=fields.optional("checkpoint_every", duration_between(1, DECADE)),
        blocked_by=_blocked(fields),
    )
    return JobEntry(
        job, _places(fields, state), fields.optional("duration", seconds), fields.optional("drain", seconds)
    )


def _leaf(fields: Fields, queues: dict[str, QueueConfig], inner: set[str]) -> QueueClass | None:
    name = fields.required("queue", str, "team/batch")
    queue = queues.get(name)
    if queue is not None and queue.leaf:
        return queue.klass
    leaves = sorted(leaf for leaf, config in queues.items() if config.leaf)
    near = [leaf for leaf in leaves if leaf.startswith(f"{name}/")] or leaves
    shown = ", ".join(near[:8]) + (", …" if len(near) > 8 else "")
    what = f"{name} is not a leaf, so it takes no jobs" if name in inner else f"there is no queue {name[:80]!r}"
    raise InvalidInput(what, hint=f"leaves are {shown}" if shown else "", position=fields.entry("queue").value.pos)


def _times(fields: Fields, state: RunState, clock: Clock) -> tuple[int, int | None, int | None]:
    """Submitted, started, checkpointed, in this order in time; a running job defaults to having just started."""
    started, checkpointed = fields.optional("started", clock.parse), fields.optional("checkpointed", clock.parse)
    if state is RunState.QUEUED:
        submitted = fields.value("submitted", clock.parse, clock.now)
        for key in ("started", "checkpointed", "until", "at"):
            if key in fields:
                raise InvalidInput(
                    f"a queued job has no {key}",
                    hint="add state: running, or remove it",
                    position=fields.entry(key).pos,
                )
        return submitted, None, None
    submitted = fields.value("submitted", clock.parse, clock.now if started is None else started)
    started = submitted if started is None else started
    order = {
        "submitted": submitted,
        "started": started,
        "checkpointed": started if checkpointed is None else checkpointed,
    }
    previous, before = "", submitted
    for key, moment in order.items():
        if key not in fields:
            continue
        where = fields.entry(key).value.pos
        if moment > clock.now:
            raise InvalidInput(f"a {state} job cannot have {key} after now", position=where)
        if moment < before:
            raise InvalidInput(f"{key} lies before {previous}", hint="an earlier time is smaller: -120", position=where)
        previous, before = key, moment
    return submitted, started, checkpointed


def _until(fields: Fields, state: RunState, clock: Clock, grace: int) -> int | None:
    if state is not RunState.DRAINING:
        if "until" in fields:
            raise InvalidInput(
                "only a draining job has until", hint="add state: draining", position=fields.entry("until").pos
            )
        return None
    return fields.value("until", clock.parse, clock.now + grace)


def _places(fields: Fields, state: RunState) -> tuple[Wish, ...] | None:
    if state is RunState.QUEUED:
        return None
    return wishes_read(fields.required_node("at", "[n1]"))


def _blocked(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Reasons that are not the scheduler's to judge: ``[{code: HELD, text: held by li4}]``."""

    def read(node: Node) -> tuple[str, str]:
        block = Fields(node, ("code", "text"), "a reason")
        code = block.required("code", choice_parse(Code), "HELD")
        return code, block.value("text", text_parse(500, "text"), code.lower())

    return fields.items("blocked", read, 20)


def _id(text: str) -> str:
    if not _ID.match(text):
        raise InvalidInput(f"{text[:80]!r} is not a job id", hint="use letters, digits and . _ -")
    return text


def _level(text: str) -> str:
    return label_parse(text, "topology level")
