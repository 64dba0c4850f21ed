"""Schedulers written in Go, run beside ours: yunikorn-core in one process, and kube-scheduler's own benchmark.

    python -m benchmarks.peers.go_peers build    # once; kube-scheduler compiles 2 000 packages: half an hour on 2 cores
    python -m benchmarks.peers.go_peers run [--full]

Sources and pinned modules are in ``tools/go``; all code comes through the Go module proxy.  Binaries are kept by the
hash of what they are made of.  A benchmark never builds: it asks `built` and says what is missing.

What is measured differs, and the figures say so.  yunikorn-core gets the same nodes and asks as ours, in memory, with
cards as one quantity a node.  kube-scheduler works against an API server and an etcd of its own in the same run, each
pod being written three times; its pods are all alike, as in its own SchedulingBasic.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from benchmarks import openb
from benchmarks.peers.kernel import cache_dir
from millpond.domain.errors import Unavailable

TOOLS = Path(__file__).resolve().parents[2] / "tools" / "go"

Amounts = tuple[int, int, int]
"""milli-CPU, MiB, milli-cards."""

ASKS = 5000
"""So many at most: yunikorn-core goes through all nodes again and again."""

_BUILDS: dict[str, tuple[str, ...]] = {
    "yunikorn": ("build", "-o", "{folder}/yunikorn", "."),
    "kube_perf": ("test", "-c", "-vet=off", "-o", "{folder}/kube_perf", "."),
    "etcd": ("build", "-o", "{folder}/etcd", "go.etcd.io/etcd/server/v3"),
}
_MODULES = {"yunikorn": "yunikorn", "kube_perf": "kube", "etcd": "kube"}


@dataclass(frozen=True, slots=True)
class Rate:
    """What a peer did: ``placed`` of ``asked`` on ``nodes`` nodes, so many a second."""

    peer: str
    version: str
    workload: str
    nodes: int
    asked: int
    placed: int
    per_second: float


def binary(name: str) -> Path:
    """Where a built peer is kept: by the hash of its pinned modules and sources."""
    folder = TOOLS / _MODULES[name]
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.go"), folder / "go.mod", folder / "go.sum"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return cache_dir() / "go" / f"{_MODULES[name]}-{digest.hexdigest()[:16]}" / name


def built(*names: str) -> str:
    """Why these peers cannot run, or nothing."""
    absent = [name for name in names if not binary(name).exists()]
    if not absent:
        return ""
    wanted = "python -m benchmarks.peers.go_peers build"
    go = "" if shutil.which("go") else "; it needs Go 1.26 on the PATH"
    return f"{', '.join(absent)} not built: {wanted}{go}"


def build(name: str) -> Path:
    """Build a peer unless the cache has it; one package after the other, with lowest priority.

    Raises Unavailable without Go, or with what Go said.
    """
    made = binary(name)
    if made.exists():
        return made
    if shutil.which("go") is None:
        raise Unavailable("there is no go on the PATH", hint="install Go 1.26 or newer: https://go.dev/dl")
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        verb, *rest = (word.format(folder=folder) for word in _BUILDS[name])
        command = ["nice", "-n", "19", "go", verb, "-p", "1", "-trimpath", *rest]
        environ = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
        done = subprocess.run(
            command, cwd=TOOLS / _MODULES[name], env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unavailable(f"go cannot build {name}: {done.stderr.strip()[-2000:]}", hint="is the proxy reachable?")
        (Path(folder) / name).replace(made)
    return made


def yunikorn(nodes: Sequence[Amounts], asks: Sequence[Amounts], queues: int = 4, timeout: int = 600) -> Rate:
    """All asks at once into yunikorn-core; allocations a second until the last one."""
    given = json.dumps({"nodes": nodes, "asks": asks, "queues": queues})
    said = json.loads(_run([str(binary("yunikorn"))], timeout, given=given))
    rate = float(said["per_second"])
    return Rate("yunikorn-core", str(said["version"]), "mix", len(nodes), len(asks), int(said["allocated"]), rate)


def openb_mix(nodes: int, load: int = 600) -> tuple[list[Amounts], list[Amounts]]:
    """Nodes and asks like openb's, as many nodes as wanted, asking for `load` thousandths of the cards there are.

    So few that all of them fit: a peer that searches for what is not there would look slower than it is.
    """
    there, pods = openb.nodes_read(), openb.pods_read("default")
    chosen = [there[number % len(there)] for number in range(nodes)]
    order = openb.arrivals(pods, openb.SEEDS[0], openb.capacity(chosen), load)
    asked = [pods[number].shape for number in order]
    return (
        [(node.cpu, node.memory, 1000 * node.cards) for node in chosen],
        [(shape.cpu, shape.memory, shape.volume) for shape in asked],
    )


def kube(*, full: bool = False, timeout: int = 1800) -> list[Rate]:
    """kube-scheduler's scheduler_perf on the workloads of ``tools/go/kube/workloads.yaml``: mean pods a second."""
    folder = TOOLS / "kube"
    with tempfile.TemporaryDirectory() as out:
        command = [
            str(binary("kube_perf")),
            "-test.run=^$",
            "-test.bench=BenchmarkPerfScheduling",
            "-test.benchtime=1ns",
            f"-test.timeout={timeout}s",
            f"-perf-scheduling-label-filter={'full' if full else 'short'}",
            f"-data-items-dir={out}",
        ]
        path = os.pathsep.join((str(binary("etcd").parent), os.environ.get("PATH", "")))
        # its API server keeps certificates beside its own source; built with -trimpath, it looks for that here
        fixtures = Path(out, "k8s.io", f"kubernetes@{_kube_version()}", "cmd/kube-apiserver/app/testing/testdata")
        fixtures.mkdir(parents=True)
        environ = os.environ | {"PATH": path, "TEST_SRCDIR": out, "TEST_WORKSPACE": "."}
        _run(command, timeout + 60, folder=folder, environ=environ)
        items = [item for file in Path(out).glob("*.json") for item in json.loads(file.read_text())["dataItems"]]
    found = [
        _kube_rate(item["labels"]["Name"], float(item["data"]["Average"]))
        for item in items
        if item["labels"].get("Metric") == "SchedulingThroughput"
    ]
    if not found:
        raise Unavailable("scheduler_perf measured nothing", hint="its pods were placed within a second: ask for more")
    return found


def _kube_rate(name: str, average: float) -> Rate:
    """A name is ``BenchmarkPerfScheduling/Cards/1213Nodes…``; how many pods it places is in ``workloads.yaml``."""
    parts = re.search(r"/(\w+)/(\d+Nodes)", name)
    if parts is None:
        raise Unavailable(f"scheduler_perf calls a workload {name!r}", hint="names are like Cards/1213Nodes")
    cases = yaml.safe_load((TOOLS / "kube" / "workloads.yaml").read_text())
    params = next(
        work["params"]
        for case in cases
        for work in case["workloads"]
        if (case["name"], work["name"]) == (parts[1], parts[2])
    )
    pods = int(params["pods"])
    return Rate("kube-scheduler", _kube_version(), parts[1], int(params["nodes"]), pods, pods, average)


def _kube_version() -> str:
    pinned = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (TOOLS / "kube" / "go.mod").read_text(), re.MULTILINE)
    return pinned[1] if pinned else ""


def _run(
    command: Sequence[str],
    timeout: int,
    *,
    given: str = "",
    folder: Path | None = None,
    environ: dict[str, str] | None = None,
) -> str:
    """Run a peer and give what it printed.  Raises Unavailable with its last words when it fails."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, input=given, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=timeout
        )
    except FileNotFoundError as error:
        raise Unavailable(built(name)) from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{name} was not done after {timeout} s") from error
    if done.returncode:
        raise Unavailable(f"{name} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def rates(*, full: bool = False) -> tuple[list[Rate], str]:
    """What the built peers do here and now, and which are missing or failed."""
    found: list[Rate] = []
    missing = [built("yunikorn"), built("kube_perf", "etcd")]
    try:
        for nodes in () if missing[0] else (1213, 5000) if full else (1213,):
            there, asks = openb_mix(nodes)
            found.append(yunikorn(there, asks[:ASKS]))
    except Unavailable as error:
        missing.append(error.message)
    try:
        found.extend([] if missing[1] else kube(full=full))
    except Unavailable as error:
        missing.append(error.message)
    return found, "; ".join(filter(None, missing))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("verb", choices=("build", "run"))
    parser.add_argument("--full", action="store_true", help="also 5 000 nodes")
    given = parser.parse_args()
    if given.verb == "build":
        for name in _BUILDS:
            print(build(name), flush=True)
        return
    found, missing = rates(full=given.full)
    for rate in found:
        print(json.dumps(asdict(rate)), flush=True)
    if missing:
        raise SystemExit(missing)


if __name__ == "__main__":
    main()
