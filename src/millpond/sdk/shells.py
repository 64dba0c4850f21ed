"""A command that runs beside a rank, over a WebSocket.

The client's first message is JSON ``{"argv": [...], "rows", "columns"}``.  After that, binary messages carry bytes
both ways; the client may send JSON ``{"rows", "columns"}`` when its terminal changes and ``{"eof": true}`` when its
input ends.  The server's last message is JSON ``{"exit": code}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from millpond.domain.errors import MillpondError
from millpond.sdk.errors import ServerFailed, Unreachable, problem_error
from millpond.sdk.transport import Transport, clean


class Shell:
    """One running command.  `read` in one thread and `write` in another is fine."""

    def __init__(self, stack: ExitStack, socket: ClientConnection, server: str) -> None:
        self._stack = stack
        self._socket = socket
        self._server = server
        self.exit_code: int | None = None
        """Set when `read` has returned None."""

    def start(self, argv: Sequence[str], size: tuple[int, int]) -> None:
        """The first message: what to run, on a terminal of (rows, columns)."""
        self._send(json.dumps({"argv": list(argv), "rows": size[0], "columns": size[1]}))

    def read(self) -> bytes | None:
        """The next output; None when the command has ended.

        Raises `Unreachable` when the connection is lost first, or the error that the server names.
        """
        try:
            message = self._socket.recv()
        except ConnectionClosed as error:
            if self.exit_code is not None:
                return None
            reason = error.rcvd.reason if error.rcvd is not None else ""
            raise Unreachable(
                f"the connection to {self._server} was lost: {reason or 'closed'}", hint="the job itself goes on"
            ) from error
        if isinstance(message, bytes):
            return message
        return self._control(message)

    def _control(self, message: str) -> bytes | None:
        try:
            value = json.loads(message)
        except ValueError as error:
            raise ServerFailed("the server sent a message that is not JSON") from error
        if isinstance(value, dict) and isinstance(value.get("exit"), int):
            self.exit_code = value["exit"]
            return None
        if isinstance(value, dict) and "code" in value:
            raise problem_error(value.get("status", 409), value)
        return b""

    def write(self, data: bytes) -> None:
        """Input for the command; ignored when it has ended."""
        self._send(data)

    def finish_input(self) -> None:
        """No more input will come."""
        self._send(json.dumps({"eof": True}))

    def resize(self, rows: int, columns: int) -> None:
        self._send(json.dumps({"rows": rows, "columns": columns}))

    def close(self) -> None:
        """Hang up: the server kills the command."""
        self._stack.close()

    def _send(self, message: str | bytes) -> None:
        try:
            self._socket.send(message)
        except ConnectionClosed:
            # The reader learns why; a writer that raced with the command's end has nothing to add.
            return


def shell_open(
    transport: Transport,
    path: str,
    params: Mapping[str, object],
    argv: Sequence[str],
    size: tuple[int, int] | None,
) -> Shell:
    """Connect, and start `argv`."""
    query = urlencode(clean(params))
    uri = "ws" + transport.server.removeprefix("http") + path + (f"?{query}" if query else "")
    headers = {key: value for key, value in transport.headers().items() if key == "Authorization"}
    stack = ExitStack()
    try:
        socket = stack.enter_context(
            connect(
                uri,
                additional_headers=headers,
                proxy=None if transport.loopback else True,
                max_size=None,
                compression=None,
            )
        )
    except InvalidStatus as error:
        raise _handshake_error(error) from error
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, EOFError) as error:
        raise transport.unreachable(error) from error
    shell = Shell(stack, socket, transport.server)
    shell.start(argv, size or (24, 80))
    return shell


def _handshake_error(error: InvalidStatus) -> MillpondError:
    """The problem document of a refused handshake, or what its status says."""
    try:
        problem = json.loads(error.response.body or b"{}")
    except ValueError:
        problem = {}
    return problem_error(error.response.status_code, problem if isinstance(problem, dict) else {})
