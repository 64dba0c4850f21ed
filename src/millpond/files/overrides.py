"""What-if changes of a snapshot (``--set``): paths into the file, applied before it is understood.

    settings.cooldown=30s                      queues.factor/batch.cap=48
    queues.factor/batch.cap.A800-80GB=16       queues.+vision/batch={deserved: 8, cap: 16}
    nodes.n[1-4].cordoned=true                 nodes.+2=n1   (two more like n1; without =n1 like the last one)
    nodes.+2={cpu: 192, memory: 2TB, cards: {model: H200, count: 8}}
    jobs.*.preemptible=false                   queues.nlp/besteffort=none   (without it)

Because the file's own reader sees the result, every rule of a file holds for it, and errors name the place in the
argument: line n is the n-th argument.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from millpond.domain.errors import InvalidInput, Position
from millpond.domain.names import natural_key
from millpond.files.nodes import MAX_NODES, NODE_KEYS, STATE_KEYS, names_expand
from millpond.files.queues import QUEUE_KEYS
from millpond.files.snapshot_jobs import JOB_KEYS
from millpond.files.tree import Entry, Listing, Mapping, Node, Scalar, tree_from_yaml

HEADS = ("settings", "queues", "nodes", "jobs")
REMOVE = "none"
AMOUNTS = ("guarantee", "deserved", "cap")
OWN_TO_A_NODE = ("name", "uuids", *STATE_KEYS)
"""Keys that a new node does not take over from the one that it is like."""

_NEW_NODES = re.compile(r"nodes\.\+\d+\Z")
_NEW = re.compile(r"\+(\d{1,5})\Z")
_DIGITS = re.compile(r"(.*?)(\d*)\Z")
_BRACKETS = {"[": "]", "{": "}", "(": ")"}


@dataclass(frozen=True, slots=True)
class Key:
    """One part of a path."""

    text: str
    pos: Position


@dataclass(frozen=True, slots=True)
class Override:
    """``path = value``; ``value`` None removes what the path names.  ``text`` as it was written."""

    path: tuple[Key, ...]
    value: Node | None
    pos: Position
    text: str


def override_parse(text: str, source: str = "--set", line: int = 1, column: int = 1) -> Override:
    """One change.  `line` and `column` say where `text` stands among its arguments."""
    at = Position(line, column, "", source)
    equals = _split(text, "=")[0]
    if len(equals) == len(text) and not _NEW_NODES.match(text.strip()):
        example = _EXAMPLES.get(text.partition(".")[0].strip(), _EXAMPLES["queues"])
        raise InvalidInput(f"{text[:80]!r} says no value", hint=example, position=_right(at, len(text)))
    keys: list[Key] = []
    offset = 0
    for part in _split(equals, "."):
        word = part.strip()
        pos = replace(_right(at, offset), path=equals.strip())
        if not word.strip('"'):
            raise InvalidInput("a part of the path is empty", hint="write queues.factor/batch.cap=48", position=pos)
        keys.append(Key(word.strip('"'), pos))
        offset += len(part) + 1
    if keys[0].text not in HEADS:
        raise InvalidInput(
            f"{keys[0].text[:80]!r} cannot be set", hint=nearest(keys[0].text, HEADS), position=keys[0].pos
        )
    if len(keys) < 2:
        raise InvalidInput(
            f"{keys[0].text} of which name or key?", hint=_EXAMPLES[keys[0].text], position=_right(at, len(equals))
        )
    value_at = replace(_right(at, len(equals) + 1), path=equals.strip())
    value = None if len(equals) == len(text) else _value(text[len(equals) + 1 :], value_at)
    return Override(tuple(keys), value, at, text.strip())


def overrides_parse(text: str, source: str = "--case", line: int = 1, column: int = 1) -> tuple[Override, ...]:
    """Several changes with commas between them (commas in brackets belong to a value)."""
    found = []
    for part in _split(text, ","):
        before = len(part) - len(part.lstrip())
        if part.strip():
            found.append(override_parse(part.strip(), source, line, column + before))
        column += len(part) + 1
    return tuple(found)


def tree_override(tree: Node, overrides: Sequence[Override]) -> Node:
    """`tree` with the changes made, in order.  Raises `InvalidInput` for names that it does not have."""
    for override in overrides:
        if not isinstance(tree, Mapping):
            return tree
        head = override.path[0].text
        if head == "settings":
            tree = _put(tree, override.path, override.value)
            continue
        items = next((entry.value for entry in tree.entries if entry.key == head), None)
        if not isinstance(items, Listing):
            items = Listing((), override.pos)
        change = {"queues": _queues, "nodes": _nodes, "jobs": _jobs}[head]
        tree = _put(tree, override.path[:1], change(items, override))
    return tree


def nearest(word: str, known: Sequence[str]) -> str:
    """ "did you mean" the closest of `known`, or some of them."""
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    shown = ", ".join(known[:8])
    return f"expected one of {shown}{', …' if len(known) > 8 else ''}" if known else "there are none"


_EXAMPLES = {
    "settings": "write settings.cooldown=30s",
    "queues": "write queues.factor/batch.cap=48",
    "nodes": "write nodes.n1.cordoned=true or nodes.+2=n1",
    "jobs": "write jobs.j1.priority=80",
}


# -- queues, nodes, jobs


def _queues(items: Listing, override: Override) -> Listing:
    name = override.path[1]
    if name.text.startswith("+"):
        return _added(items, Key(name.text[1:], name.pos), override)
    known = [_name(item, "name") for item in items.items]
    _known_or_fail(name, known, "queue")
    keys = override.path[2:]
    _key_check(keys, QUEUE_KEYS, "a queue")

    def change(item: Mapping) -> Mapping:
        if len(keys) == 2 and keys[0].text in AMOUNTS:
            item = _as_amounts(item, keys[0])
        # Rules between queues are told at the name of the queue: let that be the argument.
        named = _put(item, (Key("name", override.path[-1].pos),), Scalar(name.text, override.path[-1].pos))
        return _put(named, keys, override.value)

    return _changed(items, "name", {name.text}, change, override, keys)


def _nodes(items: Listing, override: Override) -> Listing:
    items = _expanded(items)
    names = [_name(item, "name") for item in items.items]
    word = override.path[1]
    if word.text.startswith("+"):
        return _bought(items, names, override)
    wanted = set(names) if word.text == "*" else set(names_expand(word.text, word.pos))
    for name in sorted(wanted, key=natural_key):
        _known_or_fail(Key(name, word.pos), names, "node")
    keys = override.path[2:]
    _key_check(keys, (*NODE_KEYS, *STATE_KEYS), "a node")
    return _changed(items, "name", wanted, lambda item: _put(item, keys, override.value), override, keys)


def _jobs(items: Listing, override: Override) -> Listing:
    known = [_name(item, "id") for item in items.items]
    word = override.path[1]
    wanted = set(known) if word.text == "*" else {word.text}
    if word.text != "*":
        _known_or_fail(word, known, "job")
    keys = override.path[2:]
    _key_check(keys, JOB_KEYS, "a job")
    return _changed(items, "id", wanted, lambda item: _put(item, keys, override.value), override, keys)


def _changed(
    items: Listing,
    key: str,
    wanted: set[str],
    change: Callable[[Mapping], Mapping],
    override: Override,
    keys: tuple[Key, ...],
) -> Listing:
    if not keys:
        if override.value is not None:
            raise InvalidInput(
                f"{override.path[1].text} has keys; which one?",
                hint=f"{_EXAMPLES[override.path[0].text]}, or =none to do without it",
                position=_right(override.path[1].pos, len(override.path[1].text)),
            )
        return Listing(tuple(item for item in items.items if _name(item, key) not in wanted), items.pos)
    found = (change(item) if isinstance(item, Mapping) and _name(item, key) in wanted else item for item in items.items)
    return Listing(tuple(found), items.pos)


def _added(items: Listing, name: Key, override: Override) -> Listing:
    """A new queue."""
    if name.text in {_name(item, "name") for item in items.items}:
        raise InvalidInput(f"there is a queue {name.text} already", hint="write it without the +", position=name.pos)
    if len(override.path) > 2 or not isinstance(override.value, Mapping):
        raise InvalidInput(
            "a new queue needs its keys", hint="write queues.+vision/batch={cap: 16}", position=override.path[-1].pos
        )
    block = _put(override.value, (Key("name", name.pos),), Scalar(name.text, name.pos))
    return Listing((*items.items, block), items.pos)


def _bought(items: Listing, names: list[str], override: Override) -> Listing:
    """``+2=n1``: two more nodes like n1, or as the block says."""
    word = override.path[1]
    match = _NEW.match(word.text)
    if match is None or not 1 <= int(match.group(1)) <= MAX_NODES:
        raise InvalidInput(
            f"{word.text[:80]!r} is not a number of new nodes", hint="write nodes.+2=n1", position=word.pos
        )
    if len(override.path) > 2:
        raise InvalidInput("new nodes have no names yet", hint="write nodes.+2=n1", position=override.path[2].pos)
    value = override.value
    if value is None:
        if not names:
            raise InvalidInput("there is no node to be like", hint="say what they are", position=word.pos)
        value = Scalar(max(names, key=natural_key), word.pos)
    if isinstance(value, Mapping):
        block, like = value, "new"
    elif isinstance(value, Scalar):
        _known_or_fail(Key(value.text, value.pos), names, "node")
        block, like = _block_of(items, value.text), value.text
    else:
        raise InvalidInput("like which node?", hint="write nodes.+2=n1", position=override.pos)
    kept = tuple(entry for entry in block.entries if entry.key not in OWN_TO_A_NODE)
    kept = tuple(_without_uuids(entry) for entry in kept)
    made = tuple(
        Mapping((Entry("name", word.pos, Scalar(name, word.pos)), *kept), word.pos)
        for name in _fresh(names, like, int(match.group(1)))
    )
    return Listing((*items.items, *made), items.pos)


def _fresh(names: Sequence[str], like: str, count: int) -> list[str]:
    """Names that go on where those like `like` end: n8 → n9, n10."""
    stem, digits = _split_digits(like)
    used = [digits_of for name in names for stem_of, digits_of in (_split_digits(name),) if stem_of == stem]
    last = max((int(number) for number in used if number), default=0)
    width = len(digits) if digits.startswith("0") else 0
    return [f"{stem}{last + index:0{width}d}" for index in range(1, count + 1)]


def _split_digits(name: str) -> tuple[str, str]:
    match = _DIGITS.match(name)
    return (match.group(1), match.group(2)[-9:]) if match else (name, "")


def _without_uuids(entry: Entry) -> Entry:
    if entry.key != "cards" or not isinstance(entry.value, Mapping):
        return entry
    kept = tuple(inner for inner in entry.value.entries if inner.key != "uuids")
    return replace(entry, value=Mapping(kept, entry.value.pos))


def _expanded(items: Listing) -> Listing:
    """Ranges of names written out: one block a node."""
    found: list[Node] = []
    for item in items.items:
        name = _entry(item, "name")
        if name is None or not isinstance(name.value, Scalar) or "[" not in name.value.text:
            found.append(item)
            continue
        assert isinstance(item, Mapping)  # noqa: S101  it has an entry
        pos = name.value.pos
        words = names_expand(name.value.text, pos)
        found.extend(_put(item, (Key("name", name.pos),), Scalar(word, pos)) for word in words)
    return Listing(tuple(found), items.pos)


def _block_of(items: Listing, name: str) -> Mapping:
    return next(item for item in items.items if isinstance(item, Mapping) and _name(item, "name") == name)


def _as_amounts(item: Mapping, key: Key) -> Mapping:
    """``cap: 40`` as ``cap: {cards: 40}``, so that a model can be put beside it."""
    entry = _entry(item, key.text)
    if entry is None or not isinstance(entry.value, Scalar):
        return item
    return _put(item, (key,), Mapping((Entry("cards", entry.value.pos, entry.value),), entry.value.pos))


# -- trees


def _put(block: Mapping, path: Sequence[Key], value: Node | None) -> Mapping:
    """`block` with the value at `path` replaced, added, or (None) taken out."""
    key, rest = path[0], path[1:]
    before = _entry(block, key.text)
    if rest:
        inner = before.value if before is not None else Mapping((), key.pos)
        if not isinstance(inner, Mapping):
            raise InvalidInput(f"{key.text} is one value and has no keys", hint="set it whole", position=rest[0].pos)
        value = _put(inner, rest, value)
    if value is None:
        return Mapping(tuple(entry for entry in block.entries if entry.key != key.text), block.pos)
    made = Entry(key.text, before.pos if before is not None and rest else key.pos, value)
    if before is None:
        return Mapping((*block.entries, made), block.pos)
    return Mapping(tuple(made if entry.key == key.text else entry for entry in block.entries), block.pos)


def _entry(item: Node, key: str) -> Entry | None:
    if not isinstance(item, Mapping):
        return None
    return next((entry for entry in item.entries if entry.key == key), None)


def _name(item: Node, key: str) -> str:
    entry = _entry(item, key)
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else ""


def _known_or_fail(name: Key, known: Sequence[str], what: str) -> None:
    if name.text not in known:
        raise InvalidInput(f"there is no {what} {name.text[:80]!r}", hint=nearest(name.text, known), position=name.pos)


def _key_check(keys: Sequence[Key], known: tuple[str, ...], what: str) -> None:
    """Also where nothing is set to be read later: ``=none`` of a key that does not exist is a mistake."""
    if keys and keys[0].text not in known:
        raise InvalidInput(
            f"{what} has no key {keys[0].text[:80]!r}", hint=nearest(keys[0].text, known), position=keys[0].pos
        )


# -- the argument


def _value(text: str, at: Position) -> Node | None:
    word = text.strip()
    at = _right(at, len(text) - len(text.lstrip()))
    if not word:
        raise InvalidInput("the value is missing", hint="write one, or none to do without", position=at)
    if word == REMOVE:
        return None
    if word[0] not in "[{\"'":
        return Scalar(word, at)
    try:
        return _moved(tree_from_yaml(word, at.source), at)
    except InvalidInput as error:
        found = error.position
        columns = len(word) if found is None or found.line > 1 else found.column - 1
        raise InvalidInput(error.message, hint="check brackets and quotes", position=_right(at, columns)) from error


def _moved(node: Node, at: Position) -> Node:
    """The tree of a value, placed where the value stands."""
    pos = replace(at, column=at.column + node.pos.column - 1)
    if isinstance(node, Scalar):
        return Scalar(node.text, pos)
    if isinstance(node, Listing):
        return Listing(tuple(_moved(item, at) for item in node.items), pos)
    return Mapping(
        tuple(
            Entry(entry.key, replace(at, column=at.column + entry.pos.column - 1), _moved(entry.value, at))
            for entry in node.entries
        ),
        pos,
    )


def _right(pos: Position, columns: int) -> Position:
    return replace(pos, column=pos.column + columns)


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that stand in no bracket and in no quotes."""
    parts, begin, depth, quoted = [], 0, 0, False
    for index, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in _BRACKETS:
            depth += 1
        elif character in _BRACKETS.values():
            depth = max(0, depth - 1)
        elif character == separator and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    parts.append(text[begin:])
    return parts
