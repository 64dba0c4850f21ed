"""The whole loop on simulated cards with real processes: place, run, preempt, resume, explain, mend.

One millpond for the file; every test begins with an empty pool and queues of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from millpond.sdk import Client
from tests.live import TERMINAL, Millpond, attempts_of, home_made, job_when, millpond_up, spec, wait_for

pytestmark = pytest.mark.live

QUEUES = [
    {"name": "default/prod", "class": "prod", "guarantee": "8", "deserved": "8"},
    {"name": "default/batch", "class": "batch", "deserved": "8"},
    {"name": "default/besteffort", "class": "besteffort"},
]
SAVER = (
    # Counts up, saves on USR1 and leaves with 75; goes on from what it saved.
    'n=0; test -n "$MILLPOND_RESUME_FROM" && n=$(cat $MILLPOND_RESUME_FROM/n)',
    "trap 'echo $n > $MILLPOND_CHECKPOINT_DIR/n; exit 75' USR1",
    'echo "attempt $MILLPOND_ATTEMPT from $n in $PWD"',
    "while true; do n=$((n+1)); sleep 0.05; done",
)


@pytest.fixture(scope="module")
def pond() -> Iterator[Millpond]:
    with home_made() as home, millpond_up(home, "2x8xA800-80GB", cooldown="1") as running:
        yield running


@pytest.fixture
def client(pond: Millpond) -> Iterator[Client]:
    """A client; afterwards everything is stopped and every node is well again."""
    with pond.client() as client:
        client.queues.replace({"queues": QUEUES})
        yield client
        live = [job for job in client.jobs.list() if job["state"] not in TERMINAL]
        for job in live:
            client.jobs.stop(job["id"], grace=0)
        for job in live:
            wait_for(lambda job=job: client.jobs.get(job["id"])["state"] in TERMINAL, f"{job['name']} to stop")
        for node in list(client.nodes.list()):
            client.nodes.repair(node["name"])
            client.nodes.uncordon(node["name"])


def submit(client: Client, *args: str, **more: Any) -> str:
    return client.jobs.submit(spec(*args, **more))["id"]


def output(client: Client, job: str, **place: Any) -> str:
    return "".join(piece["text"] for piece in client.jobs.logs(job, **place))


def kinds(client: Client, job: str) -> list[str]:
    return [event["kind"] for event in client.jobs.events(job)]


def test_exit_codes_and_output(client: Client) -> None:
    good = submit(client, "good", "echo out; echo err >&2")
    bad = submit(client, "bad", "exit 7")
    done = job_when(client, good, "succeeded")
    assert (done["exit_code"], done["attempts"], done["reason"]) == (0, 1, "completed")
    assert output(client, good) == "out\nerr\n"
    failed = job_when(client, bad, "failed")
    assert (failed["exit_code"], failed["message"]) == (7, "exit code 7")
    assert kinds(client, good)[-2:] == ["attempt.ended", "job.succeeded"]


def test_retry_with_backoff(client: Client) -> None:
    retry = {"exits": ["5"], "limit": "1", "backoff": "4s..4s"}
    job = submit(client, "again", "exit 5", retry=retry)
    waiting = wait_for(lambda: (found := client.jobs.get(job))["queued_as"] == "backoff" and found, "its backoff")
    assert [reason["code"] for reason in client.jobs.why(job)["reasons"]] == ["BACKOFF"]
    assert waiting["retries_spent"] == 1
    done = job_when(client, job, "failed")
    assert [attempt["exit_code"] for attempt in attempts_of(client, job)] == [5, 5]
    assert done["retries_spent"] == 1


def test_a_preempted_job_resumes_where_it_was(client: Client) -> None:
    """S16, with S05's choice left to one: the besteffort job saves, yields, and goes on in the same folder."""
    low = submit(client, "low", *SAVER, gpu="8", nodes="2", queue="besteffort")
    job_when(client, low, "running")
    begun = time.time()
    high = submit(client, "high", "sleep 3", gpu="8", queue="prod")
    job_when(client, high, "running")
    first = attempts_of(client, low)[0]
    started = datetime.fromisoformat(attempts_of(client, high)[0]["started_at"] or "").timestamp()
    assert started - begun < 20
    assert (first["reason"], first["exit_code"], first["drain_reason"]) == ("saved", 75, "reclaimed")
    assert first["drain_for"] == high
    job_when(client, high, "succeeded")
    again = job_when(client, low, "running")
    assert (again["attempts"], again["retries_spent"], again["checkpointed"]) == (2, 0, True)
    text = wait_for(lambda: output(client, low), "its output")
    assert text.startswith("attempt 2 from ")
    assert int(text.split()[3]) > 0
    folder = output(client, low, attempt=1).split()[-1]
    assert text.split()[-1] == folder


def test_a_victim_that_ignores_its_signals_is_killed_in_time(client: Client) -> None:
    """S08, times scaled down: grace 6 s."""
    fill = submit(client, "fill", "sleep 60", gpu="8")
    job_when(client, fill, "running")
    ignores = ("trap '' USR1 TERM", "while true; do sleep 0.1; done")
    deaf = submit(client, "deaf", *ignores, gpu="8", queue="besteffort", checkpoint={"grace": "6s"})
    job_when(client, deaf, "running")
    begun = time.monotonic()
    claim = submit(client, "claim", "sleep 30", gpu="8", queue="prod")
    wait_for(lambda: client.jobs.get(deaf)["state"] == "stopping", "the victim to be asked")
    small = submit(client, "small", "true", gpu="1", queue="besteffort")
    reserved = {reason["code"]: reason for reason in client.jobs.why(small)["reasons"]}["RESERVED_FOR"]
    assert reserved["jobs"] == [claim]
    job_when(client, claim, "running")
    assert time.monotonic() - begun < 20
    gone = attempts_of(client, deaf)[0]
    assert (gone["reason"], gone["exit_code"]) == ("reclaimed", 137)


def test_waiting_is_explained(client: Client) -> None:
    """S02's FRAGMENTED, live."""
    for index in range(2):
        submit(client, f"part-{index}", "sleep 60", gpu="5")
    for index in range(2):
        job_when(client, f"part-{index}", "running")
    big = submit(client, "big", "true", gpu="4")
    reasons = {reason["code"]: reason for reason in client.jobs.why(big)["reasons"]}
    assert reasons["FRAGMENTED"]["need"] == 4000
    assert reasons["FRAGMENTED"]["have"] == 3000
    assert reasons["FRAGMENTED"]["free"] == 6000


def test_fractions_share_a_card(client: Client) -> None:
    jobs = [submit(client, f"half-{index}", "sleep 30", gpu="0.5") for index in range(2)]
    seats = [job_when(client, job, "running")["placement"][0] for job in jobs]
    assert seats[0]["cards"] == seats[1]["cards"]
    assert [seat["milli"] for seat in seats] == [500, 500]


def test_a_gang_starts_whole(client: Client) -> None:
    job = submit(client, "gang", 'echo "$RANK of $WORLD_SIZE on $MILLPOND_NODE"', gpu="8", nodes="2")
    job_when(client, job, "succeeded")
    texts = {output(client, job, rank=rank).strip() for rank in range(2)}
    assert {text.partition(" on ")[0] for text in texts} == {"0 of 2", "1 of 2"}
    assert {text.partition(" on ")[2] for text in texts} == {"n1", "n2"}


def test_stop_while_waiting_and_while_running(client: Client) -> None:
    running = submit(client, "running", "trap 'exit 0' USR1", "while true; do sleep 0.05; done", gpu="8", nodes="2")
    job_when(client, running, "running")
    waiting = submit(client, "waiting", "true", gpu="8")
    assert client.jobs.stop(waiting)["state"] == "cancelled"
    client.jobs.stop(running)
    done = job_when(client, running, "cancelled")
    assert done["attempts"] == 1


def test_hold_and_release(client: Client) -> None:
    fill = submit(client, "fill", "sleep 60", gpu="8", nodes="2")
    job_when(client, fill, "running")
    held = submit(client, "held", "true")
    client.jobs.hold(held)
    client.jobs.stop(fill, grace=0)
    job_when(client, fill, "cancelled")
    time.sleep(0.5)
    assert client.jobs.get(held)["queued_as"] == "held"
    client.jobs.release(held)
    job_when(client, held, "succeeded")


def test_max_duration_ends_a_job(client: Client) -> None:
    job = submit(client, "long", "sleep 60", max_duration="1s", checkpoint={"grace": "0s"})
    done = job_when(client, job, "failed")
    assert done["reason"] == "max_duration"
    attempt = attempts_of(client, job)[0]
    ran = datetime.fromisoformat(attempt["ended_at"] or "") - datetime.fromisoformat(attempt["started_at"] or "")
    assert 0.9 < ran.total_seconds() < 10


def test_dependencies(client: Client) -> None:
    first = submit(client, "first", "sleep 3")
    second = submit(client, "second", "true", depends_on=["first"])
    assert [reason["code"] for reason in client.jobs.why(second)["reasons"]] == ["DEPENDENCY"]
    job_when(client, second, "succeeded")
    assert client.jobs.get(first)["state"] == "succeeded"
    submit(client, "broken", "sleep 3; exit 1")
    third = submit(client, "third", "true", depends_on=["broken"])
    done = job_when(client, third, "cancelled")
    assert done["message"] == "depends on broken, which is failed"
    assert done["attempts"] == 0


def test_a_lost_node_and_a_faulty_card_move_jobs_and_spend_no_retry(client: Client) -> None:
    """S19."""
    job = submit(client, "moved", "sleep 60", gpu="8")
    node = job_when(client, job, "running")["placement"][0]["node"]
    client.nodes.fault(node)
    wait_for(lambda: client.jobs.get(job)["attempts"] == 2, "its second attempt")
    moved = job_when(client, job, "running")
    other = moved["placement"][0]["node"]
    assert other != node
    assert moved["retries_spent"] == 0
    assert attempts_of(client, job)[0]["reason"] == "node_lost"
    client.nodes.repair(node)
    client.cards.fault(other, 3)
    wait_for(lambda: client.jobs.get(job)["attempts"] == 3, "its third attempt")
    back = job_when(client, job, "running")
    assert back["placement"][0]["node"] == node
    assert attempts_of(client, job)[1]["reason"] == "card_fault"
    assert back["retries_spent"] == 0
    client.cards.repair(other, 3)


def test_draining_a_node_empties_it(client: Client) -> None:
    job = submit(client, "tenant", *SAVER, gpu="8")
    node = job_when(client, job, "running")["placement"][0]["node"]
    client.nodes.drain(node)
    wait_for(lambda: client.jobs.get(job)["attempts"] == 2, "its second attempt")
    moved = job_when(client, job, "running")
    assert moved["placement"][0]["node"] != node
    assert attempts_of(client, job)[0]["drain_reason"] == "preempted"
    assert attempts_of(client, job)[0]["reason"] == "saved"


def test_a_service_is_restarted(client: Client) -> None:
    retry = {"backoff": "1s..1s"}
    job = submit(client, "service", "sleep 0.3", type="service", service={"port": "8000"}, retry=retry, queue="prod")
    wait_for(lambda: client.jobs.get(job)["attempts"] >= 2, "its restart")
    assert client.jobs.get(job)["state"] not in TERMINAL


def test_the_metrics_show_the_loops(pond: Millpond, client: Client) -> None:
    submit(client, "counted", "true")
    text = client.transport.text("/metrics")
    assert "millpond_leader 1.0" in text
    assert "millpond_plan_pass_seconds_count" in text
    assert 'millpond_alarms_total{kind="plan.refused"}' not in text
    assert "loop failed" not in pond.log()


def test_the_whole_day_left_a_sound_database(pond: Millpond) -> None:
    assert pond.command("db", "check").stdout.strip() == "the database is sound"
