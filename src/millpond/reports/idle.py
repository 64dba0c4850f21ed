"""Idle cards: what was installed, sold, idle and down, by model and by day, and that it adds up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from fractions import Fraction

from millpond.billing.money import Money, money_round
from millpond.billing.prices import ANY, PriceBook, PriceRecord, versions_ended
from millpond.metering.conservation import Conservation
from millpond.metering.occupancy import Part
from millpond.reports.tables import Cell, Fact, Field, Kind, Report, Row, Section, rows_of

HOURS_FIELDS = (
    Field("installed_hours", Kind.CARD_HOURS, sums=True),
    Field("allocated_hours", Kind.CARD_HOURS, sums=True),
    Field("idle_hours", Kind.CARD_HOURS, sums=True),
    Field("down_hours", Kind.CARD_HOURS, sums=True),
    Field("allocation", Kind.RATIO),
    Field("measured", Kind.RATIO),
)
MODEL_FIELDS = (
    Field("sku"),
    *HOURS_FIELDS,
    Field("list_price", Kind.PRICE),
    Field("idle_value", Kind.MONEY, sums=True),
)
DAY_FIELDS = (Field("day", Kind.DAY), *HOURS_FIELDS)
ALARM_FIELDS = (Field("moment", Kind.MOMENT), Field("code"), Field("what"))
MICRO_PER_MILLI = 1_000
ALARMS = 200
"""Contradictions that are shown; the first ones say what is wrong."""


def idle_report(
    facts: tuple[Fact, ...],
    zone: tzinfo,
    sums: Mapping[tuple[str, int], Part],
    prices: Mapping[str, Money],
    audit: Conservation,
    metered: int,
) -> Report:
    """``sums``: by model and beginning of the day.  ``prices``: list price of a model, where it has one.

    ``metered``: milli-card-seconds of the meter for the same time, beside what attempts say: two sources, one figure.
    """
    whole = _total(list(sums.values()))
    said = (
        *facts,
        Fact("installed", _milli(whole.installed), Kind.CARD_HOURS),
        Fact("allocated", _milli(whole.allocated), Kind.CARD_HOURS),
        Fact("idle", _milli(whole.idle), Kind.CARD_HOURS),
        Fact("down", _milli(whole.down), Kind.CARD_HOURS),
        Fact("metered", metered, Kind.CARD_HOURS),
        Fact("alarms", len(audit.alarms), Kind.COUNT),
    )
    models = sorted({model for model, _ in sums})
    days = sorted({day for _, day in sums})
    alarms = [(datetime.fromtimestamp(item.time, UTC), item.code.value, item.text) for item in audit.alarms[:ALARMS]]
    return Report(
        "idle", zone, said,
        (
            Section("idle_models", MODEL_FIELDS, rows_of(
                _model(model, _total([part for (name, _), part in sums.items() if name == model]), prices.get(model))
                for model in models
            )),
            Section("idle_days", DAY_FIELDS, rows_of(
                (datetime.fromtimestamp(day, zone).date(),
                 *_hours(_total([part for (_, at), part in sums.items() if at == day])))
                for day in days
            )),
            *((Section("alarms", ALARM_FIELDS, rows_of(alarms)),) if alarms else ()),
        ),
        ("conservation", "installed", "measured_blank"),
    )  # fmt: skip


def list_prices(records: Iterable[PriceRecord], models: Iterable[str], moment: int) -> dict[str, Money]:
    """What the list says of each model, for every class, at an instant; nothing where currencies differ."""
    listed = [record.version for record in records if not record.account]
    if len({version.price.currency for version in listed}) != 1:
        return {}
    book = PriceBook(versions_ended(listed))
    found = {model: book.at(model, ANY, moment) for model in models}
    return {model: version.price for model, version in found.items() if version is not None}


def _total(parts: Sequence[Part]) -> Part:
    return Part(
        sum(part.allocated for part in parts), sum(part.idle for part in parts), sum(part.down for part in parts)
    )


def _hours(part: Part) -> tuple[Cell, ...]:
    return (
        _milli(part.installed),
        _milli(part.allocated),
        _milli(part.idle),
        _milli(part.down),
        Fraction(part.allocated, part.installed) if part.installed else None,
        None,
    )


def _model(model: str, part: Part, price: Money | None) -> Row:
    value = None if price is None else money_round(price.share(_milli(part.idle), 3_600_000), price.currency)
    return (model, *_hours(part), price, value)


def _milli(micro_seconds: int) -> int:
    return micro_seconds // MICRO_PER_MILLI
