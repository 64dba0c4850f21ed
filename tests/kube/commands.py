"""The command line of each program of a cluster.  Everything listens on 127.0.0.1, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kube.certificates import Authority
from tests.kube.objects import FAKE

CONFIG = Path(__file__).parent / "config"

ADMISSIONS = ("/queues/mutate", "/queues/validate", "/jobs/mutate", "/jobs/validate", "/podgroups/validate")
"""What Volcano's webhook is asked about."""

FAST = ("--kube-api-qps=500", "--kube-api-burst=1000")
"""The clients' own brakes would be measured for the cluster."""

Words = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    peer: int
    api: int
    webhook: int
    metrics: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one cluster keeps its things, and on which ports it listens."""

    folder: Path
    ports: Ports

    @property
    def address(self) -> str:
        """Of the API server."""
        return f"https://127.0.0.1:{self.ports.api}"

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self.ports.etcd}"

    @property
    def webhook(self) -> str:
        return f"https://127.0.0.1:{self.ports.webhook}"

    @property
    def audit(self) -> Path:
        return self.folder / "audit.log"

    @property
    def scheduler(self) -> Path:
        """Volcano's scheduler watches the whole folder of its configuration, so nothing else may lie there."""
        return self.folder / "scheduler" / "scheduler.yaml"

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user.replace(':', '-')}.kubeconfig"


def etcd(layout: Layout) -> Words:
    """Without fsync: nobody will miss what a crash of the machine takes from a test."""
    peer = f"http://127.0.0.1:{layout.ports.peer}"
    return (
        "--name=test", f"--data-dir={layout.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
        f"--listen-client-urls={layout.etcd}", f"--advertise-client-urls={layout.etcd}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}",
        "--quota-backend-bytes=2147483648",
    )  # fmt: skip


def apiserver(layout: Layout, authority: Authority) -> Words:
    """No endpoint reconciler: it refuses a loopback address for the service ``kubernetes``."""
    known = (f"DNS:kubernetes{end}" for end in ("", ".default", ".default.svc"))
    pair = authority.server("kube-apiserver", "IP:10.96.0.1", *known)
    accounts = authority.account_key()
    return (
        f"--etcd-servers={layout.etcd}", "--bind-address=127.0.0.1", f"--secure-port={layout.ports.api}",
        "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
        f"--tls-cert-file={pair.certificate}", f"--tls-private-key-file={pair.key}",
        f"--client-ca-file={authority.certificate}", "--authorization-mode=RBAC", "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}",
        f"--audit-policy-file={CONFIG / 'audit.yaml'}", f"--audit-log-path={layout.audit}", "--audit-log-mode=blocking",
        "--audit-log-maxsize=500", "--max-requests-inflight=3000", "--max-mutating-requests-inflight=2000",
        "--profiling=false", "--event-ttl=30m",
    )  # fmt: skip


def controller_manager(layout: Layout, authority: Authority) -> Words:
    own = layout.kubeconfig("system:kube-controller-manager")
    return (
        f"--kubeconfig={own}", "--secure-port=0", "--leader-elect=false", "--use-service-account-credentials=true",
        f"--root-ca-file={authority.certificate}",
        f"--service-account-private-key-file={authority.folder / 'accounts.key'}", *FAST,
    )  # fmt: skip


def volcano_controllers(layout: Layout) -> Words:
    return (f"--kubeconfig={layout.kubeconfig('vc-controllers')}", "--leader-elect=false", *FAST, "-v=2")


def volcano_scheduler(layout: Layout, period: str) -> Words:
    """With its built-in configuration forbidden: a mistake in ours ends it, instead of passing for ours."""
    return (
        f"--kubeconfig={layout.kubeconfig('vc-scheduler')}", "--leader-elect=false",
        f"--scheduler-conf={layout.scheduler}", "--disable-default-scheduler-config=true",
        f"--schedule-period={period}", "--enable-metrics=true", f"--listen-address=127.0.0.1:{layout.ports.metrics}",
        "--cache-dumper=false", *FAST, "-v=2",
    )  # fmt: skip


def volcano_webhook(layout: Layout, authority: Authority) -> Words:
    pair = authority.server("vc-admission-server")
    return (
        f"--kubeconfig={layout.kubeconfig('vc-admission')}", "--listen-address=127.0.0.1",
        f"--port={layout.ports.webhook}", f"--webhook-url={layout.webhook}", f"--ca-cert-file={authority.certificate}",
        f"--tls-cert-file={pair.certificate}", f"--tls-private-key-file={pair.key}",
        f"--enabled-admission={','.join(ADMISSIONS)}", *FAST,
    )  # fmt: skip


def kwok(layout: Layout) -> Words:
    """kwok renews the nodes' leases and plays ``stages.yaml``; it serves nothing."""
    return (
        f"--kubeconfig={layout.kubeconfig('kwok')}", f"--config={CONFIG / 'stages.yaml'}",
        f"--manage-nodes-with-annotation-selector={FAKE}=fake", "--node-lease-duration-seconds=40",
        "--node-port=0", "--server-address=", "--v=WARN",
    )  # fmt: skip
