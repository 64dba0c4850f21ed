"""What callers may ask: the engine's verbs, as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .attempts import EXITED, Attempt, Rank, Record
from .cgroups import NoGroups
from .core import Core
from .draining import doom, drain, fault, signal_number, signal_send
from .index import STOPPED, attempt_valid
from .lifecycle import attempt_launch
from .orders import Problem, order_complete, order_start, rank_env
from .process import now_ms, parent, pidfd_signal
from .sandbox import setpriv_arguments
from .server import Connection, Operation
from .session import Session, session_fork
from .shapes import order_shapes, reshape

Answer = Callable[[Record], None]


class Operations:
    def __init__(self, core: Core, notes: tuple[str, ...]) -> None:
        self._core = core
        self._notes = notes

    def table(self) -> dict[str, Operation]:
        return {
            "hello": self.hello,
            "start": self.start,
            "signal": self.signal,
            "stop": self.stop,
            "observe": self.observe,
            "recover": self.recover,
            "exec": self.exec,
            "fault": self.fault,
            "reshape": self.reshape,
            "shutdown": self.shutdown,
        }

    def hello(self, _: Connection, request: Record, answer: Answer) -> None:
        del request
        answer(
            {
                "pid": os.getpid(),
                "isolated": self._core.sandbox.works,
                "notes": list(self._notes),
                "live": len(self._core.memory.live),
                "sequence": self._core.memory.sequence,
                "epoch": self._core.memory.epoch,
            }
        )

    def start(self, _: Connection, request: Record, answer: Answer) -> None:
        core = self._core
        order = order_complete(request["order"])
        if core.live(order["attempt"]) is None and core.index.get(order["attempt"]) is None:
            order_shapes(core, order)
        work = order_start(core, order, lambda attempt: attempt_launch(core, attempt))

        def done() -> None:
            work()
            answer({})

        core.after(done)

    def _find(self, attempt: Any) -> Attempt | None:
        """The live attempt; None when it has ended; lost when nobody ever heard of it."""
        if not isinstance(attempt, str) or not attempt_valid(attempt):
            raise Problem("refused", f"{attempt!r} is not an attempt id")
        known = self._core.live(attempt)
        if known is None and self._core.index.get(attempt) is None:
            raise Problem("lost", f"attempt {attempt} is not known here")
        return known

    def signal(self, _: Connection, request: Record, answer: Answer) -> None:
        known = self._find(request["attempt"])
        what, deadline = str(request["what"]).removeprefix("SIG"), request.get("deadline_ms")
        signal_number(what)
        if known is not None and deadline is not None:
            drain(self._core, known, what, int(deadline))
        elif known is not None:
            signal_send(self._core, known, what)
        self._core.after(lambda: answer({}))

    def stop(self, _: Connection, request: Record, answer: Answer) -> None:
        core, name, grace = self._core, request["attempt"], max(0, int(request["grace_ms"]))
        try:
            known = self._find(name)
        except Problem as problem:
            if problem.kind != "lost":
                raise
            self._forbid(name)
        else:
            if known is not None and grace:
                drain(core, known, known.order["warning_signal"], now_ms() + grace)
            elif known is not None and not known.doomed:
                doom(core, known, "")
        core.after(lambda: answer({}))

    def _forbid(self, attempt: str) -> None:
        self._core.record({"r": "stopped", "attempt": attempt})
        self._core.index.put(attempt, STOPPED)
        self._core.fact(EXITED, attempt, code=None, natural=False, detail="stopped before it was started")

    def observe(self, _: Connection, request: Record, answer: Answer) -> None:
        self._core.observe(int(request["cursor"]), int(request["wait_ms"]), answer)

    def recover(self, _: Connection, request: Record, answer: Answer) -> None:
        del request
        answer(
            {
                "attempts": [
                    {
                        "attempt": attempt.id,
                        "running": attempt.started,
                        "ranks": len(attempt.ranks),
                        "pids": [rank.main for rank in attempt.ranks if rank.main and rank.exit is None],
                    }
                    for attempt in self._core.memory.live.values()
                ]
            }
        )

    def exec(self, connection: Connection, request: Record, answer: Answer) -> None:
        core = self._core
        attempt = self._find(request["attempt"])
        rank = next((known for known in attempt.ranks if known.number == request["rank"]), None) if attempt else None
        if attempt is None or rank is None:
            raise Problem("lost", f"attempt {request['attempt']} has no running rank {request['rank']}")
        argv = request["argv"]
        if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
            raise Problem("refused", "exec needs a command")
        if rank.main_fd < 0 or attempt.closing:
            kind = "lost" if rank.exit is not None else "retry"
            raise Problem(kind, f"rank {rank.number} of {attempt.id} is not running")
        order = attempt.order
        sandboxed = order["isolated"] and core.sandbox.works
        uid = order["tenant_uid"] if os.geteuid() == 0 else 0
        env = rank_env(core, attempt, rank)
        session = Session(
            beside=_init(rank) if sandboxed else rank.main,
            argv=tuple(argv),
            env={"TERM": "xterm-256color", **env} if request["tty"] else env,
            work_dir=order["work_dir"],
            uid=uid,
            tty=bool(request["tty"]),
            doors=tuple(core.groups.doors(attempt.group)),
            sandboxed=sandboxed,
            setpriv=tuple(setpriv_arguments(core.sandbox, uid)) if sandboxed and os.geteuid() == 0 else (),
        )
        answer({})
        caller = connection.release()
        caller.setblocking(True)
        helper = session_fork(session, caller)
        caller.close()
        descriptor = os.pidfd_open(helper)
        attempt.sessions[helper] = descriptor
        attempt.sweep = attempt.sweep or isinstance(core.groups, NoGroups)
        core.watch(descriptor, lambda _: self._session_ended(attempt, helper))

    def _session_ended(self, attempt: Attempt, helper: int) -> None:
        descriptor = attempt.sessions.pop(helper)
        self._core.unwatch(descriptor)
        os.close(descriptor)

    def fault(self, _: Connection, request: Record, answer: Answer) -> None:
        node, card = str(request["node"]), request.get("card")

        def uses(attempt: Attempt) -> bool:
            beside = [rank for rank in attempt.ranks if rank.node == node]
            return any(card is None or card in rank.order["cards"] for rank in beside)

        fault(self._core, node, card, uses)
        self._core.after(lambda: answer({}))

    def reshape(self, _: Connection, request: Record, answer: Answer) -> None:
        reshape(self._core, str(request["node"]), int(request["card"]), request["geometry"])
        self._core.after(lambda: answer({}))

    def shutdown(self, _: Connection, request: Record, answer: Answer) -> None:
        """End the supervisor; keepers and their jobs go on."""
        del request
        self._core.stopping = True
        answer({})


def _init(rank: Rank) -> int:
    """The sandbox's first process.  Unlike the main process it is bubblewrap's own: the job cannot make it enter other
    namespaces, in which the programs that we run before giving up our rights would be the job's."""
    pid = parent(rank.main)
    # Only a parent read while the main process still lives is certainly this one's.
    if not pid or not pidfd_signal(rank.main_fd, 0):
        raise Problem("lost", f"rank {rank.number} is not running")
    return pid
