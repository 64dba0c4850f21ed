"""Commands beside a rank, over a WebSocket on a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.api.desk import DeskEngine
from tests.api.house import House, seats_of

pytestmark = pytest.mark.postgres


@contextmanager
def _exec(house: House, user: str, job: str, query: str = "") -> Iterator[ClientConnection]:
    address = str(house.client.base_url).replace("http", "ws", 1).rstrip("/")
    headers = {"Authorization": f"Bearer {house.tokens[user]}"} if user else {}
    with connect(f"{address}/v1/jobs/{job}/exec{query}", additional_headers=headers, proxy=None) as socket:
        yield socket


def _refused(house: House, user: str, job: str, query: str = "") -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught, _exec(house, user, job, query):
        pass
    response = caught.value.response
    return response.status_code, json.loads(response.body or b"{}")["code"]


def test_bytes_go_both_ways_and_the_exit_code_comes_last(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    served.run(job, seats_of("n1", 0))
    with _exec(served, "ann", job, "?tty=true") as socket:
        socket.send(json.dumps({"argv": ["bash"], "rows": 40, "columns": 100}))
        assert socket.recv() == b"ready\n"
        socket.send(b"hello")
        assert socket.recv() == b"HELLO"
        socket.send(json.dumps({"rows": 50, "columns": 120}))
        socket.send(json.dumps({"eof": True}))
        assert socket.recv() == '{"exit": 0}'
    assert desk.sessions[0].sizes == [(40, 100), (50, 120)]
    assert desk.sessions[0].closed
    (event,) = [
        e for e in served.ask("ann", "GET", f"/v1/jobs/{job}/events").json()["items"] if e["kind"] == "job.exec"
    ]
    assert event["data"] == {"rank": 0, "program": "bash", "arguments": 0, "tty": True}


def test_a_command_that_fails_at_once(served: House) -> None:
    job = served.submit("ann", "train")["id"]
    served.run(job, seats_of("n1", 0))
    with _exec(served, "ann", job) as socket:
        socket.send(json.dumps({"argv": ["fail"]}))
        assert [socket.recv(), socket.recv()] == [b"ready\n", '{"exit": 3}']


def test_hanging_up_kills_the_command(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    served.run(job, seats_of("n1", 0))
    with _exec(served, "ann", job) as socket:
        socket.send(json.dumps({"argv": ["bash"]}))
        socket.recv()
    assert desk.sessions[0].closed.wait(10)


def test_a_revoked_token_ends_the_command(served: House, desk: DeskEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.api.routers.execs.LOOK_S", 0.1)
    job = served.submit("ann", "train")["id"]
    served.run(job, seats_of("n1", 0))
    token = served.ask("ann", "GET", "/v1/tokens").json()["items"][0]["id"]
    with _exec(served, "ann", job) as socket:
        socket.send(json.dumps({"argv": ["bash"]}))
        socket.recv()
        served.ask("root", "DELETE", f"/v1/tokens/{token}")
        problem = json.loads(socket.recv(timeout=10))
        assert (problem["status"], problem["code"]) == (401, "UNAUTHENTICATED")
    assert desk.sessions[0].closed.wait(10)


def test_a_first_message_that_is_no_command(served: House, subtests: pytest.Subtests) -> None:
    job = served.submit("ann", "train")["id"]
    served.run(job, seats_of("n1", 0))
    for first in ("nonsense", "[]", "{}", '{"argv": []}', '{"argv": [1]}', '{"argv": ["a\\u0000"]}'):
        with subtests.test(first), _exec(served, "ann", job) as socket:
            socket.send(first)
            problem = json.loads(socket.recv())
            assert (problem["status"], problem["code"]) == (422, "INVALID")


def test_who_may_not_is_told_before_the_connection_opens(served: House) -> None:
    job = served.submit("ann", "train")["id"]
    assert _refused(served, "ann", job) == (409, "NOT_RUNNING")
    served.run(job, seats_of("n1", 0))
    assert _refused(served, "", job) == (401, "UNAUTHENTICATED")
    assert _refused(served, "bea", job) == (403, "FORBIDDEN")
    assert _refused(served, "eve", job) == (404, "NO_SUCH_JOB")
    assert _refused(served, "ann", job, "?rank=1") == (404, "NO_SUCH_RANK")
    assert _refused(served, "ann", job, "?rank=x") == (422, "INVALID")
    assert _refused(served, "ann", job, "?tty=maybe") == (422, "INVALID")
