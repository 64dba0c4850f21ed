"""Orders, queues and tenants whose compiled Kubernetes objects are golden files.

python -m tests.golden.kube_files    # write tests/golden/kube anew; read the difference before you commit it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from millpond.domain.jobs import QueueClass
from millpond.domain.queues import QueueConfig
from millpond.engines.base import RankOrder, StartOrder
from millpond.engines.kubernetes.jobs import Placing, PodSettings, job_compile
from millpond.engines.kubernetes.queues import priority_class_compile, queues_compile
from millpond.engines.kubernetes.tenants import Storage, tenant_compile

FOLDER = Path(__file__).parent / "kube"
JOB = "j06d0p2q1g3h4k5m6n7o8p9qar"
HOME = f"/var/lib/millpond/jobs/{JOB}"
SETTINGS = PodSettings(image="registry.example/pytorch:2.9")
COMMAND = ("/bin/sh", "-e", "-c", "exec python train.py", "millpond")


def order(*ranks: RankOrder, **changes: object) -> StartOrder:
    """An order of the tenant trade; one of eight whole cards on one node when no ranks are given."""
    given: dict[str, object] = {
        "attempt": f"{JOB}-1",
        "epoch": 7,
        "tenant": "trade",
        "tenant_uid": 200_001,
        "commands": ("python train.py",),
        "env": (("LR", "0.1"), ("MILLPOND_ATTEMPT", "1"), ("MILLPOND_CHECKPOINT_DIR", f"{HOME}/checkpoint")),
        "ranks": ranks or (RankOrder(rank=0, local_rank=0, node="node-003", cards=tuple(range(8))),),
        "work_dir": f"{HOME}/work",
        "work_root": f"{HOME}/work",
        "checkpoint_dir": f"{HOME}/checkpoint",
        "log_dir": f"{HOME}/logs",
        "cpu": 64_000,
        "memory": 524_288,
    }
    return StartOrder(**{**given, **changes})  # type: ignore[arg-type]


def gang(nodes: int, processes: int = 1) -> tuple[RankOrder, ...]:
    """Ranks on nodes with eight whole cards each."""
    return tuple(
        RankOrder(node * processes + local, local, f"node-{node:03d}", tuple(range(8)))
        for node in range(nodes)
        for local in range(processes)
    )


def rank(**changes: Any) -> RankOrder:
    """A rank on card 2 of node-001."""
    return RankOrder(**{"rank": 0, "local_rank": 0, "node": "node-001", "cards": (2,), **changes})


BATCH = Placing("trade/batch", QueueClass.BATCH, grace_s=20, preemptible=True)
PROD = Placing("trade/prod", QueueClass.PROD, grace_s=30, preemptible=False)
PROJECT = Placing("trade/research/besteffort", QueueClass.BESTEFFORT, grace_s=4, preemptible=True)

JOBS: Mapping[str, tuple[StartOrder, Placing]] = {
    "job-one-node": (order(), BATCH),
    "job-gang": (order(*gang(2), shm=16_384), PROJECT),
    "job-processes": (order(*gang(2, processes=2)), BATCH),
    "job-fraction": (order(rank(milli=250), cpu=2500, memory=1000), BATCH),
    "job-slices": (order(rank(milli=250, slices=("2:1g.10gb@0", "2:1g.10gb+me@1")), cpu=0, memory=0), BATCH),
    "job-cpu": (order(rank(cards=()), cpu=500, tenant_uid=0), BATCH),
    "job-service": (order(rank(port=8000), service=True, ready_path="/healthz", warning_signal="TERM"), PROD),
}

QUEUES = (
    QueueConfig("trade/prod", QueueClass.PROD, guarantee={"A800-80GB": 8000, "H100-80GB": 4000}, lend=False),
    QueueConfig("trade/batch", QueueClass.BATCH, deserved={"cards": 4500}),
    QueueConfig("trade/research/batch", QueueClass.BATCH, guarantee={"cards": 4500}, cap={"cards": 90_000}),
    QueueConfig("trade/research/besteffort", QueueClass.BESTEFFORT, guarantee={}, deserved={}, cap={"A800-80GB": 8000}),
    QueueConfig("trade", guarantee={"cards": 16_000}, deserved={"cards": 24_000}, cap={"cards": 32_500}),
    QueueConfig("default/lab/batch", QueueClass.BATCH, cap={"cards": 500}),
)
"""Out of order, two inner ones unnamed; halves of cards that must not add up to more than their parent has."""


def compiled() -> dict[str, Sequence[Any]]:
    """Every golden file's objects by its name."""
    jobs = {name: (job_compile(given, placing, SETTINGS, COMMAND),) for name, (given, placing) in JOBS.items()}
    return {
        **jobs,
        "queues": queues_compile(QUEUES),
        "priorities": tuple(priority_class_compile(klass) for klass in QueueClass),
        "tenant": tenant_compile("trade", Storage(2048, "shared-files"), cards=32_500),
        "tenant-unlimited": tenant_compile("default", Storage(100)),
    }


class _Plain(yaml.SafeDumper):
    """Without anchors: a reader should see each object whole."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def text(things: Sequence[Any]) -> str:
    return yaml.dump_all(things, Dumper=_Plain, sort_keys=False, width=120, explicit_start=True)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.yaml"):
        path.unlink()
    for name, things in compiled().items():
        (FOLDER / f"{name}.yaml").write_text(text(things), encoding="utf-8")


if __name__ == "__main__":
    main()
