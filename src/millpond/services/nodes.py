"""Nodes and cards: look, cordon, drain, and trouble made on purpose on simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores.nodes import card_mark, node_get, node_mark
from millpond.domain.errors import NotFound, Refused
from millpond.domain.jobs import AttemptState
from millpond.domain.names import natural_key
from millpond.domain.records import AttemptRecord, JobRecord, NodeRecord, Page, SeatRecord, World
from millpond.services.cursors import page_cut
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.planning import Sight, pool_world, sight_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and what is taken of it: milli-cards, milli-CPU, MiB, attempts."""

    node: NodeRecord
    used: int = 0
    cpu: int = 0
    memory: int = 0
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class CardUse:
    """A share of a card.  ``job`` and ``attempt`` are ``None`` if the caller may not see the job."""

    job: JobRecord | None
    attempt: AttemptRecord | None
    seat: SeatRecord
    draining: bool


@dataclass(frozen=True, slots=True)
class CardView:
    """One card; ``cause`` says why it is quarantined (empty: it is not); ``used`` in milli-cards."""

    node: NodeRecord
    index: int
    cause: str
    used: int
    uses: tuple[CardUse, ...]


@dataclass(slots=True)
class _Taken:
    used: int = 0
    cpu: int = 0
    memory: int = 0
    jobs: int = 0
    uses: dict[int, list[CardUse]] = field(default_factory=dict)


def node_page(deps: Services, actor: Actor, cursor: str, limit: int) -> Page[NodeView]:
    """Nodes, n2 before n10."""
    authorize(actor, Action.NODE_READ)
    world = deps.database.run("node_page", pool_world, snapshot=True)
    taken = _taken(world, None)
    nodes = sorted(world.nodes, key=lambda node: natural_key(node.spec.name))
    views = [_node_view(node, taken) for node in nodes]
    return page_cut(views, cursor, limit, lambda view: (view.node.spec.name,))


def node_view(deps: Services, actor: Actor, name: str) -> NodeView:
    """One node."""
    authorize(actor, Action.NODE_READ)
    return _node_read(deps, name)


def card_page(deps: Services, actor: Actor, cursor: str, limit: int) -> Page[CardView]:
    """Cards by node and index, with who uses them as far as the actor may see."""
    authorize(actor, Action.CARD_READ)
    sight = sight_of(actor)
    world = deps.database.run("card_page", pool_world, snapshot=True)
    taken = _taken(world, sight)
    nodes = sorted(world.nodes, key=lambda node: natural_key(node.spec.name))
    views = [view for node in nodes for view in _card_views(node, taken)]
    return page_cut(views, cursor, limit, lambda view: (view.node.spec.name, str(view.index)))


def node_cordon(deps: Services, actor: Actor, name: str) -> NodeView:
    """Nothing new starts there; what runs stays."""
    return _operate(deps, actor, name, "node.cordoned", lambda tx: node_mark(tx, actor, name, cordoned=True))


def node_uncordon(deps: Services, actor: Actor, name: str) -> NodeView:
    """The node takes jobs again, also after a drain."""
    return _operate(
        deps, actor, name, "node.uncordoned", lambda tx: node_mark(tx, actor, name, cordoned=False, draining=False)
    )


def node_drain(deps: Services, actor: Actor, name: str) -> NodeView:
    """Nothing new starts there, and what runs is asked to leave with its grace and queued again."""
    return _operate(
        deps, actor, name, "node.draining", lambda tx: node_mark(tx, actor, name, cordoned=True, draining=True)
    )


def node_fault(deps: Services, actor: Actor, name: str, cause: str) -> NodeView:
    """Lose a simulated node on purpose.  `Refused` for a real one."""

    def work(tx: Tx) -> object:
        _simulated_check(node_get(tx, actor, name))
        return node_mark(tx, actor, name, lost=True)

    view = _operate(deps, actor, name, "node.fault", work, {"cause": cause})
    if deps.engine is not None:
        deps.engine.fault(name, None)
    return view


def node_repair(deps: Services, actor: Actor, name: str) -> NodeView:
    """Bring a simulated node back.  `Refused` for a real one."""

    def work(tx: Tx) -> object:
        _simulated_check(node_get(tx, actor, name))
        return node_mark(tx, actor, name, lost=False)

    return _operate(deps, actor, name, "node.repaired", work)


def card_fault(deps: Services, actor: Actor, name: str, index: int, cause: str) -> CardView:
    """Break a simulated card on purpose.  `Refused` for a real one."""
    view = _card_operate(deps, actor, name, index, cause or "made on purpose", "card.fault")
    if deps.engine is not None:
        deps.engine.fault(name, index)
    return view


def card_repair(deps: Services, actor: Actor, name: str, index: int) -> CardView:
    """Take a simulated card out of quarantine.  `Refused` for a real one."""
    return _card_operate(deps, actor, name, index, None, "card.repaired")


def _operate(
    deps: Services,
    actor: Actor,
    name: str,
    kind: str,
    work: Callable[[Tx], object],
    data: dict[str, object] | None = None,
) -> NodeView:
    authorize(actor, Action.NODE_OPERATE)

    def run(tx: Tx) -> None:
        work(tx)
        event_write(deps, tx, actor, kind, data={"node": name, **(data or {})})
        notify(tx, WORK_CHANNEL, "schedule")

    deps.database.run(kind, run)
    return _node_read(deps, name)


def _card_operate(deps: Services, actor: Actor, name: str, index: int, cause: str | None, kind: str) -> CardView:
    authorize(actor, Action.CARD_OPERATE)

    def run(tx: Tx) -> None:
        node = node_get(tx, actor, name)
        _simulated_check(node)
        if node.spec.cards is None or not 0 <= index < node.spec.cards.count:
            raise NotFound(f"node {name} has no card {index}", code="NO_SUCH_CARD", hint="millpond cards lists them")
        card_mark(tx, actor, name, index, cause)
        event_write(deps, tx, actor, kind, data={"node": name, "card": index, "cause": cause or ""})
        notify(tx, WORK_CHANNEL, "schedule")

    deps.database.run(kind, run)
    world = deps.database.run("card_view", pool_world, snapshot=True)
    taken = _taken(world, sight_of(actor))
    return _card_views(_node_in(world, name), taken)[index]


def _node_read(deps: Services, name: str) -> NodeView:
    world = deps.database.run("node_view", pool_world, snapshot=True)
    return _node_view(_node_in(world, name), _taken(world, None))


def _node_in(world: World, name: str) -> NodeRecord:
    found = next((node for node in world.nodes if node.spec.name == name), None)
    if found is None:
        raise NotFound(f"no node {name[:80]!r}", code="NO_SUCH_NODE", hint="millpond nodes lists them")
    return found


def _simulated_check(node: NodeRecord) -> None:
    if not node.spec.simulated:
        raise Refused(
            f"node {node.spec.name} is real, and trouble is only made on simulated ones",
            code="NOT_SIMULATED",
            hint="millpond nodes cordon or drain it instead",
        )


def _node_view(node: NodeRecord, taken: dict[str, _Taken]) -> NodeView:
    own = taken.get(node.spec.name, _Taken())
    return NodeView(node, own.used, own.cpu, own.memory, own.jobs)


def _card_views(node: NodeRecord, taken: dict[str, _Taken]) -> list[CardView]:
    own = taken.get(node.spec.name, _Taken())
    count = node.spec.cards.count if node.spec.cards is not None else 0
    return [
        CardView(
            node=node,
            index=index,
            cause=node.bad_cards.get(index, ""),
            used=sum(use.seat.milli for use in own.uses.get(index, ())),
            uses=tuple(own.uses.get(index, ())),
        )
        for index in range(count)
    ]


def _taken(world: World, sight: Sight | None) -> dict[str, _Taken]:
    """What live attempts take of every node.  `sight` of ``None`` leaves out who uses the cards."""
    jobs = {job.id: job for job in world.jobs}
    taken: dict[str, _Taken] = {}
    counted: set[tuple[str, str]] = set()
    for attempt, seat in _seats(world.attempts):
        job = jobs.get(attempt.job)
        own = taken.setdefault(seat.node, _Taken())
        own.used += seat.milli * len(seat.cards)
        place = (attempt.id, seat.node)
        if place not in counted:  # several slices of a job on one node are one job there
            own.jobs += 1
        if job is not None and place not in counted:
            own.cpu += job.spec.resources.cpu
            own.memory += job.spec.resources.memory
        counted.add(place)
        seen = sight is not None and job is not None and sight.sees(job.tenant)
        use = CardUse(job if seen else None, attempt if seen else None, seat, attempt.state is AttemptState.DRAINING)
        for card in seat.cards:
            own.uses.setdefault(card, []).append(use)
    return taken


def _seats(attempts: Iterable[AttemptRecord]) -> Iterable[tuple[AttemptRecord, SeatRecord]]:
    return ((attempt, seat) for attempt in attempts for seat in attempt.seats)
