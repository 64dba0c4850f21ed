"""A planner that stays: it takes in one event after the other, so that a pass costs what has changed since the last.

`Resident.plan` says the same, byte for byte, as `plan` of the snapshot that all events together would give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from millpond.domain.errors import Conflict
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.limits import Limits
from millpond.scheduling.options import Options
from millpond.scheduling.plan import Pass
from millpond.scheduling.snapshot import Hold, Job, NodeState, Snapshot
from millpond.scheduling.state import State

Saved = Callable[[Job], int | None]


class Resident:
    """See the module.

    ``saved`` tells the last saved moment of a running job, for callers that do not renew the job at each checkpoint.
    """

    def __init__(self, snapshot: Snapshot, *, saved: Saved | None = None) -> None:
        self._saved = saved
        self._base = replace(snapshot, jobs=(), holds=(), evictions=())
        self._load(snapshot)

    def _load(self, snapshot: Snapshot) -> None:
        """Begin from a snapshot: where queues or nodes are others than before, everything is."""
        self._base = replace(snapshot, jobs=(), holds=(), evictions=())
        self._nodes = {state.spec.name: state for state in snapshot.nodes}
        self._strays = _strays(snapshot)
        self._state = State(snapshot, self._saved)
        self._options = Options(self._state)
        self._limits = Limits(self._state, self._options)
        self._open: Plan | None = None
        self._calm = True
        """Nothing came free while the last plan was made, so that a brief pass may do."""

    # -- what happens

    def job_put(self, job: Job) -> None:
        """A job has come, or is another one now: it waits, runs, leaves, has saved."""
        self._undo()
        if job.queue in self._state.tree.queues and self._state.tree.queues[job.queue].klass is not None:
            self._state.job_put(job)
            return
        snapshot = self.snapshot()
        jobs = (*(other for other in snapshot.jobs if other.id != job.id), job)
        self._load(replace(snapshot, jobs=jobs))

    def job_gone(self, job_id: str) -> None:
        """A job is over.  Nothing happens if it is not known."""
        self._undo()
        self._state.job_gone(job_id)

    def node_put(self, node: NodeState) -> None:
        """A node is new, or in another state.  Only where its cards are others is everything built anew."""
        if self._nodes.get(node.spec.name) == node:
            return
        self._undo()
        room = self._state.node_put(node)
        if room is None:
            nodes = {**self._nodes, node.spec.name: node}
            self._load(replace(self.snapshot(), nodes=tuple(nodes.values())))
            return
        self._nodes[node.spec.name] = node
        self._state.placer.room_set(room)
        self._state.waiters.forget()
        self._limits.forget()

    def node_gone(self, name: str) -> None:
        """A node is no longer configured."""
        if name in self._nodes:
            nodes = (node for node in self._nodes.values() if node.spec.name != name)
            self._load(replace(self.snapshot(), nodes=tuple(nodes)))

    def hold_put(self, hold: Hold) -> None:
        """Cards are held for a job, or one of its victims has gone."""
        self._undo()
        self._state.records[hold.job] = hold

    def hold_gone(self, job_id: str) -> None:
        """Nothing is held for a job any more."""
        self._undo()
        self._state.records.pop(job_id, None)

    def mix_set(self, mix: Mapping[str, int]) -> None:
        """Other requests are expected from now on.  Prices are made anew, which takes some milliseconds."""
        self._undo()
        self._base = replace(self._base, mix=dict(mix))
        self._state.placer.mix_set(mix)

    def now_set(self, now: int) -> None:
        """The clock goes on."""
        self._undo()
        self._state.now_set(now)

    def follow(self, snapshot: Snapshot) -> None:
        """All that has happened at once: the world is `snapshot` now.

        Costs what has changed since, and a glance at every job.  Everything is built anew where the queues, the
        settings or the cards of a node are others, or the clock went back.
        """
        self._undo()
        if not self._same_ground(snapshot):
            self._load(snapshot)
            return
        if snapshot.mix != self._base.mix:
            self.mix_set(snapshot.mix)
        for node in snapshot.nodes:
            if self._nodes[node.spec.name] is not node:
                self.node_put(node)
        state = self._state
        state.now_set(snapshot.now)
        gone = state.jobs.keys() - {job.id for job in snapshot.jobs}
        for name in sorted(gone):
            state.job_gone(name)
        for job in snapshot.jobs:
            old = state.jobs.get(job.id)
            if old is not job and old != job:
                state.job_put(job)
        state.records = {hold.job: hold for hold in snapshot.holds}
        state.evictions = list(snapshot.evictions)
        self._base = replace(snapshot, jobs=(), holds=(), evictions=())

    def _same_ground(self, snapshot: Snapshot) -> bool:
        """Whether only jobs, holds, marks of nodes and the mix may be others than before, and the clock went on."""
        base = self._base
        if snapshot.now < self._state.now or snapshot.queues != base.queues or snapshot.settings != base.settings:
            return False
        if len(snapshot.nodes) != len(self._nodes):
            return False
        for node in snapshot.nodes:
            known = self._nodes.get(node.spec.name)
            if known is None or (known is not node and known.spec != node.spec):
                return False
        return not self._strays and not _strays(snapshot)

    # -- what follows from it

    @property
    def now(self) -> int:
        return self._state.now

    @property
    def state(self) -> State:
        """The world as it is kept, to be read: while a plan is open, with all that it does."""
        return self._state

    @property
    def options(self) -> Options:
        """Those of the last plan."""
        return self._options

    def ranks(self) -> Mapping[str, Rank]:
        """The ranks of what runs, before anything that a plan would change."""
        self._undo()
        self._state.settle()
        found: dict[str, Rank] = {}
        for tenant in self._state.tree.root.children:
            found.update(self._state.walk(tenant).ranks)
        return found

    def snapshot(self) -> Snapshot:
        """The present world as a value: what `plan` would be asked about."""
        self._undo()
        state = self._state
        return replace(
            self._base,
            nodes=tuple(self._nodes.values()),
            now=state.now,
            jobs=tuple(state.jobs.values()),
            holds=tuple(state.records.values()),
            evictions=tuple(state.evictions),
        )

    def plan(self, *, waits: bool = True) -> Plan:
        """The plan for the present world; ``waits`` false leaves out who waits and why.

        It changes nothing until it is adopted.
        """
        self._undo()
        self._state.settle()
        self._state.journal_begin()
        plan = None
        if not waits and self._calm:
            plan = Pass(self._state, self._options, self._limits, brief=True).brief()
            if plan is None:
                self._state.journal_undo()
                self._state.settle()
                self._state.journal_begin()
        if plan is None:
            freed = self._state.freed
            plan = Pass(self._state, self._options, self._limits).run(waits=waits)
            self._calm = waits or self._state.freed == freed
        self._open = plan
        return plan

    def adopt(self, plan: Plan) -> None:
        """What the last plan says has been done.  Raises `Conflict` for another one, or after something happened."""
        if plan is not self._open:
            raise Conflict("only the last plan can be adopted", hint="make a plan again")
        self._open = None
        self._state.journal_end()
        self._state.adopt(plan)

    def _undo(self) -> None:
        """Forget a plan that nobody adopted."""
        if self._open is not None:
            self._open = None
            self._state.journal_undo()


def _strays(snapshot: Snapshot) -> bool:
    """Whether some job's queue is no longer configured; it is given a closed one, which goes with the job."""
    known = {queue.name for queue in snapshot.queues if queue.leaf}
    return any(job.queue not in known for job in snapshot.jobs)
