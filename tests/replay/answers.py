"""Answers of the API, made by its own schemas, so that a recording cannot differ from what the server sends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from millpond.api.schemas.base import Schema
from millpond.api.schemas.events import Event
from millpond.api.schemas.explanations import Ahead, Counterfactual, Eta, Explanation, Hold, Reason, Reservation
from millpond.api.schemas.identity import TenantRole, Whoami
from millpond.api.schemas.jobs import Attempt, AttemptEvent, Job, JobChange, LogEvent
from millpond.api.schemas.nodes import Card, CardUse, Node, NodeCards
from millpond.api.schemas.placements import Seat
from millpond.api.schemas.queues import Accuracy, PoolJob, PoolView, Queue, QueueAccuracy, QueueTree
from millpond.api.schemas.usage import UsageAlarm, UsageAmount, UsageAttempt, UsageList, UsageOfJob, UsageRow
from millpond.metering.usage import UsageBy

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
JOB_ID = "jagoeedr4oqe6dgcqkxsvpxmsqm"


def at(seconds: int) -> datetime:
    """So many seconds after `NOW` (negative: before)."""
    return NOW + timedelta(seconds=seconds)


def plain(value: Schema) -> Any:
    return value.model_dump(mode="json", by_alias=True)


def job(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "id": JOB_ID,
        "name": "factor-9",
        "tenant": "factor",
        "project": "",
        "user": "chen",
        "queue": "factor/batch",
        "type": "task",
        "state": "queued",
        "queued_as": "ready",
        "priority": 50,
        "nodes": 1,
        "ranks": 1,
        "gpu": "A800:8",
        "milli": 8000,
        "submitted_at": at(-192),
        "started_at": None,
        "finished_at": None,
        "not_before": None,
        "held": False,
        "cancel": False,
        "attempts": 0,
        "retries_spent": 0,
        "checkpointed": False,
        "reason": None,
        "exit_code": None,
        "message": "",
        "blocked": [],
        "placement": [],
        "deadline_at": None,
        "spec": {"type": "task", "name": "factor-9", "commands": ["python mine.py"], "env": ["EPOCHS"]},
    }
    changes.setdefault("queued_as", "ready" if changes.get("state", "queued") == "queued" else None)
    return plain(Job(**{**values, **changes}))


def running(**changes: Any) -> Any:
    return job(
        **{
            "state": "running",
            "attempts": 1,
            "started_at": at(-90),
            "placement": [Seat(node="n1", cards=list(range(8)), milli=1000)],
            **changes,
        }
    )


def ended(state: str = "succeeded", code: int | None = 0, **changes: Any) -> Any:
    reason = {"succeeded": "completed", "failed": "failed", "cancelled": "cancelled"}[state]
    times = {"started_at": at(-90), "finished_at": at(-5)}
    return job(**{"state": state, "attempts": 1, "reason": reason, "exit_code": code, **times, **changes})


def change(value: Any, position: int | None = None, reasons: tuple[Reason, ...] = ()) -> tuple[str, Any]:
    return "job", plain(JobChange(job=Job(**value), position=position, reasons=list(reasons)))


def log(text: str, rank: int = 0, offset: int = 0) -> tuple[str, Any]:
    return "log", plain(LogEvent(rank=rank, offset=offset, text=text))


def end(state: str = "succeeded", code: int | None = 0) -> tuple[str, Any]:
    return "end", plain(AttemptEvent(attempt=f"{JOB_ID}-1", state=state, reason="completed", exit_code=code))


QUEUE_CAP = Reason(
    code="QUEUE_CAP",
    text="factor/batch may use 40 cards and uses 40; this job needs 8",
    need=8000,
    have=40000,
    limit=40000,
    queue="factor/batch",
)


def explanation(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "at": NOW,
        "job": JOB_ID,
        "name": "factor-9",
        "queue": "factor/batch",
        "state": "queued",
        "rank": "deserved",
        "position": 2,
        "pool_position": 3,
        "starts_now": False,
        "eta": at(600),
        "reasons": [
            QUEUE_CAP,
            Reason(code="PREEMPTING", text="2 jobs make room", jobs=["jx1", "jx2"], until=at(15)),
        ],
        "ahead": [
            Ahead(job="jahead", user="wu", tenant="factor", queue="factor/batch", milli=8000, since=at(-3600)),
            Ahead(job="", user="", tenant="", queue="", milli=16000, since=at(-60)),
        ],
        "hold": Hold(placement=[Seat(node="n1", cards=[0, 1, 2, 3], milli=1000)], until=at(60), victims=["jx1"]),
        "reservation": Reservation(at=at(900), placement=[Seat(node="n2", cards=[0, 1, 2, 3], milli=1000)]),
        "forecast": Eta(p10=at(300), p50=at(600), p90=at(2400), made_at=at(-60)),
        "counterfactuals": [
            Counterfactual(change="asking for 4 cards", starts_now=True, kind="amount", value="4", at=NOW),
            Counterfactual(
                change="using the queue factor/prod", starts_now=False, kind="queue", value="factor/prod", at=at(20)
            ),
        ],
        "simulated": True,
    }
    return plain(Explanation(**{**values, **changes}))


def attempt(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "id": f"{JOB_ID}-1",
        "job": JOB_ID,
        "number": 1,
        "state": "ended",
        "placement": [Seat(node="n3", cards=[0, 1, 2, 3, 6], milli=1000)],
        "milli": 5000,
        "planned_at": at(-400),
        "started_at": at(-399),
        "ready_at": at(-399),
        "checkpointed_at": at(-250),
        "draining_at": at(-220),
        "deadline_at": at(-200),
        "drain_reason": "reclaimed",
        "drain_for": "jtrade",
        "ended_at": at(-210),
        "reason": "reclaimed",
        "exit_code": 75,
        "lost_milli_seconds": 50_000,
        "message": "",
    }
    return plain(Attempt(**{**values, **changes}))


def event(kind: str, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "sequence": 1,
        "source": "api",
        "source_sequence": 1,
        "time": at(-192),
        "kind": kind,
        "actor": "chen",
        "tenant": "factor",
        "job": JOB_ID,
        "attempt": "",
        "data": {"queue": "factor/batch", "milli": 8000, "empty": ""},
        "previous": "0" * 64,
        "hash": "1" * 64,
    }
    return plain(Event(**{**values, **changes}))


def node(name: str = "n1", **changes: Any) -> Any:
    cards = NodeCards(model="A800-80GB", vendor="nvidia", memory=81920, count=8, islands=[], mig=False)
    values: dict[str, Any] = {
        "name": name,
        "engine": "local",
        "simulated": True,
        "condition": "ready",
        "cpu": 128_000,
        "memory": 2_097_152,
        "cards": cards,
        "bad_cards": {},
        "used": 8000,
        "used_cpu": 16_500,
        "used_memory": 65_536,
        "jobs": 1,
        "labels": {},
        "taints": [],
        "seen_at": NOW,
    }
    return plain(Node(**{**values, **changes}))


def card(index: int = 0, **changes: Any) -> Any:
    use = CardUse(job=JOB_ID, attempt=f"{JOB_ID}-1", tenant="factor", user="chen", milli=250, draining=False)
    values: dict[str, Any] = {
        "node": "n1",
        "index": index,
        "uuid": "",
        "vendor": "nvidia",
        "model": "A800-80GB",
        "memory": 81920,
        "simulated": True,
        "health": "ok",
        "cause": "",
        "used": 250,
        "uses": [use],
    }
    return plain(Card(**{**values, **changes}))


def queue(name: str, **changes: Any) -> Queue:
    tail = name.rpartition("/")[2]
    values: dict[str, Any] = {
        "name": name,
        "parent": name.rpartition("/")[0],
        "klass": tail if tail in {"prod", "batch", "besteffort"} else None,
        "guarantee": {"cards": 0},
        "deserved": {"cards": 40_000},
        "cap": {"cards": 40_000},
        "used": {"cards": 40_000},
        "pending": 8000,
        "running_jobs": 5,
        "waiting_jobs": 1,
        "lend": True,
        "dequeue": "traverse",
    }
    return Queue(**{**values, **changes})


def tree() -> Any:
    trade = {"guarantee": {"cards": 16_000}, "deserved": {"cards": 16_000}, "cap": {}, "used": {"cards": 0}}
    idle = {"pending": 0, "running_jobs": 0, "waiting_jobs": 0}
    spare = {"deserved": {"cards": 0}, "cap": {"cards": 24_000}, "used": {"cards": 24_000}}
    items = [
        queue("trade", **trade, **idle),
        queue("trade/prod", **trade, **idle),
        queue("factor", cap={}),
        queue("factor/batch"),
        queue("nlp", **{**spare, "cap": {}}, pending=0, running_jobs=3, waiting_jobs=0),
        queue("nlp/besteffort", **spare, pending=0, running_jobs=3, waiting_jobs=0),
    ]
    pool = {"cards": 64_000, "A800-80GB": 64_000}
    return plain(
        QueueTree(
            at=NOW,
            pool=pool,
            used={"cards": 64_000},
            simulated=True,
            items=items,
        )
    )


def pool_job(**changes: Any) -> PoolJob:
    values: dict[str, Any] = {
        "job": JOB_ID,
        "name": "factor-9",
        "tenant": "factor",
        "project": "",
        "user": "chen",
        "queue": "factor/batch",
        "type": "task",
        "state": "queued",
        "rank": "deserved",
        "milli": 8000,
        "gpu": "A800:8",
        "nodes": 1,
        "priority": 50,
        "since": at(-192),
        "position": 1,
        "pool_position": 1,
        "reason": QUEUE_CAP,
        "placed": [],
    }
    return PoolJob(**{**values, **changes})


def hidden(**changes: Any) -> PoolJob:
    """A job of another tenant, as a member sees it."""
    names = {"job": "", "name": "", "tenant": "", "user": "", "queue": "", "gpu": "", "type": None, "priority": None}
    return pool_job(**{**names, **changes})


def pool() -> Any:
    placed = {"state": "running", "position": None, "pool_position": None, "reason": None}
    return plain(
        PoolView(
            at=NOW,
            pool={"cards": 64_000},
            used={"cards": 64_000},
            simulated=True,
            running=[
                pool_job(**placed, name="factor-1", placed=["n1"], since=at(-7200)),
                hidden(**placed, rank="opportunistic", milli=24_000, since=at(-86_400)),
            ],
            waiting=[pool_job(forecast=Eta(p10=at(300), p50=at(600), p90=at(2400), made_at=at(-60)))],
        )
    )


def accuracy() -> Any:
    return plain(
        Accuracy(
            at=NOW,
            since=at(-30 * 86_400),
            items=[
                QueueAccuracy(queue="factor/batch", judged=120, held=97, open=4, median_error=310, median_width=1260),
                QueueAccuracy(queue="factor/prod", judged=0, held=0, open=1, median_error=None, median_width=None),
            ],
        )
    )


def whoami(user: str = "chen") -> Any:
    return plain(Whoami(user=user, platform=None, tenants=[TenantRole(tenant="factor", role="member")], scopes=[]))


def used(hours: str, lost: str = "0.0000", attempts: int = 1, **keys: Any) -> Any:
    """Card time of one group, or of all."""
    made = UsageRow if keys else UsageAmount
    return made(
        milli_card_seconds=round(float(hours) * 3_600_000),
        lost_milli_card_seconds=round(float(lost) * 3_600_000),
        card_hours=hours,
        lost_card_hours=lost,
        attempts=attempts,
        **keys,
    )


def usage(by: str, total: UsageAmount, *rows: UsageRow, counted: bool = True, alarms: int = 0) -> Any:
    return plain(
        UsageList(
            by=UsageBy(by),
            start=datetime(2026, 2, 28, 16, tzinfo=UTC),
            end=datetime(2026, 3, 31, 16, tzinfo=UTC),
            zone="Asia/Shanghai",
            counted_until=at(-30) if counted else None,
            alarms=alarms,
            total=total,
            items=list(rows),
        )
    )


def usage_of_job(*attempts: UsageAttempt, total: UsageAmount) -> Any:
    return plain(
        UsageOfJob(
            job=JOB_ID,
            name="factor-9",
            tenant="factor",
            project="",
            user="chen",
            counted_until=at(-30),
            total=total,
            attempts=list(attempts),
        )
    )


def usage_attempt(number: int, **changes: Any) -> UsageAttempt:
    values: dict[str, Any] = {
        "attempt": number,
        "sku": "A800-80GB",
        "klass": "batch",
        "milli": 8000,
        "started_at": at(-7200),
        "ended_at": at(-3600),
        "reason": "preempted",
        "lost": True,
        "disputed": False,
        "milli_card_seconds": 28_800_000,
        "lost_milli_card_seconds": 3_600_000,
        "card_hours": "8.0000",
        "lost_card_hours": "1.0000",
        "start_event": 3,
        "end_event": 9,
    }
    return UsageAttempt(**{**values, **changes})


def usage_alarm(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "id": "a1",
        "time": at(-3600),
        "code": "OVERLAP",
        "tenant": "factor",
        "job": JOB_ID,
        "attempt": 1,
        "card": "n1/0",
        "text": "n1/0 carries 2000 milli-cards\x1b[2J",
        "raised_at": at(-3590),
    }
    return plain(UsageAlarm(**{**values, **changes}))
