"""What the pool consists of and how it is: inventory and health."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from millpond.domain.amounts import CARD
from millpond.domain.jobs import EndReason
from millpond.domain.names import natural_key
from millpond.domain.records import AttemptRecord, NodeRecord
from millpond.reports.tables import Fact, Field, Kind, Report, Row, Section, rows_of
from millpond.reports.texts import Texts

MODEL_FIELDS = (
    Field("model"),
    Field("memory", Kind.COUNT),
    Field("nodes", Kind.COUNT, sums=True),
    Field("cards", Kind.COUNT, sums=True),
    Field("usable", Kind.COUNT, sums=True),
    Field("in_use", Kind.COUNT, sums=True),
)
CARD_FIELDS = (
    Field("node"),
    Field("index", Kind.COUNT),
    Field("model"),
    Field("memory", Kind.COUNT),
    Field("uuid"),
    Field("state"),
    Field("real"),
)
NODE_FIELDS = (
    Field("node"),
    Field("state"),
    Field("model"),
    Field("cards", Kind.COUNT, sums=True),
    Field("bad_cards", Kind.COUNT, sums=True),
    Field("cpus", Kind.COUNT, sums=True),
    Field("node_memory", Kind.COUNT, sums=True),
    Field("seen", Kind.MOMENT),
)
BAD_FIELDS = (Field("node"), Field("index", Kind.COUNT), Field("model"), Field("cause"))
END_FIELDS = (Field("reason"), Field("ends", Kind.COUNT, sums=True), Field("lost_hours", Kind.CARD_HOURS, sums=True))

FAULTS = frozenset({EndReason.NODE_LOST, EndReason.CARD_FAULT})


@dataclass(frozen=True, slots=True)
class Ended:
    """Attempts that ended in the period for one reason, and the milli-card-seconds of work that was lost."""

    reason: EndReason
    count: int
    lost_milli_seconds: int


def inventory_report(
    nodes: Sequence[NodeRecord], attempts: Sequence[AttemptRecord], made: datetime, zone: tzinfo, lang: str
) -> Report:
    """Every card, and how many of each model there are, can be used and are used."""
    texts = Texts(lang)
    ordered = sorted(nodes, key=lambda node: natural_key(node.spec.name))
    taken = _taken(attempts)
    models = [_model_row(key, group, taken) for key, group in sorted(_by_model(ordered).items())]
    cards = [row for node in ordered for row in _card_rows(node, texts)]
    facts = (
        Fact("made", made, Kind.MOMENT),
        Fact("nodes", len(ordered), Kind.COUNT),
        Fact("cards", len(cards), Kind.COUNT),
    )
    return Report(
        "inventory", zone, facts,
        (
            Section("inventory_models", MODEL_FIELDS, rows_of(models)),
            Section("inventory_cards", CARD_FIELDS, rows_of(cards)),
        ),
    )  # fmt: skip


def health_report(
    nodes: Sequence[NodeRecord],
    ended: Sequence[Ended],
    period: tuple[Fact, ...],
    made: datetime,
    zone: tzinfo,
    lang: str,
) -> Report:
    """Nodes and quarantined cards as they are now, and how attempts ended in the period."""
    texts = Texts(lang)
    ordered = sorted(nodes, key=lambda node: natural_key(node.spec.name))
    bad = [
        (node.spec.name, index, node.spec.cards.model if node.spec.cards else "", cause)
        for node in ordered
        for index, cause in sorted(node.bad_cards.items())
    ]
    ends = sorted(ended, key=lambda item: (-item.count, item.reason.value))
    facts = (
        *period,
        Fact("made", made, Kind.MOMENT),
        Fact("cards", sum(_count(node) for node in ordered), Kind.COUNT),
        Fact("usable", sum(_usable(node) for node in ordered), Kind.COUNT),
        Fact("failed", len(bad), Kind.COUNT),
        Fact("lost_nodes", sum(node.lost for node in ordered), Kind.COUNT),
        Fact("fault_hours", sum(item.lost_milli_seconds for item in ended if item.reason in FAULTS), Kind.CARD_HOURS),
    )
    return Report(
        "health", zone, facts,
        (
            Section("health_nodes", NODE_FIELDS, rows_of(_node_row(node, texts) for node in ordered)),
            Section("health_cards", BAD_FIELDS, rows_of(bad)),
            Section("health_ends", END_FIELDS, rows_of(
                (texts.reason(item.reason), item.count, item.lost_milli_seconds) for item in ends
            )),
        ),
        ("health",),
    )  # fmt: skip


def _by_model(nodes: Sequence[NodeRecord]) -> Mapping[tuple[str, int], list[NodeRecord]]:
    found: dict[tuple[str, int], list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        if node.spec.cards is not None:
            found[node.spec.cards.model, node.spec.cards.memory].append(node)
    return found


def _model_row(key: tuple[str, int], nodes: Sequence[NodeRecord], taken: Counter[str]) -> Row:
    model, memory = key
    return (
        model,
        memory or None,
        len(nodes),
        sum(_count(node) for node in nodes),
        sum(_usable(node) for node in nodes),
        sum(taken[node.spec.name] for node in nodes),
    )


def _taken(attempts: Sequence[AttemptRecord]) -> Counter[str]:
    """Cards of each node that somebody has a part of."""
    cards = {(seat.node, card) for attempt in attempts for seat in attempt.seats if seat.milli for card in seat.cards}
    return Counter(node for node, _ in cards)


def _count(node: NodeRecord) -> int:
    return node.spec.cards.count if node.spec.cards is not None else 0


def _usable(node: NodeRecord) -> int:
    if node.lost or node.cordoned or node.draining:
        return 0
    return _count(node) - len(node.bad_cards)


def _card_rows(node: NodeRecord, texts: Texts) -> list[Row]:
    kind = node.spec.cards
    if kind is None:
        return []
    real = texts("real.simulated" if node.spec.simulated else "real.real")
    return [
        (
            node.spec.name,
            index,
            kind.model,
            kind.memory or None,
            kind.uuids[index] if index < len(kind.uuids) else "",
            texts(f"card.{_card_state(node, index)}"),
            real,
        )
        for index in range(kind.count)
    ]


def _card_state(node: NodeRecord, index: int) -> str:
    return "quarantined" if index in node.bad_cards else _node_state(node)


def _node_state(node: NodeRecord) -> str:
    if node.lost:
        return "lost"
    if node.draining:
        return "draining"
    return "cordoned" if node.cordoned else "ok"


def _node_row(node: NodeRecord, texts: Texts) -> Row:
    return (
        node.spec.name,
        texts(f"card.{_node_state(node)}"),
        node.spec.cards.model if node.spec.cards is not None else "",
        _count(node),
        len(node.bad_cards),
        node.spec.cpu // CARD or None,
        node.spec.memory or None,
        node.seen_at,
    )
