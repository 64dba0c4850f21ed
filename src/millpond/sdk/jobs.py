"""Jobs: submit, look, stop, follow, and run commands beside them.

Every method that takes a `job` accepts its id, or its name with ``tenant=`` and ``project=`` where the token alone
does not say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypedDict, Unpack, cast

from millpond.domain.jobs import JOB_TERMINAL
from millpond.sdk.answers import Attempt, Event, Explanation, Job, JobChange, LogPiece, LogText
from millpond.sdk.group import Group, key_make, path_join
from millpond.sdk.shells import Shell, shell_open
from millpond.sdk.streams import StreamEvent, events_follow

TERMINAL = frozenset(state.value for state in JOB_TERMINAL)


class Place(TypedDict, total=False):
    """Where a job's name is looked up."""

    tenant: str
    project: str


class Offers(Group):
    def create(self, spec: Mapping[str, object]) -> Explanation:
        """What would happen if this job were submitted now; nothing is."""
        return cast("Explanation", self._transport.send("POST", path_join("offers"), body=spec, key=key_make()))


class Jobs(Group):
    def submit(self, spec: Mapping[str, object], idempotency_key: str = "") -> Job:
        """Submit a job (the keys of a job file).  With the same key, a second call gives the first one's job.

        A key is made if none is given, so that the retries of this call cannot start the job twice.
        """
        key = idempotency_key or key_make()
        return cast("Job", self._transport.send("POST", path_join("jobs"), body=spec, key=key))

    def get(self, job: str, **place: Unpack[Place]) -> Job:
        return cast("Job", self._transport.get(path_join("jobs", job), place))

    def list(
        self,
        *,
        tenant: str = "",
        project: str = "",
        user: str = "",
        states: Sequence[str] = (),
        queue: str = "",
        name: str = "",
        limit: int | None = None,
    ) -> Iterator[Job]:
        """Jobs, the latest first, page after page as the iterator goes; at most `limit` of them."""
        wanted = {
            "tenant": tenant,
            "project": project,
            "user": user,
            "state": list(states),
            "queue": queue,
            "name": name,
            "limit": limit if limit is not None and limit < 100 else None,
        }
        return islice(self._transport.pages(path_join("jobs"), wanted), limit)

    def attempts(self, job: str, **place: Unpack[Place]) -> Iterator[Attempt]:
        return self._transport.pages(path_join("jobs", job, "attempts"), place)

    def events(self, job: str, **place: Unpack[Place]) -> Iterator[Event]:
        return self._transport.pages(path_join("jobs", job, "events"), place)

    def why(self, job: str, **place: Unpack[Place]) -> Explanation:
        """Every reason that keeps it from starting now."""
        return cast("Explanation", self._transport.get(path_join("jobs", job, "why"), place))

    def stop(self, job: str, *, grace: int | None = None, **place: Unpack[Place]) -> Job:
        """Cancel it; `grace` in seconds, absent: the job's own, 0: kill at once."""
        body = {} if grace is None else {"grace": grace}
        return self._act(job, "stop", place, body)

    def hold(self, job: str, **place: Unpack[Place]) -> Job:
        """Keep a waiting job from starting until `release`."""
        return self._act(job, "hold", place)

    def release(self, job: str, **place: Unpack[Place]) -> Job:
        return self._act(job, "release", place)

    def logs(
        self, job: str, *, attempt: int | None = None, rank: int = 0, offset: int = 0, **place: Unpack[Place]
    ) -> Iterator[LogText]:
        """What one rank of one attempt (absent: the last) has written so far, in pieces."""
        while True:
            params = {"attempt": attempt, "rank": rank, "offset": offset, **place}
            piece = cast("LogText", self._transport.get(path_join("jobs", job, "logs"), params))
            if not piece["text"]:
                return
            yield piece
            offset = piece["offset"]

    def logs_follow(self, job: str, *, tail: bool = False, **place: Unpack[Place]) -> Iterator[LogPiece]:
        """Output of every rank, attempt after attempt, until the job ends.  `tail`: only what comes from now on."""
        path = path_join("jobs", job, "logs", "stream")
        params = {"tail": tail or None, **place}
        for event in events_follow(self._transport, path, params, final=lambda event: event.name == "end"):
            if event.name in {"attempt", "log", "end"}:
                yield _log_piece(event)

    def watch(self, job: str, **place: Unpack[Place]) -> Iterator[JobChange]:
        """The job now and after each change, until it has ended."""
        path = path_join("jobs", job, "stream")
        for event in events_follow(self._transport, path, place, final=_ended):
            if event.name == "job":
                yield cast("JobChange", event.data)

    def watch_all(self) -> Iterator[JobChange]:
        """Changes of all jobs that the caller may see, without end."""
        for event in events_follow(self._transport, path_join("stream")):
            if event.name == "job":
                yield cast("JobChange", event.data)

    def exec(
        self,
        job: str,
        argv: Sequence[str],
        *,
        rank: int = 0,
        tty: bool = False,
        size: tuple[int, int] | None = None,
        **place: Unpack[Place],
    ) -> Shell:
        """Run a command beside a running rank.  `size` of the terminal is (rows, columns)."""
        path = path_join("jobs", job, "exec")
        return shell_open(self._transport, path, {"rank": rank, "tty": tty or None, **place}, argv, size)

    def _act(self, job: str, verb: str, place: Place, body: Mapping[str, object] | None = None) -> Job:
        path = path_join("jobs", job, verb)
        return cast("Job", self._transport.send("POST", path, params=place, body=body, key=key_make()))


def _ended(event: StreamEvent) -> bool:
    return event.name == "job" and event.data["job"]["state"] in TERMINAL


def _log_piece(event: StreamEvent) -> LogPiece:
    data = event.data
    return {
        "kind": event.name,
        "rank": data.get("rank", 0),
        "text": data.get("text", ""),
        "attempt": data.get("attempt", ""),
        "state": data.get("state", ""),
        "exit_code": data.get("exit_code"),
    }
