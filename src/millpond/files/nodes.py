"""Nodes as people write them: the ``nodes`` of scheduling §9, and the short form of a simulated pool.

{name: "n[1-8]", cpu: 128, memory: 2TB, labels: {rack: r1}, cards: {model: A800-80GB, memory: 80GB, count: 8}}
8x8xA800-80GB                      eight simulated nodes of eight cards; a comma joins several groups
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from millpond.domain.amounts import cpu_parse, memory_format, memory_parse, milli_format
from millpond.domain.cards import VENDORS
from millpond.domain.errors import InvalidInput, Position
from millpond.domain.names import label_parse
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.files.fields import (
    Fields,
    boolean_parse,
    choice_parse,
    integer_between,
    listing_read,
    scalar_read,
    text_parse,
)
from millpond.files.tree import Mapping, Node, tree_from_yaml

NODE_KEYS = ("name", "cpu", "memory", "labels", "taints", "cards", "simulated")
STATE_KEYS = ("cordoned", "draining", "lost", "bad_cards")
MAX_NODES = 10_000
MAX_CARDS_PER_NODE = 64
SIMULATED_CPU = 128_000
SIMULATED_MEMORY = 2 * 1024 * 1024

_RANGE = re.compile(r"([^\[\]]*)\[([0-9,\-]+)\]([^\[\]]*)\Z")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}\Z")
_MODEL_MEMORY = re.compile(r".*-(\d{1,4})GB\Z", re.IGNORECASE)
_SIM = re.compile(r"(\d{1,5})x(\d{1,3})x([A-Za-z0-9][A-Za-z0-9_.+-]{0,62})\Z")

# Memory in GB of models whose usual name does not say it, with the vendor; vendors' data sheets.
_KNOWN = {
    "4090": ("nvidia", 24), "3090": ("nvidia", 24), "5090": ("nvidia", 32), "L4": ("nvidia", 24),
    "L40S": ("nvidia", 48), "A10": ("nvidia", 24), "T4": ("nvidia", 16), "H20": ("nvidia", 96),
    "H100": ("nvidia", 80), "H800": ("nvidia", 80), "A800": ("nvidia", 80), "A100": ("nvidia", 80),
    "H200": ("nvidia", 141), "B200": ("nvidia", 180), "910B": ("ascend", 64), "910C": ("ascend", 128),
    "MI300X": ("amd", 192), "MI325X": ("amd", 256), "V100": ("nvidia", 32),
}  # fmt: skip


def nodes_parse(node: Node, *, simulated: bool = False) -> tuple[NodeSpec, ...]:
    """A list of nodes, ranges written out, names distinct.  Raises `InvalidInput` with positions."""
    return tuple(spec for spec, _ in node_entries_parse(node, NODE_KEYS, simulated=simulated))


def node_entries_parse(
    node: Node, keys: tuple[str, ...], *, simulated: bool = False
) -> tuple[tuple[NodeSpec, Fields], ...]:
    """As `nodes_parse`, with the block that each node came from, for readers that allow more keys."""
    found: list[tuple[NodeSpec, Fields]] = []
    seen: set[str] = set()
    for fields in listing_read(node, lambda item: Fields(item, keys, "a node"), MAX_NODES):
        template = _node(fields, simulated=simulated)
        where = fields.entry("name").value.pos
        for name in names_expand(template.name, where):
            if name in seen:
                raise InvalidInput(f"the node {name} is written twice", hint="keep one of them", position=where)
            if len(seen) >= MAX_NODES:
                raise InvalidInput(f"more than {MAX_NODES} nodes", position=where)
            seen.add(name)
            found.append((replace(template, name=name), fields))
    return tuple(found)


def nodes_file_load(text: str, source: str) -> tuple[NodeSpec, ...]:
    """The ``nodes`` of a file, or a file that is such a list; its other keys are left alone.  All simulated."""
    tree = tree_from_yaml(text, source)
    if isinstance(tree, Mapping):
        inner = [entry.value for entry in tree.entries if entry.key == "nodes"]
        if not inner:
            raise InvalidInput("the file has no nodes", hint="add nodes: [...]", position=tree.pos)
        tree = inner[0]
    return tuple(_simulated(spec) for spec in nodes_parse(tree, simulated=True))


def sim_parse(text: str, source: str = "--sim") -> tuple[NodeSpec, ...]:
    """A simulated pool from ``8x8xA800-80GB`` or from the text of a nodes file (design §8: 128 CPU, 2 TiB)."""
    if "\n" in text or "{" in text:
        return nodes_file_load(text, source)
    nodes: list[NodeSpec] = []
    for group in text.split(","):
        match = _SIM.match(group.strip())
        if match is None:
            raise InvalidInput(
                f"{group[:80]!r} is not a simulated pool",
                hint="write nodes x cards x model, such as 8x8xA800-80GB, or name a file with nodes",
                position=Position(0, 0, "", source),
            )
        count, cards, model = int(match.group(1)), int(match.group(2)), match.group(3)
        if not 1 <= count <= MAX_NODES - len(nodes) or not 1 <= cards <= MAX_CARDS_PER_NODE:
            raise InvalidInput(
                f"{group.strip()!r} is too large or empty",
                hint=f"1 to {MAX_NODES} nodes in all, 1 to {MAX_CARDS_PER_NODE} cards each",
                position=Position(0, 0, "", source),
            )
        vendor, memory = model_facts(model)
        kind = CardKind(model, vendor, memory, cards)
        first = len(nodes) + 1
        nodes.extend(_simulated(NodeSpec(f"n{first + index}", cards=kind)) for index in range(count))
    return tuple(nodes)


def node_json(spec: NodeSpec) -> dict[str, object]:
    """The keys of a node in a file; what is unset is left out."""
    value: dict[str, object] = {"name": spec.name}
    amounts = {
        "cpu": milli_format(spec.cpu) if spec.cpu else "",
        "memory": memory_format(spec.memory) if spec.memory else "",
        "labels": dict(spec.labels),
        "taints": list(spec.taints),
        "simulated": spec.simulated,
        "cards": _cards_json(spec.cards),
    }
    value.update({key: item for key, item in amounts.items() if item})
    return value


def _cards_json(kind: CardKind | None) -> dict[str, object]:
    if kind is None:
        return {}
    value: dict[str, object] = {
        "model": kind.model,
        "vendor": kind.vendor,
        "memory": memory_format(kind.memory),
        "count": kind.count,
    }
    extras = {"islands": [list(island) for island in kind.islands], "uuids": list(kind.uuids), "mig": kind.mig}
    value.update({key: item for key, item in extras.items() if item})
    return value


def _simulated(spec: NodeSpec) -> NodeSpec:
    return replace(spec, cpu=spec.cpu or SIMULATED_CPU, memory=spec.memory or SIMULATED_MEMORY, simulated=True)


def _node(fields: Fields, *, simulated: bool) -> NodeSpec:
    return NodeSpec(
        name=fields.required("name", str, "n1"),
        cpu=fields.value("cpu", cpu_parse, 0),
        memory=fields.value("memory", memory_parse, 0),
        cards=_cards(fields.node("cards")),
        labels=_labels(fields.node("labels")),
        taints=fields.items("taints", lambda item: scalar_read(item, text_parse(256, "taint")), 64),
        simulated=fields.value("simulated", boolean_parse, simulated),
    )


def _cards(node: Node | None) -> CardKind | None:
    if node is None:
        return None
    fields = Fields(node, ("model", "vendor", "memory", "count", "islands", "uuids", "mig"), "cards")
    model = fields.required("model", model_parse, "A800-80GB")
    vendor, memory = model_facts(model)
    count = fields.required("count", integer_between("number of cards", 1, MAX_CARDS_PER_NODE), "8")
    return CardKind(
        model=model,
        vendor=fields.value("vendor", choice_parse(VENDORS), vendor),
        memory=fields.value("memory", memory_parse, memory),
        count=count,
        islands=_islands(fields.node("islands"), count),
        uuids=fields.items("uuids", lambda item: scalar_read(item, text_parse(128, "uuid")), count),
        mig=fields.value("mig", boolean_parse, False),
    )


def _islands(node: Node | None, count: int) -> tuple[tuple[int, ...], ...]:
    """Disjoint sets of card indexes."""
    if node is None:
        return ()
    index = index_reader(count)
    islands = listing_read(node, lambda item: listing_read(item, index, count), count)
    seen = [card for island in islands for card in island]
    if len(set(seen)) != len(seen) or not all(islands):
        raise InvalidInput("a card is in two islands, or an island is empty", position=node.pos)
    return islands


def index_reader(count: int) -> Callable[[Node], int]:
    """A reader of card indexes of a node with `count` cards."""
    return lambda item: scalar_read(item, integer_between("card index", 0, max(count - 1, 0)))


def _labels(node: Node | None) -> tuple[tuple[str, str], ...]:
    if node is None:
        return ()
    if not isinstance(node, Mapping):
        raise InvalidInput("expected labels as a block of keys", hint="write {rack: r1}", position=node.pos)
    return tuple((entry.key, scalar_read(entry.value, text_parse(256, "label"))) for entry in node.entries)


def model_parse(text: str) -> str:
    """The name of a card model."""
    if not _MODEL.match(text):
        raise InvalidInput(f"{text[:80]!r} is not a card model", hint="a model looks like A800-80GB")
    return text


def model_facts(model: str) -> tuple[str, int]:
    """Vendor and memory (MiB) that a model's name tells; nvidia and 0 where it tells nothing."""
    vendor, size = _KNOWN.get(model.upper(), _KNOWN.get(model.upper().partition("-")[0], ("nvidia", 0)))
    match = _MODEL_MEMORY.match(model)
    return vendor, (int(match.group(1)) if match else size) * 1024


def names_expand(text: str, where: Position) -> list[str]:
    """``n[1-3,7]`` → n1 n2 n3 n7; leading zeros of the first number are kept."""
    match = _RANGE.match(text)
    numbers = [""] if match is None else _numbers(match.group(2), where)
    before, after = (match.group(1), match.group(3)) if match else (text, "")
    try:
        return [label_parse(f"{before}{number}{after}", "node") for number in numbers]
    except InvalidInput as error:
        raise error.at(where) from error


def _numbers(text: str, where: Position) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or max(len(low), len(high)) > 9:
            raise InvalidInput(f"{text!r} is not a range", hint="write n[1-8] or n[1,3]", position=where)
        last = int(high) if dash else int(low)
        if last < int(low) or last - int(low) >= MAX_NODES:
            raise InvalidInput(f"{part!r} is not a range", hint="write the smaller number first", position=where)
        numbers.extend(str(number).zfill(len(low)) for number in range(int(low), last + 1))
    return numbers
