"""Nodes as the API shows them: NVIDIA's labels, a sick card, shared and divided cards, taints, odd amounts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.errors import InvalidInput
from millpond.domain.nodes import CardKind
from millpond.engines.kubernetes.amounts import cpu_quantity, memory_quantity
from millpond.engines.kubernetes.nodes import REGISTER, node_read, quantity_parse
from tests.kube import objects


def node(**changes: Any) -> dict[str, Any]:
    """A ready node of eight A800 cards; ``labels``, ``taints``, ``allocatable`` and so on are laid over it."""
    made = objects.node(3)
    made["status"] = {name: dict(amounts) for name, amounts in made["status"].items()}
    made["status"]["conditions"] = [{"type": "Ready", "status": changes.pop("ready", "True")}]
    for place in ("capacity", "allocatable"):
        made["status"][place].update(changes.pop(place, {}))
    for place in ("labels", "annotations"):
        made["metadata"][place].update(changes.pop(place, {}))
    made["spec"] = changes
    return made


def test_node_of_eight_cards() -> None:
    seen = node_read(node())
    assert seen.spec.name == "node-003"
    assert (seen.spec.cpu, seen.spec.memory) == (128_000, 2_097_152)
    assert seen.spec.cards == CardKind(model="A800-80GB", memory=81_920, count=8)
    assert ("topology.kubernetes.io/zone", "zone-0") in seen.spec.labels
    assert not any(name.startswith("nvidia.com/") for name, _ in seen.spec.labels)
    assert (seen.ready, seen.cordoned, seen.spec.taints, seen.notes) == (True, False, (), ())


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_silent_node_is_not_ready(status: str) -> None:
    assert not node_read(node(ready=status)).ready


def test_sick_card_is_left_out_and_told() -> None:
    seen = node_read(node(allocatable={"nvidia.com/gpu": "7"}))
    assert seen.spec.cards is not None
    assert seen.spec.cards.count == 7
    assert seen.notes == ("node-003: 1 of 8 cards are unhealthy; the device plugin does not say which",)


def test_registered_cards_have_names() -> None:
    cards = "GPU-a,10,81920,NVIDIA-H800-80GB,true,hami-core:GPU-b,10,81920,NVIDIA-H800-80GB,false,hami-core:"
    seen = node_read(
        node(annotations={REGISTER: cards}, allocatable={"nvidia.com/gpu": "0"}, capacity={"nvidia.com/gpu": "0"})
    )
    assert seen.spec.cards == CardKind(model="H800-80GB", memory=81_920, count=1, uuids=("GPU-a",))
    assert seen.notes == ("node-003: card GPU-b is unhealthy",)


def test_divided_cards_are_counted_by_their_label() -> None:
    none = {"nvidia.com/gpu": "0"}
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    seen = node_read(node(labels=labels | {"nvidia.com/gpu.memory": "40960"}, allocatable=none, capacity=none))
    assert seen.spec.cards == CardKind(model="A100-40GB", memory=40_960, count=8, mig=True)


def test_cards_without_labels_are_told() -> None:
    seen = node_read({"metadata": {"name": "bare"}, "status": {"allocatable": {"nvidia.com/gpu": "2"}}})
    assert seen.spec.cards is not None
    assert seen.spec.cards.count == 2
    assert seen.notes == ("bare: 2 cards of an unknown model; install NVIDIA's GPU feature discovery",)


def test_node_without_cards() -> None:
    seen = node_read({"metadata": {"name": "plain"}, "status": {"allocatable": {"cpu": "3920m", "memory": "131072Ki"}}})
    assert (seen.spec.cpu, seen.spec.memory, seen.spec.cards) == (3920, 128, None)


def test_taints_of_others_close_a_node() -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "maintenance", "effect": "NoExecute"},
        {"key": "team", "value": "vision", "effect": "NoSchedule"},
        {"key": "slow", "effect": "PreferNoSchedule"},
    ]
    seen = node_read(node(taints=taints, unschedulable=True))
    assert seen.spec.taints == ("maintenance:NoExecute", "team=vision:NoSchedule")
    assert seen.cordoned


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64), ("0.5", Fraction(1, 2)), (".5", Fraction(1, 2)), ("250m", Fraction(1, 4)), ("1e3", 1000),
        ("1E3", 1000), ("1E", 10**18), ("2Ki", 2048), ("1M", 10**6), ("3k", 3000), ("5n", Fraction(5, 10**9)),
    ],
)  # fmt: skip
def test_quantities(text: str, value: Fraction) -> None:
    assert quantity_parse(text) == value


@pytest.mark.parametrize("text", ["", "x", "1x", "1KiB", "- 1", "1e", "٣", "1\n"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(InvalidInput):
        quantity_parse(text)


@given(st.integers(0, 10**9))
def test_quantities_that_we_write_are_read_exactly(amount: int) -> None:
    assert quantity_parse(cpu_quantity(amount)) * 1000 == amount
    assert quantity_parse(memory_quantity(amount)) / 1024**2 == amount
