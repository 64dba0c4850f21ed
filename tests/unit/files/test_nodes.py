"""Nodes and simulated pools as people write them."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.files.nodes import node_json, nodes_file_load, nodes_parse, sim_parse
from millpond.files.tree import tree_from_json, tree_from_yaml


def parse(text: str) -> tuple[NodeSpec, ...]:
    return nodes_parse(tree_from_yaml(text, "n.yaml"))


def test_ranges_are_written_out() -> None:
    assert [spec.name for spec in parse('[{name: "n[1-3,7]"}, {name: "r[08-10]-x"}]')] == [
        "n1", "n2", "n3", "n7", "r08-x", "r09-x", "r10-x",
    ]  # fmt: skip


def test_everything_of_a_node() -> None:
    (spec,) = parse(
        "[{name: a, cpu: 128, memory: 2TB, labels: {rack: r1}, taints: [x], "
        "cards: {model: A800-80GB, count: 4, islands: [[0, 1], [2, 3]]}}]"
    )
    kind = CardKind("A800-80GB", "nvidia", 81_920, 4, ((0, 1), (2, 3)))
    assert spec == NodeSpec("a", 128_000, 2_097_152, kind, (("rack", "r1"),), ("x",))
    assert nodes_parse(tree_from_json([node_json(spec)], "body")) == (spec,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[{name: N1}]", "n.yaml:1:9: [0].name: 'N1' is not a valid node name"),
        ("[{name: a}, {name: a}]", "n.yaml:1:20: [1].name: the node a is written twice"),
        ('[{name: "n[3-1]"}]', "write the smaller number first"),
        ('[{name: "n[1-]"}]', "is not a range"),
        ('[{name: "n[1-999999999]"}]', "is not a range"),
        (
            "[{name: a, cards: {model: X, count: 0}}]",
            "n.yaml:1:37: [0].cards.count: '0' is not a valid number",
        ),
        ("[{name: a, cards: {model: X, count: 2, islands: [[0, 2]]}}]", "'2' is not a valid card index"),
        ("[{name: a, cards: {model: X, count: 2, islands: [[0], [0]]}}]", "a card is in two islands"),
        ("[{name: a, cards: {model: X, count: 2, vendor: nvidea}}]", "did you mean nvidia?"),
        ("[{name: a, memory: 64}]", "write a number and a unit"),
        ("{name: a}", "expected a list, found a block of keys"),
    ],
)
def test_errors(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert expected in str(caught.value)


def test_simulated_pool_in_short() -> None:
    pool = sim_parse("2x8xA800-80GB,1x4xH200")
    assert [spec.name for spec in pool] == ["n1", "n2", "n3"]
    assert pool[0] == NodeSpec("n1", 128_000, 2_097_152, CardKind("A800-80GB", "nvidia", 81_920, 8), simulated=True)
    assert pool[2].cards == CardKind("H200", "nvidia", 144_384, 4)


@pytest.mark.parametrize("text", ["8xA800", "0x8xA800", "1x999xA800", "", "8x8x", "1x1xA800,"])
def test_bad_short_form(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sim_parse(text)
    assert caught.value.hint


def test_simulated_pool_from_a_file() -> None:
    text = "now: 2026-01-01T00:00:00Z\nnodes:\n  - {name: a, cpu: 4, cards: {model: L4, count: 1}}\n"
    expected = (NodeSpec("a", 4000, 2_097_152, CardKind("L4", "nvidia", 24_576, 1), simulated=True),)
    assert sim_parse(text) == nodes_file_load(text, "pool.yaml") == expected
    with pytest.raises(InvalidInput, match="the file has no nodes"):
        nodes_file_load("queues: []\n", "pool.yaml")
