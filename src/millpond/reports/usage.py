"""Who used how much: usage by group, and the metering report that people sign."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from fractions import Fraction

from millpond.billing.money import Money, money_round, money_sum
from millpond.billing.months import MonthBill, MonthLine
from millpond.billing.prices import MILLI_SECONDS_PER_CARD_HOUR
from millpond.reports.tables import Fact, Field, Kind, Report, Row, Section, rows_of
from millpond.reports.texts import Texts


class By(StrEnum):
    """What usage is summed by.  A team is a tenant."""

    TEAM = "team"
    PROJECT = "project"
    USER = "user"
    MODEL = "model"
    JOB = "job"
    DAY = "day"


KEYS: Mapping[By, tuple[Field, ...]] = {
    By.TEAM: (Field("tenant"),),
    By.PROJECT: (Field("tenant"), Field("project")),
    By.USER: (Field("tenant"), Field("user")),
    By.MODEL: (Field("sku"),),
    By.JOB: (Field("tenant"), Field("project"), Field("user"), Field("job"), Field("sku"), Field("class")),
    By.DAY: (Field("day", Kind.DAY),),
}
AMOUNT_FIELDS = (
    Field("card_hours", Kind.CARD_HOURS, sums=True),
    Field("lost_hours", Kind.CARD_HOURS, sums=True),
    Field("measured", Kind.RATIO),
)
METERING_FIELDS = (
    Field("project"),
    Field("sku"),
    Field("class"),
    Field("version"),
    Field("card_hours", Kind.CARD_HOURS, sums=True),
    Field("attempts", Kind.COUNT, sums=True),
    Field("preemptions", Kind.COUNT, sums=True),
    Field("lost_hours", Kind.CARD_HOURS, sums=True),
    Field("list_amount", Kind.MONEY, sums=True),
    Field("discount", Kind.MONEY, sums=True),
    Field("amount", Kind.MONEY, sums=True),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a project's attempts on one model in one class: how many, how many made room, milli-card-seconds lost."""

    attempts: int = 0
    preemptions: int = 0
    lost_milli_seconds: int = 0


CountKey = tuple[str, str, str]
"""Project, model, class."""


def usage_report(by: By, facts: tuple[Fact, ...], zone: tzinfo, rows: Callable[[], Iterable[Row]]) -> Report:
    """``rows``: the group's keys, milli-card-seconds, and the lost part of them.

    Measured utilisation stands beside it, blank until something measures it.
    """

    def measured() -> Iterable[Row]:
        return ((*row, None) for row in rows())

    return Report(
        "usage", zone, facts, (Section("usage", (*KEYS[by], *AMOUNT_FIELDS), measured),), ("measured_blank", "lost")
    )


def metering_report(
    facts: tuple[Fact, ...], zone: tzinfo, bill: MonthBill, counts: Mapping[CountKey, Counts], lang: str
) -> Report:
    """Card-hours and amounts of one account by project, model, class and price version, to be signed.

    Attempts are those of the project, model and class; they stand with its first version, so that they add up.
    """
    texts = Texts(lang)
    groups: dict[tuple[str, str, str, str], list[MonthLine]] = {}
    for line in bill.lines:
        groups.setdefault((line.key.project, line.key.sku, line.key.klass, line.key.version), []).append(line)
    shown: set[CountKey] = set()
    rows: list[Row] = []
    for key in sorted(groups):
        place = key[:3]
        rows.append(_metered(key, groups[key], Counts() if place in shown else counts.get(place, Counts())))
        shown.add(place)
    for place in sorted(set(counts) - shown):
        found = counts[place]
        rows.append(
            (
                *place,
                texts("unrated"),
                None,
                found.attempts,
                found.preemptions,
                found.lost_milli_seconds,
                None,
                None,
                None,
            )
        )
    closing = (
        Fact("net", bill.net, Kind.MONEY),
        Fact("tax", bill.tax, Kind.MONEY),
        Fact("total", bill.total, Kind.MONEY),
    )
    return Report(
        "metering", zone, (*facts, Fact("source", bill.source_hash)),
        (Section("metering", METERING_FIELDS, rows_of(rows), (("amount", bill.net),)),),
        ("measured_blank", "lost", "rounding"), closing, signed=True,
    )  # fmt: skip


def _metered(key: tuple[str, str, str, str], lines: Sequence[MonthLine], counts: Counts) -> Row:
    currency = lines[0].net.currency
    net = money_sum((line.net for line in lines), currency)
    listed = money_sum((_listed(line) for line in lines), currency)
    return (
        *key,
        sum(line.billed for line in lines),
        counts.attempts,
        counts.preemptions,
        counts.lost_milli_seconds,
        listed,
        listed - net,
        net,
    )


def _listed(line: MonthLine) -> Money:
    if line.list_price is None:
        return line.net
    exact = Fraction(line.list_price.amount) * line.billed / MILLI_SECONDS_PER_CARD_HOUR
    return money_round(exact, line.net.currency)
