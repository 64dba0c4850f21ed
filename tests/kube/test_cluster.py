"""The cluster itself: what the tests of an engine lean on holds, and nothing of it outlives them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kube import objects
from tests.kube.client import ApiError
from tests.kube.cluster import Cluster, Options, cluster_up

Thing = dict[str, Any]


def phases(cluster: Cluster, namespace: str, job: str = "") -> Counter[str]:
    """How many pods are in each phase; one that is about to go counts as ``Terminating``."""
    labels = f"volcano.sh/job-name={job}" if job else ""
    pods = cluster.admin.list("Pod", namespace, labels)
    return Counter("Terminating" if "deletionTimestamp" in pod["metadata"] else pod["status"]["phase"] for pod in pods)


def running(cluster: Cluster, namespace: str, job: str, pods: int) -> Callable[[], bool]:
    return lambda: phases(cluster, namespace, job) == {"Running": pods}


def condition(thing: Thing, kind: str) -> Thing | None:
    """A condition of this type that holds."""
    found = [entry for entry in thing.get("status", {}).get("conditions", ()) if entry["type"] == kind]
    return found[0] if found and found[0]["status"] == "True" else None


def unschedulable(cluster: Cluster, namespace: str, job: str) -> Callable[[], Thing | None]:
    """The condition with which Volcano says that a job does not fit."""

    def look() -> Thing | None:
        groups = cluster.admin.list("PodGroup", namespace)
        mine = [group for group in groups if group["metadata"]["name"].startswith(f"{job}-")]
        return condition(mine[0], "Unschedulable") if mine else None

    return look


def test_nodes_are_ready_and_show_their_cards(cluster: Cluster) -> None:
    nodes = cluster.admin.list("Node")
    assert len(nodes) == 20
    assert all(condition(node, "Ready") for node in nodes)
    assert {node["status"]["allocatable"][objects.CARDS] for node in nodes} == {"8"}
    assert {node["metadata"]["labels"]["fake.millpond.dev/rack"] for node in nodes} == {"rack-0", "rack-1", "rack-2"}


def test_gang_runs_on_whole_nodes(cluster: Cluster, namespace: str) -> None:
    cluster.admin.create(objects.gang("train", namespace, pods=4, cards=8))
    cluster.wait_for(running(cluster, namespace, "train", 4), "the gang to run")
    pods = cluster.admin.list("Pod", namespace)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 4
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}


def test_gang_that_does_not_fit_stays_wholly_pending(cluster: Cluster, namespace: str) -> None:
    """Twenty of its pods would fit.  Volcano says why, and a smaller job behind it is not held up."""
    cluster.admin.create(objects.gang("large", namespace, pods=21, cards=8))
    said = cluster.wait_for(unschedulable(cluster, namespace, "large"), "Volcano to say that it does not fit")
    assert said["reason"] == "NotEnoughResources"
    assert "21" in said["message"]
    cluster.admin.create(objects.gang("small", namespace, pods=1, cards=8))
    cluster.wait_for(running(cluster, namespace, "small", 1), "the small job to run")
    assert phases(cluster, namespace, "large") in ({}, {"Pending": 21})
    assert not any(
        pod["spec"].get("nodeName") for pod in cluster.admin.list("Pod", namespace, "volcano.sh/job-name=large")
    )


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("75", "Failed")])
def test_pod_ends_by_itself_with_its_code(cluster: Cluster, namespace: str, code: str, phase: str) -> None:
    cluster.admin.create(objects.gang("short", namespace, pods=1, cards=1, run="1.2", code=code))
    cluster.wait_for(lambda: phases(cluster, namespace) == {phase: 1}, f"the pod to be {phase}")
    (pod,) = cluster.admin.list("Pod", namespace)
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == int(code)
    assert ended["startedAt"] < ended["finishedAt"]


@pytest.mark.parametrize(
    ("stop", "code", "least_s", "most_s"),
    [pytest.param("1", 75, 0.9, 2.9, id="saves"), pytest.param("60", 137, 2.9, 6.0, id="stuck")],
)
def test_pod_reports_how_it_ended_before_it_goes(
    cluster: Cluster, namespace: str, stop: str, code: int, least_s: float, most_s: float
) -> None:
    """Deleted with a grace of 3 s: one saves and leaves after a second, the other is killed when the grace is over."""
    gang = objects.gang("victim", namespace, pods=1, cards=1, grace_s=3, stop=stop, stop_code="75")
    cluster.admin.create(gang)
    cluster.wait_for(running(cluster, namespace, "victim", 1), "the pod to run")
    (pod,) = cluster.admin.list("Pod", namespace)
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    codes: list[int] = []

    def gone() -> bool:
        found = cluster.admin.find("Pod", name, namespace)
        if found is None or found["metadata"]["uid"] != uid:
            return True
        state = found["status"]["containerStatuses"][0]["state"]
        codes.extend([state["terminated"]["exitCode"]] if "terminated" in state else [])
        return False

    began = time.monotonic()
    cluster.admin.delete("Pod", name, namespace)
    cluster.wait_for(gone, "the pod to go", timeout_s=20)
    assert least_s < time.monotonic() - began < most_s
    assert set(codes) <= {code}


def test_webhook_refuses_a_job_of_an_unknown_queue(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ApiError, match="queue") as refused:
        cluster.admin.create(objects.gang("lost", namespace, pods=1, cards=1, queue="nowhere"))
    assert refused.value.status in {400, 403}


def test_user_without_rights_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.client("mallory").list("Node")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_audit_log_tells_who_bound_a_pod(cluster: Cluster, namespace: str) -> None:
    cluster.admin.create(objects.gang("bound", namespace, pods=1, cards=1))
    cluster.wait_for(running(cluster, namespace, "bound", 1), "the pod to run")
    bound = [
        entry["user"]["username"]
        for entry in cluster.audit()
        if entry["objectRef"].get("subresource") == "binding" and entry["objectRef"]["namespace"] == namespace
    ]
    assert bound == ["vc-scheduler"]


def test_volcano_comes_back_after_a_kill(cluster: Cluster, namespace: str) -> None:
    for name in ("vc-scheduler", "vc-controllers"):
        cluster.programs[name].kill()
        cluster.programs[name].start()
    cluster.admin.create(objects.gang("after", namespace, pods=2, cards=8))
    cluster.wait_for(running(cluster, namespace, "after", 2), "a job to run after the kill")


QUICK = {
    "kube-controller-manager": ("--node-monitor-period=1s", "--node-monitor-grace-period=6s"),
    "kwok": ("--node-lease-duration-seconds=4",),
}
"""A node that says nothing for six seconds is lost; with the defaults of Kubernetes it takes most of a minute."""


def test_silent_node_is_seen_and_its_pods_hang(kube_tools: None) -> None:
    """As after a power cut: nobody reports that its pods ended, so they stay until they are deleted by force."""
    with cluster_up(Options(nodes=2, extra=QUICK)) as cluster:
        cluster.admin.create(objects.gang("job", "default", pods=2, cards=8, grace_s=1))
        cluster.wait_for(running(cluster, "default", "job", 2), "the gang to run")
        cluster.node_silence("node-001")
        cluster.wait_for(lambda: cluster.nodes_ready() == 1, "the silent node to be noticed")
        cluster.admin.delete("Job", "job", "default")
        cluster.wait_for(lambda: phases(cluster, "default") == {"Terminating": 1}, "the other pod to go")
        (pod,) = cluster.admin.list("Pod", "default")
        assert pod["spec"]["nodeName"] == "node-001"
        time.sleep(pod["metadata"]["deletionGracePeriodSeconds"] + 1)
        assert phases(cluster, "default") == {"Terminating": 1}, "nobody is there to end it"
        cluster.admin.delete("Pod", pod["metadata"]["name"], "default", grace_s=0)
        cluster.wait_for(lambda: not cluster.admin.list("Pod", "default"), "the pod to go by force")
        cluster.node_return("node-001")
        cluster.wait_for(lambda: cluster.nodes_ready() == 2, "the node to come back")


def test_stop_leaves_no_process_and_no_file(kube_tools: None) -> None:
    with cluster_up(Options(nodes=1)) as cluster:
        folder, pids = cluster.layout.folder, [pid for program in cluster.programs.values() for pid in program.started]
        assert len(pids) == 7
        assert all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)
    assert not folder.exists()


def test_failed_start_leaves_no_process_and_shows_the_log(kube_tools: None, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with (
        pytest.raises(AssertionError, match=r"vc-scheduler ended for (.|\n)*scheduler.log"),
        cluster_up(Options(nodes=1, scheduler="actions: nonsense\n"), folder) as cluster,
    ):
        raise AssertionError(f"came up with a scheduler that cannot start: {cluster.laps}")
    assert (folder / "kube-apiserver.log").stat().st_size > 0
    assert not [command for command in commands_running() if str(folder) in command]


def test_killed_run_leaves_no_process(kube_tools: None, tmp_path: Path) -> None:
    """Whoever starts a cluster may die at any moment, without a word."""
    script = f"""
import time
from pathlib import Path
from tests.kube.cluster import Options, cluster_up
with cluster_up(Options(nodes=1), Path({str(tmp_path / "cluster")!r})) as cluster:
    print(*[program.pid for program in cluster.programs.values()], flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        assert len(pids) == 7
        run.kill()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits for its parent to look does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def commands_running() -> list[str]:
    """The command lines of all processes of this machine."""
    lines: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return lines
