"""What-if changes: the grammar, what it does to a file, and where its errors point."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput
from millpond.files.overrides import override_parse, overrides_parse
from millpond.files.snapshots import SnapshotFile, snapshot_load
from millpond.scheduling.snapshot import Snapshot

FILE = """\
settings: {cooldown: 60s}
nodes:
  - {name: "n[1-8]", cpu: 128, memory: 2TB, cards: {model: A800-80GB, count: 8, uuids: []}}
  - {name: big-01, cards: {model: H200, count: 4}, labels: {rack: r9}, bad_cards: [1]}
queues:
  - {name: trade/prod, class: prod, guarantee: {A800-80GB: 16}}
  - {name: factor/batch, class: batch, deserved: 40, cap: 40}
jobs:
  - {id: j1, queue: factor/batch, gpu: 8}
  - {id: team.pod-1, queue: factor/batch, gpu: 1}
"""


def loaded(*changes: str) -> SnapshotFile:
    return snapshot_load(FILE, "pool.yaml", [override_parse(text, line=n) for n, text in enumerate(changes, 1)])


def world(*changes: str) -> Snapshot:
    return loaded(*changes).snapshot


def test_a_change_is_as_if_the_file_said_so() -> None:
    pairs = {
        "queues.factor/batch.cap=48": ("cap: 40", "cap: 48"),
        "queues.factor/batch.cap={cards: 48, H200: 4}": ("cap: 40", "cap: {cards: 48, H200: 4}"),
        "queues.factor/batch.cap.H200=4": ("cap: 40", "cap: {cards: 40, H200: 4}"),
        "queues.factor/batch.cap=none": (", cap: 40", ""),
        "queues.factor/batch=none": ("  - {name: factor/batch, class: batch, deserved: 40, cap: 40}\n", ""),
        "queues.+a/batch={cap: 4}": ("jobs:\n", "  - {name: a/batch, cap: 4}\njobs:\n"),
        "settings.min_runtime=5m": ("cooldown: 60s", "cooldown: 60s, min_runtime: 5m"),
        "settings.cooldown=none": ("cooldown: 60s", ""),
        "nodes.big-01.cards.count=8": ("count: 4", "count: 8"),
        'jobs."team.pod-1".gpu=2': ("gpu: 1}", "gpu: 2}"),
        "jobs.j1=none": ("  - {id: j1, queue: factor/batch, gpu: 8}\n", ""),
    }
    for change, (before, after) in pairs.items():
        assert before in FILE
        text = FILE.replace(before, after)
        if change == "queues.factor/batch=none":
            text = text[: text.index("jobs:")]
            assert snapshot_load(text, "x").snapshot == world("jobs.*=none", change)
        else:
            assert snapshot_load(text, "x").snapshot == world(change), change


def test_nodes_by_name_by_range_and_all() -> None:
    def lost(*changes: str) -> list[str]:
        return [state.spec.name for state in world(*changes).nodes if state.lost]

    assert lost("nodes.n3.lost=true") == ["n3"]
    assert lost("nodes.n[2-3,8].lost=true") == ["n2", "n3", "n8"]
    assert len(lost("nodes.*.lost=true")) == 9
    assert [state.spec.name for state in world("nodes.n[1-6]=none").nodes] == ["n7", "n8", "big-01"]


def test_new_nodes_are_like_old_ones_but_healthy_and_have_names_of_their_own() -> None:
    def bought(change: str) -> list[tuple[str, str, int]]:
        found = world(change).nodes[9:]
        assert not any(state.bad_cards for state in found)
        return [(s.spec.name, s.spec.cards.model, s.spec.cards.count) for s in found if s.spec.cards]

    assert bought("nodes.+2=n1") == [("n9", "A800-80GB", 8), ("n10", "A800-80GB", 8)]
    assert bought("nodes.+1=big-01") == [("big-02", "H200", 4)]
    assert bought("nodes.+1") == [("n9", "A800-80GB", 8)]
    assert bought("nodes.+1={cards: {model: B200, count: 2}}") == [("new1", "B200", 2)]


def test_later_changes_see_earlier_ones() -> None:
    snapshot = world("nodes.+1", "nodes.n9.cordoned=true", "queues.factor/batch.cap=50", "queues.factor/batch.cap=51")
    assert [state.spec.name for state in snapshot.nodes if state.cordoned] == ["n9"]
    assert [queue.cap for queue in snapshot.queues] == [None, {"cards": 51_000}]


def test_changes_of_one_argument() -> None:
    changes = overrides_parse("queues.factor/batch.cap={cards: 48, H200: 4}, nodes.n[1,3].lost=true,nodes.+2")
    assert [change.text for change in changes] == [
        "queues.factor/batch.cap={cards: 48, H200: 4}",
        "nodes.n[1,3].lost=true",
        "nodes.+2",
    ]
    with pytest.raises(InvalidInput) as caught:
        snapshot_load(FILE, "x", overrides_parse("nodes.+2, queues.factor/batch.cap=x", "--case", 2, 7))
    assert str(caught.value).startswith("--case:2:41: queues.factor/batch.cap: 'x' is not")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("queues.factor/batch.cap", "--set:1:24: 'queues.factor/batch.cap' says no value (write "),
        ("queues.factor/batch.cap=", "--set:1:25: queues.factor/batch.cap: the value is missing"),
        ("queues.factor/batch.cap=4x", "--set:1:25: queues.factor/batch.cap: '4x' is not a valid amount of cards"),
        ("queues.factor/batch.capp=4", "--set:1:21: queues.factor/batch.capp: a queue has no key 'capp' (did you mean"),
        ("queues.factor/batch=4", "--set:1:20: queues.factor/batch: factor/batch has keys; which one?"),
        ("queues.facto/batch.cap=4", "there is no queue 'facto/batch' (did you mean factor/batch?)"),
        ("queues.factor/batch.cap={cards: 4, H200: x}", "--set:1:42: queues.factor/batch.cap: 'x' is not a valid"),
        ("queues.factor/batch.cap={cards: 4", "--set:1:34: queues.factor/batch.cap: this is not YAML: did not find"),
        ("queues.factor/batch.cap=30", "--set:1:21: queues.factor/batch.cap: queue factor/batch: its deserved of 40"),
        ("queues.+factor/batch={cap: 1}", "--set:1:8: queues.+factor/batch: there is a queue factor/batch already"),
        ("queues.+x/batch=4", "a new queue needs its keys"),
        ("queue.factor/batch.cap=4", "--set:1:1: queue.factor/batch.cap: 'queue' cannot be set (did you mean queues?)"),
        ("queues=4", "--set:1:7: queues of which name or key? (write queues.factor/batch.cap=48)"),
        ("settings.cooldwn=3", "--set:1:10: settings.cooldwn: settings has no key 'cooldwn' (did you mean cooldown?)"),
        ("settings.cooldown=3y", "--set:1:19: settings.cooldown: '3y' is not a duration"),
        ("nodes.n9.lost=true", "--set:1:7: nodes.n9.lost: there is no node 'n9'"),
        ("nodes.n1.lost=maybe", "--set:1:15: nodes.n1.lost: 'maybe' is neither true nor false"),
        ("nodes.n1.lots=true", "a node has no key 'lots' (did you mean lost?)"),
        ("nodes.+two", "'nodes.+two' says no value (write nodes.n1.cordoned=true or nodes.+2=n1)"),
        ("nodes.+two=n1", "'+two' is not a number of new nodes"),
        ("nodes.+2=n99", "--set:1:10: nodes.+2: there is no node 'n99'"),
        ("nodes.+2.cpu=4", "new nodes have no names yet"),
        ("nodes.+2={cards: {model: H200, count: 80}}", "--set:1:39: nodes.+2: '80' is not a valid number of cards"),
        ("jobs.j2.gpu=1", "there is no job 'j2' (expected one of j1, team.pod-1)"),
        ("jobs..gpu=1", "--set:1:6: jobs..gpu: a part of the path is empty"),
    ],
)
def test_errors_point_into_the_argument(change: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        loaded(change)
    assert expected in str(caught.value)
    position = caught.value.position
    assert position is not None
    assert position.source == "--set"


def test_a_file_that_misses_something_is_told_of_as_before() -> None:
    with pytest.raises(InvalidInput, match=r"pool.yaml:.*there is no queue 'factor/batch'"):
        loaded("queues.factor/batch=none")
