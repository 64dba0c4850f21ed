"""Nodes and the state of their cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, system_only
from millpond.db.session import Tx
from millpond.db.stores.rows import rows_print
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.nodes import NODES
from millpond.domain.errors import Conflict, InvalidInput, NotFound
from millpond.domain.jobs import AttemptState
from millpond.domain.names import natural_key
from millpond.domain.nodes import NodeSpec
from millpond.domain.records import NodeRecord

_SEEN_EVERY = timedelta(seconds=60)
_NODE = (
    NODES.c.spec,
    NODES.c.engine,
    NODES.c.cordoned,
    NODES.c.draining,
    or_(NODES.c.lost, NODES.c.missing).label("lost"),
    NODES.c.bad_cards,
    NODES.c.seen_at,
)


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What an inventory changed, as node names in natural order.

    ``missing`` nodes still have live attempts: they stay, lost.  ``back`` were missing and are seen again.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


_NODES = select(*_NODE)
_PRINT = select(rows_print(NODES))


def node_list(tx: Tx, actor: Actor) -> tuple[NodeRecord, ...]:
    """All nodes, n2 before n10."""
    authorize(actor, Action.NODE_READ)
    records = (NodeRecord(*row) for row in tx.execute(_NODES))
    return tuple(sorted(records, key=lambda record: natural_key(record.spec.name)))


def node_print(tx: Tx, actor: Actor) -> str:
    """A text that is another one after any change of any node.  Far cheaper than `node_list`."""
    authorize(actor, Action.NODE_READ)
    return str(tx.execute(_PRINT).scalar_one())


def node_get(tx: Tx, actor: Actor, name: str) -> NodeRecord:
    authorize(actor, Action.NODE_READ)
    row = tx.execute(select(*_NODE).where(NODES.c.name == name)).one_or_none()
    if row is None:
        raise _no_node(name)
    return NodeRecord(*row)


def node_sync(tx: Tx, actor: Actor, engine: str, specs: Sequence[NodeSpec], now: datetime) -> NodeChanges:
    """Make the nodes of `engine` those of its inventory.  System only.

    A node that the inventory lacks is removed, or marked missing (lost) while attempts still sit on it.  What operators
    said (cordoned, draining, lost, bad cards) stays.  Writes only what changed; ``seen_at`` once a minute.
    """
    system_only(actor)
    rows = tx.execute(
        select(NODES.c.name, NODES.c.spec, NODES.c.engine, NODES.c.missing, NODES.c.seen_at)
        .where(NODES.c.engine == engine)
        .order_by(NODES.c.name)
        .with_for_update()
    ).all()
    known = {row.name: row for row in rows}
    wanted = {spec.name: spec for spec in specs}
    if len(wanted) != len(specs):
        raise InvalidInput(f"the inventory of engine {engine!r} names a node twice")
    added = [name for name in wanted if name not in known]
    changed = [name for name, spec in wanted.items() if name in known and known[name].spec != spec]
    back = [name for name in wanted if name in known and known[name].missing]
    gone = [name for name in known if name not in wanted]
    seen = [name for name in wanted if name in known and _stale(known[name].seen_at, now)]
    _nodes_add(tx, engine, [wanted[name] for name in added], now)
    rewrite = sorted({*changed, *back, *seen})
    if rewrite:
        tx.execute(_SEEN, [{"row": name, "new_spec": wanted[name], "new_seen": now} for name in rewrite])
    missing, removed = _nodes_drop(tx, gone)
    newly_missing = [name for name in missing if not known[name].missing]
    return NodeChanges(*(_sorted(names) for names in (added, changed, back, newly_missing, removed)))


def node_mark(
    tx: Tx,
    actor: Actor,
    name: str,
    *,
    cordoned: bool | None = None,
    draining: bool | None = None,
    lost: bool | None = None,
) -> NodeRecord:
    """Change what is said about a node; ``None`` leaves it as it is.  ``lost`` stays until it is set to false."""
    authorize(actor, Action.NODE_OPERATE)
    marks = {"cordoned": cordoned, "draining": draining, "lost": lost}
    changes = {key: value for key, value in marks.items() if value is not None}
    if changes and tx.execute(update(NODES).where(NODES.c.name == name).values(changes)).rowcount == 0:
        raise _no_node(name)
    return node_get(tx, actor, name)


def card_mark(tx: Tx, actor: Actor, node: str, index: int, cause: str | None) -> NodeRecord:
    """Quarantine a card for `cause`, or with ``None`` make it good again."""
    authorize(actor, Action.CARD_OPERATE)
    row = tx.execute(
        select(NODES.c.spec, NODES.c.bad_cards).where(NODES.c.name == node).with_for_update()
    ).one_or_none()
    if row is None:
        raise _no_node(node)
    count = row.spec.cards.count if row.spec.cards is not None else 0
    if not 0 <= index < count:
        raise NotFound(
            f"node {node!r} has no card {index}",
            code="NO_SUCH_CARD",
            hint=f"its cards are 0 to {count - 1}" if count else "it has no cards",
        )
    bad = {key: value for key, value in row.bad_cards.items() if key != index}
    if cause is not None:
        bad[index] = cause or "marked as faulty"
    tx.execute(update(NODES).where(NODES.c.name == node).values(bad_cards=bad))
    return node_get(tx, actor, node)


def _stale(seen_at: datetime | None, now: datetime) -> bool:
    return seen_at is None or now - seen_at >= _SEEN_EVERY


def _nodes_add(tx: Tx, engine: str, specs: Sequence[NodeSpec], now: datetime) -> None:
    if not specs:
        return
    taken = tx.execute(
        select(NODES.c.name, NODES.c.engine).where(NODES.c.name.in_([spec.name for spec in specs]))
    ).all()
    if taken:
        raise Conflict(f"node {taken[0].name!r} belongs to engine {taken[0].engine!r}", hint="node names are unique")
    tx.execute(insert(NODES), [{"name": spec.name, "engine": engine, "spec": spec, "seen_at": now} for spec in specs])


def _nodes_drop(tx: Tx, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """(nodes that stay because attempts sit on them, nodes removed)."""
    if not names:
        return [], []
    seats = tx.execute(select(ATTEMPTS.c.seats).where(ATTEMPTS.c.state != AttemptState.ENDED)).scalars()
    used = {seat.node for listed in seats for seat in listed}
    missing = [name for name in names if name in used]
    removed = [name for name in names if name not in used]
    if missing:
        tx.execute(update(NODES).where(NODES.c.name.in_(missing)).values(missing=True))
    if removed:
        tx.execute(delete(NODES).where(NODES.c.name.in_(removed)))
    return missing, removed


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=natural_key))


def _no_node(name: str) -> NotFound:
    return NotFound(f"no node {name[:200]!r}", code="NO_SUCH_NODE", hint="millpond nodes lists them")


_new_spec: Any = bindparam("new_spec", type_=NODES.c.spec.type)
_new_seen: Any = bindparam("new_seen", type_=NODES.c.seen_at.type)
_SEEN = (
    update(NODES)
    .where(NODES.c.name == bindparam("row"))
    .values(spec=_new_spec, seen_at=func.greatest(NODES.c.seen_at, _new_seen), missing=False)
)
