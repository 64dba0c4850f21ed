"""Queues as people write them: the ``queues`` of scheduling §9, which ``quota apply`` reads too.

{name: factor/batch, class: batch, deserved: 40, cap: {cards: 40, A800-80GB: 16}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping as AnyMapping

from millpond.domain.amounts import milli_format, milli_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import NodeSpec
from millpond.domain.queues import CARDS, CardHours, Dequeue, Dimensions, QueueConfig, queue_name_parse
from millpond.files.fields import Fields, boolean_parse, choice_parse, listing_read, scalar_read, text_parse
from millpond.files.tree import Mapping, Node, Scalar, tree_from_yaml
from millpond.scheduling.quota import tree_build

QUEUE_KEYS = ("name", "class", "guarantee", "deserved", "cap", "lend", "dequeue", "card_hours", "labels")
MAX_QUEUES = 10_000

_DIMENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}\Z")


def queues_parse(node: Node) -> tuple[QueueConfig, ...]:
    """A list of queues with distinct names.  What the tree says as a whole is checked by `queues_check`."""
    queues: dict[str, QueueConfig] = {}
    for fields in listing_read(node, lambda item: Fields(item, QUEUE_KEYS, "a queue"), MAX_QUEUES):
        queue = _queue(fields)
        if queue.name in queues:
            raise InvalidInput(
                f"the queue {queue.name} is written twice",
                hint="keep one of them",
                position=fields.entry("name").value.pos,
            )
        queues[queue.name] = queue
    return tuple(queues.values())


def queues_file_load(text: str, source: str, pool: AnyMapping[str, int]) -> tuple[tuple[QueueConfig, ...], list[str]]:
    """The ``queues`` of a file (or a file that is such a list), checked against `pool`, and warnings."""
    tree = tree_from_yaml(text, source)
    if isinstance(tree, Mapping):
        inner = [entry.value for entry in tree.entries if entry.key == "queues"]
        if not inner:
            raise InvalidInput("the file has no queues", hint="add queues: [...]", position=tree.pos)
        tree = inner[0]
    queues = queues_parse(tree)
    return queues, queues_checked(queues, pool, tree)


def queues_check(queues: tuple[QueueConfig, ...], pool: AnyMapping[str, int]) -> list[str]:
    """Warnings about queues that make sense; `InvalidInput` for those that do not (scheduling §1)."""
    return list(tree_build(queues, pool).warnings)


def queues_checked(queues: tuple[QueueConfig, ...], pool: AnyMapping[str, int], node: Node) -> list[str]:
    """`queues_check`, its error placed at the queue it names in `node`, or at the list."""
    try:
        return queues_check(queues, pool)
    except InvalidInput as error:
        blocks = listing_read(node, lambda item: Fields(item, QUEUE_KEYS, "a queue"), MAX_QUEUES)
        places = {block.required("name", str, ""): block.entry("name").value.pos for block in blocks}
        words = set(re.findall(r"[a-z0-9/-]+", error.message))
        named = [pos for name, pos in places.items() if name in words]
        raise error.at(named[0] if named else node.pos) from error


def pool_of(nodes: tuple[NodeSpec, ...]) -> dict[str, int]:
    """Milli-cards per model of every configured card, healthy or not."""
    pool: dict[str, int] = {}
    for spec in nodes:
        if spec.cards is not None:
            pool[spec.cards.model] = pool.get(spec.cards.model, 0) + spec.cards.count * 1000
    return pool


def queue_json(queue: QueueConfig) -> dict[str, object]:
    """The keys of a queue in a file; what is unset is left out."""
    value: dict[str, object] = {"name": queue.name}
    if queue.klass is not None:
        value["class"] = queue.klass.value
    for key in ("guarantee", "deserved", "cap"):
        amounts: Dimensions | None = getattr(queue, key)
        if amounts is not None:
            value[key] = {name: milli_format(milli) for name, milli in amounts.items()}
    if not queue.lend:
        value["lend"] = False
    if queue.dequeue is not Dequeue.TRAVERSE:
        value["dequeue"] = queue.dequeue.value
    if queue.card_hours is not None:
        hours = queue.card_hours
        value["card_hours"] = {"limit": milli_format(hours.limit), "used": milli_format(hours.used)}
    if queue.labels:
        value["labels"] = dict(queue.labels)
    return value


def _queue(fields: Fields) -> QueueConfig:
    name = fields.required("name", queue_name_parse, "trade/prod")
    return QueueConfig(
        name=name,
        klass=_class(fields, name),
        guarantee=_dimensions(fields.node("guarantee")),
        deserved=_dimensions(fields.node("deserved")),
        cap=_dimensions(fields.node("cap")),
        lend=fields.value("lend", boolean_parse, True),
        dequeue=Dequeue(fields.value("dequeue", choice_parse(Dequeue), Dequeue.TRAVERSE.value)),
        card_hours=_card_hours(fields.node("card_hours")),
        labels=_labels(fields.node("labels")),
    )


def _class(fields: Fields, name: str) -> QueueClass | None:
    """The class of a leaf.  A name that ends in a class is a leaf of that class, whether it says so or not."""
    last = name.rpartition("/")[2]
    by_name = QueueClass(last) if "/" in name and last in set(QueueClass) else None
    said = fields.optional("class", choice_parse(QueueClass))
    if said is None:
        return by_name
    if by_name is not None and by_name.value != said:
        raise InvalidInput(
            f"the queue {name} cannot have class {said}",
            hint=f"write class: {by_name}, or name the queue {name.rpartition('/')[0]}/{said}",
            position=fields.entry("class").value.pos,
        )
    if "/" not in name:
        raise InvalidInput(
            f"{name} is a tenant, so it has no class",
            hint=f"name the leaf {name}/{said}",
            position=fields.entry("class").value.pos,
        )
    return QueueClass(said)


def _dimensions(node: Node | None) -> dict[str, int] | None:
    """``16`` or ``{cards: 16, A800-80GB: 16}``, in cards."""
    if node is None:
        return None
    if isinstance(node, Scalar):
        return {CARDS: scalar_read(node, _cards)}
    if not isinstance(node, Mapping) or not node.entries:
        raise InvalidInput("expected an amount of cards", hint="write 16 or {A800-80GB: 16}", position=node.pos)
    amounts: dict[str, int] = {}
    for entry in node.entries:
        if not _DIMENSION.match(entry.key):
            raise InvalidInput(f"{entry.key[:80]!r} is not a card model", hint="or write cards", position=entry.pos)
        amounts[entry.key] = scalar_read(entry.value, _cards)
    return amounts


def _cards(text: str) -> int:
    return milli_parse(text, "amount of cards")


def _card_hours(node: Node | None) -> CardHours | None:
    if node is None:
        return None
    if isinstance(node, Scalar):
        return CardHours(scalar_read(node, _hours))
    fields = Fields(node, ("limit", "used"), "card_hours")
    return CardHours(fields.required("limit", _hours, "100"), fields.value("used", _hours, 0))


def _hours(text: str) -> int:
    return milli_parse(text, "amount of card-hours")


def _labels(node: Node | None) -> dict[str, str]:
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        raise InvalidInput("expected labels as a block of keys", hint="write {floor: 3}", position=node.pos)
    return {entry.key: scalar_read(entry.value, text_parse(256, "label")) for entry in node.entries}
