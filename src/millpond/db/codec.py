"""Dataclasses ↔ plain JSON values, from the annotations of their fields.

Every field is written, so a default that changes later does not change what was stored.  A field that is missing when
read (the row is older than the field) takes its default; an unknown key is an error: a row from newer code must
not be half understood.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from millpond.domain.jobs import JobSpec
from millpond.domain.nodes import NodeSpec
from millpond.domain.queues import QueueConfig
from millpond.domain.records import SeatRecord

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """``encode`` gives a JSON value; ``decode`` is its inverse and raises `ValueError` on what it does not know."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


@cache
def codec_for(kind: Any) -> Codec:
    """The codec of an annotation: dataclasses, enums, scalars, datetimes, tuples, frozensets, mappings, optionals."""
    if dataclasses.is_dataclass(kind):
        return _dataclass_codec(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Codec(lambda value: value.value, kind)
    if kind is datetime:
        return Codec(datetime.isoformat, datetime.fromisoformat)
    if kind in (str, int, bool, object):
        return Codec(_same, _same)
    return _generic_codec(get_origin(kind), get_args(kind), kind)


def _same(value: Any) -> Any:
    return value


def _generic_codec(origin: Any, args: tuple[Any, ...], kind: Any) -> Codec:
    if origin in (Union, types.UnionType) and len(args) == 2 and type(None) in args:
        inner = codec_for(next(arg for arg in args if arg is not type(None)))
        return Codec(
            lambda value: None if value is None else inner.encode(value),
            lambda value: None if value is None else inner.decode(value),
        )
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _sequence_codec(codec_for(args[0]), tuple)
    if origin is tuple:
        parts = tuple(codec_for(arg) for arg in args)
        return Codec(
            lambda value: [part.encode(item) for part, item in zip(parts, value, strict=True)],
            lambda value: tuple(part.decode(item) for part, item in zip(parts, value, strict=True)),
        )
    if origin is frozenset:
        item = codec_for(args[0])
        return Codec(
            lambda value: sorted(item.encode(member) for member in value),
            lambda value: frozenset(item.decode(member) for member in value),
        )
    if origin is Mapping and args[0] in (str, int):
        return _mapping_codec(args[0], codec_for(args[1]))
    raise TypeError(f"no codec for {kind!r}")


def _sequence_codec(item: Codec, make: Callable[[Any], Any]) -> Codec:
    return Codec(
        lambda value: [item.encode(member) for member in value],
        lambda value: make(item.decode(member) for member in value),
    )


def _mapping_codec(key: Callable[[str], Any], item: Codec) -> Codec:
    return Codec(
        lambda value: {str(name): item.encode(member) for name, member in value.items()},
        lambda value: {key(name): item.decode(member) for name, member in value.items()},
    )


def _dataclass_codec(kind: Any) -> Codec:
    hints = get_type_hints(kind)
    fields = {field.name: codec_for(hints[field.name]) for field in dataclasses.fields(kind)}

    def encode(value: Any) -> dict[str, Any]:
        return {name: codec.encode(getattr(value, name)) for name, codec in fields.items()}

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{kind.__name__} is stored as an object")  # noqa: TRY004
        unknown = value.keys() - fields.keys()
        if unknown:
            raise ValueError(f"{kind.__name__} has unknown fields: {', '.join(sorted(unknown))}")
        return kind(**{name: fields[name].decode(item) for name, item in value.items()})

    return Codec(encode, decode)


def json_encode(kind: type[T], value: T) -> Any:
    """`value` as plain JSON values."""
    annotation: Any = kind
    return codec_for(annotation).encode(value)


def json_decode(kind: type[T], value: Any) -> T:
    """The inverse of `json_encode`.  Raises `ValueError`, `TypeError` or `KeyError` on a damaged row."""
    annotation: Any = kind
    decoded: T = codec_for(annotation).decode(value)
    return decoded


# A planning pass reads every live job again, and a job's spec never changes: decode each distinct text once.
@lru_cache(maxsize=20_000)
def spec_decode(text: str) -> JobSpec:
    return json_decode(JobSpec, json.loads(text))


@lru_cache(maxsize=5_000)
def node_decode(text: str) -> NodeSpec:
    return json_decode(NodeSpec, json.loads(text))


@lru_cache(maxsize=20_000)
def seats_decode(text: str) -> tuple[SeatRecord, ...]:
    return tuple(json_decode(SeatRecord, item) for item in json.loads(text))


@lru_cache(maxsize=5_000)
def queue_decode(text: str) -> QueueConfig:
    return json_decode(QueueConfig, json.loads(text))


def seats_encode(seats: tuple[SeatRecord, ...]) -> list[Any]:
    return [json_encode(SeatRecord, seat) for seat in seats]


def bad_cards_decode(text: str) -> dict[int, str]:
    return {int(index): cause for index, cause in json.loads(text).items()}


def bad_cards_encode(bad: Mapping[int, str]) -> dict[str, str]:
    return {str(index): cause for index, cause in bad.items()}
