"""Pods and nodes as ``kubectl get pods,nodes -A -o json`` prints them, or a watch with ``--output-watch-events``.

A namespace is a tenant.  Pods of one gang (Volcano's group, the pod group of the scheduler plugins, a Kubeflow job) are
one job of as many nodes.  Pods of a Deployment, StatefulSet or the like are services; pods of a DaemonSet belong to the
nodes and are passed over.  Without an end a pod runs on.  Nodes give the pool, with what they have to allocate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from millpond.domain.amounts import CARD, cpu_parse, integer_parse
from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.errors import InvalidInput, Position
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.files.nodes import MAX_CARDS_PER_NODE, model_facts, model_parse
from millpond.files.traces.located import Located, documents_read
from millpond.files.traces.names import label_of
from millpond.files.traces.trace import Trace, TraceJob, moment_parse, trace_make

CARD_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "cambricon.com/mlu", "hygon.com/dcu")
SLICE_RESOURCE = "nvidia.com/mig-"
PRODUCT = "nvidia.com/gpu.product"
GANGS = (
    ("annotations", "scheduling.k8s.io/group-name"),
    ("labels", "scheduling.x-k8s.io/pod-group"),
    ("labels", "training.kubeflow.org/job-name"),
)
SERVICE_OWNERS = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController")
DAEMONS = "belong to the nodes (DaemonSet)"
NEVER_RAN = "never ran"
PRINTED_BY = "kubectl get pods -A -o json prints one"

_QUANTITY = re.compile(r"(\d{1,18})(?:\.\d+)?(Ki|Mi|Gi|Ti|Pi|k|K|M|G|T|P|m)?\Z", re.ASCII)
_BYTES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BYTES |= {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}


def kubernetes_read(text: str, source: str) -> Trace:
    """The pods of a list, of single objects one after the other, or of a watch (the last state of each pod counts)."""
    pods: dict[str, Located] = {}
    nodes: dict[str, NodeSpec] = {}
    for found in _objects(text, source):
        kind = _kind(found)
        if kind == "Pod":
            pods[_key(found)] = found
        elif kind == "Node":
            spec = _node(found)
            nodes[spec.name] = spec
    skipped: Counter[str] = Counter()
    gangs: dict[tuple[str, str, CardRequest], list[TraceJob]] = {}
    jobs: list[TraceJob] = []
    for pod in pods.values():
        job = _job(pod, skipped)
        if job is None:
            continue
        gang = _gang(pod)
        if gang:
            gangs.setdefault((job.tenant, gang, job.gpu), []).append(job)
        else:
            jobs.append(job)
    jobs += [_joined(gang, members) for (_, gang, _), members in gangs.items()]
    return trace_make("kubernetes", jobs, source=source, nodes=tuple(nodes.values()), skipped=skipped, absolute=True)


def kubernetes_nodes_read(text: str, source: str) -> tuple[NodeSpec, ...]:
    """Only the nodes.  Raises `InvalidInput` if there are none."""
    nodes = {spec.name: spec for spec in (_node(found) for found in _objects(text, source) if _kind(found) == "Node")}
    if not nodes:
        raise InvalidInput(
            "the file has no nodes", hint="kubectl get nodes -o json prints them", position=Position(1, 1, "", source)
        )
    return tuple(nodes.values())


def _kind(found: Located) -> str:
    return found.at("kind").text_of()


def _objects(text: str, source: str) -> Iterator[Located]:
    for document in documents_read(text, source):
        if not isinstance(document.value, dict):
            raise document.error("expected a Kubernetes object", hint=PRINTED_BY)
        if document.value.get("type") in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}:
            yield document.at("object")
        elif "items" in document.value:
            yield from document.at("items").items()
        elif "kind" in document.value:
            yield document
        else:
            raise document.error("expected a Kubernetes object with a kind", hint=PRINTED_BY)


def _key(pod: Located) -> str:
    meta = pod.at("metadata")
    return meta.at("uid").text_of() or f"{meta.at('namespace').text_of('default')}/{meta.at('name').parse(str)}"


def _job(pod: Located, skipped: Counter[str]) -> TraceJob | None:
    meta, spec, status = pod.at("metadata"), pod.at("spec"), pod.at("status")
    owner = meta.at("ownerReferences", 0, "kind").text_of()
    if owner == "DaemonSet":
        skipped[DAEMONS] += 1
        return None
    submitted = meta.at("creationTimestamp").parse(moment_parse)
    begin = status.at("startTime").optional(moment_parse)
    end = _end(pod)
    if begin is None and (end is not None or status.at("phase").text_of() in {"Failed", "Succeeded"}):
        skipped[NEVER_RAN] += 1
        return None
    if begin is not None and end is not None and end < begin:
        raise status.at("startTime").error("the pod ends before it starts")
    gpu, cpu, memory = _asked(spec)
    product = spec.at("nodeSelector", PRODUCT)
    if product.value is not None and not gpu.none:
        gpu = replace(gpu, models=(product.parse(_model),))
    namespace = meta.at("namespace").text_of("default")
    service = owner in SERVICE_OWNERS
    return TraceJob(
        id=f"{namespace}.{meta.at('name').parse(str)}"[:128],
        tenant=namespace,
        submitted=submitted,
        duration=None if end is None or begin is None else end - begin,
        gpu=gpu,
        position=meta.at("name").position(),
        cpu=cpu,
        memory=memory,
        klass=QueueClass.PROD if service else QueueClass.BATCH,
        service=service,
    )


def _end(pod: Located) -> int | None:
    """When its last container ended; None while one runs."""
    statuses = list(pod.at("status", "containerStatuses").items())
    ends = [status.at("state", "terminated", "finishedAt").optional(moment_parse) for status in statuses]
    if ends and None not in ends:
        return max(end for end in ends if end is not None)
    return pod.at("metadata", "deletionTimestamp").optional(moment_parse)


def _asked(spec: Located) -> tuple[CardRequest, int, int]:
    """Cards, milli-CPU and MiB of all containers together (limits for cards, requests for the rest)."""
    cards, cpu, memory = 0, 0, 0
    slices: Counter[str] = Counter()
    for container in spec.at("containers").items():
        asked = dict(container.at("resources", "requests").entries())
        for name, value in {**asked, **dict(container.at("resources", "limits").entries())}.items():
            if name in CARD_RESOURCES:
                cards += value.parse(_count)
            elif name.startswith(SLICE_RESOURCE):
                slices[name.removeprefix("nvidia.com/")] += value.parse(_count)
        cpu += asked["cpu"].parse(cpu_parse) if "cpu" in asked else 0
        memory += asked["memory"].parse(mib_parse) if "memory" in asked else 0
    if (cards and slices) or len(slices) > 1:
        raise spec.at("containers").error(
            "a pod with cards and slices, or slices of several kinds, is no job of ours", hint="leave it out"
        )
    for profile, count in slices.items():
        try:
            return card_request_parse(f"{profile} x{count}"), cpu, memory
        except InvalidInput as error:
            raise error.at(spec.at("containers").position()) from error
    return CardRequest(cards * CARD, cards * CARD), cpu, memory


def _gang(pod: Located) -> str:
    for block, key in GANGS:
        name = pod.at("metadata", block, key).text_of()
        if name:
            return name
    return ""


def _joined(gang: str, members: list[TraceJob]) -> TraceJob:
    """Pods of one gang as one job: submitted with the first, done with the last."""
    durations = [job.duration for job in members]
    return replace(
        members[0],
        id=f"{members[0].tenant}.{gang}-{members[0].gpu.milli // CARD}x{len(members)}"[:128],
        submitted=min(job.submitted for job in members),
        duration=None if None in durations else max(duration or 0 for duration in durations),
        nodes=len(members),
        cpu=max(job.cpu for job in members),
        memory=max(job.memory for job in members),
    )


def _node(node: Located) -> NodeSpec:
    status, labels = node.at("status"), node.at("metadata", "labels")
    block = status.at("allocatable") if status.at("allocatable").value is not None else status.at("capacity")
    amounts = dict(block.entries())
    count = sum(amounts[name].parse(_count) for name in CARD_RESOURCES if name in amounts)
    product = labels.at(PRODUCT)
    kind = None
    if count:
        if count > MAX_CARDS_PER_NODE:
            raise block.error(f"{count} cards on one node; {MAX_CARDS_PER_NODE} are possible")
        model = product.parse(_model) if product.value is not None else "GPU"
        vendor, memory = model_facts(model)
        kind = CardKind(model, vendor, memory, count)
    return NodeSpec(
        name=label_of(node.at("metadata", "name").parse(str)),
        cpu=amounts["cpu"].parse(cpu_parse) if "cpu" in amounts else 0,
        memory=amounts["memory"].parse(mib_parse) if "memory" in amounts else 0,
        cards=kind,
        labels=_labels(labels),
    )


def _labels(labels: Located) -> tuple[tuple[str, str], ...]:
    """Where the node stands."""
    words: Mapping[str, str] = {"topology.kubernetes.io/zone": "zone", "topology.kubernetes.io/rack": "rack"}
    return tuple((word, labels.at(key).text_of()) for key, word in words.items() if labels.at(key).text_of())


def mib_parse(text: str) -> int:
    """MiB of a quantity (``16Gi``, ``64G``, bytes), rounded up."""
    match = _QUANTITY.match(text)
    if match is None:
        raise InvalidInput(f"{text[:80]!r} is not a quantity", hint="Kubernetes writes 16Gi or 64G")
    number, unit = int(match.group(1)), match.group(2) or ""
    if unit == "m":
        number, unit = -(-number // 1000), ""
    return -(-number * _BYTES[unit] // (1 << 20))


def _count(text: str) -> int:
    return integer_parse(text, "number of cards", 0, 4096)


def _model(text: str) -> str:
    """``NVIDIA-A100-SXM4-80GB`` → ``A100-SXM4-80GB``."""
    return model_parse(text.removeprefix("NVIDIA-"))


def kubernetes_lines_read(lines: Iterable[str], source: str) -> Trace:
    """As `kubernetes_read`, of lines."""
    return kubernetes_read("".join(lines), source)
