"""A whole cluster: started, waited for, stopped.  See `cluster_up`."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.kube import commands, definitions, objects
from tests.kube.certificates import Authority, Pair
from tests.kube.client import ApiError, Client
from tests.kube.programs import Program, ports_free
from tools import kube_build

T = TypeVar("T")

ADMIN = "test-admin"
USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    "system:kube-controller-manager": (),
    "vc-scheduler": (),
    "vc-controllers": (),
    "vc-admission": (),
    "kwok": ("system:masters",),
}
"""Each program is a user of its own, so that the audit log tells who did what; Volcano's have Volcano's own rights."""

START_S = 120.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a cluster is made.

    ``period``: of Volcano's scheduler.  ``extra``: further words for programs by name, after ours, so that they win.
    """

    nodes: int = 20
    period: str = "1s"
    scheduler: str = (commands.CONFIG / "scheduler.yaml").read_text()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Cluster:
    """The programs of one cluster, by name in `programs`, and a client with every right in `admin`.

    ``laps`` says when each part was ready, in seconds after the start.
    """

    def __init__(self, folder: Path, options: Options) -> None:
        self.options = options
        self.layout = commands.Layout(folder, commands.Ports(*ports_free(5)))
        self.authority = Authority(folder / "certificates")
        self.programs: dict[str, Program] = {}
        self.laps: dict[str, float] = {}
        self._clients: dict[str, Client] = {}

    @property
    def admin(self) -> Client:
        return self.client(ADMIN, *USERS[ADMIN])

    def client(self, user: str, *groups: str) -> Client:
        """A client as this user, who is made on first use."""
        if user not in self._clients:
            pair = self.authority.client(user, groups)
            self._clients[user] = Client(self.layout.address, self.authority.certificate, pair)
        return self._clients[user]

    def kubeconfig(self, user: str = ADMIN, *groups: str) -> Path:
        """A file for kubectl and other clients, who are `user` with it."""
        path = self.layout.kubeconfig(user)
        if not path.exists():
            pair = self.authority.client(user, groups or USERS.get(user, ()))
            path.touch(mode=0o600)
            path.write_text(yaml.safe_dump(_kubeconfig(self.layout.address, self.authority.certificate, user, pair)))
        return path

    def start(self) -> None:
        """Bring everything up, and return when a job could run.  Raises with the log of what did not come."""
        began = time.monotonic()
        layout, authority = self.layout, self.authority
        for user in USERS:
            self.kubeconfig(user)
        layout.scheduler.parent.mkdir()
        layout.scheduler.write_text(self.options.scheduler)
        self._lap("certificates", began)

        self._run("etcd", "etcd", commands.etcd(layout))
        self._await("etcd", lambda: _listens(layout.ports.etcd))
        self._lap("etcd", began)
        self._run("kube-apiserver", "kube-apiserver", commands.apiserver(layout, authority))
        self._await("kube-apiserver", self.admin.ready)
        self._lap("kube-apiserver", began)

        source = kube_build.folder() / "volcano"
        for thing in (*definitions.custom_resources(source), *definitions.rights(source)):
            self.admin.create(thing)
        self.admin.create(objects.namespace("volcano-system"))
        self._run("kube-controller-manager", "kube-controller-manager", commands.controller_manager(layout, authority))
        self._await("kube-apiserver", lambda: all(_served(self.admin, kind) for kind in ("Queue", "Job", "JobFlow")))
        self._lap("definitions", began)

        self._run("vc-controllers", "vc-controller-manager", commands.volcano_controllers(layout))
        self._run("vc-scheduler", "vc-scheduler", commands.volcano_scheduler(layout, self.options.period))
        self._run("kwok", "kwok", commands.kwok(layout))
        for number in range(self.options.nodes):
            self.admin.create(objects.node(number))
        self._await("kwok", lambda: self.nodes_ready() >= self.options.nodes)
        self._lap("nodes", began)
        self._await("vc-scheduler", lambda: self.queue_open("root") and self.queue_open("default"))
        self._await("kube-controller-manager", lambda: self.admin.find("ServiceAccount", "default", "default"))
        self._lap("queues", began)
        for thing in definitions.webhooks(source, layout, authority.certificate):
            self.admin.create(thing)
        self._run("vc-webhook", "vc-webhook-manager", commands.volcano_webhook(layout, authority))
        self._await("vc-webhook", lambda: _listens(layout.ports.webhook))
        self._lap("webhook", began)

    def stop(self) -> None:
        """End every program, the last first, and let go of connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for program in reversed(self.programs.values()):
            program.stop()

    def nodes_ready(self) -> int:
        """How many nodes may be used: ready, and without the taint that a new one carries for a moment."""
        return sum(_ready(node) for node in self.admin.list("Node"))

    def queue_open(self, name: str) -> bool:
        """Whether Volcano takes jobs for this queue; until then its webhook refuses them."""
        queue = self.admin.find("Queue", name)
        return queue is not None and queue.get("status", {}).get("state") == "Open"

    def queue_await(self, name: str) -> None:
        self.wait_for(lambda: self.queue_open(name), f"queue {name} to open")

    def node_silence(self, name: str) -> None:
        """As a power cut: nobody plays this node's kubelet from now on.

        kwok serves only nodes whose lease it holds, so somebody else takes it and never renews it.
        """
        taken = {"spec": {"holderIdentity": "power-cut", "leaseDurationSeconds": 1_000_000}}
        self.admin.patch("Lease", name, taken, "kube-node-lease")

    def node_return(self, name: str) -> None:
        """The node has power again: kwok takes its lease back."""
        self.admin.patch("Lease", name, {"spec": {"leaseDurationSeconds": 1}}, "kube-node-lease")

    def memory(self) -> dict[str, int]:
        """MiB by program."""
        return {name: program.memory() for name, program in self.programs.items()}

    def audit(self) -> Iterator[dict[str, Any]]:
        """Requests so far, oldest first: ``verb``, ``user``, ``objectRef`` and so on (`config/audit.yaml`)."""
        with self.layout.audit.open() as lines:
            yield from (json.loads(line) for line in lines)

    def wait_for(self, look: Callable[[], T | None], what: str, timeout_s: float = 60.0) -> T:
        """What `look` finds as soon as it finds something; fails after `timeout_s`, or when a program ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = look()
            if found:
                return found
            ended = [program for program in self.programs.values() if not program.alive()]
            if ended or time.monotonic() > deadline:
                why = f"{', '.join(program.name for program in ended)} ended" if ended else f"waited {timeout_s:.0f} s"
                logs = "\n".join(program.tail() for program in ended or self.programs.values())
                raise AssertionError(f"{why} for {what}\n{logs}")
            time.sleep(0.05)

    def _run(self, name: str, binary: str, words: commands.Words) -> None:
        extra = self.options.extra.get(name, ())
        program = Program(name, [kube_build.binary(binary), *words, *extra], self.layout.folder / f"{name}.log")
        self.programs[name] = program
        program.start()

    def _await(self, name: str, look: Callable[[], object]) -> None:
        self.wait_for(look, name, START_S)

    def _lap(self, name: str, began: float) -> None:
        self.laps[name] = round(time.monotonic() - began, 1)


@contextlib.contextmanager
def cluster_up(options: Options | None = None, folder: Path | None = None) -> Iterator[Cluster]:
    """A running cluster, gone with the block.

    ``folder`` is kept afterwards, with all logs; without one a temporary folder goes with the cluster.
    """
    home = folder or Path(tempfile.mkdtemp(prefix="millpond-kube-"))
    try:
        cluster = Cluster(home, options or Options())
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
    finally:
        if folder is None:
            shutil.rmtree(home)


def cluster_missing() -> str:
    """Why no cluster can be started here, or nothing."""
    programs = ("openssl", "setpriv")
    absent = [name for name in programs if shutil.which(name) is None]
    return f"needs {' and '.join(absent)} on PATH" if absent else kube_build.missing()


def _kubeconfig(address: str, authority: Path, user: str, pair: Pair) -> dict[str, Any]:
    def encoded(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    keys = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
    server = {"server": address, "certificate-authority-data": encoded(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }


def _ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node["spec"].get("taints")


def _served(client: Client, kind: str) -> bool:
    """A definition is served a moment after it was created."""
    try:
        client.list(kind)
    except ApiError:
        return False
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True
