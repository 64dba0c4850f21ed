"""Commands beside a running rank."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_get
from millpond.domain.errors import Conflict, InvalidInput, NotFound
from millpond.domain.jobs import AttemptState
from millpond.domain.names import attempt_id
from millpond.domain.records import AttemptRecord
from millpond.engines.base import ExecSession
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.jobs import JobRef, job_find
from millpond.services.logs import engine_of

ARGV_LIMIT = 256
ARGV_BYTES = 131_072
_OPEN = frozenset({AttemptState.RUNNING, AttemptState.DRAINING})


def exec_target(deps: Services, actor: Actor, ref: JobRef, rank: int) -> AttemptRecord:
    """The running attempt of a job that the actor may run commands in.  `Conflict` if it does not run."""

    def work(tx: Tx) -> AttemptRecord:
        job = job_find(tx, actor, ref)
        authorize(actor, Action.JOB_EXEC, job.tenant, owner=job.user)
        if not 0 <= rank < job.spec.ranks:
            raise NotFound(f"job {job.name} has no rank {rank}", code="NO_SUCH_RANK")
        key = attempt_id(job.id, job.attempts)
        attempt = attempts_get(tx, actor, [key]).get(key) if job.attempts else None
        if attempt is None or attempt.state not in _OPEN:
            raise Conflict(
                f"job {job.name} does not run now: it is {job.state.value}",
                code="NOT_RUNNING",
                hint=f"millpond why {job.name}",
            )
        return attempt

    return deps.database.run("exec_target", work)


def exec_open(
    deps: Services, actor: Actor, attempt: AttemptRecord, rank: int, argv: Sequence[str], *, tty: bool
) -> ExecSession:
    """Start `argv` beside a rank of an attempt that `exec_target` gave.  The event has no arguments."""
    if not argv or not argv[0] or len(argv) > ARGV_LIMIT or sum(len(part.encode()) for part in argv) > ARGV_BYTES:
        raise InvalidInput("this is not a command", hint=f"send 1 to {ARGV_LIMIT} arguments")
    if any("\x00" in part for part in argv):
        raise InvalidInput("an argument contains NUL", hint="remove it")
    engine = engine_of(deps)
    data: dict[str, object] = {"rank": rank, "program": argv[0][:200], "arguments": len(argv) - 1, "tty": tty}
    deps.database.run(
        "exec_open",
        lambda tx: event_write(
            deps, tx, actor, "job.exec", tenant=attempt.tenant, job=attempt.job, attempt=attempt.id, data=data
        ),
    )
    return engine.exec(attempt.id, rank, tuple(argv), tty)
