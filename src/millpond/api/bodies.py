"""JSON bodies, read with suspicion: what could surprise or harm is refused before any model sees it."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel

from millpond.domain.amounts import MAX_AMOUNT
from millpond.domain.errors import InvalidInput, Position

MAX_DEPTH = 32
MAX_NODES = 200_000

# NUL cannot be stored, lone surrogates cannot be sent back.
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


def body_parse(data: bytes) -> Any:
    """The value of a JSON body.

    Raises `InvalidInput` for what is not JSON or not UTF-8, duplicate keys, NaN, numbers beyond `MAX_AMOUNT`, NUL or
    lone surrogates in texts, and nesting deeper than `MAX_DEPTH`.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise _invalid(f"byte {error.start} of the body is not UTF-8", "send UTF-8") from error
    except RecursionError as error:
        raise _deep() from error
    except ValueError as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        raise InvalidInput(
            f"the body is not JSON: {getattr(error, 'msg', error)}",
            hint="send valid JSON",
            position=Position(line, column, "", "body"),
        ) from error
    _check(value)
    return value


def text_check(text: str, what: str) -> None:
    """Refuse NUL and lone surrogates in a path or query."""
    if _FORBIDDEN.search(text):
        raise InvalidInput(f"the {what} contains a character that is not allowed", hint="remove it")


def _check(value: Any) -> None:
    todo: list[tuple[Any, int]] = [(value, 0)]
    seen = 0
    while todo:
        item, depth = todo.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise _deep()
        if seen > MAX_NODES:
            raise _invalid("the body has too many values", "send less in one request")
        if isinstance(item, str):
            text_check(item, "body")
        elif isinstance(item, float):
            if not abs(item) <= MAX_AMOUNT:
                raise _invalid("a number of the body is too large", f"the largest is {MAX_AMOUNT}")
        elif isinstance(item, dict):
            for key in item:
                text_check(key, "body")
            todo.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            todo.extend((inner, depth + 1) for inner in item)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _invalid(f"the key {twice[:80]!r} stands twice in the same object", "write it once")
    return value


def _constant(text: str) -> Any:
    raise _invalid(f"{text} is not a number", "send a finite number")


def _integer(text: str) -> int:
    if len(text) > len(str(MAX_AMOUNT)) + 1 or abs(int(text)) > MAX_AMOUNT:
        raise _invalid("a number of the body is too large", f"the largest is {MAX_AMOUNT}")
    return int(text)


def _deep() -> InvalidInput:
    return _invalid(f"the body is nested deeper than {MAX_DEPTH} levels", "flatten it")


def _invalid(message: str, hint: str) -> InvalidInput:
    return InvalidInput(message, hint=hint, position=Position(0, 0, "", "body"))


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a body that the route reads as plain JSON, because files and API share one parser."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}},
        }
    }
