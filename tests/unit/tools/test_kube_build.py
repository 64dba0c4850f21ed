"""The build of the Kubernetes test tools, with a go that only pretends: what is kept, what a failure leaves."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tools import kube_build

GO = """#!/bin/sh
echo "$@" >> {calls}
case "$1" in
mod)
    case "$4" in
    *kwok*) echo '{{"Dir": "{modules}/kwok"}}' ;;
    *) echo '{{"Dir": "{modules}/volcano"}}' ;;
    esac ;;
build)
    while [ $# -gt 1 ]; do [ "$1" = -o ] && made="$2"; shift; done
    case "$made" in */{broken}) echo half > "$made"; echo "undefined: x" >&2; exit 1 ;; esac
    echo "$made" > "$made" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one's own and a machine whose go succeeds; gives the file of its calls."""
    modules = tmp_path / "modules"
    informer = modules / "kwok" / kube_build.KWOK_PATCH[0]
    informer.parent.mkdir(parents=True)
    informer.write_text(f"x := {kube_build.KWOK_PATCH[1]}\n")
    for patterns in kube_build.DEFINITIONS.values():
        for pattern in patterns:
            file = modules / "volcano" / pattern.replace("*", "one")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("kind: Thing\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "calls"
    path.touch()
    go_install(tmp_path, monkeypatch, "nothing")
    return path


def go_install(folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A go first on PATH that cannot build `broken`."""
    go = folder / "bin" / "go"
    go.parent.mkdir(exist_ok=True)
    go.write_text(GO.format(calls=folder / "calls", modules=folder / "modules", broken=broken))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")


def files() -> set[str]:
    home = kube_build.folder()
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_everything_is_built_once_and_then_found(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kube_build.missing().startswith("the Kubernetes test tools are not built (etcd, vc-scheduler,")
    assert kube_build.main([]) == 0
    assert kube_build.missing() == ""
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == list(kube_build.CLUSTER)
    assert all("built in" in line for line in said)
    assert {f"bin/{name}" for name in kube_build.CLUSTER} < files()
    assert {"volcano/crd/one.yaml", "volcano/installer/volcano-development.yaml"} < files()
    assert not any(name.startswith("build/") for name in files())

    before = calls.read_text()
    assert kube_build.main([]) == 0
    assert calls.read_text() == before, "go was called although everything was there"
    assert all("cached" in line for line in capsys.readouterr().out.splitlines())


def test_failed_build_leaves_what_was_whole(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    go_install(tmp_path, monkeypatch, "kwok")
    assert kube_build.main([]) == 1
    assert "go build failed for sigs.k8s.io/kwok/cmd/kwok:\nundefined: x" in capsys.readouterr().err
    binaries = {name for name in files() if not name.startswith("volcano/")}
    assert binaries == {"bin/etcd", "bin/vc-scheduler", "bin/vc-controller-manager", "bin/vc-webhook-manager"}

    go_install(tmp_path, monkeypatch, "nothing")
    assert kube_build.main([]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said if "built in" in line] == list(kube_build.CLUSTER[4:])


def test_without_go_it_says_what_to_install(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert shutil.which("go") is None
    assert kube_build.main([]) == 1
    assert "there is no go on PATH: install Go 1.26" in capsys.readouterr().err
    assert "needs Go 1.26" in kube_build.missing()


def test_kwok_that_needs_no_patch_is_noticed(calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "modules" / "kwok" / kube_build.KWOK_PATCH[0]).write_text("x := 1\n")
    assert kube_build.main([]) == 1
    assert "does it still need KWOK_PATCH?" in capsys.readouterr().err
    assert files() == set()


def test_one_program_alone(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kube_build.main(["kubelet", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("kubelet ")
    assert "-p 1 " in calls.read_text()
    assert kube_build.missing(["kubelet"]) == ""
    assert kube_build.missing() != ""


def test_unknown_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kube_build.main(["kube-proxy"])
    assert "no such program: kube-proxy; there are etcd," in capsys.readouterr().err


def test_pins_name_no_place_of_a_machine() -> None:
    """A replacement by a folder would build here and nowhere else."""
    pins = (kube_build.MODULE / "go.mod").read_text()
    replaced = re.findall(r"^\s*(?:replace )?(\S+)(?: \S+)? => (\S+) (\S+)$", pins, re.MULTILINE)
    assert len(replaced) == pins.count("=>") > 20
    assert {f"v0.{kube_build.version('k8s.io/kubernetes').removeprefix('1.')}"} == {found[2] for found in replaced}
    assert all(module == target for module, target, _ in replaced)
