"""The six published policies on pools small enough to follow by hand, and on openb against the published means."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks import openb
from benchmarks.openb import Node, Pod, Shape
from benchmarks.peers import kernel, policies
from benchmarks.peers.policies import Placement, run, typical_pods

from millpond.domain.errors import Unavailable


def node(name: str, cards: int = 8, cpu: int = 128_000, model: str = "T4") -> Node:
    return Node(name, cpu, 1_000_000, cards, model)


def pod(cards: int = 1, milli: int = 1000, cpu: int = 0, models: tuple[str, ...] = ()) -> Pod:
    return Pod("p", Shape(cpu, 0, cards, milli, models), "")


def placed(policy: str, nodes: list[Node], pods: list[Pod], tie: policies.Tie = "name") -> list[tuple[int, int] | None]:
    found = run(policy, nodes, pods, range(len(pods)), tie, 1)
    return [None if seat is None else (seat.node, seat.card) for seat in found]


@pytest.mark.parametrize("policy", policies.POLICIES)
def test_what_fits_nowhere_is_dropped(policy: str) -> None:
    nodes = [node("a", 2, 8000, "T4"), node("b", 4, 8000, "P100")]
    wants = [pod(8), pod(1, cpu=9000), pod(1, models=("A10",)), pod(2, models=("T4",)), pod(1, models=("T4",)), pod(4)]
    assert placed(policy, nodes, wants) == [None, None, None, (0, -1), None, (1, -1)]


@pytest.mark.parametrize("policy", policies.POLICIES)
def test_memory_counts(policy: str) -> None:
    want = Pod("p", Shape(0, 600_000, 0, 0), "")
    assert placed(policy, [node("a")], [want, want]) == [(0, -1), None]


@pytest.mark.parametrize("policy", ["GpuPacking", "GpuClustering", "BestFit", "DotProd"])
def test_fractions_take_the_fullest_card(policy: str) -> None:
    wants = [pod(1, 600), pod(1, 500), pod(1, 400), pod(1, 500)]
    assert placed(policy, [node("a", 2)], wants) == [(0, 0), (0, 1), (0, 0), (0, 1)]


def test_best_fit_takes_the_smaller_node() -> None:
    assert placed("BestFit", [node("a", 8), node("b", 2)], [pod(1)]) == [(1, -1)]
    assert placed("BestFit", [node("a", 2, 128_000), node("b", 2, 64_000)], [pod(1)]) == [(1, -1)]


def test_dot_prod_takes_where_least_is_left() -> None:
    assert placed("DotProd", [node("a", 8), node("b", 2)], [pod(1)]) == [(1, -1)]


def test_packing_prefers_used_cards_then_used_nodes() -> None:
    nodes = [node("a", 2), node("b", 2)]
    assert placed("GpuPacking", nodes, [pod(1, 500), pod(1, 500), pod(1), pod(1)]) == [(0, 0), (0, 0), (0, -1), (1, -1)]
    # an idle node of 2 (31 points) before one of 4 (29)
    assert placed("GpuPacking", [node("a", 4), node("b", 2)], [pod(1)]) == [(1, -1)]


def test_clustering_keeps_classes_together() -> None:
    nodes = [node("a", 8), node("b", 8)]
    wants = [pod(2), pod(1, 500), pod(1, 500), pod(2)]
    assert placed("GpuClustering", nodes, wants) == [(0, -1), (1, 0), (1, 0), (0, -1)]


def test_fgd_wastes_no_remainder() -> None:
    # typical pods ask for 0.4 and 0.6 alike: on the card with 0.6 left, 0.6 leaves nothing behind
    wants = [pod(1, 400), pod(1, 600), pod(1, 400), pod(1, 600)]
    assert placed("FGD", [node("a", 2)], wants) == [(0, 0), (0, 0), (0, 1), (0, 1)]


def test_fgd_sees_cards_that_no_cpu_is_left_for() -> None:
    # both nodes have one card; a CPU-only pod goes where it strands none
    nodes = [node("a", 1, 4000), node("b", 1, 8000)]
    wants = [Pod("c", Shape(4000, 0, 0, 0), ""), pod(1, 1000, 4000), pod(1, 1000, 4000)]
    assert placed("FGD", nodes, wants) == [(1, -1), (0, -1), (1, -1)]


def test_ties_go_to_the_first_name_or_to_anybody() -> None:
    nodes = [node(name) for name in "abcdefgh"]
    wants = [pod(8)] * 8
    assert [seat and seat[0] for seat in placed("FGD", nodes, wants)] == list(range(8))
    drawn = [seat and seat[0] for seat in placed("FGD", nodes, wants, "random")]
    assert sorted(seat for seat in drawn if seat is not None) == list(range(8))
    assert drawn != list(range(8))


def test_random_draws_nodes_and_cards() -> None:
    nodes = [node("a", 8), node("b", 8)]
    found = placed("Random", nodes, [pod(1, 100)] * 40)
    assert {seat[0] for seat in found if seat} == {0, 1}
    assert len({seat for seat in found if seat}) > 8


def test_typical_pods_are_the_most_frequent() -> None:
    many, few = Pod("m", Shape(1, 7, 1, 500), ""), Pod("f", Shape(2, 7, 1, 600), "")
    other = Pod("o", Shape(1, 9, 1, 500), "")  # memory aside it is like `many`
    assert typical_pods([many] * 90 + [other] * 5 + [few] * 5) == [(Shape(1, 0, 1, 500), 95)]
    assert len(typical_pods([many] * 90 + [few] * 10)) == 2


@pytest.mark.parametrize("policy", policies.POLICIES)
@pytest.mark.parametrize("tie", policies.TIES)
def test_placements_are_legal_and_repeatable(policy: str, tie: policies.Tie) -> None:
    nodes, pods = openb.nodes_read()[:60], openb.pods_read("gpuspec33")
    order = openb.arrivals(pods, 42, openb.capacity(nodes))
    found = run(policy, nodes, pods, order, tie, 42)
    assert found == run(policy, nodes, pods, order, tie, 42)
    free = {number: [1000] * there.cards for number, there in enumerate(nodes)}
    cpu = [there.cpu for there in nodes]
    memory = [there.memory for there in nodes]
    for number, seat in zip(order, found, strict=True):
        if seat is not None:
            want = pods[number].shape
            assert not want.cards or not want.models or nodes[seat.node].model in want.models
            cpu[seat.node] -= want.cpu
            memory[seat.node] -= want.memory
            _take(free[seat.node], want, seat)
    assert min(cpu) >= 0
    assert min(memory) >= 0


def _take(free: list[int], want: Shape, seat: Placement) -> None:
    if want.cards and want.milli < 1000:
        free[seat.card] -= want.milli
        assert free[seat.card] >= 0
        return
    for _ in range(want.cards):
        free[free.index(1000)] = 0


@pytest.mark.parametrize(
    ("policy", "apart"),
    [("Random", 1.0), ("DotProd", 1.0), ("GpuClustering", 1.5), ("GpuPacking", 1.5), ("BestFit", 0.6), ("FGD", 0.6)],
)
def test_default_comes_close_to_the_published_mean(policy: str, apart: float) -> None:
    published = openb.published_read()["default"][policy]
    ours = policies.course(policy, "default", 42)
    assert ours.at(100) == pytest.approx(published.at(100), abs=apart)
    assert ours.at(130) == pytest.approx(published.at(130), abs=apart)


def test_no_compiler_is_said_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(Unavailable, match="no C compiler: no-such-compiler is not on the PATH"):
        kernel.kernel_build()


def test_what_the_compiler_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "broken.c"
    source.write_text("int broken(void) { return }\n")
    with pytest.raises(Unavailable, match=r"cannot compile broken\.c"):
        kernel.kernel_build(source)
    assert not list((tmp_path / "millpond").rglob("*.so"))


def test_the_kernel_compiles_without_a_warning(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or "cc"
    command = [compiler, *kernel.FLAGS, "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "x.so"), str(kernel.SOURCE)]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
