"""What Volcano's own installer puts into a cluster, taken from its sources and pointed at this machine."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kube.commands import ADMISSIONS, Layout

ACCOUNTS = {
    "volcano-scheduler": "vc-scheduler",
    "volcano-controllers": "vc-controllers",
    "volcano-admission": "vc-admission",
}
"""Volcano's service accounts, and the users that take their place: its programs run outside the cluster here."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def custom_resources(source: Path) -> Iterator[dict[str, Any]]:
    """Volcano's CustomResourceDefinitions."""
    for path in sorted((source / "crd").glob("*.yaml")):
        yield from (thing for thing in yaml.load_all(path.read_text(), _Loader) if thing)


def rights(source: Path) -> Iterator[dict[str, Any]]:
    """The ClusterRoles of Volcano's parts, bound to users instead of service accounts: no more rights than there."""
    for thing in _installer(source, "ClusterRole", "ClusterRoleBinding"):
        if thing["kind"] == "ClusterRoleBinding":
            users = [ACCOUNTS[subject["name"]] for subject in thing["subjects"] if subject["name"] in ACCOUNTS]
            if not users:
                continue
            group = "rbac.authorization.k8s.io"
            thing["subjects"] = [{"apiGroup": group, "kind": "User", "name": user} for user in users]
        yield thing


def webhooks(source: Path, layout: Layout, authority: Path) -> Iterator[dict[str, Any]]:
    """The configurations of Volcano's webhook, with an address instead of a service.

    The program only adds certificates to those that exist, and does not create them.
    """
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for thing in _installer(source, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        paths = [hook["clientConfig"]["service"]["path"] for hook in thing["webhooks"]]
        if set(paths).issubset(ADMISSIONS):
            for hook, path in zip(thing["webhooks"], paths, strict=True):
                hook["clientConfig"] = {"url": layout.webhook + path, "caBundle": bundle}
            yield thing


def _installer(source: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    text = (source / "installer" / "volcano-development.yaml").read_text()
    for document in text.split("\n---\n"):
        if any(f"kind: {kind}" in document for kind in kinds):
            (thing,) = yaml.load_all(document, _Loader)
            if thing and thing.get("kind") in kinds:
                yield thing
