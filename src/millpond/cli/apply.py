"""``millpond apply``: submit the job in a file."""

from __future__ import annotations

from millpond.cli.follow import Follower
from millpond.cli.job_input import job_body, job_file_read
from millpond.cli.lazy import argument, command, option
from millpond.cli.session import Session
from millpond.cli.waiting import jobs_wait


@command("apply")
@argument("file")
@option("-f", "--follow", is_flag=True, help="apply.follow")
@option("-w", "--wait", is_flag=True, help="apply.wait")
@option("--key", default="", metavar="KEY", help="apply.key")
def apply(session: Session, file: str, follow: bool, wait: bool, key: str) -> int | None:
    """Prints the id; with --follow as `run`, with --wait until it ends."""
    spec = job_file_read(session, file)
    job = session.client.jobs.submit(job_body(session, spec), key)
    if follow:
        return Follower(session, job, offers_stop=True).run()
    if session.json and not wait:
        session.output.data(job)
    elif not session.json:
        session.output.line(job["id"])
        session.output.note(session.texts("run.submitted", name=job["name"], queue=job["queue"]))
    return jobs_wait(session, [job["id"]], "ended", None) if wait else None
