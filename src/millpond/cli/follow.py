"""Following a job: its output, and what becomes of it, until it ends or the person turns away."""

from __future__ import annotations

import sys

from millpond.cli.errors import Exit, printable
from millpond.cli.log_writer import LogWriter
from millpond.cli.merge import Item, Merged
from millpond.cli.places import Places
from millpond.cli.reasons import reason_short
from millpond.cli.session import Session
from millpond.cli.values import span, until
from millpond.domain.errors import MillpondError
from millpond.domain.jobs import JOB_TERMINAL
from millpond.sdk.answers import Job, JobChange, LogPiece

TERMINAL = frozenset(state.value for state in JOB_TERMINAL)
_CODES = {"succeeded": Exit.OK, "failed": Exit.JOB_FAILED, "cancelled": Exit.CANCELLED}


def job_exit(job: Job) -> int:
    """The exit code that tells how a job ended."""
    return _CODES.get(job["state"], Exit.OK)


class Follower:
    """Output of the job on stdout, its story on stderr.

    `hello` is said first.  `offers_stop`: Ctrl-C asks whether to detach or to stop the job; otherwise it detaches.
    """

    def __init__(self, session: Session, job: Job, *, offers_stop: bool, tail: bool = False, hello: str = "") -> None:
        self._session = session
        self._texts = session.texts
        self._output = session.output
        self._job = job
        self._offers_stop = offers_stop
        self._hello = hello
        self._writer = LogWriter(session.output, job["ranks"])
        self._places = Places(session)
        self._codes: tuple[str, ...] = ()
        self._eta: str | None = None
        client = session.client
        self._merged = Merged(client.jobs.watch(job["id"]), client.jobs.logs_follow(job["id"], tail=tail))
        self._open = {0, 1}

    def run(self) -> int:
        """Follow to the end; the exit code of the job, or 0 when detached."""
        while self._open:
            try:
                self._step()
            except KeyboardInterrupt:
                if self._interrupted():
                    return Exit.OK
        self._writer.finish()
        self._ended()
        return job_exit(self._job)

    def _step(self) -> None:
        if self._hello:
            hello, self._hello = self._hello, ""
            self._output.note(hello, "dim")
        item = self._merged.next()
        if item is not None:
            self._take(item)

    def _take(self, item: Item) -> None:
        if item.error is not None:
            raise item.error
        if item.done:
            self._open.discard(item.source)
        elif item.source == 0:
            self._change(item.value)
        else:
            self._piece(item.value)

    def _piece(self, piece: LogPiece) -> None:
        if self._session.json:
            self._output.record({"event": piece["kind"], **piece})
        elif piece["kind"] == "log":
            self._writer.write(piece["rank"], piece["text"])
        elif piece["kind"] == "attempt":
            self._writer.finish()

    def _change(self, change: JobChange) -> None:
        before, self._job = self._job, change["job"]
        if self._session.json:
            self._output.record({"event": "job", **change})
            return
        job = self._job
        if job["state"] == "queued":
            if before["state"] in {"starting", "running", "stopping"}:
                self._writer.finish()
                reason = self._texts.word("end", job["reason"] or "")
                self._output.note(self._texts("run.requeued", name=job["name"], reason=reason))
                self._message(job)
            if change["reasons"]:
                self._output.status(self._waits(change))
        elif job["state"] != before["state"] or job["attempts"] != before["attempts"]:
            self._output.status("")
            self._codes = ()
            key = f"run.{job['state']}"
            if job["state"] not in TERMINAL and self._texts.has(key):
                self._output.note(
                    self._texts(key, name=job["name"], where=self._places.text(job["placement"]) or "-"), "dim"
                )

    def _message(self, job: Job) -> None:
        """What went wrong, if the server says it."""
        if job["message"]:
            self._output.note(f"  {printable(job['message'])}")

    def _waits(self, change: JobChange) -> str:
        """Place, first reason and expected start in one line."""
        codes = tuple(reason["code"] for reason in change["reasons"])
        if codes != self._codes:
            self._codes, self._eta = codes, self._expected(change["job"])
        place = change["position"]
        parts = [self._texts("run.waits", name=change["job"]["name"])]
        if place is not None and self._output.notes_terminal:
            parts.append(self._texts("run.place", place=place, queue=change["job"]["queue"]))
        parts.append(reason_short(self._texts, change["reasons"][0]))
        if self._eta:
            parts.append(self._texts("run.eta", wait=until(self._eta, self._session.now())))
        return " · ".join(parts)

    def _expected(self, job: Job) -> str | None:
        """When it may start.  A convenience: a server that cannot say does not stop the following."""
        try:
            return self._session.client.jobs.why(job["id"])["eta"]
        except MillpondError:
            return None

    def _ended(self) -> None:
        if self._session.json:
            return
        job = self._job
        self._output.status("")
        took = span(job["started_at"], job["finished_at"])
        values = {"name": job["name"], "time": took or "0s", "code": job["exit_code"], "job": job["id"]}
        key = f"run.{job['state']}"
        if job["state"] == "failed" and job["reason"] != "failed":
            key = "run.failed_by"
        values["reason"] = self._texts.word("end", job["reason"] or "")
        self._output.note(self._texts(key, **values), {"succeeded": "green", "failed": "red"}.get(job["state"], ""))
        self._message(job)

    def _interrupted(self) -> bool:
        """What to do about Ctrl-C; true: detach."""
        self._output.status("")
        choice = "d"
        if self._offers_stop and sys.stdin.isatty():
            choice = self._ask()
        if choice == "s":
            self._session.client.jobs.stop(self._job["id"])
            self._output.note(self._texts("run.stopping_now", name=self._job["name"]))
            return False
        if choice == "c":
            return False
        self._output.note(self._texts("run.detached", name=self._job["name"], job=self._job["id"]))
        return True

    def _ask(self) -> str:
        """``d``, ``s`` or ``c``; a second Ctrl-C, and the end of input, detach."""
        try:
            sys.stderr.write("\n" + self._texts("run.ask", name=self._job["name"]) + " ")
            sys.stderr.flush()
            answer = sys.stdin.readline().strip().lower()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            return "d"
        return answer[:1] if answer[:1] in {"s", "c"} else "d"
