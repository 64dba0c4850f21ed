"""Snapshot files: what they mean, and where their errors are."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.files.snapshot_text import snapshot_write
from millpond.files.snapshots import SnapshotFile, snapshot_load
from millpond.scheduling.snapshot import Hold, Job, PastEviction, RunState, Seat
from millpond.simulation.jobs import Work

NODES = 'nodes:\n  - {name: "n[1-2]", cards: {model: A800-80GB, count: 4}}\n'
QUEUES = "queues:\n  - {name: a/prod, guarantee: 4}\n  - {name: b/batch, class: batch}\n"


def load(rest: str, head: str = "") -> SnapshotFile:
    return snapshot_load(head + NODES + QUEUES + rest, "s.yaml")


def one(line: str, head: str = "") -> Job:
    """The only job of a file."""
    loaded = load(f"jobs:\n  - {line}\n", head)
    return (*loaded.snapshot.jobs, *loaded.arrivals)[0]


def error(rest: str, head: str = "") -> str:
    with pytest.raises(InvalidInput) as caught:
        load(rest, head)
    return str(caught.value)


def job_error(line: str) -> str:
    return error(f"jobs:\n  - {line}\n")


def test_scalars_mean_what_they_say() -> None:
    job = one("{id: 0123, queue: b/batch, gpu: 4090:8, user: no, name: on}")
    assert (job.id, job.user, job.name, job.gpu.models, job.gpu.milli) == ("0123", "no", "on", ("4090",), 8000)


def test_defaults() -> None:
    job = one("{id: x, queue: b/batch}")
    assert job == Job("x", "b/batch", submitted=0)
    assert not one("{id: x, queue: a/prod}").preemptible


def test_class_comes_from_the_name() -> None:
    assert load("").snapshot.queues[0].klass is QueueClass.PROD


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("-120", -120), ("-2h", -7200), ("2026-11-30 08:54:00", -60), ("2026-11-30T00:54:00Z", -60)],
)
def test_times_are_relative_or_absolute(text: str, seconds: int) -> None:
    loaded = load(f"jobs:\n  - {{id: x, queue: b/batch, submitted: {text}}}\n", "now: 2026-11-30T08:55:00+08:00\n")
    assert loaded.snapshot.jobs[0].submitted - loaded.snapshot.now == seconds
    assert loaded.snapshot.now == 1_796_000_100


@pytest.mark.parametrize("text", ["+60", "60", "1m", "2026-11-30T08:56:00"])
def test_later_arrivals_are_apart(text: str) -> None:
    loaded = load(
        f"jobs:\n  - {{id: x, queue: b/batch, submitted: {text}, duration: 5m, drain: 3s}}\n",
        "now: 2026-11-30T08:55:00+08:00\n",
    )
    assert loaded.snapshot.jobs == ()
    assert loaded.arrivals[0].submitted - loaded.snapshot.now == 60
    assert loaded.work["x"] == Work(300, 3)


def test_jobs_take_seats_as_the_planner_would() -> None:
    loaded = load(
        """jobs:
  - {id: c, queue: b/batch, gpu: 2, state: running, at: [n1]}
  - {id: b, queue: b/batch, gpu: 0.5, state: running, at: [n1]}
  - {id: a, queue: b/batch, gpu: 0.25, state: running, at: [{node: n1, cards: [3]}]}
  - {id: d, queue: b/batch, gpu: 1..4, state: running, at: [n2]}
"""
    )
    seats = {job.id: job.seats for job in loaded.snapshot.jobs}
    assert seats == {
        "a": (Seat("n1", (3,), 250),),
        "b": (Seat("n1", (3,), 500),),
        "c": (Seat("n1", (0, 1)),),
        "d": (Seat("n2", (0, 1, 2, 3)),),
    }


def test_times_of_running_jobs() -> None:
    job = one("{id: x, queue: b/batch, gpu: 1, state: running, started: -90, checkpointed: -30, at: [n1]}")
    assert (job.submitted, job.started, job.checkpointed) == (-90, -90, -30)
    job = one("{id: x, queue: b/batch, gpu: 1, state: draining, submitted: -9, until: +5, at: [n1]}")
    assert (job.state, job.started, job.until) == (RunState.DRAINING, -9, 5)


def test_holds_evictions_mix_and_settings() -> None:
    loaded = load(
        """jobs:
  - {id: p, queue: a/prod, gpu: 4, nodes: 2}
  - {id: v, queue: b/batch, gpu: 4, state: draining, until: +10, at: [n1]}
holds:
  - {for: p, node: n1, cards: [0, 1, 2, 3]}
  - {for: p, node: n2, cards: [0, 1, 2, 3], until: +40}
evictions: [{claimant: a/prod, victim: b/batch, time: -5, borrowed: false}]
mix: {"A800:4": 2, "0.25 cpu=4000": 7}
""",
        "settings: {cooldown: 90s, grace: 5s, hold_back: 3, hold_back_for: 2m}\n",
    )
    snapshot = loaded.snapshot
    assert (snapshot.settings.hold_back, snapshot.settings.hold_back_for) == (3, 120)
    seats = (Seat("n1", (0, 1, 2, 3)), Seat("n2", (0, 1, 2, 3)))
    assert snapshot.holds == (Hold("p", seats, 70, ("v",)),)
    assert snapshot.evictions == (PastEviction("a/prod", "b/batch", -5, borrowed=False),)
    assert (snapshot.mix, snapshot.settings.cooldown, snapshot.jobs[0].grace) == (
        {"A800:4": 2, "0.25 cpu=4000": 7},
        90,
        5,
    )


def test_who_moves_is_held_for_by_its_own_leaving() -> None:
    text = """jobs:
  - {id: v, queue: b/batch, gpu: 4, state: draining, until: +10, at: [n1]}
holds:
  - {for: v, node: n2, cards: [0, 1, 2, 3], until: +70, victims: [v]}
"""
    loaded = load(text)
    assert loaded.snapshot.holds == (Hold("v", (Seat("n2", (0, 1, 2, 3)),), 70, ("v",)),)
    again = snapshot_load(snapshot_write(loaded.snapshot), "s.yaml")
    assert again.snapshot.holds == loaded.snapshot.holds


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "{id: x, queue: b/bath}",
            "s.yaml:7:20: jobs[0].queue: there is no queue 'b/bath' (leaves are a/prod, b/batch)",
        ),
        ("{id: x, queue: a}", "s.yaml:7:20: jobs[0].queue: a is not a leaf, so it takes no jobs (leaves are a/prod)"),
        ("{id: x}", "s.yaml:7:5: jobs[0]: a job must have queue (add queue: team/batch)"),
        ("{id: x y, queue: b/batch}", "s.yaml:7:10: jobs[0].id: 'x y' is not a job id (use letters, digits and . _ -)"),
        (
            "{id: x, queue: b/batch, state: running}",
            "s.yaml:7:5: jobs[0]: a job must have at (add at: [n1])",
        ),
        (
            "{id: x, queue: b/batch, at: [n1]}",
            "s.yaml:7:29: jobs[0].at: a queued job has no at (add state: running, or remove it)",
        ),
        (
            "{id: x, queue: b/batch, until: +3, state: running, at: [n1]}",
            "s.yaml:7:29: jobs[0].until: only a draining job has until (add state: draining)",
        ),
        (
            "{id: x, queue: b/batch, gpu: 8, state: running, at: [n1]}",
            "s.yaml:7:58: jobs[0].at[0]: x does not fit on n1: it needs 8 cards, 4 are free (name another node)",
        ),
        (
            "{id: x, queue: b/batch, gpu: H100:1, state: running, at: [n1]}",
            "s.yaml:7:63: jobs[0].at[0]: n1 has no card that suits gpu: H100:1",
        ),
        (
            "{id: x, queue: b/batch, gpu: 1, state: running, at: [n9]}",
            "s.yaml:7:58: jobs[0].at[0]: there is no node 'n9' (the nodes are n1, n2)",
        ),
        (
            "{id: x, queue: b/batch, gpu: 1, state: running, at: [{node: n1, cards: [4]}]}",
            "s.yaml:7:58: jobs[0].at[0]: n1 has no card 4; it has 4",
        ),
        (
            "{id: x, queue: b/batch, gpu: 2, state: running, at: [{node: n1, cards: [1]}]}",
            "s.yaml:7:58: jobs[0].at[0]: gpu: 2 takes 2 cards on a node, 1 are named",
        ),
        (
            "{id: x, queue: b/batch, gpu: 1, nodes: 2, state: running, at: [n1]}",
            "s.yaml:7:68: jobs[0].at[0]: x runs on 2 nodes, at names 1 places (name one place for each node)",
        ),
        (
            "{id: x, queue: b/batch, gpu: 1, nodes: 2, state: running, at: [n1, n1]}",
            "s.yaml:7:68: jobs[0].at[0]: the nodes of a job are distinct",
        ),
        (
            "{id: x, queue: b/batch, gpu: mig-1g.5gb, state: running, at: [n1]}",
            "s.yaml:7:67: jobs[0].at[0]: n1 has no card that suits gpu: mig-1g.5gb",
        ),
        (
            "{id: x, queue: b/batch, gpu: 1, state: running, started: +5, at: [n1]}",
            "s.yaml:7:62: jobs[0].started: a running job cannot have started after now",
        ),
        (
            "{id: x, queue: b/batch, submitted: 2026-11-30T08:00:00}",
            "s.yaml:7:40: jobs[0].submitted: '2026-11-30T08:00:00' needs a now to compare with",
        ),
    ],
)
def test_errors_of_jobs(line: str, expected: str) -> None:
    assert job_error(line).startswith(expected)


def test_checkpoint_before_start() -> None:
    line = "{id: x, queue: b/batch, state: running, started: -5, checkpointed: -9, at: [n1]}"
    assert "checkpointed lies before started" in job_error(line)


def test_card_that_is_taken() -> None:
    lines = "".join(
        f"  - {{id: {name}, queue: b/batch, gpu: 1, state: running, at: [{{node: n1, cards: [0]}}]}}\n" for name in "xy"
    )
    assert error(f"jobs:\n{lines}").startswith("s.yaml:8:58: jobs[1].at[0]: card 0 of n1 is taken by x")


def test_repeated_ids_and_queues() -> None:
    twice = "  - {id: x, queue: b/batch}\n" * 2
    assert error(f"jobs:\n{twice}") == (
        "s.yaml:8:10: jobs[1].id: the job id x is written twice, first in line 7 (give each job its own id)"
    )
    with pytest.raises(InvalidInput, match=r"s.yaml:5:12: queues\[1\].name: the queue a/prod is written twice"):
        snapshot_load(NODES + "queues:\n  - {name: a/prod}\n  - {name: a/prod}\n", "s.yaml")


LEAVING = "{id: v, queue: b/batch, gpu: 1, state: draining, until: +9, at: [n1]}"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("holds: [{for: p, node: n1, cards: [0]}]\n", "there is no queued job 'p' to hold cards for"),
        (
            f"jobs: [{LEAVING}]\nholds: [{{for: v, node: n2, cards: [0]}}]\n",
            "'v' is leaving, and what is held for it does not await that",
        ),
        ("evictions: [{claimant: a, victim: b/batch, time: -5}]\n", "there is no leaf 'a'"),
        ("evictions: [{claimant: a/prod, victim: b/batch, time: +5}]\n", "the eviction lies in the future"),
        ("mix: {banana split: 1}\n", "is not a card model"),
        ("mix: {1 cpu=few: 1}\n", "is not a request"),
        ("mix: [1]\n", "expected a mix as a block of keys"),
        ("job: []\n", "did you mean jobs?"),
    ],
)
def test_errors_of_the_rest(rest: str, expected: str) -> None:
    assert expected in error(rest)


def test_quota_errors_point_at_their_queue() -> None:
    with pytest.raises(InvalidInput, match=r"s.yaml:4:12: queues\[0\].name: queue a/batch: its deserved of 9 cards"):
        snapshot_load(NODES + "queues:\n  - {name: a/batch, deserved: 9, cap: 4}\n", "s.yaml")
    with pytest.raises(InvalidInput, match=r"s.yaml:4:3: queues: the guarantees add up to 9 cards, but the pool has 8"):
        snapshot_load(NODES + "queues:\n  - {name: a/batch, guarantee: 9}\n", "s.yaml")


def test_warnings_are_kept() -> None:
    loaded = snapshot_load(NODES + "queues:\n  - {name: a/batch, deserved: 9}\n", "s.yaml")
    assert loaded.warnings == ("the deserved amounts add up to 9 cards, but the pool has 8 cards",)


CARDS = """nodes: [{name: "n[1-2]", cards: {model: A100-40GB, count: 2}}]
queues: [{name: a/prod, guarantee: 2}, {name: b/batch, class: batch}]
jobs:
"""


def sliced(*lines: str, rest: str = "") -> SnapshotFile:
    return snapshot_load(CARDS + "".join(f"  - {{{line}, state: running}}\n" for line in lines) + rest, "s.yaml")


def test_slices_take_the_seats_that_the_file_names_or_the_planner_would() -> None:
    jobs = sliced(
        "id: a, queue: b/batch, gpu: mig-3g.20gb, at: [{node: n1, cards: [1], slot: 0}]",
        "id: b, queue: b/batch, gpu: mig-1g.5gb, at: [n1]",
        "id: c, queue: b/batch, gpu: mig-2g.10gb x2, nodes: 2, at: [n1, n2]",
        "id: d, queue: b/batch, gpu: mig-3g.20gb x2, at: [{node: n2, cards: [1], slot: 0}, {node: n2, cards: [1]}]",
    ).snapshot.jobs
    assert [job.seats for job in jobs] == [
        (Seat("n1", (1,), 488, "3g.20gb", 0),),
        (Seat("n1", (1,), 119, "1g.5gb", 6),),
        (
            Seat("n1", (0,), 241, "2g.10gb", 4),
            Seat("n1", (1,), 241, "2g.10gb", 4),
            Seat("n2", (0,), 241, "2g.10gb", 0),
            Seat("n2", (0,), 241, "2g.10gb", 4),
        ),
        (Seat("n2", (1,), 488, "3g.20gb", 0), Seat("n2", (1,), 488, "3g.20gb", 4)),
    ]


def test_slices_are_written_as_they_are_read() -> None:
    loaded = sliced("id: c, queue: b/batch, gpu: mig-2g.10gb x2, nodes: 2, at: [n1, n2]")
    again = snapshot_load(snapshot_write(loaded.snapshot), "again.yaml")
    assert again.snapshot.jobs[0].seats == loaded.snapshot.jobs[0].seats


def test_a_hold_lies_on_the_slots_of_its_victims() -> None:
    loaded = sliced(
        "id: v, queue: b/batch, gpu: mig-3g.20gb, at: [{node: n1, cards: [0], slot: 4}]",
        rest="""  - {id: p, queue: a/prod, gpu: mig-3g.20gb}
holds:
  - {for: p, node: n1, cards: [0], slot: 4, until: +40, victims: [v]}
""",
    )
    assert loaded.snapshot.holds[0].seats == (Seat("n1", (0,), 488, "3g.20gb", 4),)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("mig-3g.20gb", "[{node: n1, cards: [0], slot: 2}]", "mig-3g.20gb cannot begin at slot 2 (it begins at 0, 4)"),
        ("mig-3g.20gb", "[{node: n1, cards: [0], slot: 4}]", "the slots of card 0 of n1 that y needs are taken (by x)"),
        ("mig-1g.5gb", "[{node: n1, cards: [0], slot: 3, milli: 500}]", "mig-1g.5gb counts 119 milli-cards on n1"),
        ("mig-1g.5gb", "[{node: n1, cards: [0], slot: 3, slice: 2g.10gb}]", "the cards of n1 give y no slice mig-2g"),
        ("mig-7g.40gb x3", "[n2]", "y does not fit on n2: it has no room for mig-7g.40gb x3"),
        ("1", "[{node: n1, cards: [0]}]", "card 0 of n1 is taken by x"),
        ("0.5", "[{node: n1, cards: [0]}]", "card 0 of n1 is taken by x"),
        ("mig-1g.5gb x2", "[{node: n1, cards: [0]}]", "y runs on 1 nodes, at names 1 places (name one place for each"),
    ],
)
def test_slices_that_cannot_sit_there(first: str, second: str, expected: str) -> None:
    x = "id: x, queue: b/batch, gpu: mig-3g.20gb, at: [{node: n1, cards: [0], slot: 4}]"
    with pytest.raises(InvalidInput) as caught:
        sliced(x, f"id: y, queue: b/batch, gpu: {first}, at: {second}")
    assert str(caught.value).partition(": ")[2].partition(": ")[2].startswith(expected)
