"""Just enough of a Kubernetes client for the harness and its tests: objects are plain dicts, errors have a reason."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from tests.kube.certificates import Pair

Thing = dict[str, Any]

_CORE, _VOLCANO = "api/v1", "apis/scheduling.volcano.sh/v1beta1"

PLACES: Mapping[str, tuple[str, str, bool]] = {
    "Namespace": (_CORE, "namespaces", False),
    "Node": (_CORE, "nodes", False),
    "Pod": (_CORE, "pods", True),
    "Service": (_CORE, "services", True),
    "PersistentVolume": (_CORE, "persistentvolumes", False),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims", True),
    "ServiceAccount": (_CORE, "serviceaccounts", True),
    "ResourceQuota": (_CORE, "resourcequotas", True),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "CustomResourceDefinition": ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "MutatingWebhookConfiguration": (
        "apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False,
    ),
    "ValidatingWebhookConfiguration": (
        "apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False,
    ),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "Queue": (_VOLCANO, "queues", False),
    "PodGroup": (_VOLCANO, "podgroups", True),
    "Job": ("apis/batch.volcano.sh/v1alpha1", "jobs", True),
    "JobFlow": ("apis/flow.volcano.sh/v1alpha1", "jobflows", True),
}  # fmt: skip
"""Group and version, plural, and whether it lies in a namespace.  `Job` is Volcano's."""


class ApiError(Exception):
    """The API server said no: ``status`` 404 and the like, ``reason`` in its words (``NotFound``)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Client:
    """Speaks to one API server as the owner of `pair`."""

    def __init__(self, address: str, authority: Path, pair: Pair) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(pair.certificate, pair.key)
        self._http = httpx2.Client(base_url=address, verify=context, timeout=30.0, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def ready(self) -> bool:
        """Whether the API server says that it is."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def create(self, thing: Thing) -> Thing:
        """Create it where its own metadata say."""
        return self._ask("POST", _path(thing["kind"], thing["metadata"].get("namespace", "")), json=thing)

    def get(self, kind: str, name: str, namespace: str = "") -> Thing:
        return self._ask("GET", f"{_path(kind, namespace)}/{name}")

    def find(self, kind: str, name: str, namespace: str = "") -> Thing | None:
        """The same, or None when there is no such thing."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Thing]:
        """All of a kind, in one namespace or in all, with these labels (``a=b,c=d``)."""
        found: list[Thing] = self._ask("GET", _path(kind, namespace), params={"labelSelector": labels})["items"]
        return found

    def patch(self, kind: str, name: str, change: Thing, namespace: str = "", part: str = "") -> Thing:
        """Change fields (JSON merge patch: None removes), of the thing itself or of its ``status``."""
        content_type = {"Content-Type": "application/merge-patch+json"}
        path = "/".join(word for word in (_path(kind, namespace), name, part) if word)
        return self._ask("PATCH", path, json=change, headers=content_type)

    def delete(self, kind: str, name: str, namespace: str = "", grace_s: int | None = None) -> None:
        """Ask for its end; what it owns goes too.  Nothing to do when it is gone."""
        options: Thing = {"propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self._ask("DELETE", f"{_path(kind, namespace)}/{name}", json=options)
        except ApiError as error:
            if error.status != 404:
                raise

    def _ask(self, method: str, path: str, **more: Any) -> Thing:
        answer = self._http.request(method, path, **more)
        if answer.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise ApiError(answer.status_code, "NotServed", answer.text.strip())
        said: Thing = answer.json()
        if answer.status_code >= 300:
            raise ApiError(answer.status_code, said.get("reason", ""), said.get("message", ""))
        return said


def _path(kind: str, namespace: str) -> str:
    group, plural, inside = PLACES[kind]
    return f"/{group}/namespaces/{namespace}/{plural}" if inside and namespace else f"/{group}/{plural}"
