"""A full pool into which guaranteed claims break: what the planner must decide in a morning's rush."""

from __future__ import annotations

from dataclasses import replace

from benchmarks import openb
from benchmarks.openb import Draws
from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.scheduling.snapshot import Job, NodeState, RunState, Seat, Snapshot

NOW = 1_000_000
CARDS_EACH = 8
TENANTS = tuple(f"team{number}" for number in range(1, 9))
CLAIMS = ("8", "8", "4", "2", "1", "0.5", "8x2", "8x4")
"""What claims ask for: cards, and the nodes of a gang."""


def storm_make(nodes: int, claims: int, seed: int = 42) -> tuple[Snapshot, list[Job]]:
    """A pool of `nodes` × 8 cards, full of preemptible jobs, and the claims that come.

    The jobs are openb's pods with cards (fractions, whole cards, whole nodes; CPU left out), a third of them in
    best-effort leaves as there (LS against BE), the others in batch leaves of which each tenant deserves half of what
    it runs.  Claims are prod jobs, preemptible and within their guarantee, one tenant after the other.
    """
    draws = Draws(seed)
    kind = CardKind("A800-80GB", "nvidia", 81_920, CARDS_EACH)
    states = tuple(NodeState(NodeSpec(f"n{number}", 128_000, 2_097_152, kind)) for number in range(1, nodes + 1))
    running = _running(draws, states)
    share = nodes * CARDS_EACH * 1000 // len(TENANTS)
    queues: list[QueueConfig] = []
    for tenant in TENANTS:
        prod, batch = share // 5, share // 3
        queues += [
            QueueConfig(f"{tenant}/prod", QueueClass.PROD, {CARDS: prod}, {CARDS: prod}),
            QueueConfig(f"{tenant}/batch", QueueClass.BATCH, None, {CARDS: batch}),
            QueueConfig(f"{tenant}/besteffort", QueueClass.BESTEFFORT),
        ]
    return Snapshot(NOW, states, tuple(queues), tuple(running)), [_claim(number) for number in range(claims)]


def _running(draws: Draws, states: tuple[NodeState, ...]) -> list[Job]:
    """Jobs until the pool is full: each node is filled in turn with pods that still fit it."""
    pods = [pod for pod in openb.pods_read("default") if pod.shape.cards]
    jobs: list[Job] = []
    for state in states:
        free = [1000] * CARDS_EACH
        misses = 0
        while misses < 8 and any(free):
            pod = pods[draws.below(len(pods))]
            cards = [card for card, left in enumerate(free) if left >= pod.shape.milli][: pod.shape.cards]
            if len(cards) < pod.shape.cards:
                misses += 1
                continue
            for card in cards:
                free[card] -= pod.shape.milli
            jobs.append(_job(draws, len(jobs), pod, Seat(state.spec.name, tuple(cards), pod.shape.milli)))
    return jobs


def _job(draws: Draws, number: int, pod: openb.Pod, seat: Seat) -> Job:
    tenant = TENANTS[draws.below(len(TENANTS))]
    klass = "besteffort" if draws.below(3) == 0 else "batch"
    started = NOW - 60 - draws.below(20_000)
    return Job(
        id=f"r{number}",
        queue=f"{tenant}/{klass}",
        gpu=_request(pod.shape.volume),
        priority=(10, 50, 50, 50, 90)[draws.below(5)],
        state=RunState.RUNNING,
        seats=(seat,),
        submitted=started - 100,
        started=started,
        checkpointed=started + draws.below(NOW - started) if draws.below(2) else None,
    )


def _request(milli: int) -> CardRequest:
    return card_request_parse(f"{milli // 1000}" if milli >= 1000 else f"0.{milli:03d}")


def _claim(number: int) -> Job:
    """The tenants take turns, and each comes with every kind of claim in time."""
    cards, _, nodes = CLAIMS[number % len(CLAIMS)].partition("x")
    tenant = TENANTS[(number + number // len(CLAIMS)) % len(TENANTS)]
    claim = Job(f"claim{number:04d}", f"{tenant}/prod", card_request_parse(cards))
    return replace(claim, nodes=int(nodes or 1), submitted=NOW, priority=50)
