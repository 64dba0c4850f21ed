"""Queues as Volcano's: the same tree, as a safety net below the planner.

The net must never hold back what the planner granted, nor take before the planner does:

- *guarantee* of a queue that lends stays unset.  Volcano keeps a guarantee free for its queue even while that is idle
  (its capacity plugin takes the guarantees of others out of what a queue may ever use); ours is lent.  A queue with
  ``lend: false`` wants exactly that, so its guarantee is set.
- *deserved* is ours, in whole cards rounded down, so that the sum of children stays within their parent.  Volcano
  reclaims only for a queue below it and only from queues above theirs, which the planner has settled before.
- *capability* is our cap on all cards, rounded up; Volcano counts resources, which do not tell card models apart.  Its
  webhook takes a parent without one for a parent that may use nothing, as soon as a child has one; such a parent gets
  `UNLIMITED`.
- *reclaimable* is false for ``prod``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millpond.domain.amounts import CARD
from millpond.domain.jobs import QueueClass
from millpond.domain.queues import CARDS, Dimensions, QueueConfig, queue_ancestors, queue_parent
from millpond.engines.kubernetes.amounts import WHOLE, cards_quantity
from millpond.engines.kubernetes.names import MANAGED, priority_class_name, queue_object_name

PRIORITIES = {QueueClass.PROD: 1000, QueueClass.BATCH: 100, QueueClass.BESTEFFORT: 10}
"""Of PriorityClasses.  All below the system's, which begin at two thousand millions."""

UNLIMITED = 1_000_000
"""Cards: more than any cluster has."""


def queues_compile(queues: Iterable[QueueConfig]) -> tuple[dict[str, Any], ...]:
    """The Volcano Queues of a whole tree, parents first, as they have to be created."""
    tree = {queue.name: queue for queue in queues}
    for name in list(tree):
        for above in queue_ancestors(name)[1:-1]:
            tree.setdefault(above, QueueConfig(above))
    caps = {name: _cap(tree, name) for name in tree}
    for name in [name for name, cap in caps.items() if cap is not None]:
        for above in queue_ancestors(name)[1:-1]:
            if caps[above] is None:
                caps[above] = UNLIMITED * CARD
    return tuple(_queue(tree[name], caps[name]) for name in sorted(tree, key=lambda name: (name.count("/"), name)))


def _queue(queue: QueueConfig, cap: int | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "parent": queue_object_name(queue_parent(queue.name)),
        "reclaimable": queue.klass is not QueueClass.PROD,
        "weight": 1,
    }
    guarantee = _cards(queue.guarantee)
    deserved = max(_cards(queue.deserved), guarantee)
    if deserved >= CARD:
        spec["deserved"] = {WHOLE: cards_quantity(deserved, up=False)}
    if guarantee >= CARD and not queue.lend:
        spec["guarantee"] = {"resource": {WHOLE: cards_quantity(guarantee, up=False)}}
    if cap is not None:
        spec["capability"] = {WHOLE: cards_quantity(cap, up=True)}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": queue_object_name(queue.name), "labels": {MANAGED: "millpond"}},
        "spec": spec,
    }


def priority_class_compile(klass: QueueClass) -> dict[str, Any]:
    """The PriorityClass of a leaf's jobs.  It never makes kube-scheduler preempt: who goes is the planner's to say."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": priority_class_name(klass), "labels": {MANAGED: "millpond"}},
        "value": PRIORITIES[klass],
        "globalDefault": False,
        "preemptionPolicy": "Never",
        "description": f"Jobs of millpond's {klass.value} queues.",
    }


def _cap(tree: Mapping[str, QueueConfig], name: str) -> int | None:
    """The tightest cap on all cards on the way up; None = unlimited."""
    found = [tree[above].cap for above in queue_ancestors(name)[:-1]]
    return min((cap[CARDS] for cap in found if cap is not None and CARDS in cap), default=None)


def _cards(amount: Dimensions | None) -> int:
    """All cards of an amount: the dimension of that name, else the sum of the models (scheduling §1)."""
    if amount is None:
        return 0
    return amount[CARDS] if CARDS in amount else sum(amount.values())
