"""The same key and body: one job and one answer, also for callers at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.api.house import House, job_body

pytestmark = pytest.mark.postgres


def _submit(house: House, key: str, body: object, user: str = "ann") -> httpx2.Response:
    return house.ask(user, "POST", "/v1/jobs", body, headers={"Idempotency-Key": key})


def test_the_stored_answer_comes_back_byte_for_byte(house: House) -> None:
    first = _submit(house, "k1", job_body("train"))
    house.ask("ann", "POST", "/v1/jobs/train/stop")
    again = _submit(house, "k1", job_body("train"))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert len(house.ask("ann", "GET", "/v1/jobs").json()["items"]) == 1


def test_another_body_or_route_with_the_same_key_is_refused(house: House) -> None:
    _submit(house, "k1", job_body("train"))
    answer = _submit(house, "k1", job_body("other"))
    assert (answer.status_code, answer.json()["code"]) == (422, "IDEMPOTENCY_MISMATCH")
    answer = house.ask("root", "POST", "/v1/tenants", {"name": "new"}, headers={"Idempotency-Key": "k1"})
    assert answer.status_code == 201, "keys belong to their user"
    answer = _submit(house, "k1", job_body("train"), user="root")
    assert answer.json()["code"] == "IDEMPOTENCY_MISMATCH"


def test_keys_of_two_users_do_not_meet(house: House) -> None:
    mine, theirs = _submit(house, "k1", job_body("train")), _submit(house, "k1", job_body("train"), user="eve")
    assert mine.json()["id"] != theirs.json()["id"]
    assert theirs.json()["tenant"] == "factor"


def test_a_refusal_is_not_stored(house: House) -> None:
    house.submit("bea", "train")
    assert _submit(house, "k1", job_body("train")).status_code == 409
    house.ask("bea", "POST", "/v1/jobs/train/stop")
    assert _submit(house, "k1", job_body("train")).status_code == 201


def test_the_order_of_keys_does_not_matter(house: House) -> None:
    body = job_body("train")
    first = _submit(house, "k1", body)
    again = _submit(house, "k1", dict(reversed(body.items())))
    assert again.content == first.content


def test_keys_that_cannot_be_stored(house: House) -> None:
    for key in ("x" * 256, "a\tb"):
        assert _submit(house, key, job_body("train")).status_code == 422, key


def test_eight_callers_at_once_make_one_job(house: House) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: _submit(house, "k1", job_body("train")), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    kinds = [event["kind"] for event in house.ask("root", "GET", "/v1/events").json()["items"]]
    assert kinds == ["job.submitted"]


def test_without_a_key_names_still_protect(house: House) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda _: house.ask("ann", "POST", "/v1/jobs", job_body("train")).status_code, range(4))
        )
    assert sorted(answers) == [201, 409, 409, 409]
