"""Whatever is sent, the answer is a problem document that says what is wrong; never a 500, never a trace."""

from __future__ import annotations

import json

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.house import House, job_body

pytestmark = pytest.mark.postgres

JSON = {"Content-Type": "application/json"}


def _post(house: House, content: bytes | str, path: str = "/v1/jobs", **headers: str) -> tuple[int, dict[str, object]]:
    sent = {**JSON, "Authorization": f"Bearer {house.tokens['ann']}", **headers}
    answer = house.client.post(path, content=content, headers=sent)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["request-id"]
    return answer.status_code, problem


BODIES: tuple[bytes, ...] = (
    b"",
    b"nonsense",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"\xff\xfe",
    b'{"name": NaN}',
    b'{"name": 1e999}',
    b'{"name": "a", "name": "b"}',
    b'{"nodes": ' + b"9" * 5000 + b"}",
    b'{"nodes": 99999999999999999999}',
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 50 + b"1" + b"}" * 50,
    b'{"name": "a\\u0000b", "commands": ["x"]}',
    b'{"name": "a\\ud800b", "commands": ["x"]}',
    b'{"na\\u0000me": 1}',
    json.dumps(["x"] * 250_000)[:200_000].encode(),
    json.dumps(job_body("a", typo=1)).encode(),
    json.dumps(job_body("A B")).encode(),
    json.dumps(job_body("a", commands="python train.py")).encode(),
    json.dumps(job_body("a", resources={"gpu": "0.3333"})).encode(),
    json.dumps(job_body("a", working_dir="../../etc")).encode(),
    json.dumps(job_body("a", env=["HF_TOKEN"])).encode(),
    json.dumps(job_body("a", priority={"x": 1})).encode(),
    json.dumps(job_body("a", nodes=True)).encode(),
    json.dumps(job_body("a", max_duration=-5)).encode(),
)


def test_bodies(house: House, subtests: pytest.Subtests) -> None:
    for content in BODIES:
        with subtests.test(content[:80]):
            status, problem = _post(house, content)
            assert status == 422
            assert problem["detail"]
    assert house.ask("root", "GET", "/v1/events").json()["items"] == []


def test_position_names_the_key(house: House) -> None:
    _, problem = _post(house, json.dumps(job_body("a", resources={"gpu": "A800:0.3333"})))
    assert problem["position"] == {"line": 0, "column": 0, "path": "resources.gpu", "source": "body"}
    _, problem = _post(house, b'{"name": "a",\n oops}')
    position = problem["position"]
    assert isinstance(position, dict)
    assert position["line"] == 2


def test_unknown_key_has_a_hint(house: House) -> None:
    _, problem = _post(house, json.dumps(job_body("a", max_durration="8h")))
    assert "max_duration" in str(problem["hint"])


def test_large_bodies_are_refused_with_and_without_a_length(house: House) -> None:
    status, problem = _post(house, b" " * 300_000)
    assert (status, problem["code"]) == (413, "BODY_TOO_LARGE")

    def pieces() -> object:
        for _ in range(40):
            yield b" " * 10_000

    answer = house.client.post(
        "/v1/jobs",
        content=pieces(),
        headers={**JSON, "Authorization": f"Bearer {house.tokens['ann']}"},
    )
    assert answer.status_code == 413


ADDRESSES = (
    "/v1/jobs/a%00b",
    "/v1/jobs?name=%00",
    "/v1/jobs?cursor=%00",
    "/v1/jobs?cursor=zzzz",
    "/v1/jobs?cursor=MjAyNg",
    "/v1/jobs?limit=0",
    "/v1/jobs?limit=99999999999999999999",
    "/v1/jobs?state=flying",
    "/v1/events?cursor=-1",
    "/v1/events?cursor=99999999999999999999999",
    "/v1/events?cursor=%D9%A3",
    "/v1/nodes?cursor=AAAA",
    "/v1/jobs/x/logs?offset=-1",
    "/v1/jobs/x/logs?rank=1e9",
    "/v1/cards/n1/99999/fault",
    "/v1/jobs/" + "a" * 300,
    "/v1/jobs/%ED%A0%80",
)


def test_addresses(house: House, subtests: pytest.Subtests) -> None:
    for path in ADDRESSES:
        with subtests.test(path[:80]):
            answer = house.ask("root", "POST" if path.endswith("fault") else "GET", path)
            assert answer.status_code in {404, 422}, answer.text
            assert answer.headers["content-type"] == "application/problem+json"


def test_paths_and_methods_that_do_not_exist(house: House) -> None:
    answer = house.ask("ann", "GET", "/v1/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    answer = house.ask("ann", "PATCH", "/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert {"GET", "POST"} & set(answer.headers["allow"].replace(",", " ").split())
    assert house.ask("ann", "GET", "/docs").status_code == 404
    assert house.ask("ann", "GET", "/v1/jobs/").status_code == 404


def test_tokens_that_are_none(house: House, subtests: pytest.Subtests) -> None:
    for header in ("", "Bearer", "Basic abc", "Bearer a b", "Bearer mp_wrong", "Bearer " + "x" * 5000):
        with subtests.test(header[:20]):
            answer = house.client.get("/v1/whoami", headers={"Authorization": header} if header else {})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["code"] == "UNAUTHENTICATED"


def test_a_body_that_is_not_called_json_is_refused(house: House) -> None:
    status, problem = _post(house, json.dumps(job_body("a")), **{"Content-Type": "text/plain"})
    assert (status, problem["code"]) == (422, "INVALID")


def _send(house: House, user: str, method: str, path: str, body: object) -> httpx2.Response:
    """As `House.ask`, but numbers may be infinite."""
    headers = {**JSON, "Authorization": f"Bearer {house.tokens[user]}"}
    return house.client.request(method, path, content=json.dumps(body), headers=headers)


_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(
        ("type", "name", "commands", "resources", "env", "retry", "checkpoint", "service", "topology", "labels", "x")
    ),
    value=_JSON_VALUES,
)
def test_no_value_of_a_key_breaks_the_server(house: House, key: str, value: object) -> None:
    body = {**job_body("fuzz"), key: value}
    answer = _send(house, "ann", "POST", "/v1/jobs", body)
    assert answer.status_code in {201, 409, 422}, answer.text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_JSON_VALUES)
def test_no_quota_document_breaks_the_server(house: House, value: object) -> None:
    answer = _send(house, "root", "PUT", "/v1/quota?dry_run=true", {"queues": value})
    assert answer.status_code in {200, 404, 409, 422}, answer.text
