"""Nodes and cards."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from millpond.api.schemas.base import Schema


class NodeCondition(StrEnum):
    """The worst that is true of a node."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    LOST = "lost"


class NodeCards(Schema):
    """The cards of a node, all of one model."""

    model: str = Field(description="Model, such as A800-80GB.")
    vendor: str = Field(description="Vendor, such as nvidia.")
    memory: int = Field(description="MiB of one card.")
    count: int = Field(description="Cards.")
    islands: list[list[int]] = Field(description="Sets of cards joined by fast links.")
    mig: bool = Field(description="Whether the cards can be divided into slices.")


class Node(Schema):
    """A node, what is wrong with it and what is taken of it."""

    name: str = Field(description="Name.")
    engine: str = Field(description="Engine that it belongs to.")
    simulated: bool = Field(description="Its cards are declared, not real.")
    condition: NodeCondition = Field(description="The worst that is true of it.")
    cpu: int = Field(description="milli-CPU; 0: not counted.")
    memory: int = Field(description="MiB; 0: not counted.")
    cards: NodeCards | None = Field(description="Its cards; null: none.")
    bad_cards: dict[int, str] = Field(description="Quarantined cards by index, with the cause.")
    used: int = Field(description="Milli-cards taken.")
    used_cpu: int = Field(description="milli-CPU taken.")
    used_memory: int = Field(description="MiB taken.")
    jobs: int = Field(description="Attempts that sit here, of all tenants.")
    labels: dict[str, str] = Field(description="Labels.")
    taints: list[str] = Field(description="Taints.")
    seen_at: datetime | None = Field(description="When the engine last reported it.")


class CardUse(Schema):
    """A share of a card in use.  Names are empty if the caller may not see the job."""

    job: str = Field(description="Job; empty if hidden.")
    attempt: str = Field(description="Attempt; empty if hidden.")
    tenant: str = Field(description="Tenant; empty if hidden.")
    user: str = Field(description="Owner; empty if hidden.")
    milli: int = Field(description="Milli-cards; of a slice, its share of the memory.")
    slice: str = Field(default="", description="MIG profile, if it is a slice.")
    slot: int | None = Field(default=None, description="Memory slot where the slice begins.")
    draining: bool = Field(description="It was asked to leave.")


class CardHealth(StrEnum):
    OK = "ok"
    QUARANTINED = "quarantined"
    LOST = "lost"


class Card(Schema):
    """One card."""

    node: str = Field(description="Its node.")
    index: int = Field(description="Its index on the node.")
    uuid: str = Field(description="The vendor's id; empty if simulated.")
    vendor: str = Field(description="Vendor.")
    model: str = Field(description="Model.")
    memory: int = Field(description="MiB.")
    simulated: bool = Field(description="Declared, not real.")
    health: CardHealth = Field(description="Whether it can be used.")
    cause: str = Field(description="Why it is quarantined.")
    used: int = Field(description="Milli-cards taken; 1000 = whole.")
    uses: list[CardUse] = Field(description="Who takes it.")


class FaultCreate(Schema):
    """Trouble made on purpose, on simulated pools only."""

    cause: str = Field(default="made on purpose", max_length=200, description="What to write down as the cause.")
