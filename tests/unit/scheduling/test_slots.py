"""What a node offers slices: which cards have slots at all, and how much of them some placement can still reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.scheduling.pool import View
from millpond.scheduling.slices import slice_capacity, slice_free, slice_seats, slice_spots
from millpond.scheduling.snapshot import Job, NodeState, Seat
from millpond.scheduling.state import State
from tests.builders import node, queue, running, snapshot

A100 = {"model": "A100-40GB", "memory": 40_960}


def view(at: NodeState, *jobs: Job) -> View:
    """What a node offers beside these jobs."""
    return State(snapshot([at], [queue("b/besteffort")], jobs)).pool.by_name[at.spec.name].soon()


def sliced(profile: str, slot: int) -> Job:
    """A slice on the first card of n1."""
    seats = (Seat("n1", (0,), 119, profile, slot),)
    return replace(running("r", "b/besteffort", "n1", f"mig-{profile}"), seats=seats)


def test_cards_that_cannot_be_divided_have_no_slots() -> None:
    offer = view(node("n1", 2, model="RTX-4090", memory=24_576))
    assert slice_free(offer) == 0
    assert slice_capacity(offer, "1g.5gb") == 0
    assert slice_spots(offer, "1g.5gb", 1) is None


def test_a_profile_of_other_cards_fits_nowhere() -> None:
    """1g.6gb is a slice of an A30."""
    offer = view(node("n1", 2, **A100))  # type: ignore[arg-type]
    assert (slice_capacity(offer, "1g.6gb"), slice_spots(offer, "1g.6gb", 1)) == (0, None)
    assert slice_capacity(offer, "1g.5gb") == 14


def test_a_slice_shuts_the_slots_that_no_placement_reaches_beside_it() -> None:
    """1g.5gb sits at slot 6; only the whole card's profile would reach slot 7, so that six of eight are left."""
    offer = view(node("n1", 2, **A100), sliced("1g.5gb", 6))  # type: ignore[arg-type]
    assert slice_free(offer, beside=True) == 750
    assert slice_free(offer) == 750 + 1000


def test_seats_are_only_for_slices_that_fit() -> None:
    offer = view(node("n1", 1, **A100), sliced("4g.20gb", 0))  # type: ignore[arg-type]
    assert [seat.slot for seat in slice_seats(offer, "3g.20gb", 1)] == [4]
    with pytest.raises(AssertionError, match=r"n1 does not take 2 slices of 3g\.20gb"):
        slice_seats(offer, "3g.20gb", 2)
