"""``millpond logs`` and ``attach``: output of jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import click

from millpond.cli.follow import Follower
from millpond.cli.lazy import argument, command, option
from millpond.cli.log_writer import LogWriter
from millpond.cli.session import Session
from millpond.sdk.answers import Job, LogText


@command("logs")
@argument("job")
@option("-f", "--follow", is_flag=True, help="logs.follow")
@option("--attempt", type=click.IntRange(1), default=None, help="logs.attempt")
@option("--rank", type=click.IntRange(0), default=None, help="logs.rank")
@option("-n", "--lines", type=click.IntRange(1), default=None, help="logs.lines")
def logs(
    session: Session, job: str, follow: bool, attempt: int | None, rank: int | None, lines: int | None
) -> int | None:
    """What the last attempt wrote; with --follow every attempt, until the job ends."""
    found = session.client.jobs.get(job, **session.place)
    if follow:
        if attempt is not None or rank is not None or lines is not None:
            raise click.UsageError(session.texts("logs.follow_alone"))
        Follower(session, found, offers_stop=False).run()
        return None
    if not found["attempts"]:
        session.output.note(session.texts("logs.none", name=found["name"], job=found["id"]))
        return None
    ranks = range(found["ranks"]) if rank is None else (rank,)
    writer = LogWriter(session.output, len(ranks))
    for number in ranks:
        pieces = session.client.jobs.logs(found["id"], attempt=attempt, rank=number)
        if session.json:
            for piece in pieces:
                session.output.record(piece)
        else:
            _write(writer, number, pieces, lines)
    writer.finish()
    return None


def _write(writer: LogWriter, rank: int, pieces: Iterator[LogText], lines: int | None) -> None:
    if lines is None:
        for piece in pieces:
            writer.write(rank, piece["text"])
        return
    last: deque[str] = deque(maxlen=lines)
    rest = ""
    for piece in pieces:
        *complete, rest = (rest + piece["text"]).split("\n")
        last.extend(line + "\n" for line in complete)
    if rest:
        last.append(rest)
    writer.write(rank, "".join(last))


@command("attach")
@argument("job")
def attach(session: Session, job: str) -> int:
    """Output from now on; Ctrl-C detaches, the job goes on."""
    found: Job = session.client.jobs.get(job, **session.place)
    hello = "" if session.json else session.texts("attach.hello", name=found["name"])
    return Follower(session, found, offers_stop=False, tail=True, hello=hello).run()
