"""What vendors' nodes look like inside."""

from __future__ import annotations

import pytest

from millpond.domain.links import link_levels
from millpond.domain.nodes import CardKind


def levels(model: str, count: int, islands: tuple[tuple[int, ...], ...] = ()) -> dict[str, list[int]]:
    """The sizes of the islands of every level."""
    kind = CardKind(model, "nvidia", 81_920, count, islands)
    return {level.name: [len(island) for island in level.islands] for level in link_levels(kind)}


@pytest.mark.parametrize(
    ("model", "count", "expected"),
    [
        ("A800-80GB", 8, {"nvlink": [8], "pcie": [2, 2, 2, 2], "numa": [4, 4]}),
        ("A100-SXM4-40GB", 8, {"nvlink": [8], "pcie": [2, 2, 2, 2], "numa": [4, 4]}),
        ("H100-80GB", 8, {"nvlink": [8], "numa": [4, 4]}),
        ("H20-96GB", 8, {"nvlink": [8], "numa": [4, 4]}),
        ("A100-80GB", 4, {"nvlink": [4]}),
        ("A30-24GB", 4, {"nvlink": [2, 2]}),
        ("L40S-48GB", 8, {"nvlink": [1] * 8, "numa": [4, 4]}),
        ("4090", 4, {"nvlink": [1] * 4}),
        ("A100-PCIE-40GB", 8, {}),
        ("A800-80GB", 1, {}),
        ("A800-80GB", 6, {}),
        ("910B", 8, {}),
    ],
)
def test_islands_follow_from_model_and_count(model: str, count: int, expected: dict[str, list[int]]) -> None:
    assert levels(model, count) == expected


def test_a_node_that_says_itself_is_believed() -> None:
    assert levels("A800-80GB", 8, ((0, 1, 2, 3), (4, 5, 6, 7))) == {"nvlink": [4, 4]}


@pytest.mark.parametrize("model", ["A800-80GB", "H100-80GB", "A30-24GB", "L40S-48GB"])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_islands_are_disjoint_sets_of_cards_that_exist(model: str, count: int) -> None:
    for level in link_levels(CardKind(model, "nvidia", 0, count)):
        cards = [card for island in level.islands for card in island]
        assert sorted(cards) == list(range(count))
