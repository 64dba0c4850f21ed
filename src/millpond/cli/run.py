"""``millpond run``: submit a job and stay with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millpond.cli.follow import Follower
from millpond.cli.job_input import job_body, job_from_command_line, job_options
from millpond.cli.lazy import argument, command, option
from millpond.cli.session import Session


@command("run", trailing=True)
@argument("words", nargs=-1, metavar="[FILE]")
@job_options
@option("-d", "--detach", is_flag=True, help="run.detach_option")
def run(session: Session, words: Sequence[str], detach: bool, **flags: Any) -> int | None:
    """From a file or from flags; follows the output and exits as the job does."""
    spec = job_from_command_line(session, words, flags)
    job = session.client.jobs.submit(job_body(session, spec))
    if detach:
        if session.json:
            session.output.data(job)
        else:
            session.output.line(job["id"])
            session.output.note(session.texts("run.submitted", name=job["name"], queue=job["queue"]))
        return None
    hello = "" if session.json else session.texts("run.submitted", name=job["name"], queue=job["queue"])
    return Follower(session, job, offers_stop=True, hello=hello).run()
