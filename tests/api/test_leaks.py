"""Nothing of one tenant shows in the other's answers: names, users, ids, queues."""

from __future__ import annotations

import pytest

from tests.api.house import House, seats_of

pytestmark = pytest.mark.postgres

READS = (
    "/v1/whoami",
    "/v1/tenants",
    "/v1/tokens",
    "/v1/queues",
    "/v1/queue",
    "/v1/nodes",
    "/v1/cards",
    "/v1/jobs",
    "/v1/jobs/mine/why",
    "/v1/jobs/mine/attempts",
    "/v1/jobs/mine/events",
)


def test_no_answer_names_what_is_anothers(house: House) -> None:
    secret = house.submit("ann", "secret-name", project="alpha", resources={"gpu": "8"})
    house.run(secret["id"], seats_of("n1", *range(8)))
    waiting = house.submit("ann", "secret-wait", resources={"gpu": "8"}, priority=90)
    house.submit("eve", "mine", resources={"gpu": "8"})
    words = (secret["id"], waiting["id"], "secret-name", "secret-wait", "ann", "trade", "alpha", "boss")
    for path in READS:
        answer = house.ask("eve", "GET", path)
        assert answer.status_code == 200, path
        shown = answer.text.replace("another tenant", "")
        assert [word for word in words if word in shown] == [], path


def test_the_pool_view_keeps_size_and_since_of_hidden_jobs(house: House) -> None:
    job = house.submit("ann", "secret", resources={"gpu": "8"})
    house.run(job["id"], seats_of("n1", *range(8)))
    house.submit("eve", "mine", resources={"gpu": "4"})
    view = house.ask("eve", "GET", "/v1/queue").json()
    (running,) = view["running"]
    assert (running["job"], running["user"], running["milli"], running["nodes"]) == ("", "", 8000, 1)
    assert running["since"]
    assert [row["name"] for row in view["waiting"]] == ["mine"]
    assert house.ask("ann", "GET", "/v1/queue").json()["running"][0]["name"] == "secret"
    card = house.ask("eve", "GET", "/v1/cards").json()["items"][0]
    assert (card["used"], card["uses"][0]["job"], card["uses"][0]["milli"]) == (1000, "", 1000)


ASKED = (
    ("GET", "/v1/jobs/{job}"),
    ("GET", "/v1/jobs/{job}/why"),
    ("GET", "/v1/jobs/{job}/events"),
    ("GET", "/v1/jobs/{job}/attempts"),
    ("GET", "/v1/jobs/{job}/logs"),
    ("GET", "/v1/jobs/{job}/logs/stream"),
    ("GET", "/v1/jobs/{job}/stream"),
    ("POST", "/v1/jobs/{job}/stop"),
    ("GET", "/v1/jobs/secret?tenant=trade"),
    ("GET", "/v1/jobs?tenant=trade"),
    ("GET", "/v1/tenants/trade"),
    ("GET", "/v1/tenants/trade/members"),
    ("GET", "/v1/queue?leaf=trade/batch"),
)


def test_anothers_things_look_like_none(staffed: House, subtests: pytest.Subtests) -> None:
    job = staffed.submit("ann", "secret")["id"]
    for method, path in ASKED:
        with subtests.test(f"{method} {path}"):
            real = staffed.ask("eve", method, path.format(job=job))
            none = staffed.ask("eve", method, path.format(job="j" + "a" * 26).replace("trade", "nowhere"))
            assert (real.status_code, none.status_code) == (404, 404)
            assert real.json()["code"] == none.json()["code"]


def test_reasons_do_not_name_hidden_jobs(house: House) -> None:
    for node in ("n1", "n2"):
        job = house.submit("ann", f"secret-{node}", resources={"gpu": "A800:8"})
        house.run(job["id"], seats_of(node, *range(8)))
    house.submit("eve", "mine", resources={"gpu": "A800:8"})
    answer = house.ask("eve", "GET", "/v1/jobs/mine/why")
    assert answer.json()["reasons"]
    assert "secret" not in answer.text
    assert "ann" not in answer.text.replace("another tenant", "")


def test_who_is_ahead_is_named_only_as_far_as_one_may_see(house: House) -> None:
    for node in ("n1", "n2"):
        job = house.submit("ann", f"secret-{node}", resources={"gpu": "A800:8"})
        house.run(job["id"], seats_of(node, *range(8)))
    house.submit("bea", "secret-ahead", queue="prod", resources={"gpu": "A800:4"})
    house.submit("eve", "first", resources={"gpu": "A800:8"}, priority=90)
    house.submit("eve", "mine", resources={"gpu": "A800:8"})
    ahead = house.ask("eve", "GET", "/v1/jobs/mine/why").json()["ahead"]
    assert ("first", "eve", 8000) in [(job["name"], job["user"], job["milli"]) for job in ahead]
    hidden = [job for job in ahead if job["milli"] == 4000]
    assert [(job["job"], job["name"], job["user"], job["tenant"], job["queue"]) for job in hidden] in (
        [],
        [("", "", "", "", "")],
    )


def test_dependencies_do_not_reach_across_tenants(house: House) -> None:
    job = house.submit("ann", "secret")
    answer = house.ask("eve", "POST", "/v1/jobs", {"name": "mine", "commands": ["x"], "depends_on": [job["id"]]})
    assert (answer.status_code, answer.json()["code"]) == (422, "NO_SUCH_JOB")
