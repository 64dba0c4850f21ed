import socket

import pytest

from millpond.domain.errors import InvalidInput
from millpond.sdk import Client, errors
from millpond.sdk.transport import server_parse
from tests.replay import answers
from tests.replay.server import Answer, Replay, problem

BUSY = problem(503, "UNAVAILABLE", "the database does not answer")


class Pauses(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_token_and_key_are_sent(server: Replay) -> None:
    server.on("POST", "/v1/jobs", Answer(answers.job(), 201))
    with Client(server.address, "mp_secret") as client:
        assert client.jobs.submit({"name": "x"})["name"] == "factor-9"
        client.jobs.submit({"name": "x"}, "mine")
    first, second = server.requests
    assert first.headers["Authorization"] == "Bearer mp_secret"
    assert len(first.headers["Idempotency-Key"]) == 32
    assert second.headers["Idempotency-Key"] == "mine"
    assert first.body == {"name": "x"}


def test_submit_is_tried_again_with_the_same_key(server: Replay) -> None:
    busy = Answer(BUSY.body, 503, {"Retry-After": "7"})
    server.on("POST", "/v1/jobs", busy, Answer(drop=True), Answer(answers.job(), 201))
    pauses = Pauses()
    with Client(server.address, sleep=pauses) as client:
        client.jobs.submit({"name": "x"})
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    assert len(server.requests) == 3
    assert len(keys) == 1
    assert pauses == [7.0, 0.4]


def test_a_post_without_key_is_sent_once(server: Replay) -> None:
    server.on("POST", "/v1/tokens", Answer(drop=True), Answer({}, 201))
    with Client(server.address, sleep=Pauses()) as client, pytest.raises(errors.Unreachable):
        client.tokens.create()
    assert len(server.requests) == 1


def test_patience_ends(server: Replay) -> None:
    server.on("GET", "/v1/whoami", BUSY)
    pauses = Pauses()
    with Client(server.address, sleep=pauses) as client, pytest.raises(errors.Busy, match="database"):
        client.system.whoami()
    assert pauses == [0.1, 0.4, 1.0]


def test_nobody_answers() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with Client(address, sleep=Pauses()) as client, pytest.raises(errors.Unreachable) as caught:
        client.system.whoami()
    assert address in caught.value.message
    assert caught.value.hint == "start it with: millpond up"


def test_pages_are_read_as_needed(server: Replay) -> None:
    first = {"items": [answers.job(id="a"), answers.job(id="b")], "next": "c1"}
    server.on("GET", "/v1/jobs", first, {"items": [answers.job(id="c")], "next": ""})
    with Client(server.address) as client:
        assert [job["id"] for job in client.jobs.list(limit=2)] == ["a", "b"]
        assert len(server.requests) == 1
    server.on("GET", "/v1/jobs", first, {"items": [answers.job(id="c")], "next": ""})
    with Client(server.address) as client:
        found = client.jobs.list(states=["queued", "running"], tenant="t")
        assert [job["id"] for job in found] == ["a", "b", "c"]
    last = server.requests[-1].query
    assert last == {"cursor": ["c1"], "state": ["queued", "running"], "tenant": ["t"]}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html>hello</html>", headers={"Content-Type": "text/html"}),
        Answer(None, 302, {"Location": "http://elsewhere/"}),
    ],
)
def test_something_else_answers(server: Replay, answer: Answer) -> None:
    server.on("GET", "/v1/whoami", answer)
    with Client(server.address) as client, pytest.raises(errors.ServerFailed) as caught:
        client.system.whoami()
    assert "millpond server" in caught.value.hint


def test_names_cannot_become_other_paths(server: Replay) -> None:
    with Client(server.address) as client, pytest.raises(errors.NotFound):
        client.jobs.get("../tenants?x=1", tenant="a&b=c")
    assert server.requests[0].path == "/v1/jobs/..%2Ftenants%3Fx%3D1"
    assert server.requests[0].query == {"tenant": ["a&b=c"]}


@pytest.mark.parametrize("token", ["mp_x\n", "mp x", "mp_ü"])
def test_impossible_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidInput):
        Client("http://localhost", token)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8900", "http://localhost:8900"),
        ("https://pool.example/", "https://pool.example"),
        (" http://[::1]:1 ", "http://[::1]:1"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert server_parse(text) == address


@pytest.mark.parametrize("text", ["", "ftp://x", "http://", "http://x:99999", "http://a:b@x", "http://x?y=1"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(InvalidInput):
        server_parse(text)
