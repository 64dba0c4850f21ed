"""Server-sent events: a parser, and a reader that survives lost connections."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from millpond.domain.errors import Unavailable
from millpond.sdk.errors import Busy, ServerFailed
from millpond.sdk.transport import Transport

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event: its name (``message`` unless it says otherwise), decoded JSON data, and its id."""

    name: str
    data: Any
    id: str = ""


def events_parse(lines: Iterable[str]) -> Iterator[StreamEvent]:
    """Events out of the lines of a ``text/event-stream``.

    Comments (keep-alives) and ``retry`` are ignored, as is an event without data or cut off by the end of the stream.
    """
    name, data, last = "", list[str](), ""
    for line in lines:
        if not line:
            if data:
                yield StreamEvent(name or "message", _decode("\n".join(data)), last)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            last = value


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ServerFailed("the server sent an event that is not JSON") from error


def events_follow(
    transport: Transport,
    path: str,
    params: Mapping[str, object] | None = None,
    *,
    final: Callable[[StreamEvent], bool] | None = None,
    patience: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[StreamEvent]:
    """Events of a stream until one is `final` (it is yielded too), or without end.

    A lost connection, a server that restarts, and a stream that ends early are continued from the last event's id.
    When that does not succeed for `patience` seconds, the last error is raised; a stream that never opened raises at
    once.
    """
    last, pause, opened = "", FIRST_PAUSE, False
    failing_since: float | None = None
    while True:
        try:
            headers = {"Last-Event-ID": last} if last else {}
            for response in transport.stream(path, params or {}, headers):
                _check_type(response, path)
                opened, failing_since = True, None
                for event in events_parse(response.iter_lines()):
                    last, pause = event.id or last, FIRST_PAUSE
                    yield event
                    if final is not None and final(event):
                        return
        except (Unavailable, httpx2.TransportError) as error:
            failing_since = clock() if failing_since is None else failing_since
            if not opened or clock() - failing_since >= patience:
                raise (transport.unreachable(error) if isinstance(error, httpx2.TransportError) else error) from error
            if isinstance(error, Busy) and error.retry_after is not None:
                pause = max(pause, min(error.retry_after, LONGEST_PAUSE))
        transport.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _check_type(response: httpx2.Response, path: str) -> None:
    if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
        raise ServerFailed(f"{path} did not answer with a stream", hint="is this a millpond server?")
