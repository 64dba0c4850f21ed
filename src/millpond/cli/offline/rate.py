"""``millpond rate FILE``: the whole pipeline on a file of facts and prices, so that anyone can check a bill."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import PurePath

from millpond.billing.pipeline import Pipeline
from millpond.cli.lazy import argument, command
from millpond.cli.offline.inputs import InputFile, input_open
from millpond.cli.offline.rate_output import rating_json, rating_write
from millpond.cli.offline.spill import SpilledSeen, SpilledSums
from millpond.cli.session import Session
from millpond.files.rating import RatingFile, rating_load, rating_read
from millpond.files.rating_facts import facts_of_lines, json_line, line_read
from millpond.metering.buckets import Sums, SumsInMemory
from millpond.metering.facts import Fact
from millpond.metering.hours import Period
from millpond.metering.seen import SeenInMemory
from millpond.zones import zone_find

FORMAT = "rating"
TELL_EVERY = 20_000
"""Facts between looks at the clock."""

TELL_SECONDS = 0.2


@command("rate")
@argument("file")
def rate_command(session: Session, file: str) -> None:
    """Buckets, lines, what has no price, alarms, and the invoice."""
    rating, facts, streamed = _read(input_open(file, FORMAT))
    with contextlib.ExitStack() as memories:
        memories.enter_context(collector_rests())

        def sums() -> Sums:
            return memories.enter_context(contextlib.closing(SpilledSums())) if streamed else SumsInMemory()

        seen = memories.enter_context(contextlib.closing(SpilledSeen())) if streamed else SeenInMemory()
        pipeline = Pipeline(rating.account, rating.period, rating.book, rating.rules, sums)
        with _progress(session, rating.period, shown=streamed) as told:
            pipeline.run(told(facts), seen)
        if session.json:
            for text in rating_json(pipeline):
                session.output.line(text)
        else:
            rating_write(session, pipeline)


@contextlib.contextmanager
def collector_rests() -> Iterator[None]:
    """Without the collector of cycles: millions of tuples make it look again and again, and nothing here has cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(found: InputFile) -> tuple[RatingFile, Iterable[Fact], bool]:
    """The file, its facts sorted by time, and whether they are a stream."""
    head = _head(found)
    if head is not None:
        rating, lines, number = head
        return rating, facts_of_lines(lines, found.source, number), True
    rating = rating_load(found.text(), found.source, zone_find)
    if not rating.facts_path:
        return rating, sorted(rating.facts), False
    beside = input_open(_beside(found.path, rating.facts_path), FORMAT)
    return rating, facts_of_lines(beside.lines(), beside.source), True


def _head(found: InputFile) -> tuple[RatingFile, Iterator[str], int] | None:
    """If it is JSON lines: what the first says, the others, and how many came before them."""
    lines = found.lines()
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        if not line.lstrip().startswith("{") or not line.rstrip().endswith("}"):
            return None
        following = next((text for text in lines if not text.isspace()), None)
        if following is None or not following.lstrip().startswith("{"):
            return None
        value = json_line(line, number, found.source)
        rating = line_read(value, number, found.source, lambda node: rating_read(node, zone_find, facts_follow=True))
        rest = found.lines()
        for _ in range(number):
            next(rest)
        return rating, rest, number
    return None


def _beside(path: str, name: str) -> str:
    """A path in a file is seen from the file's folder."""
    return name if path == "-" else str(PurePath(path).parent / name)


@contextlib.contextmanager
def _progress(session: Session, period: Period, *, shown: bool) -> Iterator[Callable[[Iterable[Fact]], Iterable[Fact]]]:
    """A bar through the month while facts are read, where somebody sees it."""
    output = session.output
    if not shown or not output.notes_terminal or os.environ.get("CI"):
        yield lambda facts: facts
        return
    bars = import_module("millpond.cli.offline.progress").Bars

    def told(facts: Iterable[Fact]) -> Iterator[Fact]:
        at = time.monotonic()
        for number, fact in enumerate(facts, 1):
            if number % TELL_EVERY == 0 and time.monotonic() - at > TELL_SECONDS:
                at = time.monotonic()
                drawn.tell(0, min(max(0, fact.time - period.start), period.end - period.start), number)
            yield fact

    with bars([period.name], [period.end - period.start], colour=output.colour) as drawn:
        yield told
