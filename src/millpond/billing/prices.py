"""Prices: versions with an interval each, only ever added.

A version says what a card-hour of a model and class costs in [start, end).  ``*`` stands for every model or class; a
version that names more wins over one that names less, the model before the class.  Two that name the same may not
overlap.  Versions begin and end at full hours of the account's zone, so an hourly bucket has one price.

What a contract says goes before every list price.  In PostgreSQL: ``prices`` (insert-only; account NULL: a list price;
a trigger refuses overlaps and what would begin in a month that is closed).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from millpond.billing.money import Money
from millpond.domain.errors import Conflict, InvalidInput
from millpond.metering.hours import Hours

ANY: Final = "*"
MILLI_SECONDS_PER_CARD_HOUR: Final = 3_600_000
FAR: Final = 1 << 62
"""An end that never comes."""


@dataclass(frozen=True, slots=True)
class PriceVersion:
    """``price`` of a card-hour in [start, end), instants; ``end`` None: until another one is added after it.

    ``contract``: agreed with one customer, and before every list price.
    """

    version: str
    sku: str
    klass: str
    price: Money
    start: int
    end: int | None = None
    contract: bool = False

    def __post_init__(self) -> None:
        if self.price.amount < Decimal(0):
            raise InvalidInput(
                f"price version {self.version!r} has the negative price {self.price.text()}",
                hint="give a credit note for what was charged too much",
                code="NEGATIVE_PRICE",
            )
        if self.end is not None and self.end <= self.start:
            raise InvalidInput(f"price version {self.version!r} ends before it begins", hint="from < to", code="EMPTY")

    @property
    def until(self) -> int:
        return FAR if self.end is None else self.end

    @property
    def names(self) -> int:
        """How much it names: more wins."""
        return 4 * self.contract + 2 * (self.sku != ANY) + (self.klass != ANY)

    @property
    def key(self) -> tuple[bool, str, str]:
        """Versions with the same follow each other in time."""
        return self.contract, self.sku, self.klass

    def meets(self, other: PriceVersion) -> bool:
        """Whether some model and class are covered by both."""
        return (self.sku == other.sku or ANY in (self.sku, other.sku)) and (
            self.klass == other.klass or ANY in (self.klass, other.klass)
        )

    def covers(self, sku: str, klass: str) -> bool:
        return self.sku in (ANY, sku) and self.klass in (ANY, klass)


class PriceBook:
    """Versions that do not contradict each other.  Adding is the only change, and never to what was billed."""

    def __init__(self, versions: Iterable[PriceVersion] = ()) -> None:
        self._versions: list[PriceVersion] = []
        self._lines: dict[tuple[str, str], tuple[list[int], list[PriceVersion | None]]] = {}
        for version in versions:
            self.add(version)

    @property
    def versions(self) -> tuple[PriceVersion, ...]:
        return tuple(self._versions)

    def add(self, version: PriceVersion, closed_until: int | None = None) -> None:
        """Add a version.  `Conflict` if it overlaps one of the same model and class, or changes a closed time."""
        if closed_until is not None and version.start < closed_until:
            raise Conflict(
                f"price version {version.version!r} would change a month that is closed",
                hint="let it begin later, and correct what was charged with a credit note",
                code="CLOSED_PERIOD",
            )
        for other in self._versions:
            if other.version == version.version and other.meets(version):
                raise Conflict(
                    f"there are two price versions {version.version!r} of the same cards",
                    hint="versions are only added: give the new one another name",
                    code="PRICE_TWICE",
                )
            if other.key == version.key and other.start < version.until and version.start < other.until:
                raise Conflict(
                    f"price version {version.version!r} overlaps {other.version!r} of {version.sku} {version.klass}",
                    hint=f"give {other.version!r} an end (to), or let {version.version!r} begin there",
                    code="PRICE_OVERLAP",
                )
        self._versions.append(version)
        self._lines.clear()

    def at(self, sku: str, klass: str, time: int) -> PriceVersion | None:
        """The version in force, None where nothing has a price."""
        moments, versions = self.line(sku, klass)
        return versions[bisect_right(moments, time)]

    def line(self, sku: str, klass: str) -> tuple[list[int], list[PriceVersion | None]]:
        """Moments at which the version changes, and the versions around them, one more; None: unpriced."""
        found = self._lines.get((sku, klass))
        if found is None:
            covering = sorted(
                (item for item in self._versions if item.covers(sku, klass)), key=lambda item: -item.names
            )
            moments = sorted({moment for item in covering for moment in (item.start, item.until)})
            versions: list[PriceVersion | None] = [None]
            versions += [next((item for item in covering if item.start <= at < item.until), None) for at in moments]
            found = self._lines[sku, klass] = (moments, versions)
        return found


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """A version as it is stored.  ``account``: the tenant that it was agreed with, empty for a list price.

    ``ends``: when it stops being in force, its own end or the beginning of the one that follows it.
    """

    account: str
    version: PriceVersion
    ends: int | None
    created_at: datetime
    created_by: str


def versions_ended(versions: Iterable[PriceVersion]) -> list[PriceVersion]:
    """Versions without an end get the beginning of the next of the same model and class, in the order of `versions`."""
    found = list(versions)
    begins: dict[tuple[bool, str, str], list[int]] = {}
    for version in found:
        begins.setdefault(version.key, []).append(version.start)
    for moments in begins.values():
        moments.sort()
    return [_ended(version, begins[version.key]) for version in found]


def _ended(version: PriceVersion, begins: list[int]) -> PriceVersion:
    after = bisect_right(begins, version.start)
    if version.end is not None or after == len(begins):
        return version
    return replace(version, end=begins[after])


def version_check(versions: Iterable[PriceVersion], new: PriceVersion, closed_until: int | None = None) -> None:
    """Whether `new` may be added to stored `versions`.  Raises as `PriceBook.add`.

    One with an end may not lie within one that has none: nobody has said what would be in force after it.
    """
    before = list(versions)
    for other in before:
        if other.key == new.key and other.end is None and new.end is not None and other.start < new.start:
            following = [item.start for item in before if item.key == new.key and item.start > other.start]
            if not following or min(following) > new.start:
                raise Conflict(
                    f"price version {new.version!r} has an end, and {other.version!r} is in force until another begins",
                    hint="leave out its end, and add the version that is to follow it",
                    code="PRICE_OVERLAP",
                )
    *others, last = versions_ended([*before, new])
    PriceBook(others).add(last, closed_until)


def versions_aligned(versions: Iterable[PriceVersion], hours: Hours) -> list[PriceVersion]:
    """Versions as they count for a zone: from the first of its full hours on, so that an hourly bucket has one price.

    Where a zone is half an hour off, a list price that changes at a full hour of another one changes half an hour
    later.  Those that would be in force at no time are left out.
    """
    found = []
    for version in versions:
        start = _full_hour(version.start, hours)
        end = None if version.end is None else _full_hour(version.end, hours)
        if end is None or start < end:
            found.append(replace(version, start=start, end=end))
    return found


def _full_hour(moment: int, hours: Hours) -> int:
    begin, until = hours.around(moment)
    return moment if begin == moment else until
