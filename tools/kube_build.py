"""Build the programs of a Kubernetes control plane, Volcano and kwok, for the tests that need a whole cluster.

    python -m tools.kube_build             # all that the tests start; done in a moment when nothing changed
    python -m tools.kube_build kubelet     # one program; kubelet and kubectl are built only when named
    python -m tools.kube_build --jobs 1    # leave the other cores alone
    python -m tools.kube_build --where     # print the folder, build nothing

Versions are pinned in ``tools/go/cluster`` (``go.mod``, ``go.sum``); all code comes as Go modules, compiled here.  What
was built is kept under ``${XDG_CACHE_HOME:-~/.cache}/millpond/kube/<versions>-<hash>``: ``bin``, and in ``volcano`` the
definitions that Volcano ships with its sources.  Cold it takes 20 minutes on two cores, and 5 GB for Go's own caches.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).resolve().parent / "go" / "cluster"

KUBERNETES, VOLCANO, KWOK = "k8s.io/kubernetes", "volcano.sh/volcano", "sigs.k8s.io/kwok"

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "vc-scheduler": f"{VOLCANO}/cmd/scheduler",
    "vc-controller-manager": f"{VOLCANO}/cmd/controller-manager",
    "vc-webhook-manager": f"{VOLCANO}/cmd/webhook-manager",
    "kwok": f"{KWOK}/cmd/kwok",
    "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
    "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
    "kubelet": f"{KUBERNETES}/cmd/kubelet",
    "kubectl": f"{KUBERNETES}/cmd/kubectl",
}
"""What is built from which package, in this order: each finds most of its parts compiled by those before it."""

CLUSTER = tuple(name for name in PACKAGES if name not in {"kubelet", "kubectl"})
"""What a cluster of fake nodes needs.  The others are for real nodes and for people."""

DEFINITIONS = {
    "crd": ("config/crd/volcano/bases/*.yaml", "config/crd/jobflow/bases/*.yaml"),
    "installer": ("installer/volcano-development.yaml",),
}
"""Files of Volcano's sources by the folder that keeps them.  Its controllers list JobFlows for ever without those."""

KWOK_PATCH = (
    "pkg/utils/informer/informer.go",
    "metav1.InitialEventsListBlueprintAnnotationKey",
    '"kubernetes.io/initial-events-list-blueprint"',
)
"""kwok 0.7.0 names a constant that apimachinery 0.34 dropped: file, name, and the value that it had."""


class KubeToolsError(Exception):
    """The programs cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Built:
    """One program after a build: how long it took, nothing when it was there."""

    name: str
    path: Path
    seconds: int | None


def version(module: str) -> str:
    """The version of a module that ``go.mod`` pins, as ``1.34.1``."""
    found = re.search(rf"^\s+{re.escape(module)} v(\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise KubeToolsError(f"{MODULE / 'go.mod'} does not pin {module}")
    return found[1]


def folder() -> Path:
    """Where these versions are kept, whether built or not; changes with every pin and with what is done to them."""
    digest = hashlib.sha256(repr((PACKAGES, DEFINITIONS, KWOK_PATCH, _link_flags())).encode())
    for path in (MODULE / "go.mod", MODULE / "go.sum"):
        digest.update(path.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millpond" / "kube"
    return cache / f"k{version(KUBERNETES)}-volcano{version(VOLCANO)}-kwok{version(KWOK)}-{digest.hexdigest()[:12]}"


def binary(name: str) -> Path:
    """Where a program is kept once it is built."""
    return folder() / "bin" / name


def missing(names: Sequence[str] = CLUSTER) -> str:
    """Why a cluster cannot be started here, or nothing."""
    absent = [name for name in names if not binary(name).exists()]
    if not absent and all((folder() / "volcano" / kept).is_dir() for kept in DEFINITIONS):
        return ""
    go = "" if shutil.which("go") else "; that needs Go 1.26 or newer on PATH"
    return f"the Kubernetes test tools are not built ({', '.join(absent) or 'definitions'}): make kube-tools{go}"


def build(names: Sequence[str] = CLUSTER, jobs: int = 0) -> Iterator[Built]:
    """Build what the cache lacks, one program after the other, and give each as it is there.

    ``jobs``: how many packages to compile at once; 0 means one a core.  Raises KubeToolsError, with what Go said.
    A build that fails or is interrupted leaves what was whole before it, and nothing else.
    """
    if not missing(names):
        yield from (Built(name, binary(name), None) for name in names)
        return
    if shutil.which("go") is None:
        raise KubeToolsError("there is no go on PATH: install Go 1.26 or newer (apt-get install golang, or go.dev/dl)")
    with _alone(), _work() as work:
        _definitions_keep(work)
        for name in names:
            if binary(name).exists():
                yield Built(name, binary(name), None)
                continue
            began = time.monotonic()
            _compile(work, name, jobs or os.cpu_count() or 1)
            yield Built(name, binary(name), round(time.monotonic() - began))


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time: a second waits, and then finds the work done."""
    folder().parent.mkdir(parents=True, exist_ok=True)
    with (folder().parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build of the Kubernetes test tools", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _work() -> Iterator[Path]:
    """A copy of the module that builds with a patched kwok; gone with the block."""
    work = folder() / "build"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        for name in ("go.mod", "go.sum", "tools.go"):
            shutil.copy(MODULE / name, work)
        source = _source(work, KWOK)
        shutil.copytree(source, work / "patched", copy_function=shutil.copyfile, ignore=shutil.ignore_patterns("site"))
        for path in (work / "patched", *(work / "patched").rglob("*/")):
            path.chmod(0o755)  # Go's module cache is read-only, and so would be what is copied from it
        file, old, new = KWOK_PATCH
        patched = work / "patched" / file
        text = patched.read_text()
        if old not in text:
            raise KubeToolsError(f"kwok {version(KWOK)} has no {old} in {file}: does it still need KWOK_PATCH?")
        patched.write_text(text.replace(old, new))
        with (work / "go.mod").open("a") as pins:
            pins.write(f"\nreplace {KWOK} => ./patched\n")
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _definitions_keep(work: Path) -> None:
    target = folder() / "volcano"
    if target.is_dir():
        return
    source, made = _source(work, VOLCANO), work / "definitions"
    for name, patterns in DEFINITIONS.items():
        (made / name).mkdir(parents=True)
        found = [path for pattern in patterns for path in sorted(source.glob(pattern))]
        if not found:
            raise KubeToolsError(f"Volcano {version(VOLCANO)} has no {patterns[0]}")
        for path in found:
            shutil.copyfile(path, made / name / path.name)
    made.rename(target)


def _source(work: Path, module: str) -> Path:
    """Where Go keeps a module's sources, checked against ``go.sum``."""
    said = _go(work, "mod", "download", "-json", f"{module}@v{version(module)}")
    return Path(json.loads(said)["Dir"])


def _compile(work: Path, name: str, jobs: int) -> None:
    made = work / "bin" / name
    made.parent.mkdir(exist_ok=True)
    words = ("build", "-p", str(jobs), "-trimpath", "-ldflags", _link_flags(), "-o", str(made), PACKAGES[name])
    _go(work, *words)
    binary(name).parent.mkdir(exist_ok=True)
    made.rename(binary(name))


def _link_flags() -> str:
    """Without them Kubernetes calls itself v0.0.0-master, and clients refuse it."""
    whole = version(KUBERNETES)
    major, minor, _ = whole.split(".", 2)
    facts = {"gitVersion": f"v{whole}", "gitMajor": major, "gitMinor": minor}
    homes = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {home}.{key}={value}" for home in homes for key, value in facts.items())])


def _go(work: Path, *words: str) -> str:
    """Run go with the lowest claim on the CPU, and give what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("GOFLAGS", "GOOS", "GOARCH")}
    own = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}
    command = ["nice", "-n", "15", "go", *words]
    done = subprocess.run(command, cwd=work, env=kept | own, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-20:])
        raise KubeToolsError(f"go {words[0]} failed for {words[-1]}:\n{said}")
    return done.stdout


def main(words: Sequence[str] | None = None) -> int:
    """What the command line does; 1 when something cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m tools.kube_build", description="Build the Kubernetes test tools.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(PACKAGES)}; none: all but kubelet and kubectl"
    )
    parser.add_argument("--jobs", type=int, default=0, help="packages to compile at once; one a core by default")
    parser.add_argument("--where", action="store_true", help="print the folder and build nothing")
    given = parser.parse_args(words)
    unknown = [name for name in given.names if name not in PACKAGES]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    if given.where:
        print(folder())
        return 0
    try:
        for built in build(given.names or CLUSTER, given.jobs):
            how = "cached" if built.seconds is None else f"built in {built.seconds} s"
            print(f"{built.name:<24} {built.path.stat().st_size >> 20:>4} MiB  {how}", flush=True)
    except KubeToolsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
