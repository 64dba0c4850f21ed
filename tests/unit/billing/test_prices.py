"""Price versions do not contradict each other, and the one that names most is in force."""

from __future__ import annotations

import pytest

from millpond.billing.prices import PriceBook
from millpond.domain.errors import Conflict, InvalidInput
from tests.unit.metering.builders import SHANGHAI, at, price

TWELVE = price("12.00", "v1", end="12-01 00:00")
TEN_50 = price("10.50", "v2", start="12-01 00:00")


def test_a_book_of_prices_does_not_contradict_itself() -> None:
    book = PriceBook([TWELVE(SHANGHAI), TEN_50(SHANGHAI)])
    with pytest.raises(Conflict) as caught:
        book.add(price("11.00", "v3", start="11-15 00:00")(SHANGHAI))
    assert caught.value.reason == "PRICE_OVERLAP"
    with pytest.raises(Conflict) as caught:
        book.add(price("11.00", "v1", klass="prod", start="12-15 00:00")(SHANGHAI))
    assert caught.value.reason == "PRICE_TWICE"
    book.add(price("9.00", "v3", klass="prod", start="11-15 00:00", end="11-16 00:00")(SHANGHAI))
    moments = ("11-14 23:59", "11-15 00:00", "11-15 23:59", "11-16 00:00")
    found = [book.at("A800-80GB", "prod", at(moment)) for moment in moments]
    assert [version.version if version else "" for version in found] == ["v1", "v3", "v3", "v1"]
    nothing = book.at("A800-80GB", "prod", at("2025-12-31T00:00:00"))
    assert nothing is None
    with pytest.raises(InvalidInput, match="negative"):
        price("-1.00")(SHANGHAI)
    with pytest.raises(InvalidInput, match="ends before it begins"):
        price("1.00", start="11-02 00:00", end="11-01 00:00")(SHANGHAI)


def test_who_names_more_wins_the_model_before_the_class() -> None:
    versions = {
        "all": price("1.00", "all", sku="*"),
        "class": price("2.00", "class", sku="*", klass="prod"),
        "model": price("3.00", "model", sku="A800-80GB"),
        "both": price("4.00", "both", sku="A800-80GB", klass="prod", end="06-01 00:00"),
    }
    book = PriceBook(version(SHANGHAI) for version in versions.values())
    for sku, klass, time, wanted in (
        ("A800-80GB", "prod", "03-01 00:00", "both"),
        ("A800-80GB", "prod", "07-01 00:00", "model"),
        ("A800-80GB", "batch", "03-01 00:00", "model"),
        ("H800-80GB", "prod", "03-01 00:00", "class"),
        ("H800-80GB", "batch", "03-01 00:00", "all"),
    ):
        found = book.at(sku, klass, at(time))
        assert found is not None
        assert found.version == wanted
