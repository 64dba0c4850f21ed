"""One cluster for all tests below this folder, and a namespace of its own for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.kube import objects
from tests.kube.cluster import Cluster, cluster_missing, cluster_up

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def kube_tools() -> None:
    """Skips where the programs of a cluster are missing."""
    missing = cluster_missing()
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def cluster(kube_tools: None) -> Iterator[Cluster]:
    """A running cluster of 20 fake nodes with 8 cards each.  What a test leaves in it, others find."""
    with cluster_up() as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """An empty namespace; its jobs and pods are gone after the test, so that their cards are free again."""
    name = f"test-{next(_NUMBERS)}"
    cluster.admin.create(objects.namespace(name))
    cluster.wait_for(lambda: cluster.admin.find("ServiceAccount", "default", name), f"namespace {name}")
    yield name
    jobs_remove(cluster, name)
    cluster.admin.delete("Namespace", name)


def jobs_remove(cluster: Cluster, namespace: str) -> None:
    """Take every job and pod out of a namespace, without grace."""
    for job in cluster.admin.list("Job", namespace):
        cluster.admin.delete("Job", job["metadata"]["name"], namespace)
    cluster.wait_for(lambda: not cluster.admin.list("Job", namespace), f"the jobs of {namespace} to go")
    for pod in cluster.admin.list("Pod", namespace):
        cluster.admin.delete("Pod", pod["metadata"]["name"], namespace, grace_s=0)
    cluster.wait_for(lambda: not cluster.admin.list("Pod", namespace), f"the pods of {namespace} to go")
