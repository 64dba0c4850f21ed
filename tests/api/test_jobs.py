"""Submitting, looking at, stopping, holding and explaining jobs."""

from __future__ import annotations

import pytest

from millpond.domain.jobs import AttemptState
from tests.api.house import House, job_body, seats_of

pytestmark = pytest.mark.postgres


def test_submit_stores_the_job_queued_in_its_leaf(house: House) -> None:
    job = house.submit("ann", "train", priority=70, project="alpha")
    assert job["queue"] == "trade/batch"
    assert (job["tenant"], job["project"], job["user"], job["state"]) == ("trade", "alpha", "ann", "queued")
    assert (job["milli"], job["gpu"], job["attempts"], job["priority"]) == (1000, "1", 0, 70)
    assert house.ask("ann", "GET", f"/v1/jobs/{job['id']}").json() == job
    assert house.ask("bea", "GET", "/v1/jobs/train").json() == job


def test_values_of_variables_never_leave_the_server(house: House) -> None:
    job = house.submit("ann", "train", env=["HF_TOKEN=hunter2secret", "EPOCHS=3"])
    assert job["spec"]["env"] == ["HF_TOKEN", "EPOCHS"]
    pages = [house.ask("root", "GET", path).text for path in ("/v1/jobs", "/v1/events", "/v1/snapshot", "/v1/queue")]
    assert not any("hunter2secret" in page for page in pages)


def test_tenant_must_be_clear(house: House) -> None:
    answer = house.ask("two", "POST", "/v1/jobs", job_body("train"))
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "AMBIGUOUS_TENANT")
    assert problem["details"] == {"tenants": ["factor", "trade"]}
    assert house.submit("two", "train", tenant="factor")["tenant"] == "factor"


@pytest.mark.parametrize(
    ("keys", "code", "words"),
    [
        ({"queue": "besteffort"}, "NO_SUCH_QUEUE", "trade/batch, trade/prod"),
        ({"project": "beta"}, "NO_SUCH_PROJECT", "alpha"),
        ({"resources": {"gpu": "9"}}, "TOO_LARGE", ""),
        ({"resources": {"gpu": "H200:1"}}, "NO_SUCH_CARD", ""),
        ({"nodes": 3, "resources": {"gpu": "A800:8"}}, "TOO_LARGE", ""),
        ({"depends_on": ["nothing"]}, "NO_SUCH_JOB", ""),
    ],
)
def test_what_cannot_be_is_refused_without_a_trace(
    house: House, keys: dict[str, object], code: str, words: str
) -> None:
    answer = house.ask("ann", "POST", "/v1/jobs", job_body("train", **keys))
    problem = answer.json()
    assert answer.status_code == 422
    assert (problem["code"], problem["type"]) == (code, "urn:millpond:problem:refused")
    assert words in problem["hint"]
    assert house.ask("root", "GET", "/v1/jobs").json() == {"items": [], "next": ""}
    assert house.ask("root", "GET", "/v1/events").json()["items"] == []


def test_a_live_name_is_taken_and_free_again_after_the_end(house: House) -> None:
    first = house.submit("ann", "train")
    answer = house.ask("bea", "POST", "/v1/jobs", job_body("train"))
    assert (answer.status_code, answer.json()["code"]) == (409, "NAME_TAKEN")
    house.ask("ann", "POST", f"/v1/jobs/{first['id']}/stop")
    second = house.submit("bea", "train")
    assert house.ask("ann", "GET", "/v1/jobs/train").json()["id"] == second["id"]


def test_dependencies_wait_by_id(house: House) -> None:
    first = house.submit("ann", "prepare")
    second = house.submit("ann", "train", depends_on=["prepare"])
    assert second["blocked"] == [first["id"]]
    house.ask("ann", "POST", "/v1/jobs/prepare/stop")
    answer = house.ask("ann", "POST", "/v1/jobs", job_body("more", depends_on=[first["id"]]))
    assert answer.json()["code"] == "DEPENDENCY"


def test_stop_of_a_waiting_job_is_done_at_once_and_again_does_nothing(house: House) -> None:
    job = house.submit("ann", "train")
    stopped = house.ask("ann", "POST", "/v1/jobs/train/stop").json()
    assert (stopped["state"], stopped["cancel"]) == ("cancelled", True)
    assert stopped["finished_at"] is not None
    assert house.ask("ann", "POST", f"/v1/jobs/{job['id']}/stop").json() == stopped
    kinds = [event["kind"] for event in house.ask("ann", "GET", f"/v1/jobs/{job['id']}/events").json()["items"]]
    assert kinds == ["job.submitted", "job.cancelled"]


def test_stop_of_a_running_job_drains_its_attempt_and_only_ever_sooner(house: House) -> None:
    job = house.submit("ann", "train", checkpoint={"grace": "5m"})
    house.run(job["id"], seats_of("n1", 0))
    stopped = house.ask("ann", "POST", "/v1/jobs/train/stop").json()
    assert (stopped["state"], stopped["cancel"]) == ("stopping", True)
    attempt = house.ask("ann", "GET", "/v1/jobs/train/attempts").json()["items"][0]
    assert (attempt["state"], attempt["drain_reason"]) == ("draining", "cancelled")
    assert attempt["deadline_at"] == stopped["deadline_at"]
    later = house.ask("ann", "POST", "/v1/jobs/train/stop", {"grace": 3600}).json()
    assert later["deadline_at"] == stopped["deadline_at"]
    sooner = house.ask("ann", "POST", "/v1/jobs/train/stop", {"grace": 0}).json()
    assert sooner["deadline_at"] < stopped["deadline_at"]
    kinds = [event["kind"] for event in house.ask("ann", "GET", "/v1/jobs/train/events").json()["items"]]
    assert kinds == ["job.submitted", "job.stop_requested", "attempt.draining", "attempt.hastened"]


def test_hold_and_release(house: House) -> None:
    house.submit("ann", "train")
    held = house.ask("ann", "POST", "/v1/jobs/train/hold").json()
    assert (held["held"], held["queued_as"]) == (True, "held")
    reasons = house.ask("ann", "GET", "/v1/jobs/train/why").json()["reasons"]
    assert [reason["code"] for reason in reasons] == ["HELD"]
    free = house.ask("ann", "POST", "/v1/jobs/train/release").json()
    assert (free["held"], free["queued_as"]) == (False, "ready")
    house.run(free["id"], seats_of("n1", 0))
    answer = house.ask("ann", "POST", "/v1/jobs/train/hold")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_WAITING")


def test_members_control_only_their_own(house: House) -> None:
    job = house.submit("ann", "train")
    for verb in ("stop", "hold", "release"):
        assert house.ask("bea", "POST", f"/v1/jobs/{job['id']}/{verb}").status_code == 403
        assert house.ask("eve", "POST", f"/v1/jobs/{job['id']}/{verb}").status_code == 404
    assert house.ask("boss", "POST", "/v1/jobs/train/stop").json()["state"] == "cancelled"


def test_list_filters_and_pages(house: House) -> None:
    for number in range(5):
        house.submit("ann", f"job-{number}")
    house.submit("eve", "other")
    house.ask("ann", "POST", "/v1/jobs/job-0/stop")
    names: list[str] = []
    cursor = ""
    while True:
        page = house.ask("ann", "GET", "/v1/jobs", params={"limit": 2, "cursor": cursor}).json()
        names += [job["name"] for job in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert names == ["job-4", "job-3", "job-2", "job-1", "job-0"]
    queued = house.ask("ann", "GET", "/v1/jobs", params={"state": ["queued", "running"]}).json()["items"]
    assert len(queued) == 4
    assert house.ask("root", "GET", "/v1/jobs", params={"user": "eve"}).json()["items"][0]["name"] == "other"
    assert house.ask("ann", "GET", "/v1/jobs", params={"name": "job-3"}).json()["items"][0]["name"] == "job-3"


def test_why_names_every_limit_with_numbers(house: House) -> None:
    house.submit("eve", "a", resources={"gpu": "8"})
    running = house.submit("eve", "b", resources={"gpu": "8"})
    house.run(house.ask("eve", "GET", "/v1/jobs/a").json()["id"], seats_of("n1", *range(8)))
    why = house.ask("eve", "GET", f"/v1/jobs/{running['id']}/why").json()
    cap = why["reasons"][0]
    assert (cap["code"], cap["need"], cap["have"], cap["limit"]) == ("QUEUE_CAP", 8000, 8000, 8000)
    assert (why["position"], why["starts_now"], why["simulated"]) == (1, False, True)


def test_offer_says_what_would_happen_and_stores_nothing(house: House) -> None:
    offer = house.ask("ann", "POST", "/v1/offers", job_body("train")).json()
    assert (offer["starts_now"], offer["job"], offer["queue"]) == (True, "", "trade/batch")
    assert house.ask("ann", "POST", "/v1/offers", job_body("x", resources={"gpu": "99"})).json()["code"] == "TOO_LARGE"
    assert house.ask("root", "GET", "/v1/jobs").json()["items"] == []


def test_attempts_hide_for_whom_a_job_left_if_that_is_another_tenants(house: House) -> None:
    job = house.submit("ann", "train")
    attempt = house.run(job["id"], seats_of("n1", 0), AttemptState.RUNNING)
    shown = house.ask("ann", "GET", "/v1/jobs/train/attempts").json()["items"]
    assert [(item["id"], item["placement"][0]["cards"]) for item in shown] == [(attempt, [0])]
