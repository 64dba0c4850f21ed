"""The report: whole, safe, the same every time, and without a request to anywhere."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from millpond.reports.plots import unit_of
from millpond.reports.simulation import report_html
from millpond.reports.words import WORDS
from millpond.scheduling.snapshot import Snapshot
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work
from millpond.simulation.outcome import Outcome
from millpond.simulation.recorder import Recorder
from tests.builders import job, pool, queue, running, snapshot

VOID = {"meta", "br", "link", "img", "hr"}


def outcome(name: str, *, until: int = 5000, stopped: bool = False, changes: tuple[str, ...] = ()) -> Outcome:
    given: Snapshot = snapshot(
        pool(2),
        (queue("trade/prod", g=8, d=8), queue("nlp/besteffort")),
        [running("r", "nlp/besteffort", "n1"), job("x", "nlp/besteffort", 8)],
    )
    arrivals = (job("p", "trade/prod", 8, submitted=600),)
    simulation = Simulation(
        given, arrivals=arrivals, work={"p": Work(900), "x": Work(400), "r": Work(4000)}, until=until
    )
    recorder = Recorder(given, arrivals)
    for event in simulation.events():
        recorder.see(event)
    return Outcome(name, changes, simulation.summary(), recorder.close(simulation.time), stopped=stopped)


class Page(HTMLParser):
    """Collects tags and checks that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for key, value in attrs if key == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_pools_of_different_sizes_are_both_named() -> None:
    small, large = outcome("baseline"), outcome("more")
    large = replace(large, record=replace(large.record, pool=32_000))
    assert "<p>16–32 cards, " in report_html([small, large])
    assert "<p>16 cards, " in report_html([small, small])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_page_is_whole_and_asks_nobody(lang: str) -> None:
    text = report_html([outcome("baseline"), outcome("多两台", changes=("nodes.+2",))], lang)
    page = Page(text)
    assert page.open == []
    assert page.tags.count("figure") == 5
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    for key, value in page.attributes:
        if key in {"src", "href", "xlink:href"}:
            assert value is not None
            assert value.startswith("#"), value
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert len(set(page.ids)) == len(page.ids)
    assert "多两台" in text
    assert (WORDS["plot_used"][lang == "zh"]) in text


def test_same_bytes_every_time() -> None:
    assert report_html([outcome("baseline")]) == report_html([outcome("baseline")])


def test_names_are_text() -> None:
    text = report_html([outcome("baseline"), outcome("<script>alert(1)</script>", changes=("a<b>=1",), stopped=True)])
    assert "<script>" not in text
    assert "a&lt;b&gt;=1" in text
    assert "stopped early, at" in text


def test_colours_are_those_of_the_page() -> None:
    text = report_html([outcome("baseline")])
    svg = text[text.index("<figure") :]
    assert "var(--ink" in svg
    assert "var(--grid" in svg
    assert "#010203" not in text
    assert "prefers-color-scheme: dark" in text


def test_run_without_time_or_jobs_can_be_drawn() -> None:
    given = snapshot(pool(1), (queue("a/batch"),), [])
    simulation = Simulation(given, until=10)
    assert list(simulation.events()) == []
    empty = Outcome("baseline", (), simulation.summary(), Recorder(given).close(simulation.time))
    assert Page(report_html([empty])).open == []


@pytest.mark.parametrize(
    ("seconds", "unit"), [(0, "seconds"), (179, "seconds"), (180, "minutes"), (86_400, "hours"), (10**6, "days")]
)
def test_units(seconds: int, unit: str) -> None:
    assert unit_of(seconds)[0] == unit
