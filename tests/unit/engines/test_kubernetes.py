"""Compiling for Kubernetes: names go there and back, and what a cluster would refuse is refused here, or never made."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.jobs import QueueClass
from millpond.domain.queues import QueueConfig
from millpond.engines.base import RankOrder, Refused
from millpond.engines.kubernetes import names
from millpond.engines.kubernetes.amounts import WHOLE, cards_amounts, cpu_quantity, memory_quantity
from millpond.engines.kubernetes.jobs import job_compile
from millpond.engines.kubernetes.queues import queues_compile
from millpond.engines.kubernetes.tenants import Storage, tenant_compile
from tests.golden.kube_files import BATCH, COMMAND, SETTINGS, order, rank

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.lists(LABELS, min_size=1, max_size=3).map("/".join))
def test_queue_names_go_there_and_back(name: str) -> None:
    assert names.queue_from_object(names.queue_object_name(name)) == name


@given(LABELS)
def test_namespaces_go_there_and_back(tenant: str) -> None:
    assert names.namespace_tenant(names.namespace_name(tenant)) == tenant


def test_names_of_others_are_not_ours() -> None:
    assert names.namespace_tenant("kube-system") is None
    assert names.queue_from_object("default") is None
    assert names.queue_from_object(names.queue_object_name("")) is None


def test_tenant_with_too_long_a_name_is_refused() -> None:
    with pytest.raises(Refused, match="at most 60 characters"):
        tenant_compile("a" * 61, Storage(1))


def test_quantities() -> None:
    assert [cpu_quantity(milli) for milli in (250, 1000, 64_000)] == ["250m", "1", "64"]
    assert [memory_quantity(mib) for mib in (100, 1024, 524_288)] == ["100Mi", "1Gi", "512Gi"]


@pytest.mark.parametrize(
    ("ranks", "amounts"),
    [
        (rank(cards=(0, 1, 5)), {WHOLE: "3"}),
        (rank(cards=()), {}),
        (rank(milli=500), {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "50",
                           "volcano.sh/vgpu-memory-percentage": "50"}),
        (rank(milli=378, slices=("0:1g.5gb@4", "1:1g.5gb@4", "0:2g.10gb@0")),
         {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-2g.10gb": "1"}),
    ],
)  # fmt: skip
def test_cards_as_resources(ranks: RankOrder, amounts: Mapping[str, str]) -> None:
    assert cards_amounts(ranks) == amounts


def test_share_that_volcano_cannot_express_is_refused() -> None:
    with pytest.raises(Refused, match=r"multiple of 0\.01"):
        job_compile(order(rank(milli=333)), BATCH, SETTINGS, COMMAND)


def test_order_without_ranks_is_refused() -> None:
    with pytest.raises(Refused, match="no ranks"):
        job_compile(order(rank(), ranks=()), BATCH, SETTINGS, COMMAND)


def test_a_pod_a_node_and_all_or_none() -> None:
    seats = ("b", "a", "b", "c")
    ranks = tuple(RankOrder(number, seats[:number].count(node), node, (0,)) for number, node in enumerate(seats))
    job = job_compile(order(*ranks), BATCH, SETTINGS, COMMAND)["spec"]
    pods = [task["template"]["spec"] for task in job["tasks"]]
    assert job["minAvailable"] == len(pods) == 3
    assert [pinned(pod) for pod in pods] == [["b"], ["a"], ["c"]]
    assert len({pod["hostname"] for pod in pods}) == 3
    assert {environment(pod)["MASTER_ADDR"] for pod in pods} == {f"{pods[0]['hostname']}.ranks"}
    assert environment(pods[0])["MILLPOND_RANKS"] == "0,2"
    assert environment(pods[1])["RANK"] == "1"


def test_what_the_engine_knows_stands_above_the_order() -> None:
    job = job_compile(order(env=(("WORLD_SIZE", "99"), ("LR", "0.1"))), BATCH, SETTINGS, COMMAND)
    env = environment(job["spec"]["tasks"][0]["template"]["spec"])
    assert (env["WORLD_SIZE"], env["LR"]) == ("1", "0.1")


def test_hook_before_term_is_a_script_for_sh() -> None:
    pod = job_compile(order(), BATCH, SETTINGS, COMMAND)["spec"]["tasks"][0]["template"]["spec"]
    shell, option, script = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert option == "-c"
    subprocess.run([shell, "-n", "-c", script], check=True)
    assert script.endswith("kill -s USR1 1; sleep 15"), "TERM comes 5 s before the grace of 20 s ends"


def pinned(pod: Mapping[str, Any]) -> list[str]:
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    nodes: list[str] = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"]
    return nodes


def environment(pod: Mapping[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}


MILLI = st.integers(0, 20_000)


@st.composite
def trees(draw: st.DrawFn) -> list[QueueConfig]:
    """A tenant whose children's amounts add up to no more than its own, as millpond's configuration has it."""
    leaves: list[QueueConfig] = []
    for name in draw(st.sets(st.sampled_from(["prod", "batch", "besteffort", "p/batch", "p/prod", "q/batch"]))):
        guarantee = draw(MILLI)
        deserved = guarantee + draw(MILLI)
        cap = draw(st.none() | MILLI.map(lambda more, least=deserved: least + more))  # type: ignore[misc]
        leaves.append(
            QueueConfig(
                f"t/{name}",
                QueueClass(name.rpartition("/")[2]),
                {"cards": guarantee},
                {"cards": deserved},
                None if cap is None else {"cards": cap},
                lend=draw(st.booleans()),
            )
        )
    if draw(st.booleans()):
        deserved = sum(leaf.deserved["cards"] for leaf in leaves if leaf.deserved)
        guarantee = sum(leaf.guarantee["cards"] for leaf in leaves if leaf.guarantee)
        cap = draw(st.none() | MILLI.map(lambda more, least=deserved: least + more))  # type: ignore[misc]
        own = None if cap is None else {"cards": cap}
        leaves.append(QueueConfig("t", None, {"cards": guarantee}, {"cards": deserved}, own, draw(st.booleans())))
    return leaves


@given(trees())
def test_volcano_takes_every_tree(tree: list[QueueConfig]) -> None:
    """The rules of its webhook (validate_queue.go), written down once more."""
    made: dict[str, Mapping[str, Any]] = {}
    for queue in queues_compile(tree):
        parent = queue["spec"]["parent"]
        assert parent == "root" or parent in made, "a parent is created before its children"
        made[queue["metadata"]["name"]] = queue["spec"]
    for name, spec in made.items():
        guarantee, deserved, capability = (amount(spec, field) for field in ("guarantee", "deserved", "capability"))
        assert guarantee <= deserved
        assert "capability" not in spec or deserved <= capability
        children = [child for child in made.values() if child["parent"] == name]
        assert all(amount(child, "capability") <= capability for child in children)
        for field in ("guarantee", "deserved"):
            limit = amount(spec, field) if field in spec else amount(spec, "capability")
            if field in spec or "capability" in spec:
                assert sum(amount(child, field) for child in children) <= limit


def amount(spec: Mapping[str, Any], field: str) -> int:
    found = spec.get(field, {})
    return int(found.get("resource", found).get(WHOLE, 0))
