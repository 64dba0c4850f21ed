from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.sdk import Client, errors
from millpond.sdk.streams import StreamEvent, events_follow, events_parse
from tests.replay import answers
from tests.replay.server import Answer, Replay, problem, sse


def test_parse() -> None:
    lines = [": hello", "event: log", "id: 7", 'data: {"a":', "data: 1}", "", "data: 2", "retry: 5", "", "data: 3"]
    assert list(events_parse(lines)) == [StreamEvent("log", {"a": 1}, "7"), StreamEvent("message", 2, "7")]


def test_event_that_is_no_json() -> None:
    with pytest.raises(errors.ServerFailed):
        list(events_parse(["data: {", ""]))


@given(st.lists(st.tuples(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.integers() | st.text()), max_size=5))
def test_what_is_sent_is_read(events: list[tuple[str, object]]) -> None:
    text = sse(events).content.decode()
    assert [(event.name, event.data) for event in events_parse(text.split("\n"))] == events


def test_watch_ends_with_the_job(server: Replay) -> None:
    path = f"/v1/jobs/{answers.JOB_ID}/stream"
    server.stream(path, answers.change(answers.job(), 1), answers.change(answers.ended()))
    with Client(server.address) as client:
        states = [change["job"]["state"] for change in client.jobs.watch(answers.JOB_ID)]
    assert states == ["queued", "succeeded"]


def test_lost_stream_is_continued_from_the_last_event(server: Replay) -> None:
    path = "/v1/jobs/x/logs/stream"
    server.on(
        "GET",
        path,
        sse([answers.log("one\n"), answers.log("two\n")]),
        problem(503, "UNAVAILABLE", "restarting"),
        Answer(drop=True),
        sse([answers.log("three\n"), answers.end()], first_id=3),
    )
    pauses: list[float] = []
    with Client(server.address, sleep=pauses.append) as client:
        pieces = list(client.jobs.logs_follow("x"))
    assert "".join(piece["text"] for piece in pieces) == "one\ntwo\nthree\n"
    assert pieces[-1]["kind"] == "end"
    assert [request.headers.get("Last-Event-ID") for request in server.requests] == [None, "2", "2", "2"]
    assert len(pauses) == 3


def test_stream_that_never_opens_fails_at_once(server: Replay) -> None:
    server.on("GET", "/v1/jobs/x/stream", problem(503, "UNAVAILABLE", "no"))
    with Client(server.address) as client, pytest.raises(errors.Busy):
        list(client.jobs.watch("x"))
    assert len(server.requests) == 1


def test_patience_with_a_lost_server_ends(server: Replay) -> None:
    server.on("GET", "/v1/jobs/x/stream", sse([answers.change(answers.job())]), Answer(drop=True))
    ticks: Iterator[int] = iter(range(0, 1000, 25))
    with Client(server.address, sleep=lambda _: None) as client, pytest.raises(errors.Unreachable):
        list(events_follow(client.transport, "/v1/jobs/x/stream", clock=lambda: next(ticks)))
    assert len(server.requests) == 4


def test_what_is_no_stream(server: Replay) -> None:
    server.on("GET", "/v1/jobs/x/stream", {})
    with Client(server.address) as client, pytest.raises(errors.ServerFailed):
        list(client.jobs.watch("x"))
