"""Server-sent events over a real socket: they wake at once, resume, end, and hide what is anothers'."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from millpond.db.session import Database
from millpond.domain.jobs import JobState
from tests.api.desk import DeskEngine
from tests.api.house import House, house_open, seats_of

pytestmark = pytest.mark.postgres


_LISTENING = """
    SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millpond-listen' AND datname = current_database()
"""


@dataclass(frozen=True)
class Sent:
    name: str
    data: Any
    id: str = ""


@contextmanager
def _stream(house: House, user: str, path: str, last: str = "") -> Iterator[Iterator[Sent]]:
    headers = {"Authorization": f"Bearer {house.tokens[user]}"} | ({"Last-Event-ID": last} if last else {})
    with house.client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(response)


def _events(response: httpx2.Response) -> Iterator[Sent]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            yield Sent("", None)
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Sent(fields.get("event", ""), json.loads(fields["data"]), fields.get("id", ""))
            fields = {}


def _named(events: Iterator[Sent], name: str) -> Sent:
    return next(event for event in events if event.name == name)


def _soon(act: Callable[[], object]) -> None:
    threading.Timer(0.2, act).start()


def test_a_job_stream_tells_every_change_at_once_and_ends_with_the_job(served: House) -> None:
    job = served.submit("ann", "train")["id"]
    with _stream(served, "ann", f"/v1/jobs/{job}/stream") as events:
        first = _named(events, "job").data
        assert (first["job"]["state"], first["reasons"]) == ("queued", [])
        served.run(job, seats_of("n1", 0))
        asked = time.monotonic()
        running = _named(events, "job").data
        assert running["job"]["placement"] == [{"node": "n1", "cards": [0], "milli": 1000, "slice": "", "slot": None}]
        assert time.monotonic() - asked < 2
        served.end(job)
        assert _named(events, "job").data["job"]["state"] == "succeeded"
        assert list(events) == []


def test_a_waiting_job_is_told_its_place_and_reasons_when_others_move(served: House) -> None:
    first = served.submit("eve", "first", resources={"gpu": "8"})["id"]
    served.run(first, seats_of("n1", *range(8)))
    job = served.submit("eve", "second", resources={"gpu": "8"})["id"]
    with _stream(served, "eve", f"/v1/jobs/{job}/stream") as events:
        data = _named(events, "job").data
        assert (data["position"], [reason["code"] for reason in data["reasons"]]) == (1, ["QUEUE_CAP"])
        served.end(first)
        assert _named(events, "job").data["reasons"] == []


def test_the_pool_stream_shows_only_what_is_in_sight(served: House) -> None:
    with _stream(served, "eve", "/v1/stream") as events:
        assert next(events).name == ""
        served.submit("ann", "secret")
        served.submit("eve", "mine")
        changes = (event for event in events if event.name == "job")
        assert next(changes).data["job"]["name"] == "mine"


def test_one_listening_connection_serves_many_streams(served: House) -> None:
    job = served.submit("ann", "train")["id"]
    with _stream(served, "ann", "/v1/stream") as one, _stream(served, "ann", "/v1/stream") as two:
        next(one), next(two)
        listening = served.database.run("count", lambda tx: tx.exec_driver_sql(_LISTENING).scalar_one())
        assert listening == 1
        served.ask("ann", "POST", f"/v1/jobs/{job}/stop")
        assert _named(one, "job").data["job"]["state"] == "cancelled"
        assert _named(two, "job").data["job"]["state"] == "cancelled"


def test_logs_follow_attempt_after_attempt_to_the_end(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    with _stream(served, "ann", f"/v1/jobs/{job}/logs/stream") as events:
        first = served.run(job, seats_of("n1", 0))
        desk.say(first, b"one\n")
        attempt, log = _named(events, "attempt"), _named(events, "log")
        assert (attempt.data["attempt"], log.data) == (first, {"rank": 0, "offset": 4, "text": "one\n"})
        desk.say(first, b"two\n")
        assert _named(events, "log").data["text"] == "two\n"
        served.end(job, JobState.QUEUED, 75)
        second = served.run(job, seats_of("n1", 1))
        desk.say(second, b"three\n")
        assert _named(events, "attempt").data["attempt"] == second
        log = _named(events, "log")
        assert (log.data["text"], log.id) == ("three\n", "2:0=6")
        desk.say(second, b"four\n")
        served.end(job)
        assert _named(events, "log").data["text"] == "four\n"
        end = _named(events, "end").data
        assert (end["attempt"], end["state"], end["exit_code"]) == (second, "succeeded", 0)
        assert list(events) == []


def test_logs_resume_by_offset(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    attempt = served.run(job, seats_of("n1", 0))
    desk.say(attempt, b"one\n")
    path = f"/v1/jobs/{job}/logs/stream"
    with _stream(served, "ann", path) as events:
        seen = _named(events, "log")
    desk.say(attempt, b"two\n")
    with _stream(served, "ann", path, last=seen.id) as events:
        assert next(event for event in events if event.name).data["text"] == "two\n"
    with _stream(served, "ann", path, last="nonsense") as events:
        assert _named(events, "log").data["text"] == "one\ntwo\n"


def test_tail_passes_over_what_is_there(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    attempt = served.run(job, seats_of("n1", 0))
    desk.say(attempt, b"old\n")
    with _stream(served, "ann", f"/v1/jobs/{job}/logs/stream?tail=true") as events:
        _named(events, "attempt")
        _soon(lambda: desk.say(attempt, b"new\n"))
        assert _named(events, "log").data["text"] == "new\n"


def test_characters_are_never_torn(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    attempt = served.run(job, seats_of("n1", 0))
    letter = "卡".encode()
    desk.say(attempt, b"a" + letter[:2])
    page = served.ask("ann", "GET", f"/v1/jobs/{job}/logs").json()
    assert (page["text"], page["offset"], page["end"]) == ("a", 1, False)
    desk.say(attempt, letter[2:] + b"\xff\x00")
    page = served.ask("ann", "GET", f"/v1/jobs/{job}/logs", params={"offset": 1}).json()
    assert (page["text"], page["offset"]) == ("卡\ufffd\ufffd", 6)
    served.end(job)
    page = served.ask("ann", "GET", f"/v1/jobs/{job}/logs", params={"offset": 6}).json()
    assert (page["text"], page["end"]) == ("", True)
    missing = served.ask("ann", "GET", f"/v1/jobs/{job}/logs", params={"attempt": 7})
    assert (missing.status_code, missing.json()["code"]) == (404, "NO_SUCH_ATTEMPT")


def test_a_revoked_token_ends_its_streams(served: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.api.following.HEARTBEAT_S", 0.3)
    token = served.ask("ann", "GET", "/v1/tokens").json()["items"][0]["id"]
    with _stream(served, "ann", "/v1/stream") as events:
        next(events)
        served.ask("root", "DELETE", f"/v1/tokens/{token}")
        error = _named(events, "error").data
        assert (error["status"], error["code"]) == (401, "UNAUTHENTICATED")
        assert list(events) == []


def test_a_revoked_token_ends_a_log_that_never_pauses(
    served: House, desk: DeskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millpond.api.following.HEARTBEAT_S", 0.3)
    job = served.submit("ann", "train")["id"]
    attempt = served.run(job, seats_of("n1", 0))
    token = served.ask("ann", "GET", "/v1/tokens").json()["items"][0]["id"]
    desk.say(attempt, b"line\n")
    with _stream(served, "ann", f"/v1/jobs/{job}/logs/stream") as events:
        _named(events, "log")
        served.ask("root", "DELETE", f"/v1/tokens/{token}")
        end = time.monotonic() + 10
        for event in events:
            desk.say(attempt, b"line\n")
            assert time.monotonic() < end
            if event.name == "error":
                assert event.data["code"] == "UNAUTHENTICATED"
                return
    raise AssertionError("the stream ended without a word")


def test_a_silent_stream_beats_only_so_often(served: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.api.following.HEARTBEAT_S", 0.3)
    with _stream(served, "ann", "/v1/stream") as events:
        begun = time.monotonic()
        for _ in range(4):
            next(events)
        assert time.monotonic() - begun >= 0.6


def test_a_place_that_no_log_can_have_begins_anew(served: House, desk: DeskEngine) -> None:
    job = served.submit("ann", "train")["id"]
    attempt = served.run(job, seats_of("n1", 0))
    desk.say(attempt, b"line\n")
    for place in ("1:0=99999999999999999999", "1:0=-5", "1:0", "1:0=1=2", "x"):
        with _stream(served, "ann", f"/v1/jobs/{job}/logs/stream", place) as events:
            assert _named(events, "log").data["text"] == "line\n"


def test_streams_end_when_the_server_is_asked_to_stop(database: Database, desk: DeskEngine) -> None:
    with ExitStack() as patient:
        with ExitStack() as stack:
            house = house_open(stack, database, desk, served=True)
            client = patient.enter_context(httpx2.Client(base_url=house.client.base_url, trust_env=False))
            headers = {"Authorization": f"Bearer {house.tokens['ann']}"}
            response = patient.enter_context(client.stream("GET", "/v1/stream", headers=headers))
            events = _events(response)
            next(events)
            asked = time.monotonic()
        assert time.monotonic() - asked < 5
        assert [event for event in events if event.name == "job"] == []
