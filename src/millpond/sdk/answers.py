"""Answers of the API as typed dictionaries: exactly its JSON (``openapi.json`` has each field's meaning).

Times are ISO 8601 in UTC; amounts are whole milli-cards, milli-CPU, MiB and seconds.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Amounts = dict[str, int]


class Seat(TypedDict):
    node: str
    cards: list[int]
    milli: int
    slice: NotRequired[str]
    slot: NotRequired[int | None]


class Reason(TypedDict):
    code: str
    text: str
    need: NotRequired[int | None]
    have: NotRequired[int | None]
    limit: NotRequired[int | None]
    free: NotRequired[int | None]
    jobs: NotRequired[list[str]]
    queue: NotRequired[str]
    until: NotRequired[str | None]


class Job(TypedDict):
    id: str
    name: str
    tenant: str
    project: str
    user: str
    queue: str
    type: str
    state: str
    queued_as: str | None
    priority: int
    nodes: int
    ranks: int
    gpu: str
    milli: int
    submitted_at: str
    started_at: str | None
    finished_at: str | None
    not_before: str | None
    held: bool
    cancel: bool
    attempts: int
    retries_spent: int
    checkpointed: bool
    reason: str | None
    exit_code: int | None
    message: str
    blocked: list[str]
    placement: list[Seat]
    deadline_at: str | None
    spec: dict[str, Any]


class Attempt(TypedDict):
    id: str
    job: str
    number: int
    state: str
    placement: list[Seat]
    milli: int
    planned_at: str
    started_at: str | None
    ready_at: str | None
    checkpointed_at: str | None
    draining_at: str | None
    deadline_at: str | None
    drain_reason: str | None
    drain_for: str
    ended_at: str | None
    reason: str | None
    exit_code: int | None
    lost_milli_seconds: int
    message: str


class JobChange(TypedDict):
    job: Job
    position: int | None
    reasons: list[Reason]


class LogText(TypedDict):
    attempt: str
    rank: int
    offset: int
    text: str
    end: bool


class LogPiece(TypedDict):
    """One event of a job's output: kind ``attempt`` (a new attempt begins), ``log`` or ``end``."""

    kind: str
    rank: int
    text: str
    attempt: str
    state: str
    exit_code: int | None


class Ahead(TypedDict):
    job: str
    name: NotRequired[str]
    user: str
    tenant: str
    queue: str
    milli: int
    since: str


class Hold(TypedDict):
    placement: list[Seat]
    until: str
    victims: list[str]


class Counterfactual(TypedDict):
    change: str
    starts_now: bool
    kind: NotRequired[str]
    value: NotRequired[str]
    at: NotRequired[str | None]


class Eta(TypedDict):
    p10: str
    p50: str
    p90: str | None
    made_at: str


class Reservation(TypedDict):
    at: str
    placement: list[Seat]


class Explanation(TypedDict):
    at: str
    job: str
    name: str
    queue: str
    state: str
    rank: str | None
    position: int | None
    pool_position: int | None
    starts_now: bool
    eta: str | None
    reasons: list[Reason]
    ahead: list[Ahead]
    hold: Hold | None
    reservation: NotRequired[Reservation | None]
    forecast: NotRequired[Eta | None]
    counterfactuals: list[Counterfactual]
    simulated: bool


class Event(TypedDict):
    sequence: int
    source: str
    source_sequence: int
    time: str
    kind: str
    actor: str
    tenant: str
    job: str
    attempt: str
    data: dict[str, Any]
    previous: str
    hash: str


class NodeCards(TypedDict):
    model: str
    vendor: str
    memory: int
    count: int
    islands: list[list[int]]
    mig: bool


class Node(TypedDict):
    name: str
    engine: str
    simulated: bool
    condition: str
    cpu: int
    memory: int
    cards: NodeCards | None
    bad_cards: dict[str, str]
    used: int
    used_cpu: int
    used_memory: int
    jobs: int
    labels: dict[str, str]
    taints: list[str]
    seen_at: str | None


class CardUse(TypedDict):
    job: str
    attempt: str
    tenant: str
    user: str
    milli: int
    slice: str
    slot: int | None
    draining: bool


class Card(TypedDict):
    node: str
    index: int
    uuid: str
    vendor: str
    model: str
    memory: int
    simulated: bool
    health: str
    cause: str
    used: int
    uses: list[CardUse]


Queue = TypedDict(
    "Queue",
    {
        "name": str,
        "parent": str,
        "class": str | None,
        "guarantee": Amounts,
        "deserved": Amounts,
        "cap": Amounts,
        "used": Amounts,
        "pending": int,
        "running_jobs": int,
        "waiting_jobs": int,
        "lend": bool,
        "dequeue": str,
        "card_hours": NotRequired[dict[str, int] | None],
        "configured": NotRequired[bool],
    },
)


class QueueTree(TypedDict):
    at: str
    pool: Amounts
    used: Amounts
    simulated: bool
    items: list[Queue]


class PoolJob(TypedDict):
    job: str
    name: str
    tenant: str
    project: str
    user: str
    queue: str
    type: str | None
    state: str
    rank: str | None
    milli: int
    gpu: str
    nodes: int
    priority: int | None
    since: str
    position: int | None
    pool_position: int | None
    reason: Reason | None
    placed: list[str]
    forecast: NotRequired[Eta | None]


class PoolView(TypedDict):
    at: str
    pool: Amounts
    used: Amounts
    simulated: bool
    running: list[PoolJob]
    waiting: list[PoolJob]


class QueueAccuracy(TypedDict):
    queue: str
    judged: int
    held: int
    open: int
    median_error: int | None
    median_width: int | None


class Accuracy(TypedDict):
    at: str
    since: str
    items: list[QueueAccuracy]


class QuotaChange(TypedDict):
    name: str
    change: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class QuotaResult(TypedDict):
    dry_run: bool
    changes: list[QuotaChange]
    unchanged: int
    warnings: list[str]


class Tenant(TypedDict):
    name: str
    title: str
    uid: int
    created_at: str


class Project(TypedDict):
    tenant: str
    name: str
    created_at: str


class Member(TypedDict):
    user: str
    tenant: str
    role: str
    created_at: str


class Token(TypedDict):
    id: str
    user: str
    label: str
    scopes: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class TokenCreated(TypedDict):
    token: Token
    secret: str


class TenantRole(TypedDict):
    tenant: str
    role: str


class Whoami(TypedDict):
    user: str
    platform: str | None
    tenants: list[TenantRole]
    scopes: list[str]


class Version(TypedDict):
    version: str
    api: str
    engine: str
    python: str
