"""What this machine has: CPU, memory, and NVIDIA cards through NVML where there are any."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from millpond.domain.nodes import CardKind, NodeSpec
from millpond.engines.base import Inventory
from millpond.engines.models import model_name

try:
    import pynvml
except ImportError:
    pynvml = None

_MIB = 1024 * 1024


def inventory_read() -> Inventory:
    """This machine as one node, named by its host name."""
    notes: list[str] = []
    cards = _cards(pynvml, notes)
    spec = NodeSpec(name=node_name(platform.node()), cpu=_cpu(), memory=_memory(), cards=cards)
    return Inventory((spec,), tuple(notes))


def node_name(host: str) -> str:
    """A host name as a node's name: its first label, other letters replaced by hyphens."""
    text = re.sub(r"[^a-z0-9-]", "-", host.partition(".")[0].lower()).strip("-")[:63]
    return text or "localhost"


def _cpu() -> int:
    """Milli-CPU that this process may use."""
    return len(os.sched_getaffinity(0)) * 1000


def _memory() -> int:
    """MiB of the machine."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    return 0


def _cards(nvml: ModuleType | None, notes: list[str]) -> CardKind | None:
    """The cards of the commonest model; another model beside it is named in the notes and left out."""
    if nvml is None:
        notes.append("no NVIDIA cards: the package nvidia-ml-py is not installed")
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        notes.append(f"no NVIDIA cards: {error}")
        return None
    try:
        return _cards_read(nvml, notes)
    except nvml.NVMLError as error:
        notes.append(f"NVIDIA cards cannot be read: {error}")
        return None
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _cards_read(nvml: ModuleType, notes: list[str]) -> CardKind | None:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if not handles:
        return None
    memories = [nvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB for handle in handles]
    names = [_text(nvml.nvmlDeviceGetName(handle)) for handle in handles]
    models = [model_name(name, memory) for name, memory in zip(names, memories, strict=True)]
    model = max(models, key=models.count)
    if models.count(model) != len(models):
        notes.append(f"cards of several models: {', '.join(sorted(set(models)))}; only the first {model} are used")
        count = next((index for index, other in enumerate(models) if other != model), len(models))
        handles = handles[:count]
        if not handles:
            return None
    divided = [str(index) for index, handle in enumerate(handles) if _mig(nvml, handle)]
    if divided:
        notes.append(f"MIG mode is on for cards {', '.join(divided)}: jobs cannot use them; nvidia-smi -mig 0 ends it")
    return CardKind(
        model=model,
        vendor="nvidia",
        memory=min(memories[: len(handles)]),
        count=len(handles),
        islands=islands(_links(nvml, handles)),
        uuids=tuple(_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles),
        mig=False,  # this engine cannot divide real cards
    )


def islands(links: list[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Sets of card indexes joined directly or through others; single cards are left out."""
    group: dict[int, set[int]] = {}
    for first, second in links:
        joined = group.get(first, {first}) | group.get(second, {second})
        for card in joined:
            group[card] = joined
    return tuple(sorted({tuple(sorted(cards)) for cards in group.values()}))


def _links(nvml: ModuleType, handles: list[object]) -> list[tuple[int, int]]:
    """Pairs of cards with NVLink between them, directly or through switches; without any NVLink, pairs below one PCIe
    switch."""
    fast = list(_nvlinks(nvml, handles))
    if fast:
        return fast
    near = []
    for first in range(len(handles)):
        for second in range(first + 1, len(handles)):
            with contextlib.suppress(nvml.NVMLError):
                level = nvml.nvmlDeviceGetTopologyCommonAncestor(handles[first], handles[second])
                if level <= nvml.NVML_TOPOLOGY_MULTIPLE:
                    near.append((first, second))
    return near


def _nvlinks(nvml: ModuleType, handles: list[object]) -> Iterator[tuple[int, int]]:
    for first in range(len(handles)):
        for second in range(first + 1, len(handles)):
            with contextlib.suppress(nvml.NVMLError):
                status = nvml.nvmlDeviceGetP2PStatus(handles[first], handles[second], nvml.NVML_P2P_CAPS_INDEX_NVLINK)
                if status == nvml.NVML_P2P_STATUS_OK:
                    yield first, second


def _mig(nvml: ModuleType, handle: object) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
