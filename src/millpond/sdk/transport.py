"""One HTTP connection pool to one server: bearer token, JSON, problem documents, pages, careful retries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

from millpond import __version__
from millpond.domain.errors import InvalidInput, MillpondError
from millpond.sdk.errors import Busy, ServerFailed, Unreachable, problem_error

Json = Any
"""Whatever the API answers; the resource groups give it its type."""

PAUSES = (0.1, 0.4, 1.0)
"""Seconds between tries."""

LONGEST_RETRY_AFTER = 30.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Transport:
    """Sends requests and gives back decoded JSON.

    A request is tried again when trying cannot do harm: nothing was sent (connection refused), or the request is
    idempotent (GET, PUT, DELETE, or a POST with an idempotency key) and the connection broke or the server answered
    503 or 429.  `sleep` is an input so that tests do not wait.
    """

    def __init__(
        self, server: str, token: str = "", *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.server = server_parse(server)
        self.token = token
        self.sleep = sleep
        self.loopback = urlsplit(self.server).hostname in _LOOPBACK
        self._client = httpx2.Client(
            base_url=self.server,
            headers=self.headers(),
            timeout=httpx2.Timeout(timeout, connect=5.0),
            trust_env=not self.loopback,
            # The system's certificates take long to load and plain HTTP has no use for them.
            verify=self.server.startswith("https:"),
        )

    def close(self) -> None:
        self._client.close()

    def headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"millpond/{__version__}", "Accept": "application/json"}
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    def get(self, path: str, params: Mapping[str, object] | None = None) -> Json:
        return self.send("GET", path, params=params)

    def text(self, path: str, params: Mapping[str, object] | None = None) -> str:
        """A body that is not JSON (a snapshot)."""
        return self._answer("GET", path, params, None, {"Accept": "*/*"}, safe=True).text

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        key: str = "",
    ) -> Json:
        """Send, and decode the answer; ``None`` when it has no body.  `key` is the idempotency key of a POST."""
        headers = {"Idempotency-Key": key} if key else {}
        response = self._answer(method, path, params, body, headers, safe=method != "POST" or bool(key))
        if response.status_code == 204 or not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise self._strange(response) from error

    def pages(self, path: str, params: Mapping[str, object] | None = None) -> Iterator[Json]:
        """Every item of a list, page after page."""
        wanted = dict(params or {})
        while True:
            page = self.get(path, wanted)
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise ServerFailed(f"{self.server}{path} did not answer with a page", hint="is this a millpond server?")
            yield from page["items"]
            following = page.get("next")
            if not following:
                return
            wanted["cursor"] = following

    def stream(self, path: str, params: Mapping[str, object], headers: Mapping[str, str]) -> Iterator[httpx2.Response]:
        """Open a stream; the response is closed when the iteration ends.  Used by `millpond.sdk.streams`."""
        timeout = httpx2.Timeout(60.0, connect=5.0)
        sent = {"Accept": "text/event-stream", "Cache-Control": "no-store", **headers}
        with self._client.stream("GET", path, params=clean(params), headers=sent, timeout=timeout) as response:
            if response.status_code >= 400:
                response.read()
                raise self._problem(response)
            yield response

    def download(self, path: str, params: Mapping[str, object]) -> Iterator[bytes]:
        """A file in pieces.  Raises what the server says before the first one."""
        try:
            for response in self.stream(path, params, {"Accept": "*/*"}):
                yield from response.iter_bytes()
        except httpx2.TransportError as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> Unreachable:
        """What to say when nobody answers."""
        cause = str(error).strip() or type(error).__name__
        hint = "start it with: millpond up" if self.loopback else "check the address and the network"
        return Unreachable(
            f"no millpond answers at {self.server}: {cause}", hint=hint, details={"address": self.server}
        )

    def _answer(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None,
        body: object,
        headers: Mapping[str, str],
        *,
        safe: bool,
    ) -> httpx2.Response:
        for pause in (*PAUSES, None):
            try:
                return self._try(method, path, params, body, headers)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure: MillpondError = self.unreachable(error)
            except httpx2.TransportError as error:
                failure = self.unreachable(error)
                if not safe:
                    raise failure from error
            except Busy as error:
                failure = error
                if not safe:
                    raise
                if pause is not None and error.retry_after is not None:
                    pause = min(error.retry_after, LONGEST_RETRY_AFTER)
            if pause is None:
                raise failure
            self.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _try(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None,
        body: object,
        headers: Mapping[str, str],
    ) -> httpx2.Response:
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = dict(headers) | ({"Content-Type": "application/json"} if content is not None else {})
        response = self._client.request(method, path, params=clean(params), content=content, headers=sent)
        if response.status_code >= 400:
            raise self._problem(response)
        if response.status_code >= 300:
            raise self._strange(response)
        return response

    def _problem(self, response: httpx2.Response) -> MillpondError:
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        return problem_error(
            response.status_code, problem if isinstance(problem, dict) else {}, response.headers.get("Retry-After", "")
        )

    def _strange(self, response: httpx2.Response) -> ServerFailed:
        return ServerFailed(
            f"{response.request.url} answered with status {response.status_code} and no JSON",
            hint="is this a millpond server? look at --server or MILLPOND_SERVER",
        )


def clean(params: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    """Query parameters: unset ones left out, lists repeated, booleans as the API writes them."""
    pairs: list[tuple[str, str]] = []
    for key, value in (params or {}).items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        for one in values:
            if one is None or one == "":
                continue
            pairs.append((key, str(one).lower() if isinstance(one, bool) else str(one)))
    return tuple(pairs)


def server_parse(text: str) -> str:
    """A server's address: ``http://host:port``, or ``host:port`` for short.  Raises `InvalidInput`."""
    address = text.strip()
    if "://" not in address:
        address = f"http://{address}"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"{text!r} is not an address", hint="write http://host:port") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or parts.query or parts.username:
        raise InvalidInput(f"{text!r} is not a server's address", hint="write http://host:port")
    return address.rstrip("/")
