"""What a placement does to the worth of a node: ``worth after - worth before``, as integers (scheduling §6).

A score is one number: the change of worth above, what decides between equals below it.  Equal scores are left to the
order of the nodes.  Between equals the fullest card is taken for a share, the tightest node for the rest.
"""

from __future__ import annotations

from typing import Final

from millpond.domain.amounts import CARD
from millpond.scheduling.fit import Ask, cards_enough
from millpond.scheduling.pool import View
from millpond.scheduling.prices import CPU_MAX, CURVE_END, CURVE_STEP, GROUPS_MAX, Book

TIE_BITS: Final = 28
"""Bits below the change of worth.  A node of 4096 cards still fits 63 bits."""

NEVER: Final = -(1 << 62)
"""The score of a node that the ask does not fit."""

CARD_SHIFT: Final = 18
"""A share's tie: the milli-cards left on the card, idle cards, milli-cards left on opened cards."""
SHARE_IDLE_SHIFT: Final = 13
SHARE_IDLE_MAX: Final = 31
SHARE_PARTIAL_MAX: Final = 8191

IDLE_SHIFT: Final = 16
"""The tie of whole cards: idle cards, milli-cards left on opened ones; without cards: idle cards, free CPU."""
IDLE_MAX: Final = 4095
REST_MAX: Final = 65_535
CPU_SHIFT: Final = 5

_STEP: Final = 1 << CURVE_STEP


class Cell:
    """What scoring needs of one node.  ``worth`` is the sum over its cards, ``partial`` what opened cards have left."""

    __slots__ = ("before_cards", "before_none", "cpu", "free", "idle", "largest", "memory", "partial", "worth")

    def __init__(self) -> None:
        self.free: list[int] = []
        self.idle = 0
        self.largest = 0
        self.partial = 0
        self.cpu = 0
        self.memory = 0
        self.worth = 0
        self.before_cards = 0
        self.before_none = 0

    def load(self, view: View, book: Book) -> None:
        partial = 0
        for free in view.free:
            if 0 < free < CARD:
                partial += free
        self.free = view.free
        self.idle = view.idle
        self.largest = view.largest
        self.partial = partial
        self.cpu = view.cpu
        self.memory = view.memory
        self.value(book)

    def value(self, book: Book) -> None:
        """What the node is worth by a book."""
        worth = self.idle * book.worth[CARD]
        if self.partial:
            table = book.worth
            for free in self.free:
                if 0 < free < CARD:
                    worth += table[free]
        self.worth = worth
        self.before_cards = cards_value(book, worth, self.idle, self.cpu)
        self.before_none = usable(book.curve_none, book.ratio_none, self.cpu, worth)


def usable(curve: list[int], ratio: int, cpu: int, worth: int) -> int:
    """The part of `worth` that `cpu` milli-CPU can serve, between two steps of the curve by the straight line."""
    if worth <= 0 or not ratio:
        return worth
    place = min(max(cpu, 0), CPU_MAX) * ratio // worth
    if place >= CURVE_END:
        return worth
    step = place >> CURVE_STEP
    low = curve[step]
    part = low + ((curve[step + 1] - low) * (place & (_STEP - 1)) >> CURVE_STEP)
    return worth * part >> 24


def cards_value(book: Book, worth: int, idle: int, cpu: int) -> int:
    """Worth of a node to jobs with cards."""
    return usable(book.curve_cards, book.ratio_cards, cpu, worth) + book.groups[min(idle, GROUPS_MAX)]


def cell_score(cell: Cell, ask: Ask, book: Book) -> int:
    """The score of an ask on one node, `NEVER` where it does not fit.  Links inside the node are not looked at."""
    if (ask.cpu and cell.cpu < ask.cpu) or (ask.memory and cell.memory < ask.memory):
        return NEVER
    milli = ask.milli
    cpu = cell.cpu - ask.cpu
    if milli >= CARD:
        return _whole_score(cell, milli // CARD, cpu, book)
    if milli:
        return _share_best(cell, milli, cpu, book)[0] if cell.largest >= milli else NEVER
    value = usable(book.curve_none, book.ratio_none, cpu, cell.worth) - cell.before_none
    return (value << TIE_BITS) - (min(cell.idle, IDLE_MAX) << IDLE_SHIFT) - min(max(cell.cpu, 0) >> CPU_SHIFT, REST_MAX)


def _whole_score(cell: Cell, whole: int, cpu: int, book: Book) -> int:
    if cell.idle < whole:
        return NEVER
    value = cards_value(book, cell.worth - whole * book.worth[CARD], cell.idle - whole, cpu) - cell.before_cards
    return (value << TIE_BITS) - (min(cell.idle, IDLE_MAX) << IDLE_SHIFT) - min(cell.partial, REST_MAX)


def _share_best(cell: Cell, milli: int, cpu: int, book: Book) -> tuple[int, int]:
    """The best score of a share on one node, and the milli-cards left on the card that gives it."""
    best, chosen, seen = NEVER, 0, 0
    for free in cell.free:
        if free < milli or free == seen:
            continue
        seen = free
        score = share_score(cell, milli, free, cpu, book)
        if score > best:
            best, chosen = score, free
    return best, chosen


def share_score(cell: Cell, milli: int, free: int, cpu: int, book: Book) -> int:
    """The score of a share on a card of the node that has `free` milli-cards left; ``cpu`` is what the node keeps."""
    worth = cell.worth - book.worth[free] + book.worth[free - milli]
    value = cards_value(book, worth, cell.idle - 1 if free == CARD else cell.idle, cpu) - cell.before_cards
    tie = (min(cell.idle, SHARE_IDLE_MAX) << SHARE_IDLE_SHIFT) + min(cell.partial, SHARE_PARTIAL_MAX)
    return (value << TIE_BITS) - (free << CARD_SHIFT) - tie


def view_score(view: View, ask: Ask, book: Book) -> int:
    """The score of an ask on a node as `view` shows it, links included."""
    if ask.linked and not cards_enough(view, ask):
        return NEVER
    cell = Cell()
    cell.load(view, book)
    return cell_score(cell, ask, book)


def card_choose(view: View, ask: Ask, book: Book) -> int:
    """The card on which a share is best; the view must fit it.  The first of equals."""
    cell = Cell()
    cell.load(view, book)
    return cell_card(cell, ask, book)


def cell_card(cell: Cell, ask: Ask, book: Book) -> int:
    """As `card_choose`, of a cell."""
    return cell.free.index(_share_best(cell, ask.milli, cell.cpu - ask.cpu, book)[1])
