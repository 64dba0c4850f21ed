"""All 17 pod files under all six policies, one seed each, beside the published means of ten."""

from __future__ import annotations

import pytest
from benchmarks import openb
from benchmarks.peers import policies, table

APART = {"Random": 2.0, "DotProd": 1.5, "BestFit": 1.0, "GpuClustering": 3.5, "GpuPacking": 3.5, "FGD": 1.2}
"""In points, one seed against ten.  Clustering and Packing hang on node names, which are not the published ones."""

SHORT_OF_CPU = {("cpu200", "FGD"): 2.0, ("cpu250", "FGD"): 3.0}


@pytest.mark.long
@pytest.mark.parametrize("workload", openb.WORKLOADS)
def test_every_policy_comes_close_on_every_file(workload: str) -> None:
    published = openb.published_read()[workload]
    for policy in policies.POLICIES:
        ours = policies.course(policy, workload, openb.SEEDS[0])
        apart = SHORT_OF_CPU.get((workload, policy), APART[policy])
        for percent in (100, 130):
            assert ours.at(percent) == pytest.approx(published[policy].at(percent), abs=apart), (policy, percent)


def test_node_names_alone_move_packing() -> None:
    low, high = table.order_range("GpuPacking", "cpu250", 42, 3)
    assert high - low > 0.5
    low, high = table.order_range("BestFit", "cpu250", 42, 3)
    assert high - low < 0.6


def test_the_table_names_what_is_not_explained() -> None:
    near = table.Row("w", "FGD", (95.0, 95.0), (93.0, 93.0), (90.0, 90.0), (93.0, 94.6))
    far = table.Row("w", "FGD", (96.0, 96.0), (93.0, 93.0), (90.0, 90.0), (93.0, 94.6))
    assert near.explained
    assert not far.explained
    assert "| w | FGD | 95.00 / 95.00 | 93.00 / 93.00 | -2.00/-2.00 | 90.00 / 90.00 | 93.00–94.60 |" in table.markdown(
        [near]
    )
