"""What the machine has, with a stand-in for NVIDIA's library: its names, our reading."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from millpond.engines.local import inventory
from millpond.engines.local.inventory import inventory_read, islands, node_name
from millpond.engines.models import model_name


@pytest.mark.parametrize(
    ("text", "memory", "expected"),
    [
        ("NVIDIA A800-SXM4-80GB", 81_920, "A800-80GB"),
        ("NVIDIA A100-PCIE-40GB", 40_960, "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", 81_920, "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80GB"),
        ("NVIDIA H200", 143_771, "H200-140GB"),
        ("Tesla V100-SXM2-32GB", 32_768, "V100-32GB"),
        ("Tesla T4", 15_360, "T4-15GB"),
        ("NVIDIA GeForce RTX 4090", 24_564, "RTX-4090-24GB"),
        ("NVIDIA RTX 6000 Ada Generation", 49_140, "RTX-6000-Ada-48GB"),
    ],
)
def test_model_name(text: str, memory: int, expected: str) -> None:
    assert model_name(text, memory) == expected


@pytest.mark.parametrize(
    ("host", "name"), [("gpu01.lab.example", "gpu01"), ("GPU_02", "gpu-02"), ("", "localhost"), ("-", "localhost")]
)
def test_node_name(host: str, name: str) -> None:
    assert node_name(host) == name


def test_islands() -> None:
    assert islands([(0, 1), (2, 3), (1, 4)]) == ((0, 1, 4), (2, 3))
    assert islands([]) == ()


class NvmlError(Exception):
    pass


def _library(
    names: list[str], links: set[tuple[int, int]], *, broken: bool = False, mig: frozenset[int] | None = None
) -> ModuleType:
    """NVML as far as we use it."""

    def init() -> None:
        if broken:
            raise NvmlError("Driver Not Loaded")

    def status(first: int, second: int, _: int) -> int:
        return 0 if (first, second) in links else 5

    def mig_mode(handle: int) -> tuple[int, int]:
        if mig is None:
            raise NvmlError("Not Supported")
        return int(handle in mig), int(handle in mig)

    def ancestor(_first: int, _second: int) -> int:
        return 50

    return cast(
        ModuleType,
        SimpleNamespace(
            NVMLError=NvmlError,
            NVML_P2P_CAPS_INDEX_NVLINK=2,
            NVML_P2P_STATUS_OK=0,
            NVML_TOPOLOGY_MULTIPLE=20,
            NVML_DEVICE_MIG_ENABLE=1,
            nvmlInit=init,
            nvmlShutdown=lambda: None,
            nvmlDeviceGetCount=lambda: len(names),
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetName=lambda handle: names[handle],
            nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
            nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=81_920 * 1024 * 1024),
            nvmlDeviceGetP2PStatus=status,
            nvmlDeviceGetTopologyCommonAncestor=ancestor,
            nvmlDeviceGetMigMode=mig_mode,
        ),
    )


def test_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    links = {(0, 1), (2, 3)}
    monkeypatch.setattr(inventory, "pynvml", _library(["NVIDIA A800-SXM4-80GB"] * 4, links))
    found = inventory_read()
    cards = found.nodes[0].cards
    assert cards is not None
    assert (cards.model, cards.memory, cards.count, cards.mig) == ("A800-80GB", 81_920, 4, False)
    assert cards.islands == ((0, 1), (2, 3))
    assert cards.uuids == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    assert not found.nodes[0].simulated


def test_cards_in_mig_mode_are_told_and_not_offered_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _library(["NVIDIA A100-SXM4-80GB"] * 3, set(), mig=frozenset({0, 2}))
    monkeypatch.setattr(inventory, "pynvml", library)
    found = inventory_read()
    assert found.nodes[0].cards is not None
    assert not found.nodes[0].cards.mig
    assert found.notes == ("MIG mode is on for cards 0, 2: jobs cannot use them; nvidia-smi -mig 0 ends it",)


def test_cards_of_two_models_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["NVIDIA A800-SXM4-80GB", "NVIDIA A800-SXM4-80GB", "NVIDIA H100 80GB HBM3"]
    monkeypatch.setattr(inventory, "pynvml", _library(names, set()))
    found = inventory_read()
    assert found.nodes[0].cards is not None
    assert found.nodes[0].cards.count == 2
    assert "several models" in found.notes[0]


@pytest.mark.parametrize("library", [None, _library([], set(), broken=True)], ids=["absent", "no driver"])
def test_no_cards(monkeypatch: pytest.MonkeyPatch, library: ModuleType | None) -> None:
    monkeypatch.setattr(inventory, "pynvml", library)
    found = inventory_read()
    assert found.nodes[0].cards is None
    assert found.nodes[0].cpu >= 1000
    assert found.nodes[0].memory > 100
    assert "no NVIDIA cards" in found.notes[0]
