"""What tests put into a cluster: nodes, queues, namespaces and Volcano Jobs, as plain dicts."""

from __future__ import annotations

from typing import Any

CARDS = "nvidia.com/gpu"
FAKE = "kwok.x-k8s.io/node"
"""kwok plays the kubelet of the nodes whose annotation says ``fake``."""


def node(number: int, cards: int = 8, a_rack: int = 8) -> dict[str, Any]:
    """Node ``node-000`` and so on: 128 CPUs, 2 TiB, and cards labelled as NVIDIA's feature discovery labels them."""
    name = f"node-{number:03d}"
    amounts = {"cpu": "128", "memory": "2Ti", "ephemeral-storage": "4Ti", "pods": "110", CARDS: str(cards)}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "zone-0",
        "fake.millpond.dev/rack": f"rack-{number // a_rack}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-A800-SXM4-80GB",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.count": str(cards),
        "nvidia.com/mig.capable": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {FAKE: "fake"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A Volcano queue; ``deserved={"nvidia.com/gpu": "16"}`` and the like go into its spec."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, **spec},
    }


def gang(
    name: str, namespace: str, pods: int, cards: int, queue: str = "default", grace_s: int = 30, **life: str
) -> dict[str, Any]:
    """A Volcano Job of `pods` alike that start together or not at all, each with `cards` whole cards.

    ``life`` becomes annotations that say how the fake pods live (``run="2"``, see ``config/stages.yaml``).
    """
    amounts = {"cpu": "4", "memory": "16Gi", CARDS: str(cards)}
    container = {"name": "main", "image": "example/none", "resources": {"requests": amounts, "limits": amounts}}
    notes = {f"fake.millpond.dev/{key.replace('_', '-')}": value for key, value in life.items()}
    template = {
        "metadata": {"annotations": notes},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace_s, "containers": [container]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "minAvailable": pods,
            "tasks": [{"name": "rank", "replicas": pods, "template": template}],
        },
    }
