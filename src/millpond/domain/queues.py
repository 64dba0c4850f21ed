"""Queues: the tree root → tenant → (project →) leaf, each with guarantee ≤ deserved ≤ cap per dimension.

A dimension is ``cards`` (all cards, milli-cards) or a card model.  Leaf names are ``tenant[/project]/class``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.names import label_parse

CARDS = "cards"
"""The dimension that counts every card, whatever its model."""

Dimensions = Mapping[str, int]
"""Milli-cards per dimension; what an absent name means depends on the field (scheduling §1)."""


class Dequeue(StrEnum):
    TRAVERSE = "traverse"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True)
class CardHours:
    """A budget in milli-card-hours."""

    limit: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """One configured queue, leaf or inner, as written.  Unset amounts are ``None`` (meaning: scheduling §1)."""

    name: str
    klass: QueueClass | None = None
    guarantee: Dimensions | None = None
    deserved: Dimensions | None = None
    cap: Dimensions | None = None
    lend: bool = True
    dequeue: Dequeue = Dequeue.TRAVERSE
    card_hours: CardHours | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def leaf(self) -> bool:
        return self.klass is not None


def queue_parent(name: str) -> str:
    """``trade/prod`` → ``trade``; a tenant's parent is the root, named by the empty string."""
    return name.rpartition("/")[0]


def queue_ancestors(name: str) -> tuple[str, ...]:
    """The queue itself, then its parents, the root last (as the empty string)."""
    chain = [name]
    while chain[-1]:
        chain.append(queue_parent(chain[-1]))
    return tuple(chain)


def queue_tenant(name: str) -> str:
    return name.partition("/")[0]


def queue_name_parse(text: str) -> str:
    """``tenant``, ``tenant/project``, ``tenant/class`` or ``tenant/project/class``."""
    parts = text.split("/")
    if not 1 <= len(parts) <= 3:
        raise InvalidInput(f"{text[:80]!r} is not a queue name", hint="write tenant/class or tenant/project/class")
    for part in parts:
        label_parse(part, "queue")
    return text


def leaf_names(tenant: str, project: str, klass: QueueClass) -> tuple[str, ...]:
    """Where a job may go, the best first: its project's leaf if there is one, else its tenant's."""
    own = f"{tenant}/{klass.value}"
    return (f"{tenant}/{project}/{klass.value}", own) if project else (own,)
