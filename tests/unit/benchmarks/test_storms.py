"""Storms of B6 are what they say: full pools, legal seats, claims that their guarantees cover."""

from __future__ import annotations

from collections import Counter

from benchmarks.peers.storms import CARDS_EACH, storm_make

from millpond.domain.queues import CARDS


def test_the_pool_is_full_and_no_card_twice() -> None:
    snapshot, _ = storm_make(40, 8)
    taken: Counter[tuple[str, int]] = Counter()
    for job in snapshot.jobs:
        for seat in job.seats:
            taken.update({(seat.node, card): seat.milli for card in seat.cards})
            assert seat.milli * len(seat.cards) == job.gpu.milli
    assert max(taken.values()) <= 1000
    assert sum(taken.values()) > 0.9 * 40 * CARDS_EACH * 1000
    assert {job.queue.rpartition("/")[2] for job in snapshot.jobs} == {"batch", "besteffort"}


def test_claims_stay_within_their_guarantees() -> None:
    snapshot, claims = storm_make(500, 64)
    asked: Counter[str] = Counter()
    for claim in claims:
        asked[claim.queue] += claim.gpu.milli * claim.nodes
    guarantee = {queue.name: (queue.guarantee or {}).get(CARDS, 0) for queue in snapshot.queues}
    assert all(milli <= guarantee[name] for name, milli in asked.items())
    assert sum(guarantee.values()) <= 500 * CARDS_EACH * 1000


def test_storms_repeat() -> None:
    assert storm_make(20, 4) == storm_make(20, 4)
    assert storm_make(20, 4, seed=1) != storm_make(20, 4)
