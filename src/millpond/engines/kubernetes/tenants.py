"""What a tenant gets in a cluster: a namespace of restricted pods, a ceiling, and addresses for its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond.engines.kubernetes.amounts import WHOLE, cards_quantity
from millpond.engines.kubernetes.names import MANAGED, TENANT, namespace_name

RANKS_SERVICE = "ranks"
"""The headless service of every namespace: ``<host name>.ranks`` is a rank's address, before it is ready too."""

CLAIM = "millpond"
"""The claim of every namespace on the volume with the folders of the tenant's jobs."""

POD_SECURITY = "pod-security.kubernetes.io"


@dataclass(frozen=True, slots=True)
class Storage:
    """A tenant's share of what its jobs keep: GiB, of a class whose volumes many nodes may write at once.

    An empty class is for volumes that somebody made by hand.
    """

    size: int
    storage_class: str = ""


def tenant_compile(
    tenant: str, storage: Storage, cards: int | None = None, pods: int = 5000
) -> tuple[dict[str, Any], ...]:
    """Namespace, quota, service and claim of a tenant, in the order in which they have to be created.

    ``cards``: milli-cards that all pods in the namespace, ours and others, may ask for together; None sets no ceiling.
    It is a net against native pods that nobody planned.  ``pods``: how many may exist at once, ended ones apart.
    """
    namespace = namespace_name(tenant)
    labels = {MANAGED: "millpond", TENANT: tenant}
    hard = {"pods": str(pods)}
    if cards is not None:
        hard[f"requests.{WHOLE}"] = cards_quantity(cards, up=True)
    return (
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": labels
                | {f"{POD_SECURITY}/{mode}": "restricted" for mode in ("audit", "enforce", "warn")}
                | {f"{POD_SECURITY}/enforce-version": "latest"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "millpond", "namespace": namespace, "labels": labels},
            "spec": {"hard": hard},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": RANKS_SERVICE, "namespace": namespace, "labels": labels},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {MANAGED: "millpond"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace, "labels": labels},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": storage.storage_class,
                "resources": {"requests": {"storage": f"{storage.size}Gi"}},
            },
        },
    )
