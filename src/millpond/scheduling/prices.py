"""The price book: what free room is worth under an observed mix of requests, as integers (scheduling §6).

Every share of a card has a price, so that cards filled in the best way, and only those, earn the price of a whole card.
What is left of a card is then worth what the shares that still fit into it would pay.  With the frequency ``f(z)`` of
each share size ``z``, a soft knapsack of one card of size 1 is ::

    Z(r) = Σ over multisets of shares that fit into r of exp(B · Σ price)

and prices move until the shares that it expects in a whole card stand to each other as their frequencies do.  Then
``worth(r) = ln Z(r) / B``.  A node is worth what its cards are, as far as its free CPU can serve them, and idle cards
that stand together are worth more.  A card model that many requests are tied to has a price of its own.

Floats are used here and nowhere else in this room: what comes out is rounded to integers, so that whoever calculates
with it, compiled or not, gets the same bytes.  A book is a function of the mix and of the configured cards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.scheduling.mix import Demand

ONE: Final = 1_000_000
"""What one idle card is worth: all values are millionths of it."""

PER_MILLION: Final = 1_000_000

CURVE_UNIT: Final = 1 << 24
"""A curve's value for "all of it"."""

RATIO_UNIT: Final = 1 << 20
"""CPU enough for one card, as an argument of the curves."""

CURVE_STEP: Final = 12
"""Bits of the argument below one step of the curves: 256 steps for one card's CPU."""

CURVE_END: Final = 32 * RATIO_UNIT
"""From here on CPU is no limit."""

RATIO_MAX: Final = 1 << 34
CPU_MAX: Final = 1 << 27
"""Larger milli-CPU count as this much: the products must fit 64 bits."""

GROUPS_MAX: Final = 256
"""More idle cards of one node are worth no more."""

_LEVELS: Final = 100
"""Card remainders are told apart in so many steps at most."""

_ROUNDS: Final = 60
_SHARPNESS: Final = 67.62
"""``B``: how strictly the soft knapsack prefers the best filling."""

_PACE: Final = 0.5
_PACE_LATE: Final = 0.15
_CARDS_CPU: Final = 0.386
_CARDS_POWER: Final = 1.3
_NONE_CPU: Final = 0.55
_NONE_POWER: Final = 0.7536
"""CPU per card at which a node begins to run short, as a part of the mean of the mix, and how suddenly it does: for
jobs with cards, and for those without."""

_EIGHT: Final = 1.0
_FOUR: Final = 0.06145
_TWO: Final = -0.007927
_SPREAD: Final = -0.02823
"""Worth of idle cards that stand together: eight, fours, pairs, and the square of them all."""

_EIGHT_EXPECTED: Final = 0.06
_EIGHT_WEIGHT: Final = 400 * CARD
"""At first, so much of the demand counts as wanting eight cards of one node, whatever was seen; it fades as more demand
than the weight is seen.  Such jobs are rare: to learn of one when no node is empty any more would be too late."""

_TIED: Final = 0.4561
_TIED_MAX: Final = 1.5
"""Price of a card of a model whose demand is its share of the free cards, and the scarcity that counts at most."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """Configured milli-cards of one kind of card."""

    vendor: str
    model: str
    memory: int
    milli: int


@dataclass(frozen=True, slots=True)
class Tuning:
    """Which parts of the score count; all but by default.  For measurements of what each is worth."""

    shares: bool = True
    cpu: bool = True
    cpu_only: bool = True
    groups: bool = True
    models: bool = True


class Book:
    """Tables of one mix.

    ``worth[r]``: of a card with ``r`` milli-cards left.  ``groups[i]``: of ``i`` idle cards on one node.
    ``curve_cards``, ``curve_none``: the part of its cards that a node can still give out with its free CPU, to jobs
    with cards and seen by jobs without; their argument is ``cpu * ratio // worth``.  A ratio of 0 says that CPU is
    no limit.  ``tied``: the part (per million) of all demand that is tied to a model.
    """

    __slots__ = ("curve_cards", "curve_none", "empty", "groups", "ratio_cards", "ratio_none", "tied", "worth")

    def __init__(self) -> None:
        self.empty = True
        self.worth: list[int] = [0] * (CARD + 1)
        self.groups: list[int] = [0] * (GROUPS_MAX + 1)
        self.curve_cards: list[int] = [CURVE_UNIT]
        self.curve_none: list[int] = [CURVE_UNIT]
        self.ratio_cards = 0
        self.ratio_none = 0
        self.tied: dict[str, int] = {}


def book_make(demands: Sequence[Demand], kinds: Sequence[Kinds] = (), tuning: Tuning = Tuning()) -> Book:
    """The book of a mix.  Without demand for cards it prices nothing: the fullest card, the tightest node."""
    book = Book()
    asking = [demand for demand in demands if demand.milli]
    volume = sum(demand.count * demand.milli for demand in asking)
    if not volume:
        return book
    book.empty = False
    book.worth = _worth(asking) if tuning.shares else _worth([])
    if tuning.groups:
        book.groups = _groups(asking, volume)
    cpu = sum(demand.count * demand.cpu for demand in asking)
    if cpu and tuning.cpu:
        per_card = cpu / volume
        book.ratio_cards = _ratio(per_card * _CARDS_CPU)
        book.curve_cards = _curve(_CARDS_POWER)
        book.ratio_none, book.curve_none = book.ratio_cards, book.curve_cards
        if tuning.cpu_only:
            book.ratio_none, book.curve_none = _ratio(per_card * _NONE_CPU), _curve(_NONE_POWER)
    if tuning.models:
        book.tied = _tied(asking, kinds, volume)
    return book


def scarcity_price(tied: int, free: int, free_all: int) -> int:
    """Price of one card of a model (millionths of its worth): demand tied to it against its part of the free cards."""
    if tied <= 0:
        return 0
    scarce = tied * free_all // max(free, 1)
    return min(scarce, _SCARCE_MAX) * _TIED_PRICE // PER_MILLION


_SCARCE_MAX: Final = round(_TIED_MAX * PER_MILLION)
_TIED_PRICE: Final = round(_TIED * ONE)


# -- shares of a card


def _worth(asking: Sequence[Demand]) -> list[int]:
    shares: dict[int, int] = {}
    for demand in asking:
        if demand.milli < CARD:
            shares[demand.milli] = shares.get(demand.milli, 0) + demand.count
    step = max(math.gcd(CARD, *shares), CARD // _LEVELS)
    sizes: dict[int, int] = {}
    for milli, count in sorted(shares.items()):
        size = _size(milli, step)
        sizes[size] = sizes.get(size, 0) + count
    levels = CARD // step
    table = _solve(sizes, levels) if sizes else [0.0] * (levels + 1)
    worth = [round(table[milli // step] * ONE) for milli in range(CARD + 1)]
    worth[0], worth[CARD] = 0, ONE
    return worth


def _size(milli: int, step: int) -> int:
    """A share in steps: rounded up, but not so far that fewer would fit on a card."""
    fitting = CARD // milli
    return max(1, min(-(-milli // step), CARD // fitting // step))


def _solve(shares: Mapping[int, int], levels: int) -> list[float]:
    """Worth of every remainder from 0 to `levels`, as parts of a whole card.

    Prices follow iterative scaling: each moves by the logarithm of what is wanted over what the knapsack would serve,
    and all of them by what a whole card is not yet worth.  The knapsack grows sharper as they settle.
    """
    sizes, wanted = list(shares), [float(count) for count in shares.values()]
    volume = sum(count * size for size, count in zip(sizes, wanted, strict=True))
    prices = [size / levels for size in sizes]
    sums = [1.0]
    sharp = _SHARPNESS
    for turn in range(_ROUNDS + 1):
        sharp = _SHARPNESS * (0.3 if turn < _ROUNDS // 3 else 0.6 if turn < _ROUNDS // 2 else 1.0)
        sums = _fillings(sizes, [sharp * price for price in prices], levels)
        if turn == _ROUNDS:
            break
        served = _served(sizes, [sharp * price for price in prices], sums, levels)
        total = sum(count * size for size, count in zip(sizes, served, strict=True))
        short = 1.0 - math.log(sums[levels]) / sharp
        pace = (_PACE if turn <= _ROUNDS // 2 else _PACE_LATE) / sharp
        for index, size in enumerate(sizes):
            miss = math.log((wanted[index] / volume + 1e-7) / (served[index] / total + 1e-7))
            price = prices[index] + pace * max(-3.0, min(3.0, miss)) + short * size / levels * 0.5
            prices[index] = max(0.0, min(1.0, price))
    return [math.log(value) / sharp for value in sums]


def _fillings(sizes: Sequence[int], weights: Sequence[float], levels: int) -> list[float]:
    """Z(r) for r from 0 to `levels`.

    Fillings of exactly r have the power series Π 1 / (1 - e^weight x^size).  Its logarithm is
    Σ e^(j·weight) x^(j·size) / j, so its coefficients follow from r Z(r) = Σ m·log(m)·Z(r - m), whatever the number of
    sizes.  Z(r) counts fillings of at most r: their sum.
    """
    slopes = [0.0] * (levels + 1)
    for size, weight in zip(sizes, weights, strict=True):
        factor = power = math.exp(weight)
        for place in range(size, levels + 1, size):
            slopes[place] += power * size
            power *= factor
    known = [(place, slope) for place, slope in enumerate(slopes) if slope]
    sums = [1.0] + [0.0] * levels
    for rest in range(1, levels + 1):
        total = 0.0
        for place, slope in known:
            if place > rest:
                break
            total += slope * sums[rest - place]
        sums[rest] = total / rest
    for rest in range(1, levels + 1):
        sums[rest] += sums[rest - 1]
    return sums


def _served(sizes: Sequence[int], weights: Sequence[float], sums: Sequence[float], levels: int) -> list[float]:
    """How many shares of each size a whole card is expected to hold."""
    served: list[float] = []
    for size, weight in zip(sizes, weights, strict=True):
        factor = power = math.exp(weight)
        total = 0.0
        for place in range(size, levels + 1, size):
            total += power * sums[levels - place]
            power *= factor
        served.append(total / sums[levels])
    return served


# -- nodes


def _groups(asking: Sequence[Demand], volume: int) -> list[int]:
    """Worth of idle cards together, by the parts of the demand that want at least 8, 4, 2 cards of one node."""

    def part(cards: int) -> float:
        return sum(demand.count * demand.milli for demand in asking if demand.milli >= cards * CARD) / volume

    eight = _EIGHT * max(part(8), _EIGHT_EXPECTED * _EIGHT_WEIGHT / (volume + _EIGHT_WEIGHT))
    four, two = _FOUR * part(4), _TWO * part(2)
    return [
        round(ONE * (eight * (idle // 8) + four * (idle // 4) + two * (idle // 2) + _SPREAD * (idle / 8) ** 2))
        for idle in range(GROUPS_MAX + 1)
    ]


def _ratio(cpu: float) -> int:
    """Multiplier of milli-CPU over worth, for `cpu` whole CPUs per card."""
    return min(RATIO_MAX, round(RATIO_UNIT * ONE / (cpu * 1000)))


@lru_cache(maxsize=8)
def _curve(power: float) -> list[int]:
    """The curve of a power; books share it and nobody writes to it."""
    steps = range((CURVE_END >> CURVE_STEP) + 1)
    unit = RATIO_UNIT >> CURVE_STEP
    return [round(CURVE_UNIT * (1.0 - math.exp(-((step / unit) ** power)))) for step in steps]


# -- card models


def _tied(asking: Sequence[Demand], kinds: Sequence[Kinds], volume: int) -> dict[str, int]:
    """Demand that cannot use every model, spread over those that it can use by their cards; per million of all."""
    everything = {kind.model for kind in kinds}
    tied: dict[str, float] = {}
    usable: dict[CardRequest, dict[str, int]] = {}
    for demand in asking:
        models = usable.get(demand.gpu)
        if models is None:
            models = usable[demand.gpu] = _usable(demand.gpu, kinds)
        if models and len(models) < len(everything):
            cards = sum(models.values())
            for model, milli in models.items():
                tied[model] = tied.get(model, 0.0) + demand.count * demand.milli * milli / cards
    return {model: round(PER_MILLION * amount / volume) for model, amount in sorted(tied.items())}


def _usable(gpu: CardRequest, kinds: Sequence[Kinds]) -> dict[str, int]:
    models: dict[str, int] = {}
    for kind in kinds:
        if gpu.card_matches(kind.vendor, kind.model, kind.memory):
            models[kind.model] = models.get(kind.model, 0) + kind.milli
    return models
