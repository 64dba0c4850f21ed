"""What one pass changes: who runs, holds and leaves, what that takes, and how everybody ranks.

Every change keeps usage, occupancy and ranks in agreement, and can be taken back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from enum import IntEnum
from operator import attrgetter

from millpond.domain.jobs import QueueClass
from millpond.domain.queues import QueueConfig
from millpond.scheduling.blocks import LeafStanding
from millpond.scheduling.decisions import Rank
from millpond.scheduling.ends import Ends
from millpond.scheduling.kept import Kept
from millpond.scheduling.pool import HOLD, LEAVE, RUN, Pool, Room, pool_size
from millpond.scheduling.quota import Dims, Queue, tree_build
from millpond.scheduling.rank import Claim, Parts, Walk, inner_queues, leaves_of, tenant_walk
from millpond.scheduling.snapshot import Hold, Job, NodeState, Seat, Settings
from millpond.scheduling.standing import TenantStanding
from millpond.scheduling.stock import Stock
from millpond.scheduling.tasks import Kind, Task, moving_id, seats_milli
from millpond.scheduling.usage import Usage

_LAYER = {Kind.RUNNING: RUN, Kind.PLACED: RUN, Kind.DRAINING: LEAVE, Kind.HELD: HOLD}
_KEY = attrgetter("key")
_PASSING = frozenset({Kind.DRAINING, Kind.HELD})


class Op(IntEnum):
    """One change, as it is noted to be taken back."""

    ADD = 0
    REMOVE = 1
    DRAIN = 2
    COUNT = 3
    UNCOUNT = 4


class Ground:
    """See the module.

    ``version`` is another number after every change, so that what was found may be remembered until then; ``freed``
    is another one after every change that leaves more to somebody: what failed for want of room or quota, without an
    eviction, need not be tried again before.
    """

    def __init__(self, now: int, settings: Settings, nodes: Iterable[NodeState], queues: Iterable[QueueConfig]) -> None:
        nodes = tuple(nodes)
        self.now = now
        self.settings = settings
        self.pool = Pool(nodes)
        self.tree = tree_build(queues, pool_size(nodes), strict=False)
        self.usage = Usage(self.tree)
        self.tasks: dict[str, Task] = {}
        self.leaf_tasks: dict[Queue, list[Task]] = {leaf: [] for leaf in self.tree.leaves}
        self.sitting: dict[str, dict[str, Task]] = {}
        """Tasks by node and id."""
        self.holds: dict[str, Hold] = {}
        """The holds that stood when the pass began."""
        self.version = self.freed = self._tick = self._serial = 0
        self.leaving = 0
        """Tasks that are expected to leave soon."""
        self.kept: list[Kept] = []
        """The reservations of this pass."""
        self.kept_before: list[Kept] = []
        """Those of the pass before."""
        self._ends: Ends | None = None
        self._stock: Stock | None = None
        self.cooling: dict[tuple[str, str], int] = {}
        """Pairs of leaves (claimant's, victim's) that cool down, and until when."""
        self.changed: set[Queue] = set()
        """Leaves whose ranks or shares may have changed since somebody last looked."""
        self._walks: dict[Queue, Walk] = {}
        self._parts = Parts()
        self._standings = {tenant: _standing(tenant) for tenant in self.tree.root.children}
        self._unsettled: set[Queue] = set()
        self._worst: dict[Queue, int] = {}
        self._crowds: dict[int, int] = {}
        self._movable: dict[Queue, dict[Rank, list[Task]]] = {}
        self._journal: list[tuple[Op, Task, int]] | None = None

    def task_make(self, job: Job, seats: tuple[Seat, ...], kind: Kind) -> Task:
        """A task for a job on these seats, admitted when its attempt was, or now."""
        admitted = job.started if kind in {Kind.RUNNING, Kind.DRAINING} and job.started is not None else self.now
        dims = self.dims_at(seats)
        return Task(job, self.leaf(job), kind, seats_milli(seats), dims, seats, admitted)

    def dims_at(self, seats: tuple[Seat, ...]) -> Dims:
        return self.tree.dims_of(self.model_of(seats))

    def model_of(self, seats: tuple[Seat, ...]) -> str:
        """The card model of the nodes of a placement; empty if they are unknown or have no cards."""
        for seat in seats:
            room = self.pool.by_name.get(seat.node)
            if room is not None:
                return room.kind.model
        return ""

    def models_of(self, seats: tuple[Seat, ...]) -> tuple[str, ...]:
        """The card models of all nodes of a placement; more than one only if the pool has changed under it."""
        names = self.pool.by_name
        return tuple({names[seat.node].kind.model: None for seat in seats if seat.node in names})

    def leaf(self, job: Job) -> Queue:
        return self.tree.queues[job.queue]

    def held(self, name: str) -> Task | None:
        """What is held for a job, which may still be on its old cards."""
        found = (self.tasks.get(key) for key in (name, moving_id(name)))
        return next((task for task in found if task is not None and task.kind is Kind.HELD), None)

    # -- taking back

    def journal_begin(self) -> None:
        """From now on note every change."""
        self._journal = []

    def journal_end(self) -> None:
        """What has changed stays."""
        self._journal = None

    def journal_undo(self) -> None:
        """Take back what has changed since `journal_begin`, the last first."""
        journal, self._journal = self._journal or [], None
        for op, task, until in reversed(journal):
            if op is Op.ADD:
                self.remove(task)
            elif op is Op.REMOVE:
                self.add(task)
            elif op is Op.DRAIN:
                self.undrain(task, until)
            elif op is Op.COUNT:
                self.uncount(task)
            else:
                self.count(task)

    def _note(self, op: Op, task: Task, until: int = 0) -> None:
        if self._journal is not None:
            self._journal.append((op, task, until))

    def serial(self) -> int:
        """Another number whenever it is asked."""
        self._serial += 1
        return self._serial

    def touch(self) -> None:
        """Something has changed."""
        self._tick += 1
        self.version = self._tick

    # -- changing

    def node_put(self, node: NodeState) -> Room | None:
        """A node is in another state now.  None where that would be another pool: a new node, or other cards."""
        room = self.pool.node_set(node)
        if room is not None:
            if self._stock is not None:
                self._stock.room_set(room)
            self.touch()
            self.freed = self._tick
            self._stock = None
        return room

    def add(self, task: Task) -> None:
        """Seat a task."""
        if self.kept:
            self._kept_seat(task)
        self._note(Op.ADD, task)
        self.tasks[task.id] = task
        for seat in task.seats:
            self.sitting.setdefault(seat.node, {})[task.id] = task
        mine = self.leaf_tasks[task.leaf]
        if mine and mine[-1].key > task.key:
            insort(mine, task, key=_KEY)
        else:
            mine.append(task)
        self.pool.put(task.job, task.seats, _LAYER[task.kind])
        if task.kind in _PASSING:
            self._beside(task.seats)
        self._count(task, 1)
        self._stand(task)
        self._leaving(task, 1)
        if self._ends is not None:
            self._ends.put(self.models_of(task.seats), task)

    def remove(self, task: Task) -> None:
        """Take a task away."""
        self._note(Op.REMOVE, task)
        del self.tasks[task.id]
        for seat in task.seats:
            self.sitting[seat.node].pop(task.id, None)
        mine = self.leaf_tasks[task.leaf]
        del mine[bisect_left(mine, task.key, key=_KEY)]
        self.pool.put(task.job, task.seats, _LAYER[task.kind], -1)
        if task.kind in _PASSING:
            self._beside(task.seats)
        self._count(task, -1)
        self._stand(task, present=False)
        self._leaving(task, -1)
        self.freed = self._tick
        if self._ends is not None:
            self._ends.drop(task)
        for kept in self.kept:
            kept.unseated(task)

    def drain(self, task: Task, until: int) -> None:
        """A running task begins to leave: it keeps its cards until then, but no longer counts as usage."""
        self._note(Op.DRAIN, task, task.until)
        self.pool.put(task.job, task.seats, RUN, -1)
        self._count(task, -1)
        task.kind, task.until, task.counted = Kind.DRAINING, until, False
        self.pool.put(task.job, task.seats, LEAVE)
        self._beside(task.seats)
        self._stand(task)
        self._leaving(task, 1)
        self.freed = self._tick
        if self._ends is not None:
            self._ends.put(self.models_of(task.seats), task)

    def undrain(self, task: Task, until: int) -> None:
        """The opposite of `drain`."""
        self._leaving(task, -1)
        self.pool.put(task.job, task.seats, LEAVE, -1)
        task.kind, task.until, task.counted = Kind.RUNNING, until, True
        self.pool.put(task.job, task.seats, RUN)
        self._beside(task.seats)
        self._count(task, 1)
        self._stand(task)
        if self._ends is not None:
            self._ends.put(self.models_of(task.seats), task)

    def uncount(self, task: Task) -> None:
        """A leaving task makes room for a hold, whose usage now counts in its place (§4)."""
        self._note(Op.UNCOUNT, task)
        self._count(task, -1)
        task.counted = False
        self._stand(task)
        self.freed = self._tick

    def count(self, task: Task) -> None:
        """The opposite of `uncount`."""
        self._note(Op.COUNT, task)
        task.counted = True
        self._count(task, 1)
        self._stand(task)

    def recount(self, names: Iterable[str]) -> None:
        """The victims of a hold that has ended count as usage again while they leave, unless another hold has them."""
        held = {name for task in self.tasks.values() if task.kind is Kind.HELD for name in task.victims}
        for name in names:
            task = self.tasks.get(name)
            if task is not None and not task.counted and name not in held:
                self.count(task)

    def _beside(self, seats: tuple[Seat, ...]) -> None:
        """Tell nodes where somebody leaves or holds what holds may take before all who leave have left."""
        for seat in seats:
            room = self.pool.by_name.get(seat.node)
            if room is not None:
                around = self.sitting[seat.node].values()
                leaving = {task.id for task in around if task.kind is Kind.DRAINING}
                early = [task.job for task in around if task.kind is Kind.HELD and leaving.difference(task.victims)]
                room.beside_set(sum(job.cpu for job in early), sum(job.memory for job in early))

    def _leaving(self, task: Task, sign: int) -> None:
        if task.kind is Kind.DRAINING:
            self.leaving += sign

    def _count(self, task: Task, sign: int) -> None:
        self.touch()
        if self._stock is not None:
            self._stock.moved[task.id] = task
        tenant = task.leaf.tenant
        if task.ranked:
            self._rank_anew(task, tenant, sign)
        self.changed.add(task.leaf)
        if task.counted:
            self.usage.add(task.leaf, task.milli, task.dims, firm=not task.job.preemptible, sign=sign)

    def _rank_anew(self, task: Task, tenant: Queue, sign: int) -> None:
        """Forget the ranks of a tenant.  Who borrows takes nothing that others rank by: only he goes or comes."""
        self._movable.pop(tenant, None)
        walk = self._walks.get(tenant)
        if walk is None:
            return
        if sign < 0 and walk.ranks.get(task.id, Rank.GUARANTEED) >= Rank.BORROWED_PROD:
            del walk.ranks[task.id]
        elif sign > 0 and task.leaf.klass is QueueClass.BESTEFFORT:
            walk.ranks[task.id] = Rank.OPPORTUNISTIC
        else:
            del self._walks[tenant]

    def _stand(self, task: Task, *, present: bool = True) -> None:
        """Count a task among the ranked of its leaf if it is one."""
        stands = present and task.ranked
        if stands is not task.stands:
            task.stands = stands
            tenant = task.leaf.tenant
            if stands:
                self._standings[tenant].put(task)
            else:
                self._standings[tenant].drop(task)
            self._unsettled.add(tenant)

    def _kept_seat(self, task: Task) -> None:
        """Tell the reservations of seats that are given away after them."""
        rank = self.claim_rank(task.leaf, task.milli, task.dims)
        for kept in self.kept:
            bound = self.binds(kept, task.job, rank)
            kept.seated(task, bound=bound, above=not bound and rank < kept.rank)

    def binds(self, kept: Kept, job: Job, rank: Rank) -> bool:
        """Whether a reservation keeps a job of this claim rank off its cards."""
        return kept.binds(job, self.leaf(job), rank, self.now, self.settings, self.cooling)

    def cool(self, claimant: str, victim: str, time: int) -> None:
        """Begin a cool-down between two leaves."""
        pair = (claimant, victim)
        self.cooling[pair] = max(self.cooling.get(pair, 0), time + self.settings.cooldown)

    # -- ranks

    def walk(self, tenant: Queue) -> Walk:
        """The ranks of a tenant's running jobs, as they stand."""
        found = self._walks.get(tenant)
        if found is None:
            found = self._walks[tenant] = tenant_walk(
                tenant, self.leaf_tasks, parts=self._parts.of(self._standings[tenant], self.leaf_tasks)
            )
        return found

    def walk_with(self, claim: Claim, without: frozenset[str]) -> Walk:
        """The ranks of the claim's tenant with the claim at the very end and `without` taken out."""
        if not without:
            walk, rank = self.walk(claim[0].tenant), self.claim_rank(*claim)
            if rank >= Rank.BORROWED_PROD or not walk.family:  # it takes nothing that somebody else ranks by
                return Walk(walk.ranks, rank, walk.family)
        tenant = claim[0].tenant
        others = {task.leaf for name in without if (task := self.tasks.get(name)) is not None}
        parts = self._parts.of(self._standings[tenant], self.leaf_tasks, others)
        return tenant_walk(tenant, self.leaf_tasks, without=without, claim=claim, parts=parts)

    def claim_rank(self, leaf: Queue, milli: int, dims: Dims) -> Rank:
        """The rank of a claim that comes last."""
        return self._standings[leaf.tenant].rank(leaf, milli, dims)

    def rank_stamp(self, leaf: Queue) -> int:
        """Another number whenever a claim of a leaf may rank otherwise than before."""
        return self._standings[leaf.tenant].stamp(leaf)

    def rank_epoch(self, tenant: Queue) -> int:
        """Another number whenever claims of a tenant may rank otherwise though their own leaves are as they were."""
        return self._standings[tenant].epoch()

    def worst(self, tenant: Queue) -> int:
        """No ranked job of a tenant has a higher rank number; -1 where nobody is ranked."""
        return self._standings[tenant].worst()

    def worst_of_all(self) -> int:
        """As `worst`, of the whole pool."""
        for tenant in self._unsettled:
            worst, before = self.worst(tenant), self._worst.get(tenant)
            if worst != before:
                self._worst[tenant] = worst
                self._crowds[worst] = self._crowds.get(worst, 0) + 1
                if before is not None:
                    self._crowds[before] -= 1
        self._unsettled.clear()
        return max((worst for worst, count in self._crowds.items() if count), default=-1)

    def ends(self) -> Ends:
        """When everybody is expected to end; made when first asked for, and kept up from then on."""
        if self._ends is None:
            self._ends = Ends(self.settings.assumed_limit)
            for task in self.tasks.values():
                self._ends.put(self.models_of(task.seats), task)
        return self._ends

    def stock(self) -> Stock:
        """Who could be asked to leave, as arrays; made when first asked for, and kept up from then on."""
        if self._stock is None:
            self._stock = Stock(self.pool, self.tasks.values())
        self._stock.renew(self.tasks, {tenant: self.walk(tenant).ranks for tenant in self.tree.root.children})
        return self._stock

    def renewed(self, task: Task) -> None:
        """What an eviction of a task costs is another now, though it has not moved."""
        if self._stock is not None:
            self._stock.moved[task.id] = task


def _standing(tenant: Queue) -> TenantStanding:
    return TenantStanding(inner_queues(tenant), [LeafStanding(leaf) for leaf in leaves_of(tenant)])
