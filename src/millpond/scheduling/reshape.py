"""How the cards on which slices start must be divided (scheduling §6): what is in use there, and what starts."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.scheduling.decisions import Reshape, Start
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind


def reshapes(state: State, starts: Iterable[Start]) -> tuple[Reshape, ...]:
    """The geometry of every card on which one of `starts` takes a slice, in order of node and card.

    ``state`` is that after the pass, with the starts in their seats.  Slices that run or leave stay where they are.
    """
    found: dict[tuple[str, int], list[tuple[int, str]]] = {
        (seat.node, card): [] for start in starts for seat in start.seats if seat.slice for card in seat.cards
    }
    if not found:
        return ()
    for task in state.tasks.values():
        if task.kind is Kind.HELD:
            continue
        for seat in task.seats:
            for card in seat.cards:
                if seat.slice and seat.slot is not None and (seat.node, card) in found:
                    found[seat.node, card].append((seat.slot, seat.slice))
    ordered = sorted(found, key=lambda place: (state.pool.by_name[place[0]].index, place[1]))
    return tuple(
        Reshape(node, card, tuple((profile, slot) for slot, profile in sorted(found[node, card])))
        for node, card in ordered
    )
