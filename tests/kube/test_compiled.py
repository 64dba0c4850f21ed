"""What the engine compiles, given to a real cluster: taken by the webhook, placed as planned, never retried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind
from millpond.engines.base import RankOrder
from millpond.engines.kubernetes import names
from millpond.engines.kubernetes.jobs import job_compile
from millpond.engines.kubernetes.nodes import node_read
from millpond.engines.kubernetes.queues import priority_class_compile, queues_compile
from millpond.engines.kubernetes.tenants import CLAIM, Storage, tenant_compile
from tests.golden.kube_files import BATCH, COMMAND, JOB, PROD, QUEUES, SETTINGS, order
from tests.kube.client import ApiError
from tests.kube.cluster import Cluster
from tests.kube.conftest import jobs_remove

NAMESPACE = names.namespace_name("trade")
_NUMBERS = itertools.count(1)


@pytest.fixture
def tenant(trade: Cluster) -> Iterator[Cluster]:
    """The cluster, and afterwards no job of this test in it."""
    yield trade
    jobs_remove(trade, NAMESPACE)


@pytest.fixture(scope="module")
def trade(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the queues, classes and namespace of the golden files, and a volume for its claim."""
    for klass in QueueClass:
        cluster.admin.create(priority_class_compile(klass))
    for queue in queues_compile(QUEUES):
        cluster.admin.create(queue)
        cluster.queue_await(queue["metadata"]["name"])
    cluster.admin.create(volume(NAMESPACE))
    for thing in tenant_compile("trade", Storage(10), cards=32_500):
        cluster.admin.create(thing)
    cluster.wait_for(lambda: phase(cluster, "PersistentVolumeClaim", CLAIM) == "Bound", "the claim to be bound")
    cluster.wait_for(lambda: cluster.admin.find("ServiceAccount", "default", NAMESPACE), "the namespace")
    yield cluster
    cluster.admin.delete("Namespace", NAMESPACE)


def volume(namespace: str) -> dict[str, Any]:
    """Somebody's volume that many nodes may write."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"files-of-{namespace}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/srv/files"},
            "claimRef": {"name": CLAIM, "namespace": namespace},
        },
    }


def phase(cluster: Cluster, kind: str, name: str) -> str:
    found = cluster.admin.find(kind, name, NAMESPACE)
    return str(found["status"].get("phase", "")) if found else ""


def state(cluster: Cluster, job: str) -> str:
    found = cluster.admin.find("Job", job, NAMESPACE)
    return str(found.get("status", {}).get("state", {}).get("phase", "")) if found else ""


def pods(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    return cluster.admin.list("Pod", NAMESPACE, f"volcano.sh/job-name={job}")


def started(cluster: Cluster, *nodes: str, **life: str) -> str:
    """The name of a job that runs on these nodes; its fake pods live as `life` says."""
    attempt = f"{JOB}-{next(_NUMBERS)}"
    ranks = [RankOrder(number, 0, node, tuple(range(8))) for number, node in enumerate(nodes)]
    job = job_compile(order(*ranks, attempt=attempt, cpu=4000, memory=1024), BATCH, SETTINGS, COMMAND)
    for task in job["spec"]["tasks"]:
        notes = {f"fake.millpond.dev/{key.replace('_', '-')}": value for key, value in life.items()}
        task["template"]["metadata"]["annotations"] |= notes
    cluster.admin.create(job)
    running = f"{attempt} to run"
    cluster.wait_for(
        lambda: [pod["status"]["phase"] for pod in pods(cluster, attempt)] == ["Running"] * len(nodes), running
    )
    return attempt


def test_nodes_are_read_as_they_are(cluster: Cluster) -> None:
    seen = [node_read(node) for node in cluster.admin.list("Node")]
    assert all(node.ready and not node.cordoned and not node.notes for node in seen)
    assert {node.spec.cards for node in seen} == {CardKind(model="A800-80GB", memory=81_920, count=8)}
    assert {node.spec.cpu for node in seen} == {128_000}


def test_gang_runs_on_the_nodes_of_its_plan(tenant: Cluster) -> None:
    planned = ("node-017", "node-002")
    job = started(tenant, *planned)
    by_host = {pod["spec"]["hostname"]: pod["spec"]["nodeName"] for pod in pods(tenant, job)}
    assert by_host == {names.host_name(job, seat): node for seat, node in enumerate(planned)}


def test_guarantee_that_is_not_lent_stays_free(tenant: Cluster) -> None:
    """The tenant may have 33 cards and keeps 12 for prod: batch gets 21, although nobody uses the others."""
    attempt = f"{JOB}-{next(_NUMBERS)}"
    ranks = [RankOrder(number, 0, f"node-{number:03d}", tuple(range(8))) for number in range(3)]
    tenant.admin.create(job_compile(order(*ranks, attempt=attempt, cpu=4000, memory=1024), BATCH, SETTINGS, COMMAND))
    tenant.wait_for(lambda: "Unschedulable" in conditions(tenant, attempt), f"{attempt} to be unschedulable")
    assert not any(pod["spec"].get("nodeName") for pod in pods(tenant, attempt))


def test_job_waits_for_its_own_node_though_others_are_free(tenant: Cluster) -> None:
    holder = started(tenant, "node-005")
    attempt = f"{JOB}-{next(_NUMBERS)}"
    ranks = (RankOrder(0, 0, "node-005", tuple(range(8))), RankOrder(1, 0, "node-006", tuple(range(8))))
    tenant.admin.create(job_compile(order(*ranks, attempt=attempt, cpu=4000, memory=1024), PROD, SETTINGS, COMMAND))
    groups = f"{attempt} to be unschedulable"
    tenant.wait_for(lambda: "Unschedulable" in conditions(tenant, attempt), groups)
    assert not any(pod["spec"].get("nodeName") for pod in pods(tenant, attempt)), "all or none"
    tenant.admin.delete("Job", holder, NAMESPACE)
    tenant.wait_for(lambda: [pod["status"]["phase"] for pod in pods(tenant, attempt)] == ["Running"] * 2, "it to run")


@pytest.mark.parametrize("how", ["evicted", "failed"])
def test_whatever_ends_one_pod_ends_the_attempt_for_good(tenant: Cluster, how: str) -> None:
    """No new pod, no retry, and the other one is stopped."""
    job = started(tenant, "node-008", "node-009", stop_code="75")
    before = {pod["metadata"]["uid"] for pod in pods(tenant, job)}
    victim = pods(tenant, job)[0]["metadata"]["name"]
    if how == "evicted":
        tenant.admin.delete("Pod", victim, NAMESPACE)
    else:
        tenant.admin.patch("Pod", victim, {"status": {"phase": "Failed"}}, NAMESPACE, "status")
    tenant.wait_for(lambda: state(tenant, job) == "Terminated", "the job to be terminated")
    assert {pod["metadata"]["uid"] for pod in pods(tenant, job)} <= before
    assert tenant.admin.get("Job", job, NAMESPACE)["status"].get("retryCount", 0) == 0
    assert not any(
        "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running" for pod in pods(tenant, job)
    )


def test_job_that_ends_by_itself_is_completed(tenant: Cluster) -> None:
    job = started(tenant, "node-008", "node-009", run="1")
    tenant.wait_for(lambda: state(tenant, job) == "Completed", "the job to be completed")


def test_namespace_takes_restricted_pods_only(tenant: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root", "namespace": NAMESPACE},
        "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": "example/none"}]},
    }
    with pytest.raises(ApiError, match="violates PodSecurity") as refused:
        tenant.admin.create(pod)
    assert refused.value.status == 403


def test_quota_counts_pods_of_others_too(tenant: Cluster) -> None:
    job = job_compile(order(), BATCH, SETTINGS, COMMAND)
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    cards = {"nvidia.com/gpu": "34", "cpu": "1", "memory": "1Gi"}
    pod["containers"][0]["resources"] = {"requests": cards, "limits": cards}
    native = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "native", "namespace": NAMESPACE}, "spec": pod}
    with pytest.raises(ApiError, match="exceeded quota: millpond") as refused:
        tenant.admin.create(native)
    assert refused.value.status == 403


def conditions(cluster: Cluster, job: str) -> set[str]:
    """The conditions of a job's PodGroup that hold."""
    groups = cluster.admin.list("PodGroup", NAMESPACE)
    mine = [group for group in groups if group["metadata"]["name"].startswith(f"{job}-")]
    found = mine[0].get("status", {}).get("conditions", ()) if mine else ()
    return {entry["type"] for entry in found if entry["status"] == "True"}
