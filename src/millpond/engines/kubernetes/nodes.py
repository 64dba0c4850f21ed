"""Nodes of a cluster as millpond's: amounts, cards and labels, from what the API says about them.

Amounts are what a node offers to pods (*allocatable*), not what it has: the kubelet keeps something for itself, and a
device plugin takes a card out as soon as it is unhealthy.  Which one, it does not say.

Sources: Kubernetes API reference, Node v1 and "Well-Known Labels, Annotations and Taints"; NVIDIA GPU feature discovery
(labels ``nvidia.com/gpu.*``, ``nvidia.com/mig.*``); Volcano's vGPU device plugin (``volcano.sh/node-vgpu-register``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from millpond.domain.errors import InvalidInput
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.engines.kubernetes.amounts import WHOLE
from millpond.engines.models import model_name

REGISTER = "volcano.sh/node-vgpu-register"
"""Written by Volcano's vGPU plugin: ``uuid,split,MiB,model,healthy,mode:`` for each card."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)\Z", re.ASCII)
_SUFFIX: Final[Mapping[str, Fraction]] = {
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)},
}
_MIB = 1024 * 1024

_OWN_TAINTS = frozenset(
    f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable", "unschedulable")
)  # said by `NodeSeen.ready` and `cordoned` already
_NOISE = ("nvidia.com/", "feature.node.kubernetes.io/", "beta.kubernetes.io/", "node.alpha.kubernetes.io/")
"""Labels that say what the specification says already, or nothing that a job would choose by."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node as it is now.  ``ready``: its kubelet speaks and is well; ``cordoned``: somebody keeps new pods away.

    ``notes`` are sentences for an operator about what was found and left out.
    """

    spec: NodeSpec
    ready: bool
    cordoned: bool
    notes: tuple[str, ...] = ()


def node_read(node: Mapping[str, Any], tolerated: frozenset[str] = frozenset({WHOLE})) -> NodeSeen:
    """A Node object of the API.  ``tolerated``: keys of taints that our pods pass, so that they close no node.

    Raises InvalidInput for an amount that is no quantity.
    """
    meta, spec, status = node["metadata"], node.get("spec", {}), node.get("status", {})
    name: str = meta["name"]
    labels: Mapping[str, str] = meta.get("labels", {})
    offered: Mapping[str, str] = status.get("allocatable", {})
    notes: list[str] = []
    cards = _cards(name, meta, status, notes)
    conditions = {entry["type"]: entry["status"] for entry in status.get("conditions", ())}
    return NodeSeen(
        NodeSpec(
            name=name,
            cpu=int(quantity_parse(offered.get("cpu", "0")) * 1000),
            memory=int(quantity_parse(offered.get("memory", "0")) / _MIB),
            cards=cards,
            labels=tuple(sorted(item for item in labels.items() if not item[0].startswith(_NOISE))),
            taints=tuple(_taints(spec.get("taints", ()), tolerated)),
        ),
        ready=conditions.get("Ready") == "True",
        cordoned=bool(spec.get("unschedulable")),
        notes=tuple(notes),
    )


def quantity_parse(text: str) -> Fraction:
    """A Kubernetes quantity, exactly: ``64``, ``250m``, ``2Ti``, ``131072Ki``, ``1e3``."""
    match = _QUANTITY.match(text)
    if match is None:
        raise InvalidInput(f"{text[:80]!r} is not a Kubernetes quantity", hint="64, 250m and 2Ti are")
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIX[suffix or ""]
    return Fraction(number) * scale


def _taints(taints: tuple[Mapping[str, str], ...], tolerated: frozenset[str]) -> list[str]:
    """``key=value:effect`` of those that keep our pods away."""
    return [
        f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
        for taint in taints
        if taint["effect"] != "PreferNoSchedule" and taint["key"] not in _OWN_TAINTS | tolerated
    ]


def _cards(name: str, meta: Mapping[str, Any], status: Mapping[str, Any], notes: list[str]) -> CardKind | None:
    labels: Mapping[str, str] = meta.get("labels", {})
    registered = _registered(meta.get("annotations", {}).get(REGISTER, ""))
    offered = int(quantity_parse(status.get("allocatable", {}).get(WHOLE, "0")))
    there = int(quantity_parse(status.get("capacity", {}).get(WHOLE, "0")))
    if offered < there:
        notes.append(f"{name}: {there - offered} of {there} cards are unhealthy; the device plugin does not say which")
    mixed = labels.get("nvidia.com/mig.strategy") == "mixed"
    if registered:
        sick = [card.uuid for card in registered if not card.healthy]
        notes.extend(f"{name}: card {uuid} is unhealthy" for uuid in sick)
        well = [card for card in registered if card.healthy]
        offered = len(well)
        model, memory = registered[0].model, registered[0].memory
        uuids = tuple(card.uuid for card in well)
    else:
        model = labels.get("nvidia.com/gpu.product", "").removesuffix("-SHARED").partition("-MIG-")[0]
        memory = _count(labels.get("nvidia.com/gpu.memory", ""))
        uuids = ()
        if mixed and not offered:
            offered = _count(labels.get("nvidia.com/gpu.count", ""))  # cards that are divided are not offered as cards
    if not offered:
        return None
    if not model:
        notes.append(f"{name}: {offered} cards of an unknown model; install NVIDIA's GPU feature discovery")
    mig = mixed and labels.get("nvidia.com/mig.capable") == "true"
    return CardKind(model=model_name(model, memory), memory=memory, count=offered, uuids=uuids, mig=mig)


@dataclass(frozen=True, slots=True)
class _Card:
    uuid: str
    memory: int
    model: str
    healthy: bool


def _registered(text: str) -> list[_Card]:
    """The cards of `REGISTER`; entries that are not understood are none."""
    fields = [entry.split(",") for entry in text.split(":") if entry]
    return [
        _Card(words[0], _count(words[2]), words[3], words[4] == "true")
        for words in fields
        if len(words) >= 5 and words[0]
    ]


def _count(text: str) -> int:
    """A label's number; 0 when it is none."""
    return int(text) if text.isdecimal() else 0
