"""``millpond ps``: jobs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from millpond.cli.lazy import command, option
from millpond.cli.output import Cell, Column
from millpond.cli.places import Places
from millpond.cli.session import Session
from millpond.cli.values import age, cards, job_state, owner
from millpond.domain.jobs import JOB_LIVE, JobState
from millpond.sdk.answers import Job, PoolJob

COLUMNS = (
    Column("name"),
    Column("state"),
    Column("queue"),
    Column("owner"),
    Column("cards", right=True),
    Column("age", right=True),
    Column("where", fold=True),
    Column("id"),
)


@command("ps")
@option("-a", "--all", "ended", is_flag=True, help="ps.all")
@option("-e", "--everyone", is_flag=True, help="ps.everyone")
@option("--user", metavar="NAME", default="", help="ps.user")
@option("--state", "states", multiple=True, type=click.Choice([state.value for state in JobState]), help="ps.state")
@option("--queue", metavar="LEAF", default="", help="ps.queue")
@option("-n", "--limit", type=click.IntRange(1), default=200, show_default=True, help="ps.limit")
def ps(session: Session, ended: bool, everyone: bool, user: str, states: Sequence[str], queue: str, limit: int) -> None:
    """Jobs: mine and live, unless asked for more."""
    client = session.client
    if not user and not everyone:
        user = client.system.whoami()["user"]
    if not states and not ended:
        states = sorted(state.value for state in JOB_LIVE)
    found = client.jobs.list(
        tenant=session.tenant, project=session.project, user=user, states=states, queue=queue, limit=limit + 1
    )
    jobs = list(found)
    if session.json:
        session.output.items(jobs[:limit])
        return
    if not jobs:
        session.output.note(session.texts("ps.empty" if user else "ps.empty_everyone"))
        return
    waiting = _waiting(session, jobs)
    places = Places(session)
    session.output.table(COLUMNS, [_row(session, places, job, waiting.get(job["id"])) for job in jobs[:limit]])
    if len(jobs) > limit:
        session.output.note(session.texts("ps.more", limit=limit))


def _waiting(session: Session, jobs: Sequence[Job]) -> dict[str, PoolJob]:
    """Place and first reason of the jobs that wait; one question for all of them."""
    if not any(job["state"] == JobState.QUEUED for job in jobs):
        return {}
    return {job["job"]: job for job in session.client.queues.pool()["waiting"]}


def _row(session: Session, places: Places, job: Job, waiting: PoolJob | None) -> list[Cell | str]:
    return [
        job["name"],
        job_state(session.texts, job),
        job["queue"],
        owner(job["tenant"], job["user"]),
        cards(job["milli"]),
        age(job["submitted_at"], session.now()),
        _where(session, places, job, waiting),
        job["id"],
    ]


def _where(session: Session, places: Places, job: Job, waiting: PoolJob | None) -> str:
    """Where it sits, why it waits (the first code; `why` has all), or how it ended."""
    if job["placement"]:
        return places.text(job["placement"])
    if waiting is not None and waiting["reason"] is not None:
        place = f"#{waiting['position']} " if waiting["position"] else ""
        return place + waiting["reason"]["code"]
    if job["finished_at"]:
        code = f" ({job['exit_code']})" if job["exit_code"] else ""
        return session.texts.word("end", job["reason"] or "") + code
    return ""
