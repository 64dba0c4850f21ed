"""The checker's own book: quotas, ranks and free room, written a second time from scheduling.md.

Shares no code with the planner on purpose: an error there must not hide itself here.  Only plain loops over the
snapshot, so that every rule can be read next to the page it comes from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millpond.domain.jobs import QueueClass
from millpond.domain.names import model_matches
from millpond.domain.queues import CARDS, Dimensions, QueueConfig, queue_ancestors, queue_tenant
from millpond.domain.slices import slice_milli
from millpond.scheduling.decisions import Rank
from millpond.scheduling.snapshot import Job, NodeState, Seat, Snapshot

NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Use:
    """A job on seats: what it takes of its leaf (``milli`` in the dimensions ``names``), its place in §2's order."""

    job: Job
    seats: tuple[Seat, ...]
    milli: int
    names: tuple[str, ...]
    tenant: str
    order: tuple[bool, int, int, str]


@dataclass(slots=True)
class Book:
    """Quotas of a snapshot.  Dimensions are ``cards``, every model of the pool and every name in a quota."""

    snapshot: Snapshot
    nodes: dict[str, NodeState] = field(init=False)
    configs: dict[str, QueueConfig] = field(init=False)
    dimensions: tuple[str, ...] = field(init=False)
    _deserved: dict[str, dict[str, int]] = field(init=False, default_factory=dict)
    _counts: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {state.spec.name: state for state in self.snapshot.nodes}
        self.configs = {queue.name: queue for queue in self.snapshot.queues}
        for name in list(self.configs):
            for above in queue_ancestors(name):
                self.configs.setdefault(above, QueueConfig(above))
        names = {state.spec.cards.model for state in self.snapshot.nodes if state.spec.cards}
        for queue in self.snapshot.queues:
            for amounts in (queue.guarantee, queue.deserved, queue.cap):
                names.update(amounts or ())
        self.dimensions = (CARDS, *sorted(names - {CARDS}))

    def use(self, job: Job, seats: tuple[Seat, ...], admitted: int) -> Use:
        """A job on these seats since `admitted`."""
        milli = sum(seat.milli * len(seat.cards) for seat in seats)
        names = self.counts_in(self._model_of(seats))
        order = (job.preemptible, -job.priority, admitted, job.id)
        return Use(job, seats, milli, names, queue_tenant(job.queue), order)

    def milli(self, job: Job, model: str) -> int:
        """What a job takes of cards of a model at its smallest."""
        if not job.gpu.slice:
            return job.gpu.milli_min * job.nodes
        kinds = [state.spec.cards for state in self.nodes.values()]
        shares = [slice_milli(kind.model, kind.memory, job.gpu.slice) for kind in kinds if kind and kind.model == model]
        return max((share for share in shares if share), default=0) * job.gpu.slices * job.nodes

    def leaf(self, job: Job) -> QueueConfig:
        return self.configs[job.queue]

    def _model_of(self, seats: Iterable[Seat]) -> str:
        """The card model of a placement; empty for one without cards."""
        kinds = [self.nodes[seat.node].spec.cards for seat in seats if seat.node in self.nodes]
        return next((kind.model for kind in kinds if kind is not None), "")

    def counts_in(self, model: str) -> tuple[str, ...]:
        """The dimensions in which a card of `model` counts."""
        if model not in self._counts:
            names = (name for name in self.dimensions if name == CARDS or (model and model_matches(name, model)))
            self._counts[model] = tuple(names)
        return self._counts[model]

    def cap(self, queue: str, dimension: str) -> int:
        return _named(self.configs[queue].cap).get(dimension.lower(), NO_LIMIT)

    def guarantee(self, leaf: str) -> dict[str, int]:
        return self._promise(self.configs[leaf].guarantee)

    def deserved(self, queue: str) -> dict[str, int]:
        """As configured; a leaf's defaults to its guarantee, an inner queue's to the sum of its children's."""
        if queue in self._deserved:
            return self._deserved[queue]
        config = self.configs[queue]
        if config.deserved is not None:
            value = self._promise(config.deserved)
        elif config.leaf:
            value = self._promise(config.guarantee)
        else:
            children = [name for name in self.configs if name and queue_ancestors(name)[1] == queue]
            value = {
                name: min(NO_LIMIT, sum(self.deserved(child)[name] for child in children)) for name in self.dimensions
            }
        self._deserved[queue] = value
        return value

    def _promise(self, amounts: Dimensions | None) -> dict[str, int]:
        """Guarantee or deserved in every dimension: unnamed models are 0 unless ``cards`` is named."""
        named = _named(amounts)
        value = {CARDS: named.get(CARDS, sum(named.values()))}
        for name in self.dimensions[1:]:
            related = any(
                other != CARDS and (model_matches(other, name) or model_matches(name, other)) for other in named
            )
            free = NO_LIMIT if CARDS in named or related else 0
            value[name] = named.get(name.lower(), free)
        return value

    def usage(self, uses: Iterable[Use]) -> dict[str, dict[str, int]]:
        """Milli-cards by queue and dimension, ancestors included."""
        total: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for use in uses:
            for queue in queue_ancestors(use.job.queue):
                for name in use.names:
                    total[queue][name] += use.milli
        return total

    def ranks(self, uses: Iterable[Use], claim: Use | None = None) -> dict[str, Rank]:
        """Rank of every use (§2); `claim` comes at the very end of its walk."""
        found: dict[str, Rank] = {}
        by_leaf: dict[str, list[Use]] = defaultdict(list)
        for use in uses:
            by_leaf[use.job.queue].append(use)
        if claim is not None:
            by_leaf[claim.job.queue].append(claim)
        inside: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        rest: list[Use] = []
        for leaf, members in sorted(by_leaf.items()):
            members.sort(key=lambda use: (use is claim, use.order))
            if self.configs[leaf].klass is QueueClass.BESTEFFORT:
                found.update((use.job.id, Rank.OPPORTUNISTIC) for use in members)
            else:
                rest.extend(self._leaf_walk(leaf, members, found, inside))
        rest.sort(key=lambda use: (use is claim, self.leaf(use.job).klass is not QueueClass.PROD, use.order))
        for level in (3, 2):
            rest = [use for use in rest if not self._family(use, level, found, inside)]
        for use in rest:
            prod = self.leaf(use.job).klass is QueueClass.PROD
            found[use.job.id] = Rank.BORROWED_PROD if prod else Rank.BORROWED_BATCH
        return found

    def _leaf_walk(
        self, leaf: str, members: list[Use], found: dict[str, Rank], inside: dict[str, dict[str, int]]
    ) -> list[Use]:
        guarantee, deserved = dict(self.guarantee(leaf)), dict(self.deserved(leaf))
        rest = []
        for use in members:
            names = use.names
            if not _fits(use.milli, deserved, names):
                rest.append(use)
                continue
            guaranteed = _fits(use.milli, guarantee, names)
            found[use.job.id] = Rank.GUARANTEED if guaranteed else Rank.DESERVED
            for name in names:
                deserved[name] -= use.milli
                guarantee[name] -= use.milli if guaranteed else 0
            self._count_inside(use, names, inside)
        return rest

    def _family(self, use: Use, level: int, found: dict[str, Rank], inside: dict[str, dict[str, int]]) -> bool:
        """Whether a leftover fits what its tenant leaves idle, from the queue with `level` - 1 name parts up."""
        above = [queue for queue in queue_ancestors(use.job.queue)[1:] if queue]
        chain = [queue for queue in above if queue.count("/") + 1 <= level - 1]
        if not chain or chain[0].count("/") + 1 != level - 1:
            return False
        names = use.names
        for queue in chain:
            left = {name: self.deserved(queue)[name] - inside[queue][name] for name in names}
            if not _fits(use.milli, left, names):
                return False
        found[use.job.id] = Rank.FAMILY
        self._count_inside(use, names, inside)
        return True

    @staticmethod
    def _count_inside(use: Use, names: Iterable[str], inside: dict[str, dict[str, int]]) -> None:
        for queue in queue_ancestors(use.job.queue)[1:]:
            for name in names:
                inside[queue][name] += use.milli


def _named(amounts: Dimensions | None) -> dict[str, int]:
    return {name.lower(): milli for name, milli in (amounts or {}).items()}


def _fits(milli: int, left: Mapping[str, int], names: Iterable[str]) -> bool:
    return milli == 0 or all(left[name] >= milli for name in names)
