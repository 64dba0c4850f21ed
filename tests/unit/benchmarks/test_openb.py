"""The openb loader and its arrival lists."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks import openb
from benchmarks.openb import Draws, Pod, Shape

SPLIT_MIX = [6457827717110365317, 3203168211198807973, 9817491932198370423]
"""First draws of SplitMix64 from the seed 1234567, as published with its reference code."""


def test_draws_are_splitmix64() -> None:
    draws = Draws(1234567)
    assert [draws.below(1 << 64) for _ in SPLIT_MIX] == SPLIT_MIX


def test_cluster_is_the_one_of_the_paper() -> None:
    nodes = openb.nodes_read()
    assert (len(nodes), openb.capacity(nodes), sum(node.cpu for node in nodes)) == (1213, 6_212_000, 107_018_000)
    assert [node.name for node in nodes] == sorted(node.name for node in nodes)


def test_pods_keep_their_amounts() -> None:
    pods = openb.pods_read("gpuspec33")
    assert len(pods) == 8152
    assert all(0 < pod.shape.milli < 1000 for pod in pods if pod.shape.cards == 1 and pod.shape.milli != 1000)
    assert all(pod.shape.milli == 1000 for pod in pods if pod.shape.cards > 1)
    assert any(len(pod.shape.models) > 1 for pod in pods)
    assert Counter(pod.qos for pod in openb.pods_read("default"))["LS"] == 4647


def test_every_published_file_is_there() -> None:
    assert len(openb.WORKLOADS) == 17
    published = openb.published_read()
    assert set(published) == set(openb.WORKLOADS)
    assert all(len(table.rows) == 10 for tables in published.values() for table in tables.values())
    assert round(published["default"]["FGD"].at(130), 2) == 95.39
    assert {path.name for path in openb.DATA.glob("LICENSE*")}, "data of others needs its licence beside it"


@pytest.mark.parametrize("workload", ["default", "multigpu50"])
def test_arrivals_stop_just_short_of_the_load(workload: str) -> None:
    pods, milli = openb.pods_read(workload), openb.capacity(openb.nodes_read())
    order = openb.arrivals(pods, 42, milli)
    asked = sum(pods[number].shape.volume for number in order)
    assert order == openb.arrivals(pods, 42, milli)
    assert order != openb.arrivals(pods, 43, milli)
    assert 0 <= milli * 1.3 - asked < 8000 or 0 <= asked - milli * 1.3 < 8000
    originals = Counter(order[: len(pods)])
    if workload == "default":
        assert originals == Counter(range(len(pods))), "every pod comes once before any clone"


def test_course_counts_what_arrived() -> None:
    half = [(500, 500), (500, 0), (300, 300)]
    course = openb.course(iter(half), 1000)
    assert course.at(0) == 0.0
    assert course.at(49) == 50.0, "the first moment at which 49 % have arrived is the one with 50 %"
    assert course.at(50) == 50.0
    assert course.at(100) == 50.0
    assert course.at(130) == 80.0


def test_clones_end_at_the_load() -> None:
    pods = [Pod("a", Shape(1, 1, 1, 1000), "")]
    assert openb.arrivals(pods, 1, 1000) == [0]
    assert openb.arrivals(pods, 1, 10_000) == [0] * 13
