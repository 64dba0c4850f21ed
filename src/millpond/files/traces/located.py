"""Decoded JSON that knows where it stood: positions are looked up only when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from millpond.domain.errors import InvalidInput, Position

T = TypeVar("T")

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Text:
    """The document's text and its name, for positions."""

    text: str
    source: str

    def position(self, start: int, path: tuple[str | int, ...]) -> Position:
        """Where the value at `path` below the document that begins at `start` stands."""
        offset = _locate(self.text, start, path)
        line = self.text.count("\n", 0, offset) + 1
        return Position(line, offset - self.text.rfind("\n", 0, offset), path_text(path), self.source)


@dataclass(frozen=True, slots=True)
class Located:
    """A value at `path` in the document of `text` that begins at `start`."""

    value: Any
    text: Text
    start: int
    path: tuple[str | int, ...] = ()

    def at(self, *keys: str | int) -> Located:
        """The value below, None where a key is missing."""
        value = self.value
        for key in keys:
            if isinstance(key, str) and isinstance(value, dict):
                value = value.get(key)
            elif isinstance(key, int) and isinstance(value, list) and key < len(value):
                value = value[key]
            else:
                value = None
        return Located(value, self.text, self.start, (*self.path, *keys))

    def items(self) -> Iterator[Located]:
        """The values of a list; nothing if it is not there."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.error(f"expected a list, found {_kind(self.value)}")
        for index in range(len(self.value)):
            yield self.at(index)

    def entries(self) -> Iterator[tuple[str, Located]]:
        """The pairs of an object; nothing if it is not there."""
        if self.value is None:
            return
        if not isinstance(self.value, dict):
            raise self.error(f"expected an object, found {_kind(self.value)}")
        for key in self.value:
            yield key, self.at(key)

    def text_of(self, default: str = "") -> str:
        """A string or a number as text; `default` where there is none."""
        if self.value is None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            raise self.error(f"expected a text, found {_kind(self.value)}")
        return str(self.value)

    def parse(self, parse: Callable[[str], T]) -> T:
        """The value through `parse`, whose `InvalidInput` gets its position; an error if there is no value."""
        if self.value is None:
            raise self.error("the value is missing", hint=f"expected {path_text(self.path[-1:])} here")
        try:
            return parse(self.text_of())
        except InvalidInput as error:
            raise error.at(self.position()) from error

    def optional(self, parse: Callable[[str], T]) -> T | None:
        return None if self.value in (None, "") else self.parse(parse)

    def position(self) -> Position:
        return self.text.position(self.start, self.path)

    def error(self, message: str, hint: str = "") -> InvalidInput:
        return InvalidInput(message, hint=hint, position=self.position())


def documents_read(text: str, source: str) -> Iterator[Located]:
    """Every JSON value in `text`, one after the other (a stream has one a line)."""
    whole, offset = Text(text, source), 0
    while True:
        while offset < len(text) and text[offset] in _SPACE:
            offset += 1
        if offset == len(text):
            return
        try:
            value, end = _DECODER.raw_decode(text, offset)
        except json.JSONDecodeError as error:
            raise InvalidInput(
                f"this is not JSON: {error.msg[:1].lower()}{error.msg[1:]}",
                hint="is the file cut off?",
                position=Position(error.lineno, error.colno, "", source),
            ) from error
        except RecursionError as error:
            raise InvalidInput("nested too deeply", position=Position(1, 1, "", source)) from error
        yield Located(value, whole, offset)
        offset = end


def path_text(path: tuple[str | int, ...]) -> str:
    """``items[3].spec.containers[0]``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def _locate(text: str, start: int, path: tuple[str | int, ...]) -> int:
    """Offset of the value at `path`; where a part is missing, of the last value that is there."""
    offset = _skip(text, start)
    for key in path:
        found = _member(text, offset, key) if isinstance(key, str) else _element(text, offset, key)
        if found is None:
            return offset
        offset = found
    return offset


def _member(text: str, offset: int, key: str) -> int | None:
    if text[offset] != "{":
        return None
    offset = _skip(text, offset + 1)
    while text[offset] != "}":
        name, offset = _DECODER.raw_decode(text, offset)
        offset = _skip(text, _skip(text, offset) + 1)
        if name == key:
            return offset
        offset = _next(text, offset)
    return None


def _element(text: str, offset: int, index: int) -> int | None:
    if text[offset] != "[":
        return None
    offset = _skip(text, offset + 1)
    while text[offset] != "]":
        if index == 0:
            return offset
        index -= 1
        offset = _next(text, offset)
    return None


def _next(text: str, offset: int) -> int:
    """Past the value at `offset` and the comma behind it."""
    offset = _skip(text, _DECODER.raw_decode(text, offset)[1])
    return _skip(text, offset + 1) if text[offset] == "," else offset


def _skip(text: str, offset: int) -> int:
    while offset < len(text) and text[offset] in _SPACE:
        offset += 1
    return offset
