"""The linear bounds of B1, on pools whose optimum is known, and against what policies reach."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import openb
from benchmarks.bounds import (
    Pattern,
    arrived,
    counted,
    knapsack,
    mix,
    monotone_bound,
    node_types,
    pattern_bound,
    window_bound,
)
from benchmarks.openb import Node, Pod, Shape
from benchmarks.peers import policies


def node(cards: int = 1, cpu: int = 1000, model: str = "T4") -> Node:
    return Node("n", cpu, 1000, cards, model)


def share(milli: int, cpu: int = 0, models: tuple[str, ...] = ()) -> Shape:
    return Shape(cpu, 0, 1, milli, models)


def test_no_pattern_of_equal_shares_fills_a_card() -> None:
    assert pattern_bound([node()], {share(600): 5.0}) == pytest.approx(60)
    assert pattern_bound([node()], {share(600): 5.0, share(400): 1.0}) == pytest.approx(100)
    assert pattern_bound([node(2)], {share(600): 2.0, share(400): 1.0}) == pytest.approx(80)
    assert pattern_bound([node(4)], {share(350): 100.0}) == pytest.approx(70)


def test_cpu_memory_and_models_bind() -> None:
    assert pattern_bound([node(2, 1000)], {share(1000, cpu=600): 2.0}) == pytest.approx(100 * 5 / 6)
    assert pattern_bound([node()], {Shape(0, 2000, 1, 1000): 1.0}) == 0.0
    assert pattern_bound([node(), node(model="P100")], {share(1000, models=("P100",)): 2.0}) == pytest.approx(50)
    assert pattern_bound([node(4)], {Shape(0, 0, 4, 1000): 2.0}) == pytest.approx(100)


def test_nobody_to_serve_is_nothing() -> None:
    assert pattern_bound([node()], {}) == 0.0
    assert pattern_bound([node()], {Shape(10, 10, 0, 0): 3.0}) == 0.0


def test_who_refuses_nothing_serves_the_easier_as_long() -> None:
    # two cards, CPU for one: 1 and 0.5 with the CPU of a whole node each come alike; free choice takes only the first
    counts = {Shape(1000, 0, 1, 1000): 1.0, Shape(1000, 0, 1, 500): 1.0}
    assert pattern_bound([node(2, 1000)], counts) == pytest.approx(50)
    assert monotone_bound([node(2, 1000)], counts, 1.0) == pytest.approx(37.5)


def test_a_window_lies_between_nothing_and_everything_held() -> None:
    counts = {share(600): 10.0, share(400): 8.0}
    nodes = [node(10)]
    none, some, many = (window_bound(nodes, counts, held) for held in (0, 1, 100))
    assert none <= some <= many
    assert many == pytest.approx(100)


def test_known_patterns_change_nothing() -> None:
    known: set[Pattern] = set()
    counts = {share(milli): 3.0 for milli in (250, 300, 350, 450, 500, 700)}
    first = pattern_bound([node(4)], counts, known)
    assert known
    assert pattern_bound([node(4)], counts, known) == pytest.approx(first)


def test_knapsack_finds_the_dearest_cut() -> None:
    best, picks = knapsack([300, 500], np.array([[3.0, 0.0], [4.0, 5.0]]))
    assert best.tolist() == [9.0, 10.0]
    assert picks == [{0: 3}, {1: 2}]


def test_mix_asks_for_the_whole_cluster_once() -> None:
    pods = [Pod("a", share(500), ""), Pod("b", Shape(7, 0, 0, 0), "")]
    assert mix(pods, 4000) == {share(500): 8.0, Shape(7, 0, 0, 0): 8.0}
    assert counted(pods, [0, 0, 1]) == {share(500): 2.0, Shape(7, 0, 0, 0): 1.0}
    assert arrived(pods, [0, 1, 0, 0], 1000, 100) == [0, 1, 0]


@pytest.mark.parametrize("policy", policies.POLICIES)
def test_no_policy_passes_the_bound(policy: str) -> None:
    nodes, pods = openb.nodes_read()[:80], openb.pods_read("gpushare60")
    milli = openb.capacity(nodes)
    order = openb.arrivals(pods, 42, milli)
    placed = policies.run(policy, nodes, pods, order, "random", 42)
    got = sum(pods[number].shape.volume for number, seat in zip(order, placed, strict=True) if seat)
    assert len(node_types(nodes)) < 12
    assert 50 < 100 * got / milli <= pattern_bound(nodes, counted(pods, order)) <= 100
