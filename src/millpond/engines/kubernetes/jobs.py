"""An order as a Volcano Job: one pod a node, each pinned to its node, all of them or none.

Volcano binds what the planner has placed, and decides nothing: every task names its node, the gang is the whole job,
and whatever ends one pod ends the attempt.  Nothing is retried there, because the next attempt is another order.

A pod is warned, given its grace and killed by Kubernetes itself, whoever deletes it (we, a drain, a kubelet that is
short of memory): a hook before TERM writes the deadline and sends the warning signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from millpond.domain.jobs import QueueClass
from millpond.engines.base import RankOrder, Refused, StartOrder
from millpond.engines.kubernetes.amounts import card_list, cards_amounts, memory_quantity, node_amounts
from millpond.engines.kubernetes.names import (
    ATTEMPT,
    CARDS,
    EPOCH,
    MANAGED,
    RANK,
    TENANT,
    host_name,
    job_object_name,
    namespace_name,
    priority_class_name,
    queue_object_name,
    task_name,
)
from millpond.engines.kubernetes.tenants import CLAIM, RANKS_SERVICE

MASTER_PORT = 29500
"""Every pod has an address of its own, so the port that PyTorch uses by default is always free."""

NOTICE_DIR = "/run/millpond"
DEADLINE_FILE = f"{NOTICE_DIR}/deadline"

TERM_LEAD_S = 5
"""TERM comes so long before the end of the grace; of a shorter grace, when a quarter is left."""

ENDED_BY = ("PodFailed", "PodEvicted")
"""What ends the whole attempt.  Without a policy Volcano would make a new pod and run the gang with a member missing;
with RestartJob it would count its own retries, and give up at the third eviction."""


@dataclass(frozen=True, slots=True)
class Placing:
    """What the order itself does not say: leaf ``queue``, its class, grace in seconds, whether others may evict it."""

    queue: str
    klass: QueueClass
    grace_s: int
    preemptible: bool


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What is the same for all pods of a cluster.

    ``user``: for orders that name none; restricted pods may not be root.  ``card_taint``: keeps pods without cards off
    nodes that have some.
    """

    image: str
    user: int = 65_532
    card_taint: str = "nvidia.com/gpu"


def job_compile(order: StartOrder, placing: Placing, settings: PodSettings, command: Sequence[str]) -> dict[str, Any]:
    """The Volcano Job of an attempt; ``command`` is what each pod runs.

    Raises `Refused` when the order cannot be expressed: no ranks, a share of a card that Volcano does not know.
    """
    if not order.ranks:
        raise Refused(f"the order for {order.attempt} has no ranks")
    seats = _seats(order)
    labels = {MANAGED: "millpond", TENANT: order.tenant, ATTEMPT: order.attempt}
    notes = {EPOCH: str(order.epoch), "volcano.sh/preemptable": "true" if placing.preemptible else "false"}
    priority = priority_class_name(placing.klass)
    tasks = []
    for number, ranks in enumerate(seats):
        metadata = {"labels": labels, "annotations": notes | _rank_notes(ranks)}
        pod = _pod(order, number, seats, placing, settings, command)
        template = {"metadata": metadata, "spec": pod | {"priorityClassName": priority}}
        tasks.append({"name": task_name(number), "replicas": 1, "template": template})
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": job_object_name(order.attempt),
            "namespace": namespace_name(order.tenant),
            "labels": labels,
            "annotations": notes,
        },
        "spec": {
            "schedulerName": "volcano",
            "queue": queue_object_name(placing.queue),
            "priorityClassName": priority,
            "minAvailable": len(seats),
            "policies": [{"events": list(ENDED_BY), "action": "TerminateJob"}],
            "tasks": tasks,
        },
    }


def _seats(order: StartOrder) -> list[tuple[RankOrder, ...]]:
    """The ranks by node, in the order of the plan."""
    nodes: dict[str, list[RankOrder]] = {}
    for rank in order.ranks:
        nodes.setdefault(rank.node, []).append(rank)
    return [tuple(ranks) for ranks in nodes.values()]


def _rank_notes(ranks: tuple[RankOrder, ...]) -> dict[str, str]:
    """Which ranks and cards were planned.  A device plugin chooses whole cards itself, and obeys only their number."""
    return {RANK: card_list([rank.rank for rank in ranks]), CARDS: card_list(ranks[0].cards)}


def _pod(
    order: StartOrder,
    number: int,
    seats: list[tuple[RankOrder, ...]],
    placing: Placing,
    settings: PodSettings,
    command: Sequence[str],
) -> dict[str, Any]:
    ranks = seats[number]
    amounts = node_amounts(order.cpu, order.memory, cards_amounts(ranks[0]))
    user = order.tenant_uid or settings.user
    volumes, mounts = _volumes(order)
    main = {
        "name": "main",
        "image": settings.image,
        "command": list(command),
        "workingDir": order.work_dir,
        "env": [{"name": name, "value": value} for name, value in _env(order, number, seats)],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": mounts,
        "lifecycle": {"preStop": {"exec": {"command": _warning(order.warning_signal, placing.grace_s)}}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if order.ready_path:
        main["readinessProbe"] = _probe(order.ready_path, ranks[0].port)
    return {
        "restartPolicy": "Never",
        "affinity": _pin(ranks[0].node),
        "tolerations": [{"key": settings.card_taint, "operator": "Exists", "effect": "NoSchedule"}],
        "hostname": host_name(order.attempt, number),
        "subdomain": RANKS_SERVICE,
        "terminationGracePeriodSeconds": placing.grace_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [main],
        "volumes": volumes,
    }


def _pin(node: str) -> dict[str, Any]:
    """To this node and no other, by its name: the label ``hostname`` may differ from it."""
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _env(order: StartOrder, number: int, seats: list[tuple[RankOrder, ...]]) -> list[tuple[str, str]]:
    """The order's environment, and above it what the engine alone knows (as on every engine)."""
    ranks = seats[number]
    first = ranks[0]
    own = {
        "WORLD_SIZE": str(len(order.ranks)),
        "LOCAL_WORLD_SIZE": str(len(ranks)),
        "MASTER_ADDR": f"{host_name(order.attempt, 0)}.{RANKS_SERVICE}",
        "MASTER_PORT": str(MASTER_PORT),
        "MILLPOND_NODE": first.node,
        "MILLPOND_CARD_MILLI": str(first.milli),
        "MILLPOND_DEADLINE_FILE": DEADLINE_FILE,
        "HOME": order.work_root or order.work_dir,
    }
    if len(ranks) == 1:
        own |= {"RANK": str(first.rank), "LOCAL_RANK": "0", "MILLPOND_RANK": str(first.rank)}
    else:
        own |= {"MILLPOND_RANKS": card_list([rank.rank for rank in ranks])}
    if first.port:
        own["MILLPOND_PORT"] = str(first.port)
    if first.slices:
        own["MILLPOND_SLICES"] = ",".join(first.slices)
    return sorted((dict(order.env) | own).items())


def _volumes(order: StartOrder) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The job's own folder of the tenant's volume, where the order expects it; memory to share; a place for notices."""
    home = PurePosixPath(order.checkpoint_dir).parent
    volumes: list[dict[str, Any]] = [
        {"name": "job", "persistentVolumeClaim": {"claimName": CLAIM}},
        {"name": "notice", "emptyDir": {"sizeLimit": "1Mi"}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "job", "mountPath": str(home), "subPath": home.name},
        {"name": "notice", "mountPath": NOTICE_DIR},
    ]
    if order.shm:
        size = memory_quantity(order.shm)
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - the job's own, not ours
    return volumes, mounts


def _warning(signal: str, grace_s: int) -> list[str]:
    """Write the deadline unless an earlier one stands, send the warning, and hold TERM back until its time.

    The hook ends with the container, so a job that saves early leaves early.
    """
    hold = grace_s - TERM_LEAD_S if grace_s > TERM_LEAD_S else grace_s * 3 // 4
    deadline = f'[ -s {DEADLINE_FILE} ] || echo "$(($(date +%s) + {grace_s}))" > {DEADLINE_FILE}'
    return ["/bin/sh", "-c", f"{deadline}; kill -s {signal} 1; sleep {hold}"]


def _probe(path: str, port: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": port}, "periodSeconds": 1, "failureThreshold": 1}
