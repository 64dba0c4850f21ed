"""Typed reading of tree nodes: one value, one list, one block of keys; every error gets its position here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import TypeVar

from millpond.domain.amounts import duration_parse, integer_parse
from millpond.domain.errors import InvalidInput
from millpond.files.tree import Entry, Listing, Mapping, Node, Scalar, kind_name

T = TypeVar("T")

_DATETIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d))?(?:\.\d{1,9})?\s*(Z|[+-]\d\d:?\d\d)?\Z", re.IGNORECASE
)


class Fields:
    """The keys of one block.  Unknown keys are errors with the nearest known key as a hint."""

    def __init__(self, node: Node, known: Collection[str], what: str) -> None:
        if not isinstance(node, Mapping):
            raise InvalidInput(
                f"expected {what} as a block of keys, found {kind_name(node)}",
                hint=f"its keys are {', '.join(known)}",
                position=node.pos,
            )
        self.pos = node.pos
        self._what = what
        self._entries: dict[str, Entry] = {}
        for entry in node.entries:
            if entry.key not in known:
                raise InvalidInput(
                    f"{what} has no key {entry.key[:80]!r}", hint=_nearest(entry.key, known), position=entry.pos
                )
            self._entries[entry.key] = entry

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def node(self, key: str) -> Node | None:
        entry = self._entries.get(key)
        return entry.value if entry else None

    def entry(self, key: str) -> Entry:
        return self._entries[key]

    def value(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """One value, or `default` if the key is not there."""
        entry = self._entries.get(key)
        return default if entry is None else scalar_read(entry.value, parse)

    def optional(self, key: str, parse: Callable[[str], T]) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else scalar_read(entry.value, parse)

    def required(self, key: str, parse: Callable[[str], T], example: str) -> T:
        return scalar_read(self.required_node(key, example), parse)

    def required_node(self, key: str, example: str) -> Node:
        entry = self._entries.get(key)
        if entry is None:
            raise InvalidInput(f"{self._what} must have {key}", hint=f"add {key}: {example}", position=self.pos)
        return entry.value

    def items(self, key: str, read: Callable[[Node], T], limit: int) -> tuple[T, ...]:
        """A list, or nothing if the key is not there."""
        entry = self._entries.get(key)
        return () if entry is None else listing_read(entry.value, read, limit)


def scalar_text(node: Node) -> str:
    """The text of a node that must be one value and not empty."""
    if not isinstance(node, Scalar):
        raise InvalidInput(f"expected one value, found {kind_name(node)}", position=node.pos)
    if not node.text.strip():
        raise InvalidInput("the value is missing", hint="write one, or remove the key", position=node.pos)
    return node.text


def scalar_read(node: Node, parse: Callable[[str], T]) -> T:
    """One value through `parse`, whose `InvalidInput` gets the node's position."""
    text = scalar_text(node)
    try:
        return parse(text)
    except InvalidInput as error:
        raise error.at(node.pos) from error


def listing_read(node: Node, read: Callable[[Node], T], limit: int) -> tuple[T, ...]:
    """Every item of a list of at most `limit`."""
    if not isinstance(node, Listing):
        raise InvalidInput(f"expected a list, found {kind_name(node)}", hint="write it as [a, b]", position=node.pos)
    if len(node.items) > limit:
        raise InvalidInput(f"the list has {len(node.items)} items; {limit} are allowed", position=node.items[limit].pos)
    return tuple(read(item) for item in node.items)


def choice_parse(words: Iterable[str]) -> Callable[[str], str]:
    """A parser of one word out of a few."""
    known = tuple(words)

    def parse(text: str) -> str:
        if text not in known:
            raise InvalidInput(
                f"{text[:80]!r} is not one of {', '.join(known)}",
                hint=_nearest(text, known, quiet=True) or f"write {known[0]}",
            )
        return text

    return parse


def boolean_parse(text: str) -> bool:
    """``true`` or ``false``; the other booleans of YAML 1.1 are words like any other."""
    if text not in {"true", "false"}:
        raise InvalidInput(f"{text[:80]!r} is neither true nor false", hint="write true or false")
    return text == "true"


def integer_between(what: str, low: int, high: int) -> Callable[[str], int]:
    return lambda text: integer_parse(text, what, low, high)


def duration_between(low: int, high: int) -> Callable[[str], int]:
    """A parser of durations within bounds, in seconds."""

    def parse(text: str) -> int:
        seconds = duration_parse(text)
        if not low <= seconds <= high:
            raise InvalidInput(f"{text!r} is out of range", hint=f"from {low}s to {high}s")
        return seconds

    return parse


def datetime_parse(text: str) -> datetime:
    """ISO 8601, a space for the T accepted; naive if it names no zone.  Parts of a second are dropped."""
    match = _DATETIME.match(text.strip())
    if match is not None:
        day, minute, second, zone = match.groups()
        zone = {"z": "+00:00"}.get((zone or "").lower(), zone or "")
        try:
            return datetime.fromisoformat(f"{day}T{minute}:{second or '00'}{zone}")
        except ValueError:
            pass
    raise InvalidInput(f"{text[:80]!r} is not a time", hint="write it like 2026-11-30T08:55:00+08:00")


def text_parse(limit: int, what: str) -> Callable[[str], str]:
    """A parser of free text of bounded length."""

    def parse(text: str) -> str:
        if len(text) > limit:
            raise InvalidInput(f"the {what} has {len(text)} characters; {limit} are allowed")
        return text

    return parse


def _nearest(word: str, known: Iterable[str], *, quiet: bool = False) -> str:
    """ "did you mean" the closest of `known`; else, unless quiet, all of them."""
    words = list(known)
    close = difflib.get_close_matches(word[:80].lower(), words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return "" if quiet else f"known keys are {', '.join(words)}"
