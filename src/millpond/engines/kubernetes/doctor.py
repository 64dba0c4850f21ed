"""What is wrong with the configuration of Volcano's scheduler, and what to change.

Volcano accepts a great deal that it then does not do, and says so in its log only.  These are the settings on which
millpond's promises rest there: pins, gangs, the tree of queues, and who may be evicted.

Sources, in Volcano 1.14: ``pkg/scheduler/util.go`` (an unknown action makes the whole file invalid, and what was in
force before, at first the built-in configuration, stays), ``framework/session_plugins.go`` (victims: the first tier
with an answer decides alone), ``plugins/factory.go`` and ``actions/factory.go`` (names), ``plugins/predicates`` (pins),
``plugins/gang`` (who may leave a gang).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ACTIONS = frozenset({"allocate", "backfill", "enqueue", "preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim"})
"""The last two are of newer versions."""

PLUGINS = frozenset(
    {
        "binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang", "network-topology-aware",
        "nodegroup", "nodeorder", "numa-aware", "overcommit", "pdb", "predicates", "priority", "proportion",
        "rescheduling", "resource-strategy-fit", "resourcequota", "sla", "task-topology", "tdm", "usage",
    }
)  # fmt: skip

_VOTERS = frozenset({"conformance", "drf", "gang", "pdb", "priority", "tdm"})
"""Plugins with an opinion on who may be evicted, `capacity` apart."""


class Level(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to change.  ``code`` is stable; ``message`` says what happens now, ``remedy`` what to do."""

    level: Level
    code: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Plugin:
    tier: int
    name: str
    options: Mapping[str, Any]

    def on(self, option: str) -> bool:
        """Whether a switch is on; they are, unless the file says no."""
        return self.options.get(option) is not False


def scheduler_findings(config: object, *, fractions: bool = False) -> tuple[Finding, ...]:
    """What to change in a scheduler's configuration, as read from its YAML, gravest first.

    ``fractions``: whether parts of cards are to be given out, which needs one more plugin.
    """
    actions = _actions(config)
    plugins = _plugins(config)
    if actions is None or plugins is None:
        text = "Volcano cannot read its configuration, and keeps the one before it"
        return (Finding(Level.ERROR, "UNREADABLE", text, "give it 'actions' (a string with commas) and 'tiers'"),)
    found = [
        *_about_actions(actions),
        *_about_plugins(plugins, fractions=fractions),
        *_about_queues(plugins),
        *_about_victims(actions, plugins),
    ]
    return tuple(sorted(found, key=lambda finding: finding.level is not Level.ERROR))


def _actions(config: object) -> list[str] | None:
    if not isinstance(config, Mapping) or not isinstance(config.get("actions"), str):
        return None
    return [word.strip() for word in config["actions"].split(",")]


def _plugins(config: object) -> list[_Plugin] | None:
    tiers = config.get("tiers") if isinstance(config, Mapping) else None
    if not isinstance(tiers, list):
        return None
    plugins: list[_Plugin] = []
    for number, tier in enumerate(tiers):
        entries = tier.get("plugins") if isinstance(tier, Mapping) else None
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            return None
        plugins += [_Plugin(number, str(entry.get("name", "")), entry) for entry in entries]
    return plugins


def _about_actions(actions: list[str]) -> Iterator[Finding]:
    for action in actions:
        if action not in ACTIONS:
            near = action.lower() if action.lower() in ACTIONS else ""
            text = f"Volcano does not know the action {action!r}, so it ignores this whole file"
            remedy = f"write {near}" if near else f"remove it; there are {', '.join(sorted(ACTIONS))}"
            yield Finding(Level.ERROR, "UNKNOWN_ACTION", text, remedy)
    if "allocate" not in actions:
        yield Finding(Level.ERROR, "NO_ALLOCATE", "no pod is ever bound", "add the action allocate")
    if "enqueue" in actions:
        text = "jobs wait outside the queue while the cluster is full, so nothing is ever reclaimed for them"
        yield Finding(Level.WARNING, "ENQUEUE", text, "remove the action enqueue")


def _about_plugins(plugins: list[_Plugin], *, fractions: bool) -> Iterator[Finding]:
    names = {plugin.name for plugin in plugins}
    for name in sorted(names - PLUGINS):
        text = f"Volcano does not know the plugin {name!r} and goes on without it"
        yield Finding(Level.WARNING, "UNKNOWN_PLUGIN", text, "correct its name, or remove it")
    if "gang" not in names:
        yield Finding(Level.ERROR, "NO_GANG", "parts of a gang run alone", "add the plugin gang to the first tier")
    predicates = next((plugin for plugin in plugins if plugin.name == "predicates"), None)
    given = predicates.options.get("arguments") if predicates else None
    affinity = given.get("predicate.NodeAffinityEnable", True) if isinstance(given, Mapping) else True
    if predicates is None or not predicates.on("enablePredicate") or str(affinity).lower() == "false":
        text = "pods are bound to other nodes than the planned ones"
        yield Finding(Level.ERROR, "NO_PINS", text, "add the plugin predicates with its node affinity on")
    if fractions and "deviceshare" not in names:
        text = "parts of cards are not counted"
        yield Finding(Level.ERROR, "NO_FRACTIONS", text, "add the plugin deviceshare with deviceshare.VGPUEnable: true")


def _about_queues(plugins: list[_Plugin]) -> Iterator[Finding]:
    capacity = next((plugin for plugin in plugins if plugin.name == "capacity"), None)
    proportion = any(plugin.name == "proportion" for plugin in plugins)
    if capacity is None:
        now = "queues share by weight" if proportion else "queues have no limits"
        remedy = "replace proportion by capacity" if proportion else "add the plugin capacity"
        yield Finding(Level.ERROR, "NO_CAPACITY", f"{now}, whatever their quotas say", f"{remedy}, in the first tier")
        return
    if proportion:
        text = "capacity and proportion contradict each other on every queue"
        yield Finding(Level.ERROR, "TWO_BOOKS", text, "remove the plugin proportion")
    if capacity.options.get("enableHierarchy") is not True:
        text = "queues below others are treated as if they stood alone"
        yield Finding(Level.ERROR, "NO_TREE", text, "set enableHierarchy: true on the plugin capacity")


def _about_victims(actions: list[str], plugins: list[_Plugin]) -> Iterator[Finding]:
    evicting = {"preempt", "reclaim"}.intersection(actions)
    whole = {"gangpreempt", "gangreclaim"}.intersection(actions)
    if evicting and whole:
        text = f"{', '.join(sorted(evicting | whole))} evict for the same jobs, each by its own rules"
        yield Finding(Level.ERROR, "MIXED_EVICTION", text, "keep preempt and reclaim, or the two with gang, not both")
    if "reclaim" not in actions and "gangreclaim" not in actions:
        text = "nobody takes back what pods outside of millpond have borrowed"
        yield Finding(Level.WARNING, "NO_RECLAIM", text, "add the action reclaim behind allocate")
        return
    capacity = next((plugin for plugin in plugins if plugin.name == "capacity"), None)
    before = [
        plugin.name
        for plugin in plugins
        if capacity and plugin.tier < capacity.tier and plugin.name in _VOTERS and plugin.on("enableReclaimable")
    ]
    if before:
        text = f"pods within their queue's quota are evicted: {', '.join(before)} decide in a tier before capacity"
        yield Finding(Level.ERROR, "TIER_TRAP", text, "put capacity into the same tier as they are, the first")
    gang = next((plugin for plugin in plugins if plugin.name == "gang"), None)
    if gang and evicting and (gang.on("enablePreemptable") or gang.on("enableReclaimable")):
        text = "of a running gang only pods above its minimum can be evicted, so a whole gang never makes room"
        remedy = "set enablePreemptable and enableReclaimable to false on the plugin gang"
        yield Finding(Level.WARNING, "GANG_SHIELDED", text, remedy)
