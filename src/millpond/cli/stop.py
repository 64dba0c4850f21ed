"""``millpond stop``, ``hold`` and ``release``."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.cli.lazy import argument, command, option
from millpond.cli.session import Session
from millpond.cli.waiting import jobs_wait
from millpond.domain.amounts import duration_parse
from millpond.domain.jobs import JOB_TERMINAL
from millpond.sdk.answers import Job


@command("stop")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
@option("--grace", metavar="TIME", default=None, help="stop.grace")
@option("--now", is_flag=True, help="stop.now")
@option("-w", "--wait", is_flag=True, help="stop.wait")
def stop(session: Session, jobs: Sequence[str], grace: str | None, now: bool, wait: bool) -> int | None:
    """Cancel jobs: warning, then TERM, then KILL when the grace ends."""
    seconds = 0 if now else duration_parse(grace) if grace else None
    stopped = [session.client.jobs.stop(job, grace=seconds, **session.place) for job in jobs]
    _report(session, stopped, "stop.done", quiet=wait)
    if wait:
        jobs_wait(session, [job["id"] for job in stopped], "ended", None)
    return None


@command("hold")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
def hold(session: Session, jobs: Sequence[str]) -> None:
    """Keep waiting jobs from starting."""
    _report(session, [session.client.jobs.hold(job, **session.place) for job in jobs], "hold.done")


@command("release")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
def release(session: Session, jobs: Sequence[str]) -> None:
    """Let held jobs start again."""
    _report(session, [session.client.jobs.release(job, **session.place) for job in jobs], "release.done")


def _report(session: Session, jobs: Sequence[Job], key: str, *, quiet: bool = False) -> None:
    if session.json:
        if not quiet:
            session.output.items(jobs)
        return
    for job in jobs:
        ended = job["state"] in JOB_TERMINAL
        word = session.texts.word("state", job["state"])
        text = session.texts("stop.ended", name=job["name"], state=word) if ended else ""
        session.output.note(text or session.texts(key, name=job["name"], job=job["id"]))
