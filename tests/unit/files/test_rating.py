"""Facts and prices in files: the short way of a line says what the long one says."""

from __future__ import annotations

import json
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import EndReason
from millpond.files import rating_facts
from millpond.files.rating import rating_load
from millpond.files.rating_facts import fact_of_line, fact_read, facts_of_lines
from millpond.files.tree import tree_from_json
from millpond.metering.facts import Event

BASE: dict[str, Any] = {
    "id": "f1",
    "time": "2026-11-10T10:00:00+08:00",
    "event": "started",
    "job": "j1",
    "attempt": 1,
    "milli": 1000,
    "sku": "A800-80GB",
    "class": "prod",
    "project": "alpha",
    "user": "zhang3",
}
ODD: dict[str, list[Any]] = {
    "id": ["", " f", "a\tb", "x" * 301, 7, None, True, "中文", "\x1f"],
    "time": [
        "2026-11-10T10:00:00Z",
        "2026-11-10T10:00:00.999999+08:00",
        "2026-11-10 10:00:00+08:00",
        "2026-W48-1T10:00:00Z",
        "2026-11-10T10:00:00",
        "2026-11-10T25:00:00+08:00",
        0,
        None,
    ],
    "event": ["ended", "checkpointed", "changed", "Started", "", ["started"], None, 3],
    "attempt": [0, -1, 1.0, "2", True, 10**7, None],
    "milli": [0, "250", 250.5, -1, 10**10, None, False],
    "cards": [["a"], ["a", "b", "c"], ["a", "a"], {"a": 250}, {"a": 0}, [], {}, "a", [1], [""], None],
    "type": ["service", "task", "workspace", "job", 1, None],
    "reason": ["completed", "failed(3)", "failed", "done", None, ["completed"]],
    "sku": ["", " A ", None],
    "user": ["", "a\nb", None],
    "extra": [1],
}


@st.composite
def values(draw: st.DrawFn) -> dict[str, Any]:
    """A fact with up to three odd values."""
    value = {**BASE, "reason": "completed"} if draw(st.booleans()) else dict(BASE)
    for key in draw(st.lists(st.sampled_from(sorted(ODD)), max_size=3, unique=True)):
        odd = draw(st.sampled_from(ODD[key]))
        value[key] = odd
    if draw(st.booleans()):
        value.pop(draw(st.sampled_from(sorted(value))))
    return value


@given(values())
def test_the_short_way_takes_only_what_the_long_way_takes_and_reads_the_same(value: dict[str, Any]) -> None:
    quick = rating_facts._quick(value)
    if quick is not None:
        assert quick == fact_read(tree_from_json(value, "x"))


@pytest.mark.parametrize(
    "change", [{}, {"event": "ended", "reason": "completed"}, {"cards": ["a", "b"]}, {"type": "service"}]
)
def test_the_short_way_takes_what_is_plain(change: dict[str, Any]) -> None:
    assert rating_facts._quick({**BASE, **change}) is not None


def test_a_line_is_a_fact() -> None:
    fact = fact_of_line(json.dumps({**BASE, "cards": ["a", "b", "c"], "type": "service"}), 1, "x")
    assert (fact.event, fact.id, fact.job, fact.attempt) == (Event.STARTED, "f1", "j1", 1)
    assert fact.shape is not None
    assert fact.shape.cards == (("a", 333_333), ("b", 333_333), ("c", 333_333))
    assert fact.shape.service
    end = fact_of_line(json.dumps({**BASE, "event": "ended", "reason": "failed(9)"}), 1, "x")
    assert (end.reason, end.shape) == (EndReason.FAILED, None)


def test_parts_of_a_second_are_cut_off() -> None:
    whole = fact_of_line(json.dumps(BASE), 1, "x").time
    assert fact_of_line(json.dumps({**BASE, "time": "2026-11-10T02:00:00.999Z"}), 1, "x").time == whole


def test_lines_are_counted_and_must_be_sorted() -> None:
    later = {**BASE, "id": "f2", "time": "2026-11-10T11:00:00+08:00"}
    lines = [json.dumps(later), "\n", json.dumps(BASE)]
    with pytest.raises(InvalidInput) as caught:
        list(facts_of_lines(lines, "facts.jsonl", number=1))
    assert caught.value.reason == "UNSORTED"
    assert str(caught.value).startswith("facts.jsonl:4:1: time: the fact is earlier")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"id": nul}', "", "NaN"])
def test_lines_that_are_no_facts(text: str) -> None:
    with pytest.raises(InvalidInput, match="x:3:"):
        fact_of_line(text, 3, "x")


def test_an_unknown_reason_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="did you mean completed"):
        fact_of_line(json.dumps({**BASE, "event": "ended", "reason": "complete"}), 1, "x")


def test_prices_begin_at_midnight_of_the_accounts_zone_unless_they_say_otherwise() -> None:
    def load(start: str) -> int:
        text = (
            "account: {zone: America/New_York, currency: USD}\nperiod: 2026-11\nfacts: []\n"
            f'prices: [{{version: v1, sku: A, price: "1.23456", from: {start}}}]\n'
        )
        return rating_load(text, "x", _zone).book.versions[0].start

    assert load("2026-11-01") == load("2026-11-01T00:00") == load("2026-11-01T04:00:00Z")


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
