"""Facts in files: one block of keys each, or one line of JSON each.

A line is read by a short way that takes only what is plainly right; whatever it does not take goes the long way, which
says what is wrong and where, or finds that nothing is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeGuard

from millpond.domain.amounts import integer_parse
from millpond.domain.errors import InvalidInput, Position
from millpond.domain.jobs import EndReason, JobType
from millpond.files.fields import (
    Fields,
    choice_parse,
    datetime_parse,
    integer_between,
    listing_read,
    scalar_read,
    scalar_text,
    text_parse,
)
from millpond.files.tree import Mapping, Node, tree_from_json
from millpond.metering.facts import Event, Fact, Shape, shares_even
from millpond.metering.hours import instant

FACT_KEYS: Final = (
    "id", "time", "event", "job", "attempt", "cards", "milli", "sku", "class", "project", "user", "type", "reason",
)  # fmt: skip

EVENTS: Final = {
    "started": Event.STARTED,
    "checkpointed": Event.CHECKPOINTED,
    "changed": Event.CHANGED,
    "ended": Event.ENDED,
}
SHAPED: Final = frozenset({Event.STARTED, Event.CHANGED})

MAX_MILLI: Final = 1_000_000_000
MAX_ATTEMPT: Final = 1_000_000
MAX_CARDS: Final = 100_000
MAX_TEXT: Final = 300

_KNOWN = frozenset(FACT_KEYS)
_REASONS = {reason.value: reason for reason in EndReason}
_TYPES = {kind.value: kind is JobType.SERVICE for kind in JobType}
_FAILED = re.compile(r"failed\(\d{1,3}\)\Z", re.ASCII)
_DECODE = json.JSONDecoder().decode
_TIME_LENGTHS = frozenset({20, 25})


def fact_read(node: Node) -> Fact:
    """A fact as a block of keys.  Raises `InvalidInput` with its position."""
    fields = Fields(node, FACT_KEYS, "a fact")
    name = _name_parse
    event = EVENTS[fields.required("event", choice_parse(EVENTS), "started")]
    return Fact(
        fields.required("time", _time_parse, "2026-11-30T14:20:00+08:00"),
        event,
        fields.required("id", name, "f1"),
        fields.required("job", name, "j1"),
        fields.required("attempt", integer_between("attempt", 0, MAX_ATTEMPT), "1"),
        fields.required("reason", _reason_parse, "completed") if event is Event.ENDED else None,
        _shape(fields) if event in SHAPED else None,
    )


def facts_of_lines(lines: Iterable[str], source: str, number: int = 0) -> Iterator[Fact]:
    """Facts out of JSON lines that are sorted by time; `number` lines came before the first.

    Raises `InvalidInput` with line and key, also for a line that is earlier than the one above.
    """
    last = -1 << 62
    for line in lines:
        number += 1
        if line.isspace():
            continue
        fact = fact_of_line(line, number, source)
        if fact.time < last:
            raise InvalidInput(
                "the fact is earlier than the line above it",
                hint="sort the lines by time, or write the facts as a list into a YAML file",
                code="UNSORTED",
                position=Position(number, 1, "time", source),
            )
        last = fact.time
        yield fact


def fact_of_line(line: str, number: int, source: str) -> Fact:
    """The fact in line `number`."""
    value = json_line(line, number, source)
    fact = _quick(value)
    return fact if fact is not None else line_read(value, number, source, fact_read)


def json_line(line: str, number: int, source: str) -> Any:
    """The JSON value in a line."""
    try:
        return _DECODE(line)
    except (ValueError, RecursionError) as error:
        column = error.colno if isinstance(error, json.JSONDecodeError) else 1
        raise InvalidInput(
            f"this is not JSON: {error.msg if isinstance(error, json.JSONDecodeError) else 'nested too deep'}",
            hint="write one object a line",
            position=Position(number, column, "", source),
        ) from error


def line_read(value: object, number: int, source: str, read: Any) -> Any:
    """`read` of a decoded line; its errors say in which line."""
    try:
        return read(tree_from_json(value, source))
    except InvalidInput as error:
        path = error.position.path if error.position is not None else ""
        raise InvalidInput(
            error.message,
            hint=error.hint,
            code=error.reason,
            details=error.details,
            position=Position(number, 1, path, source),
        ) from error


def _quick(value: Any) -> Fact | None:
    """The fact, if every key is there, known, and plainly right."""
    if type(value) is not dict or not value.keys() <= _KNOWN:
        return None
    get = value.get
    name, job, attempt, time = get("id"), get("job"), get("attempt"), get("time")
    event = EVENTS.get(_word(get("event")))
    if event is None or not (_plain(name) and _plain(job)) or type(attempt) is not int or type(time) is not str:
        return None
    if not 0 <= attempt <= MAX_ATTEMPT or len(time) not in _TIME_LENGTHS or time[10] != "T" or time[7] != "-":
        return None
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return None
    reason = shape = None
    if event is Event.ENDED:
        reason = _REASONS.get(_word(get("reason")))
        if reason is None:
            return None
    elif event in SHAPED:
        shape = _quick_shape(value)
        if shape is None:
            return None
    return None if at.tzinfo is None else Fact(instant(at), event, name, job, attempt, reason, shape)


def _quick_shape(value: dict[str, Any]) -> Shape | None:
    get = value.get
    milli, sku, klass, project, user = get("milli"), get("sku"), get("class"), get("project"), get("user")
    service, cards = _TYPES.get(_word(get("type", "task"))), get("cards", ())
    if type(milli) is not int or not 0 <= milli <= MAX_MILLI or service is None:
        return None
    if not (_plain(sku) and _plain(klass) and _plain(project) and _plain(user)):
        return None
    shares: tuple[tuple[str, int], ...] = ()
    if cards:
        if type(cards) is not list or not all(map(_plain, cards)) or len(set(cards)) < len(cards):
            return None
        shares = shares_even(tuple(cards), milli)
    return Shape(milli, sku, klass, project, user, service, shares)


def _plain(text: object) -> TypeGuard[str]:
    return type(text) is str and 0 < len(text) <= MAX_TEXT and text.isprintable() and text == text.strip()


def _word(value: object) -> str:
    """What can be looked up."""
    return value if isinstance(value, str) else ""


def _shape(fields: Fields) -> Shape:
    milli = fields.required("milli", integer_between("number of milli-cards", 0, MAX_MILLI), "1000")
    name = _name_parse
    cards = fields.node("cards")
    return Shape(
        milli,
        fields.required("sku", name, "A800-80GB"),
        fields.required("class", name, "prod"),
        fields.required("project", name, "alpha"),
        fields.required("user", name, "zhang3"),
        fields.value("type", choice_parse(_TYPES), "task") == JobType.SERVICE,
        () if cards is None else _cards(cards, milli),
    )


def _cards(node: Node, milli: int) -> tuple[tuple[str, int], ...]:
    if isinstance(node, Mapping):
        shares = []
        for entry in node.entries:
            if not entry.key.strip():
                raise InvalidInput("a card must have a name", position=entry.pos)
            share = scalar_read(entry.value, lambda text: integer_parse(text, "share of a card", 1, 1000))
            shares.append((entry.key, share * 1000))
        return tuple(shares)
    names: dict[str, None] = {}
    for item in listing_read(node, lambda item: item, MAX_CARDS):
        name = scalar_text(item)
        if name in names:
            raise InvalidInput(f"the card {name!r} is named twice", hint="name each card once", position=item.pos)
        names[scalar_read(item, _name_parse)] = None
    return shares_even(tuple(names), milli)


def _name_parse(text: str) -> str:
    if "\n" in text or "\t" in text:
        raise InvalidInput("a name has no line ends and tabs", hint="write it on one line")
    return text_parse(MAX_TEXT, "name")(text.strip())


def _time_parse(text: str) -> int:
    time = datetime_parse(text)
    if time.tzinfo is None:
        raise InvalidInput(f"the time {text!r} names no zone", hint="write it like 2026-11-30T14:20:00+08:00")
    return instant(time)


def _reason_parse(text: str) -> EndReason:
    if _FAILED.match(text):
        return EndReason.FAILED
    return _REASONS[choice_parse(_REASONS)(text)]
