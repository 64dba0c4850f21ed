import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from millpond.sdk import Client, errors


@contextmanager
def shell_server(
    handler: Callable[[ServerConnection], None],
    refuse: Callable[[ServerConnection, Request], Response | None] | None = None,
) -> Iterator[str]:
    with serve(handler, "127.0.0.1", 0, process_request=refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_conversation() -> None:
    seen: list[object] = []

    def handler(socket: ServerConnection) -> None:
        assert socket.request is not None
        seen.append((socket.request.path, socket.request.headers["Authorization"]))
        seen.append(json.loads(socket.recv()))
        socket.send(b"hello " + bytes(socket.recv()))  # type: ignore[arg-type]
        seen.extend(json.loads(socket.recv()) for _ in range(2))
        socket.send(json.dumps({"exit": 3}))

    with shell_server(handler) as address, Client(address, "mp_x") as client:
        shell = client.jobs.exec("train", ["cat", "-"], rank=1, tty=True, size=(50, 120), tenant="t")
        shell.write(b"you")
        assert shell.read() == b"hello you"
        shell.resize(10, 20)
        shell.finish_input()
        assert shell.read() is None
        assert shell.exit_code == 3
        shell.write(b"too late")
        shell.close()
    assert seen == [
        ("/v1/jobs/train/exec?rank=1&tty=true&tenant=t", "Bearer mp_x"),
        {"argv": ["cat", "-"], "rows": 50, "columns": 120},
        {"rows": 10, "columns": 20},
        {"eof": True},
    ]


def test_refused_handshake() -> None:
    def refuse(socket: ServerConnection, request: Request) -> Response:
        response = socket.respond(HTTPStatus.FORBIDDEN, json.dumps({"code": "FORBIDDEN", "detail": "not yours"}))
        assert request.path.startswith("/v1/jobs/train/exec")
        return response

    with (
        shell_server(lambda socket: None, refuse) as address,
        Client(address) as client,
        pytest.raises(errors.Forbidden, match="not yours"),
    ):
        client.jobs.exec("train", ["true"])


def test_refusal_on_the_line() -> None:
    def handler(socket: ServerConnection) -> None:
        socket.recv()
        socket.send(json.dumps({"status": 409, "code": "CONFLICT", "detail": "it does not run"}))

    with shell_server(handler) as address, Client(address) as client:
        shell = client.jobs.exec("train", ["true"])
        with pytest.raises(errors.Conflict, match="does not run"):
            shell.read()
        shell.close()


def test_lost_connection() -> None:
    with shell_server(lambda socket: None) as address, Client(address) as client:
        shell = client.jobs.exec("train", ["true"])
        with pytest.raises(errors.Unreachable, match="lost"):
            shell.read()


def test_nobody_answers() -> None:
    with shell_server(lambda socket: None) as address:
        pass
    with Client(address) as client, pytest.raises(errors.Unreachable):
        client.jobs.exec("train", ["true"])
