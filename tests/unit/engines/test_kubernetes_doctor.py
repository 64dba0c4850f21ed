"""The doctor of Volcano's configuration: a good one has no findings, and each known mistake has its own."""

from __future__ import annotations

import re

import pytest
import yaml

from millpond.engines.kubernetes.doctor import Level, scheduler_findings
from tests.kube.commands import CONFIG

GOOD = (CONFIG / "scheduler.yaml").read_text()

SHIPPED = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""What Volcano's chart installs (installer/helm/chart/volcano/config/volcano-scheduler.conf)."""


def codes(text: str, *, fractions: bool = False) -> list[str]:
    return [finding.code for finding in scheduler_findings(yaml.safe_load(text), fractions=fractions)]


def changed(old: str, new: str) -> str:
    """The good configuration with one thing changed."""
    text = re.sub(old, new, GOOD)
    assert text != GOOD
    return text


def test_configuration_of_the_tests_is_good() -> None:
    assert codes(GOOD) == []


def test_configuration_that_volcano_ships() -> None:
    assert codes(SHIPPED) == ["NO_CAPACITY", "ENQUEUE", "NO_RECLAIM"]


def test_capacity_in_the_second_tier() -> None:
    """As Volcano's own guide has it; pods at their guarantee are evicted then."""
    moved = changed(r"  - name: capacity\n    enableHierarchy: true\n", "").replace(
        "- plugins:\n  - name: predicates",
        "- plugins:\n  - name: capacity\n    enableHierarchy: true\n  - name: predicates",
    )
    (finding,) = scheduler_findings(yaml.safe_load(moved))
    assert (finding.level, finding.code) == (Level.ERROR, "TIER_TRAP")
    assert finding.message.endswith("priority, conformance decide in a tier before capacity")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("preempt, backfill", "gangPreempt, backfill", ["UNKNOWN_ACTION"]),
        ("allocate, ", "", ["NO_ALLOCATE"]),
        ("allocate, ", "enqueue, allocate, ", ["ENQUEUE"]),
        ("reclaim, ", "", ["NO_RECLAIM"]),
        ("preempt, ", "preempt, gangreclaim, ", ["MIXED_EVICTION"]),
        ("    enableHierarchy: true\n", "", ["NO_TREE"]),
        ("  - name: capacity\n", "  - name: proportion\n  - name: capacity\n", ["TWO_BOOKS"]),
        ("  - name: predicates\n", "", ["NO_PINS"]),
        (
            "  - name: predicates\n",
            "  - name: predicates\n    arguments: {predicate.NodeAffinityEnable: false}\n",
            ["NO_PINS"],
        ),
        ("    enableReclaimable: false\n", "", ["GANG_SHIELDED"]),
        ("  - name: gang\n    enablePreemptable: false\n    enableReclaimable: false\n", "", ["NO_GANG"]),
        ("name: nodeorder", "name: nodeOrder", ["UNKNOWN_PLUGIN"]),
        ("actions: .*", "actions: [allocate]", ["UNREADABLE"]),
        ("tiers:", "tier:", ["UNREADABLE"]),
        ("- plugins:", "- plugin:", ["UNREADABLE"]),
    ],
)
def test_each_mistake_is_found(old: str, new: str, expected: list[str]) -> None:
    assert codes(changed(old, new)) == expected


def test_unknown_action_names_the_right_one() -> None:
    (finding,) = scheduler_findings(yaml.safe_load(changed("preempt, backfill", "gangPreempt, backfill")))
    assert finding.remedy == "write gangpreempt"


def test_fractions_need_their_plugin() -> None:
    assert codes(GOOD, fractions=True) == ["NO_FRACTIONS"]


@pytest.mark.parametrize("nothing", [None, "", [], {"actions": None}, {"actions": "allocate", "tiers": [None]}])
def test_what_is_no_configuration(nothing: object) -> None:
    assert [finding.code for finding in scheduler_findings(nothing)] == ["UNREADABLE"]
