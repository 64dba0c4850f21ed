"""Waiting for jobs without their output."""

from __future__ import annotations

import time
from collections.abc import Sequence

from millpond.cli.errors import Exit
from millpond.cli.follow import TERMINAL, job_exit
from millpond.cli.merge import Merged
from millpond.cli.session import Session
from millpond.sdk.answers import Job, JobChange

GOALS = ("ended", "started")


def jobs_wait(session: Session, jobs: Sequence[str], goal: str, timeout: int | None) -> int:
    """Wait until every job has reached the `goal`; the worst exit code of them all.

    Exit code 1 when `timeout` seconds pass first.
    """
    merged = Merged(*(session.client.jobs.watch(job, **session.place) for job in jobs))
    deadline = None if timeout is None else time.monotonic() + timeout
    reached: dict[int, Job] = {}
    while len(reached) < len(jobs):
        left = None if deadline is None else deadline - time.monotonic()
        item = merged.next(left) if left is None or left > 0 else None
        if item is None:
            session.output.note(session.texts("wait.timeout"))
            return Exit.JOB_FAILED
        if item.error is not None:
            raise item.error
        if item.done:
            continue
        change: JobChange = item.value
        if item.source not in reached and _reached(change["job"], goal):
            reached[item.source] = change["job"]
            _told(session, change["job"])
    if session.json:
        session.output.items([reached[number] for number in sorted(reached)])
    return max((job_exit(job) for job in reached.values()), default=Exit.OK)


def _reached(job: Job, goal: str) -> bool:
    return job["state"] in TERMINAL or (goal == "started" and job["state"] == "running")


def _told(session: Session, job: Job) -> None:
    if not session.json:
        word = session.texts.word("state", job["state"])
        session.output.note(session.texts("wait.reached", name=job["name"], state=word))
