"""The queue tree: what unset amounts mean, and which configurations are refused."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput
from millpond.scheduling.quota import FREE, tree_build
from millpond.scheduling.snapshot import Snapshot
from millpond.scheduling.usage import Usage
from tests.builders import codes, job, node, plan, pool, queue, running, snapshot, started

POOL = {"A800-80GB": 64_000}
MIXED = {"A100-40GB": 16_000, "A100-80GB": 8_000, "H800-80GB": 8_000}


def test_unset_amounts() -> None:
    tree = tree_build([queue("t/prod", g=16), queue("t/batch", d=8), queue("t/besteffort", c=4)], POOL)
    prod, tenant, best = tree.queues["t/prod"], tree.queues["t"], tree.queues["t/besteffort"]
    assert (prod.guarantee[0], prod.deserved[0], prod.cap[0]) == (16_000, 16_000, FREE)
    assert (tenant.guarantee[0], tenant.deserved[0]) == (16_000, 24_000)
    assert (best.guarantee[0], best.deserved[0], best.cap[0]) == (0, 0, 4_000)
    assert tree.queues[""].deserved[0] == 24_000
    assert prod.tenant is tenant
    assert tree.root.word == "the pool"


def test_models() -> None:
    tree = tree_build(
        [queue("t/prod", g={"A100-40GB": 8}), queue("t/batch", d={"cards": 4}), queue("u/batch", d={"A100": 12})], MIXED
    )
    at = tree.dims.index
    prod, batch, other = (tree.queues[name] for name in ("t/prod", "t/batch", "u/batch"))
    assert prod.guarantee[0] == 8_000
    assert prod.guarantee[at("A100-40GB")] == 8_000
    assert prod.guarantee[at("H800-80GB")] == 0
    assert batch.deserved[at("H800-80GB")] == FREE
    assert other.deserved[at("A100")] == 12_000
    assert other.deserved[at("A100-80GB")] == FREE
    assert other.deserved[at("H800-80GB")] == 0
    assert set(tree.dims_of("A100-80GB")) == {0, at("A100"), at("A100-80GB")}
    assert tree.dims_of("") == (0,)


@pytest.mark.parametrize(
    ("queues", "numbers"),
    [
        ([queue("t/prod", g=8, d=4)], ("8", "4")),
        ([queue("t/batch", d=8, c=4)], ("8", "4")),
        ([queue("t/prod", g=8, d=8, c=4)], ("8", "4")),
        ([queue("t", g=4, d=40), queue("t/prod", g=8)], ("8", "4")),
        ([queue("t", d=4), queue("t/batch", d=8)], ("8", "4")),
        ([queue("t/prod", g=40), queue("u/prod", g=30)], ("70", "64")),
        ([queue("t/prod", g={"A800-80GB": 65})], ("65", "64")),
        ([queue("t/prod", g={"H800": 1})], ("1", "0")),
    ],
)
def test_refused_with_both_numbers(queues: list[object], numbers: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput) as found:
        tree_build(queues, POOL)  # type: ignore[arg-type]
    assert all(number in found.value.message for number in numbers)
    assert set(found.value.details) == {"need", "limit"}
    tree_build(queues, POOL, strict=False)  # type: ignore[arg-type]


def test_guarantee_names_models() -> None:
    with pytest.raises(InvalidInput, match="several models"):
        tree_build([queue("t/prod", g=8)], MIXED)


def test_besteffort_has_no_promise() -> None:
    with pytest.raises(InvalidInput, match="besteffort"):
        tree_build([queue("t/besteffort", d=8)], POOL)


@pytest.mark.parametrize("queues", [[queue("t/prod"), queue("t/prod")], [queue("prod", g=1), queue("prod/batch")]])
def test_no_tree(queues: list[object]) -> None:
    with pytest.raises(InvalidInput):
        tree_build(queues, POOL, strict=False)  # type: ignore[arg-type]


def test_deserved_above_the_pool_is_a_warning() -> None:
    tree = tree_build([queue("t/batch", d=40), queue("u/batch", d=40)], POOL)
    assert len(tree.warnings) == 1
    assert "80" in tree.warnings[0]
    assert "64" in tree.warnings[0]


def test_usage_can_be_undone() -> None:
    tree = tree_build([queue("t", c=8), queue("t/batch", c=6)], POOL)
    usage, leaf, dims = Usage(tree), tree.queues["t/batch"], tree.dims_of("A800-80GB")
    usage.add(leaf, 4_000, dims, firm=False)
    lacks = list(usage.cap_lacks(leaf, 5_000, dims))
    assert [(lack.queue.name, lack.have, lack.limit, lack.deficit) for lack in lacks] == [
        ("t/batch", 4_000, 6_000, 3_000),
        ("t", 4_000, 8_000, 1_000),
    ]
    assert not list(usage.cap_lacks(leaf, 0, dims))
    usage.add(leaf, 4_000, dims, firm=False, sign=-1)
    assert usage.used(tree.root) == 0


def lending(*jobs: object) -> Snapshot:
    queues = [queue("a/prod", g=8, lend=False), queue("b/batch", d=8)]
    return snapshot(pool(2), queues, jobs)  # type: ignore[arg-type]


def test_unlent_guarantee_stays_free() -> None:
    first, second = job("b1", "b/batch", 8), job("b2", "b/batch", 8, submitted=0)
    result = plan(lending(first, second))
    assert started(result) == ["b1"]
    assert codes(result, "b2") == ["INSUFFICIENT_CARDS", "BEHIND"]
    reason = result.wait[0].reasons[0]
    assert (reason.need, reason.have, reason.queue) == (8_000, 0, "a/prod")
    assert started(plan(lending(running("b1", "b/batch", "n1"), job("a1", "a/prod", 8)))) == ["a1"]


def test_unlent_guarantee_binds_evictions_too() -> None:
    queues = [queue("a/prod", g=8, lend=False), queue("b/prod", g=8), queue("c/besteffort")]
    jobs = [running("c1", "c/besteffort", "n1"), job("b1", "b/prod", 8)]
    assert plan(snapshot(pool(2), queues, jobs)).evict[0].job == "c1"
    assert not plan(snapshot(pool(1), queues, jobs)).evict


def test_mixed_pool_counts_per_model() -> None:
    nodes = [node("n1", 8, model="A100-40GB"), node("n2", 8, model="H800-80GB")]
    queues = [queue("t/batch", c={"A100-40GB": 2})]
    jobs = [job("a", "t/batch", "A100:2"), job("b", "t/batch", "A100:1"), job("c", "t/batch", "H800:8")]
    result = plan(snapshot(nodes, queues, jobs))
    assert sorted(started(result)) == ["a", "c"]
    assert codes(result, "b") == ["QUEUE_CAP"]
