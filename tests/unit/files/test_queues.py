"""Queues as people write them."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.queues import CardHours, Dequeue, QueueConfig
from millpond.files.queues import queue_json, queues_file_load, queues_parse
from millpond.files.tree import tree_from_json, tree_from_yaml


def parse(text: str) -> tuple[QueueConfig, ...]:
    return queues_parse(tree_from_yaml(text, "q.yaml"))


def test_everything_of_a_queue() -> None:
    (queue,) = parse(
        "[{name: a/red/batch, guarantee: 0.5, deserved: {cards: 8, A800: 4}, cap: {A800: 8}, lend: false, "
        "dequeue: fifo, card_hours: {limit: 100, used: 82.5}, labels: {floor: 3}}]"
    )
    assert queue == QueueConfig(
        "a/red/batch",
        QueueClass.BATCH,
        {"cards": 500},
        {"cards": 8000, "A800": 4000},
        {"A800": 8000},
        lend=False,
        dequeue=Dequeue.FIFO,
        card_hours=CardHours(100_000, 82_500),
        labels={"floor": "3"},
    )
    assert queues_parse(tree_from_json([queue_json(queue)], "body")) == (queue,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[{name: a/prod, class: batch}]", "the queue a/prod cannot have class batch (write class: prod, or name"),
        ("[{name: a, class: batch}]", "a is a tenant, so it has no class (name the leaf a/batch)"),
        ("[{name: a/b/c/d}]", "is not a queue name"),
        ("[{name: a/batch, cap: -1}]", "is not a valid amount of cards"),
        ("[{name: a/batch, cap: []}]", "expected an amount of cards"),
        ("[{name: a/batch, cap: {a b: 1}}]", "'a b' is not a card model"),
        ("[{name: a/batch, lend: no}]", "'no' is neither true nor false"),
        ("[{name: a/batch, dequeue: lifo}]", "did you mean fifo?"),
        ("[{name: a/batch, labels: x}]", "expected labels as a block of keys"),
        ("[{name: a/batch, quota: 3}]", "known keys are name, class"),
    ],
)
def test_errors(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert expected in str(caught.value)
    assert caught.value.position is not None


def test_file_is_checked_as_a_whole() -> None:
    queues, warnings = queues_file_load("queues:\n  - {name: a/batch, deserved: 9}\n", "q.yaml", {"A800": 8000})
    assert [queue.name for queue in queues] == ["a/batch"]
    assert len(warnings) == 1
    with pytest.raises(InvalidInput, match="the guarantees add up to 9 cards"):
        queues_file_load("- {name: a/batch, guarantee: 9}\n", "q.yaml", {"A800": 8000})
    with pytest.raises(InvalidInput, match="the file has no queues"):
        queues_file_load("nodes: []\n", "q.yaml", {})
