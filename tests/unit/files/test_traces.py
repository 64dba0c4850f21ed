"""Traces of other systems: what is read, what is left out, where errors point."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.cards import CardRequest
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.files.snapshots import SnapshotFile, snapshot_load, snapshot_write
from millpond.files.traces.kubernetes import kubernetes_nodes_read, kubernetes_read, mib_parse
from millpond.files.traces.openb import openb_nodes_read, openb_read
from millpond.files.traces.philly import philly_read
from millpond.files.traces.read import format_recognise, trace_read
from millpond.files.traces.slurm import elapsed_parse, limit_parse, slurm_read, tres_parse
from millpond.files.traces.trace import Trace
from millpond.files.traces.world import Window, pool_derive, trace_cut, trace_span, world_make
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p2,6000,12288,1,460,,LS,Running,50,150,60
p1,12000,16384,2,1000,V100M16|V100M32,BE,Failed,0,1000,
p3,500,100,0,0,,Guaranteed,Running,50,70,50
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\na-1,64000,262144,2,P100\na-2,32000,1024,0,\n"
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,12,1.0,Team_A
"""
SLURM = """\
JobID|User|Account|Partition|Submit|Start|End|Elapsed|AllocTRES|ReqTRES|State|Timelimit|NNodes
12|li4|Factor|gpu|2026-11-30T08:00:00|2026-11-30T08:01:00|2026-11-30T09:01:00|01:00:00|billing=8,cpu=16,gres/gpu:a100=8,\
gres/gpu=8,mem=128G,node=2|cpu=16,gres/gpu=8|COMPLETED|1-00:00:00|2
12.batch|||gpu|2026-11-30T08:01:00|2026-11-30T08:01:00|2026-11-30T09:01:00|01:00:00|cpu=8||COMPLETED||1
13_4|zhang3|nlp|gpu|2026-11-30T08:05:00|Unknown|Unknown|00:00:00||cpu=1,gres/gpu=1|PENDING|UNLIMITED|1
14|zhang3|nlp|gpu|2026-11-30T07:05:00|2026-11-30T07:06:00|Unknown|00:30:00|cpu=1,gres/gpu=3|cpu=1|RUNNING|02:00:00|2
15|wang5|nlp|gpu|2026-11-30T07:06:00|2026-11-30T07:06:00|x|00:00:10||cpu=1,gres/gpu=1|CANCELLED by 1000|UNLIMITED|1
"""


def read(text: str, reader: Callable[[list[str], str], Trace]) -> Trace:
    return reader(text.splitlines(keepends=True), "t")


def world(trace: Trace, **settings: Any) -> SnapshotFile:
    pool = snapshot_load(snapshot_write(pool_derive(trace)), "pool")
    return world_make(trace, pool, **settings)


def test_openb() -> None:
    trace = read(OPENB, openb_read)
    assert [(job.id, job.submitted, job.duration) for job in trace.jobs] == [
        ("p1", 0, 1000),
        ("p2", 50, 90),
        ("p3", 50, 20),
    ]
    assert [job.gpu for job in trace.jobs] == [
        CardRequest(2000, 2000, models=("V100M16", "V100M32")),
        CardRequest(460, 460),
        CardRequest(),
    ]
    assert [job.klass for job in trace.jobs] == [QueueClass.BESTEFFORT, QueueClass.BATCH, QueueClass.PROD]
    assert (trace.jobs[1].cpu, trace.jobs[1].memory) == (6000, 12288)


def test_openb_nodes() -> None:
    nodes = openb_nodes_read(NODES.splitlines(), "n")
    assert [(spec.name, spec.cpu, spec.cards.count if spec.cards else 0) for spec in nodes] == [
        ("a-1", 64000, 2),
        ("a-2", 32000, 0),
    ]


def test_philly_cuts_large_jobs_into_equal_nodes() -> None:
    found = world(read(PHILLY, philly_read))
    assert [(job.id, job.queue, job.nodes, str(job.gpu)) for job in (*found.snapshot.jobs, *found.arrivals)] == [
        ("j2", "team-a/batch", 2, "6"),
        ("j1", "11cb48/batch", 1, "1"),
    ]
    assert found.arrivals[0].submitted - found.snapshot.now == 2932
    assert found.work == {"j1": Work(66), "j2": Work(2951)}
    assert found.snapshot.now == 1_507_529_583


def test_columns_go_by_other_names_too() -> None:
    text = "job_id,user,submit_time,duration,gpu_num,node_num,vc,model\na,li4,5,60,16,2,x,A100\nb,,7,60,0.5,1,,\n"
    trace = read(text, philly_read)
    first, second = trace.jobs
    assert (first.id, first.user, first.nodes, str(first.gpu), first.tenant) == ("a", "li4", 2, "A100:8", "x")
    assert (second.gpu.milli, second.tenant, trace.absolute) == (500, "", False)


def test_slurm() -> None:
    trace = read(SLURM, slurm_read)
    running, cancelled, done = trace.jobs
    assert (done.id, done.tenant, done.user, done.nodes, str(done.gpu)) == ("12", "Factor", "li4", 2, "A100:4")
    assert (done.cpu, done.memory, done.duration, done.max_duration) == (8000, 65536, 3600, 86_400)
    assert (running.duration, running.max_duration, running.nodes, running.gpu.milli) == (7200, 7200, None, 3000)
    assert (cancelled.duration, cancelled.gpu.milli) == (10, 1000)
    assert dict(trace.skipped) == {"are steps": 1, "never ran": 1}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("05:07", 307), ("01:00:00", 3600), ("2-03:04:05", 183_845), ("1000:00:00", 3_600_000), ("00:00:01.250", 1)],
)
def test_slurm_elapsed(text: str, seconds: int) -> None:
    assert elapsed_parse(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("30:10", 1810), ("02:00:00", 7200), ("1-12", 129_600), ("1-00:30:00", 88_200), ("UNLIMITED", -1)],
)
def test_slurm_limits(text: str, seconds: int) -> None:
    assert limit_parse(text) == seconds


def test_slurm_resources() -> None:
    assert tres_parse("billing=9,cpu=4,gres/gpu:a100=2,gres/gpu:v100=1,mem=1.50G,node=1") == {
        "cpu": 4,
        "gpu": 3,
        "mem": 1024,
        "node": 1,
    }
    assert tres_parse("mem=65536M") == {"mem": 65536, "gpu": 0}


def pod(name: str, *, gpu: str = "1", **more: Any) -> dict[str, Any]:
    value: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "nlp", "creationTimestamp": "2026-11-30T08:00:00Z"},
        "spec": {
            "containers": [
                {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": gpu}}}
            ]
        },
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-11-30T08:01:00Z",
            "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-11-30T08:31:00Z"}}}],
        },
    }
    for key, item in more.items():
        value[key] = {**value[key], **item}
    return value


def listed(*items: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}, indent=2)


NODE = {
    "kind": "Node",
    "metadata": {"name": "ip-10.ec2", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
    "status": {"allocatable": {"cpu": "96", "memory": "1056Gi", "nvidia.com/gpu": "8"}},
}


def test_kubernetes_pods_and_nodes() -> None:
    gang = {"labels": {"training.kubeflow.org/job-name": "bert"}}
    meta = pod("x")["metadata"]
    text = listed(
        pod("a"),
        pod("b", gpu="2", status={"containerStatuses": [{"state": {"running": {}}}], "phase": "Running"}),
        pod("w-0", gpu="8", metadata={**meta, "name": "w-0", **gang}),
        pod("w-1", gpu="8", metadata={**meta, "name": "w-1", **gang}),
        pod("d", metadata={**meta, "name": "d", "ownerReferences": [{"kind": "DaemonSet"}]}),
        pod("s", metadata={**meta, "name": "s", "ownerReferences": [{"kind": "ReplicaSet"}]}),
        pod("n", status={"startTime": None, "phase": "Failed"}),
        NODE,
    )
    trace = kubernetes_read(text, "k")
    jobs = {job.id: job for job in trace.jobs}
    assert {name: (job.nodes, job.gpu.milli, job.duration) for name, job in jobs.items()} == {
        "nlp.a": (1, 1000, 1800),
        "nlp.b": (1, 2000, None),
        "nlp.s": (1, 1000, 1800),
        "nlp.bert-8x2": (2, 8000, 1800),
    }
    assert (jobs["nlp.a"].cpu, jobs["nlp.a"].memory) == (500, 1024)
    assert (jobs["nlp.s"].service, jobs["nlp.s"].klass) == (True, QueueClass.PROD)
    assert sum(trace.skipped.values()) == 2
    (node,) = trace.nodes
    assert node.cards is not None
    assert (node.name, node.cpu, node.cards.model, node.cards.count) == ("ip-10-ec2", 96_000, "A100-SXM4-80GB", 8)
    assert kubernetes_nodes_read(text, "k") == trace.nodes
    assert world(trace).snapshot.nodes[0].spec.cards == node.cards


def test_kubernetes_watch_keeps_the_last_state() -> None:
    first = {"type": "ADDED", "object": pod("a", status={"containerStatuses": [], "phase": "Pending"})}
    last = {"type": "MODIFIED", "object": pod("a")}
    trace = kubernetes_read("\n".join(json.dumps(event) for event in (first, last)), "k")
    assert [job.duration for job in trace.jobs] == [1800]


def test_kubernetes_slices() -> None:
    sliced = pod("a", spec={"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": "2"}}}]})
    assert str(kubernetes_read(listed(sliced), "k").jobs[0].gpu) == "mig-1g.5gb x2"


@pytest.mark.parametrize(("text", "mib"), [("1Gi", 1024), ("1G", 954), ("1048577", 2), ("512Mi", 512), ("1500m", 1)])
def test_quantities(text: str, mib: int) -> None:
    assert mib_parse(text) == mib


@pytest.mark.parametrize(
    ("text", "source", "found"),
    [
        (OPENB, "x", "openb"),
        (NODES, "x", "openb-nodes"),
        (PHILLY, "x.csv", "philly"),
        ("\ufeff" + SLURM, "x", "slurm"),
        (listed(pod("a")), "x", "kubernetes"),
        ("nodes: []\nqueues: []\n", "x.yaml", "snapshot"),
        ('{"nodes": [], "queues": []}', "x.json", "snapshot"),
        ("", "x", "snapshot"),
    ],
)
def test_formats_are_told_apart(text: str, source: str, found: str) -> None:
    assert format_recognise(text, source) == found


def test_an_unknown_table_is_told_what_was_expected() -> None:
    with pytest.raises(InvalidInput, match=r"a philly table needs num_gpus; did you mean it by num_gpsu\?"):
        format_recognise("timestamp,duration,num_gpsu\n", "x.csv")
    with pytest.raises(InvalidInput, match=r"x.csv.xz:1:1: .*expected one of openb: name,cpu_milli"):
        format_recognise("a,b\n", "x.csv.xz")


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("", "x.csv", "x.csv:1:1: the file is empty (expected a trace: openb, philly, slurm, kubernetes)"),
        ("\0\0", "x", "x:1:1: this is not a text file (save it as UTF-8; "),
        ("JobID   User  Elapsed\n------- ----- -------\n", "x", "sacct has printed this in aligned columns"),
        ("JobID,Submit,Elapsed\n", "x.csv", "a slurm table has '|' between its columns, not ','"),
        ("timestamp;duration;num_gpus\n", "x.csv", "a philly table has ',' between its columns, not ';'"),
        ("timestamp;num_gpus\n", "x.csv", "a philly table needs duration"),
    ],
)
def test_what_is_no_trace_is_told_why(text: str, source: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        format_recognise(text, source)
    assert expected in str(caught.value)


BAD = [
    ("openb", OPENB.replace("p2,6000", "p2,6k"), "t:2:4: cpu_milli: '6k' is not a valid amount of CPU"),
    ("openb", OPENB.replace("1,460", "1,4600"), "t:2:17: gpu_milli: '4600' is not a valid share"),
    ("openb", OPENB.replace("150,60", "55,60"), "t:2:36: deletion_time: the pod ends before it begins"),
    ("openb", OPENB.replace("p3,", "p1,"), "t:4:1: name: the job id p1 is written twice, first in line 3"),
    (
        "openb",
        OPENB.replace(",memory_mib,", ",memory,"),
        "t:1:1: memory_mib: an openb trace needs the column memory_mib",
    ),
    ("philly", PHILLY.replace("06:13:03", "25:13"), "t:3:1: timestamp: '2017-10-09 25:13' is not a time"),
    ("philly", PHILLY + "7,1,1,1,a\n", "t:4:1: timestamp: this is seconds, line 2 has a date"),
    ("philly", PHILLY.replace("66.0,1", ",1"), "t:2:21: duration: the value is missing"),
    ("philly", PHILLY.replace("12,1.0", "1.5,1.0"), "t:3:28: num_gpus: '1.5' is neither a fraction"),
    ("philly", PHILLY.replace(",11cb48", ""), "t:2:32: this line has 4 fields, the header has 5"),
    ("philly", PHILLY.replace("11cb48", '"11cb48'), "t:2:1: the quotes of this line are wrong"),
    ("philly", PHILLY.replace("cluster", "duration"), "t:1:38: duration: the column duration is there twice"),
    ("philly", PHILLY.splitlines()[0], "t:1:1: the trace has no jobs"),
    ("philly", "", "t:1:1: the file is empty (expected a header: timestamp,duration,num_gpus)"),
    ("slurm", SLURM.replace("01:00:00|billing", "soon|billing"), "t:2:79: Elapsed: 'soon' is not an elapsed time"),
    ("slurm", SLURM.replace("mem=128G", "mem=lots"), "AllocTRES: 'lots' is not an amount of memory"),
    ("slurm", SLURM.replace("AllocTRES", "A").replace("ReqTRES", "R"), "needs the column AllocTRES or ReqTRES"),
    ("kubernetes", listed(pod("a", gpu="one")), "items[0].spec.containers[0].resources.limits.nvidia.com/gpu: 'one'"),
    ("kubernetes", listed(pod("a"))[:-5], "this is not JSON"),
    ("kubernetes", "[1]", "t:1:1: expected a Kubernetes object"),
    ("kubernetes", listed(), "t:1:1: the trace has no jobs"),
]


@pytest.mark.parametrize(("name", "text", "expected"), BAD)
def test_errors_name_line_column_and_field(name: str, text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        trace_read(text.splitlines(keepends=True), "t", name)
    assert expected in str(caught.value)
    assert caught.value.position is not None
    assert caught.value.position.line > 0


def test_kubernetes_errors_have_the_line_of_the_value() -> None:
    text = listed(pod("a"), pod("b", gpu="one"))
    with pytest.raises(InvalidInput) as caught:
        kubernetes_read(text, "k")
    position = caught.value.position
    assert position is not None
    assert text.splitlines()[position.line - 1][position.column - 1 :].startswith('"one"')


def test_windows() -> None:
    trace = read("timestamp,duration,num_gpus\n0,9,1\n10,9,1\n20,9,1\n30,9,1\n", philly_read)

    def times(**window: Any) -> list[int]:
        return [job.submitted for job in trace_cut(trace, Window(**window)).jobs]

    assert times() == [0, 10, 20, 30]
    assert times(begin=10, end=30) == [10, 20]
    assert times(begin=5, speed=2000) == [7, 12, 17]
    assert times(limit=2, speed=500) == [0, 20]
    with pytest.raises(InvalidInput, match="no job of the trace was submitted in that time"):
        times(begin=31)


def test_a_pool_without_the_tenant_is_told_of_at_the_job() -> None:
    trace = read(PHILLY, philly_read)
    pool = snapshot_load("nodes: [{name: n1}]\nqueues: [{name: 11cb48/batch}, {name: b/besteffort}]\n", "pool")
    with pytest.raises(InvalidInput, match=r"t:3:1: timestamp: the pool has no queue for 'Team_A' \(add team-a/batch"):
        world_make(trace, pool)
    with pytest.raises(InvalidInput, match=r"there is no leaf 'b' "):
        world_make(trace, pool, "b")
    found = world_make(trace, pool, "b/besteffort", 60)
    assert {job.queue for job in (*found.snapshot.jobs, *found.arrivals)} == {"11cb48/batch", "b/besteffort"}
    assert {job.checkpoint_every for job in found.arrivals} == {60}


def test_a_derived_pool_has_room_for_every_job() -> None:
    """Memory of nodes is not that of cards; nodes are as wide as the widest job, and as many as the largest gang."""
    texts = {
        "openb": OPENB,
        "slurm": SLURM.replace("mem=128G", "mem=2T"),
        "philly": "timestamp,duration,num_gpus,nodes\n0,60,15,3\n5,10,32,2\n6,10,17,\n7,10,1,\n",
    }
    for name, text in texts.items():
        found = world(trace_read(text.splitlines(keepends=True), "t", name))
        played = Simulation(found.snapshot, arrivals=found.arrivals, work=found.work, until=10**6)
        seen = [event.kind for event in played.events()]
        assert seen.count("start") == len(found.snapshot.jobs) + len(found.arrivals), name


rows = st.lists(
    st.tuples(
        st.integers(0, 10**6), st.integers(0, 10**5), st.sampled_from([0, 1, 2, 8, 12, 17, 64]), st.sampled_from("abc")
    ),
    min_size=1,
    max_size=30,
)


@given(rows)
def test_a_derived_world_is_a_file_and_holds_every_job(entries: list[tuple[int, int, int, str]]) -> None:
    text = "timestamp,duration,num_gpus,cluster\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in entries)
    trace = read(text, philly_read)
    found = world(trace)
    jobs = (*found.snapshot.jobs, *found.arrivals)
    pool = sum(state.spec.cards.count for state in found.snapshot.nodes if state.spec.cards)
    assert sum(job.nodes * job.gpu.milli for job in jobs) == 1000 * sum(cards for _, _, cards, _ in entries)
    assert all(job.nodes * job.gpu.milli <= pool * 1000 and job.gpu.milli <= 8000 for job in jobs)
    assert sum((queue.deserved or {})["cards"] for queue in found.snapshot.queues) <= pool * 1000
    assert trace_span(found) >= max(job.submitted for job in jobs) - found.snapshot.now
    again = snapshot_load(snapshot_write(found.snapshot, found.arrivals, found.work), "again")
    assert (again.snapshot, again.arrivals, again.work) == (found.snapshot, found.arrivals, found.work)
