"""The Go peers: what is asked of them, and what is said when they are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import openb
from benchmarks.peers import go_peers
from benchmarks.peers.go_peers import TOOLS

from millpond.domain.errors import Unavailable


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a PATH without go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def fake(name: str, text: str) -> None:
    """A peer that prints `text`, where the built one would lie."""
    path = go_peers.binary(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.usefixtures("cache")
def test_what_is_not_built_is_named_with_the_way_to_build_it() -> None:
    said = go_peers.built("kube_perf", "etcd")
    assert said == "kube_perf, etcd not built: python -m benchmarks.peers.go_peers build; it needs Go 1.26 on the PATH"
    rates, missing = go_peers.rates()
    assert not rates
    assert missing.count("not built") == 2


@pytest.mark.usefixtures("cache")
def test_no_go_is_said_by_name() -> None:
    with pytest.raises(Unavailable, match=r"no go on the PATH .*install Go"):
        go_peers.build("yunikorn")


@pytest.mark.usefixtures("cache")
def test_a_built_peer_is_not_built_again() -> None:
    fake("yunikorn", "")
    assert go_peers.build("yunikorn") == go_peers.binary("yunikorn")
    assert go_peers.built("yunikorn") == ""


@pytest.mark.usefixtures("cache")
def test_rates_come_from_what_the_peer_prints() -> None:
    said = {"version": "v9", "nodes": 2, "asks": 3, "allocated": 3, "seconds": 0.5, "per_second": 6.0}
    fake("yunikorn", f"echo '{json.dumps(said)}'")
    rate = go_peers.yunikorn([(1000, 1, 8000)] * 2, [(1, 1, 500)] * 3)
    assert (rate.version, rate.nodes, rate.asked, rate.placed, rate.per_second) == ("v9", 2, 3, 3, 6.0)


@pytest.mark.usefixtures("cache")
def test_a_failing_peer_has_the_last_word() -> None:
    fake("yunikorn", "echo nodes are missing >&2; exit 3")
    with pytest.raises(Unavailable, match="yunikorn failed: nodes are missing"):
        go_peers.yunikorn([], [])


def test_scheduler_perf_is_read(cache: Path) -> None:
    fake("etcd", "")
    items = [
        {"labels": {"Metric": "SchedulingThroughput", "Name": f"Bench/{work}"}, "data": {"Average": rate}}
        for work, rate in (("Cards/1213Nodes/x", 250.0), ("Basic/5000Nodes", 480.0))
    ]
    items.append({"labels": {"Metric": "other", "Name": "Bench/Basic/5000Nodes"}, "data": {"Average": 1.0}})
    (cache / "items.json").write_text(json.dumps({"dataItems": items}))
    copy = (
        f'for word in "$@"; do case $word in -data-items-dir=*) /bin/cp {cache}/items.json "${{word#*=}}"/;; esac; done'
    )
    fake("kube_perf", copy)
    found = go_peers.kube()
    assert [(rate.workload, rate.nodes, rate.asked, rate.per_second) for rate in found] == [
        ("Cards", 1213, 1000, 250.0),
        ("Basic", 5000, 5000, 480.0),
    ]
    assert found[0].version.startswith("v1.")


def test_the_mix_is_openb_s() -> None:
    nodes, asks = go_peers.openb_mix(1500)
    milli = sum(node[2] for node in nodes)
    assert len(nodes) == 1500
    assert nodes[:1213] == [(node.cpu, node.memory, 1000 * node.cards) for node in openb.nodes_read()]
    assert 0.59 * milli < sum(ask[2] for ask in asks) <= 0.6 * milli + 8000


def test_modules_are_pinned() -> None:
    for name in ("yunikorn", "kube"):
        text = (TOOLS / name / "go.mod").read_text()
        assert re.search(r"^go 1\.\d+", text, re.MULTILINE)
        assert (TOOLS / name / "go.sum").stat().st_size > 0
