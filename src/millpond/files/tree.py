"""The positioned tree: YAML or JSON in, nodes that know where they stand out.

Scalars stay strings and are parsed by the field that wants them, so ``gpu: 4090:8``, ``id: 0123`` and ``user: no``
mean what they say (scheduling §9).  What could surprise or harm is refused: aliases and anchors (bombs), tags,
duplicate keys, control characters, deep nesting, oversized text, several documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from millpond.domain.errors import InvalidInput, Position

JOB_FILE_LIMIT = 1 << 20
"""Largest job, queue or node file, bytes."""

SNAPSHOT_FILE_LIMIT = 64 << 20
"""Largest snapshot file, bytes."""

MAX_DEPTH = 16

# NUL, other C0 and C1 controls, lone surrogates and the byte order mark inside a text.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value, as written; ``text`` of a key without a value is empty."""

    text: str
    pos: Position


@dataclass(frozen=True, slots=True)
class Listing:
    items: tuple[Node, ...]
    pos: Position


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    pos: Position
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Entries in the order of the file; keys are distinct."""

    entries: tuple[Entry, ...]
    pos: Position


Node: TypeAlias = "Scalar | Listing | Mapping"


def kind_name(node: Node) -> str:
    """What people call such a node."""
    if isinstance(node, Scalar):
        return "one value" if node.text else "nothing"
    return "a list" if isinstance(node, Listing) else "a block of keys"


def text_decode(data: bytes, source: str, limit: int = JOB_FILE_LIMIT) -> str:
    """The text of a file's bytes.  `InvalidInput` for more than `limit` bytes and for what is not UTF-8."""
    _size_check(len(data), source, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        raise InvalidInput(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
            position=Position(line, column, "", source),
        ) from error


def tree_from_yaml(text: str, source: str, limit: int = JOB_FILE_LIMIT) -> Node:
    """The one YAML document in `text`.  `source` names the file in positions.  Raises `InvalidInput`."""
    _size_check(len(text), source, limit)
    found = _FORBIDDEN.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        raise _forbidden(found.group(), Position(line, column, "", source))
    reader = _Reader(yaml.parse(text, Loader=_LOADER), source)
    try:
        return reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise InvalidInput(
            f"this is not YAML: {error.problem or error.context}",
            hint="check indentation, quotes and brackets here and just above",
            position=Position(line, column, "", source),
        ) from error
    except yaml.YAMLError as error:
        raise InvalidInput("this is not YAML", position=Position(1, 1, "", source)) from error


def tree_from_json(value: object, source: str) -> Node:
    """The tree of a decoded JSON value.  Positions have line 0 and the key path; a null is as if it was not there."""
    return _from_json(value, "", source, 1)


def _size_check(size: int, source: str, limit: int) -> None:
    if size > limit:
        raise InvalidInput(
            f"the file has more than {limit >> 20} MiB",
            hint="a job file is a few lines" if limit == JOB_FILE_LIMIT else "split it",
            code="FILE_TOO_LARGE",
            position=Position(1, 1, "", source),
        )


def _forbidden(character: str, position: Position) -> InvalidInput:
    name = {"\x00": "NUL character", "\ufeff": "byte order mark"}.get(character)
    return InvalidInput(
        f"a {name} is not allowed here" if name else f"the character U+{ord(character):04X} is not allowed here",
        hint="remove it",
        position=position,
    )


def _key_path(parent: str, key: str) -> str:
    key = key if len(key) <= 60 else key[:57] + "..."
    return f"{parent}.{key}" if parent else key


def _from_json(value: object, path: str, source: str, depth: int) -> Node:
    pos = Position(0, 0, path, source)
    if depth > MAX_DEPTH:
        raise InvalidInput(f"nested deeper than {MAX_DEPTH} levels", hint="flatten it", position=pos)
    if isinstance(value, bool):
        return Scalar("true" if value else "false", pos)
    if isinstance(value, int) and abs(value) >= 10**30:
        raise InvalidInput("the number is too large", position=pos)
    if isinstance(value, str | int | float):
        return Scalar(characters_check(str(value), pos), pos)
    if value is None:
        return Scalar("", pos)
    if isinstance(value, list | tuple):
        items = (_from_json(item, f"{path}[{index}]", source, depth + 1) for index, item in enumerate(value))
        return Listing(tuple(items), pos)
    if not isinstance(value, dict):
        raise InvalidInput(f"a {type(value).__name__} is not a JSON value", position=pos)
    entries = []
    for key, item in value.items():
        if item is None:
            continue
        key_pos = Position(0, 0, _key_path(path, str(key)), source)
        entries.append(Entry(_key_check(str(key), key_pos), key_pos, _from_json(item, key_pos.path, source, depth + 1)))
    return Mapping(tuple(entries), pos)


def characters_check(text: str, pos: Position) -> str:
    """`text`, if it has no control characters (line ends and tabs apart)."""
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise _forbidden(found.group(), pos)
    return text


def _key_check(text: str, pos: Position) -> str:
    if _FORBIDDEN.search(text) or "\n" in text or "\t" in text:
        raise InvalidInput("a key contains a control character", position=pos)
    return text


class _Reader:
    """Builds nodes from parser events: nothing is composed that was not checked first."""

    def __init__(self, events: Iterator[yaml.Event], source: str) -> None:
        self._events = events
        self._source = source

    def document(self) -> Node:
        first = self._next()
        while isinstance(first, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            first = self._next()
        if isinstance(first, yaml.StreamEndEvent):
            raise InvalidInput("the file is empty", hint="write some keys", position=Position(1, 1, "", self._source))
        node = self._node(first, "", 1)
        after = self._next()
        while isinstance(after, yaml.DocumentEndEvent):
            after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            raise InvalidInput(
                "the file has more than one document",
                hint="keep one, and put the others into files of their own",
                position=self._position(after, ""),
            )
        return node

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _position(self, event: yaml.Event, path: str) -> Position:
        mark = event.start_mark
        assert mark is not None  # noqa: S101  every event of a parser has one; the stubs do not say so
        return Position(mark.line + 1, mark.column + 1, path, self._source)

    def _node(self, event: yaml.Event, path: str, depth: int) -> Node:
        pos = self._position(event, path)
        if isinstance(event, yaml.AliasEvent):
            raise InvalidInput(f"the alias *{event.anchor} is not allowed", hint="write the value out", position=pos)
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            raise InvalidInput(f"the anchor &{anchor} is not allowed", hint="remove it", position=pos)
        if tag is not None:
            raise InvalidInput(f"the tag {tag} is not allowed", hint="remove it", position=pos)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(characters_check(event.value, pos), pos)
        if depth > MAX_DEPTH:
            raise InvalidInput(f"nested deeper than {MAX_DEPTH} levels", hint="flatten it", position=pos)
        if isinstance(event, yaml.SequenceStartEvent):
            return Listing(self._items(path, depth), pos)
        return Mapping(self._entries(path, depth), pos)

    def _items(self, path: str, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, f"{path}[{len(items)}]", depth + 1))
        return tuple(items)

    def _entries(self, path: str, depth: int) -> tuple[Entry, ...]:
        entries: dict[str, Entry] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, path, depth + 1)
            if not isinstance(key, Scalar):
                raise InvalidInput("a key must be one word", hint="quote texts with brackets", position=key.pos)
            where = _key_path(path, key.text)
            pos = self._position(event, where)
            _key_check(key.text, pos)
            if key.text in entries:
                raise InvalidInput(
                    f"the key is written twice, first in line {entries[key.text].pos.line}",
                    hint="keep one of them",
                    position=pos,
                )
            entries[key.text] = Entry(key.text, pos, self._node(self._next(), where, depth + 1))
        return tuple(entries.values())
