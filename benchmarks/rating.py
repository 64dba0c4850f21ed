"""Rating: facts a second from facts to an invoice, and whether memory stays the same however many there are.

    python -m benchmarks.rating [--full]

Facts of invented attempts, sorted by time, go through the whole pure way: repeats, meter, hourly buckets, prices,
lines, invoice.  Ids and sums are kept as `millpond rate` keeps those of a stream, in files.  Every run is a process of
its own, so that its peak memory is its own.  Seconds are those of the processor.  Making the facts is not counted;
reading them from JSON lines is a figure apart.
"""

from __future__ import annotations

import argparse
import heapq
import importlib.util
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from decimal import Decimal
from itertools import islice
from zoneinfo import ZoneInfo

from benchmarks.figures import ROOT, Figure, Mode, benchmark_main, progress
from benchmarks.peers.rating_sql import duckdb_rate
from millpond.billing.currencies import currency_find
from millpond.billing.money import Money
from millpond.billing.pipeline import Account, Pipeline
from millpond.billing.prices import PriceBook, PriceVersion
from millpond.billing.rating import Rules
from millpond.cli.offline.rate import collector_rests
from millpond.cli.offline.spill import SpilledSeen, SpilledSums
from millpond.domain.jobs import EndReason
from millpond.files.rating_facts import fact_of_line
from millpond.metering.facts import Event, Fact, Shape
from millpond.metering.hours import month_period
from millpond.metering.seen import BATCH

FACTS = {"short": (500_000, 2_000_000), "full": (1_000_000, 10_000_000)}
SLOTS = 5_000
"""Attempts that are open at a time: a pool of some thousand cards."""

STEP = 3_600
"""Seconds at most from one fact of an attempt to the next: ten million facts are a month."""

TENANTS = 50
SKUS = ("A800-80GB", "H800-80GB", "910B-64GB")
REASONS = (
    EndReason.COMPLETED, EndReason.COMPLETED, EndReason.COMPLETED, EndReason.FAILED, EndReason.PREEMPTED,
    EndReason.PREEMPTED, EndReason.NODE_LOST, EndReason.CANCELLED,
)  # fmt: skip
AGAIN = frozenset({EndReason.PREEMPTED, EndReason.NODE_LOST})
REPEATED = 0.02
"""Share of facts that are told a second time."""

AIM = 50_000
READ = 200_000
"""Lines that are read for the figure of reading."""

ZONE = ZoneInfo("Asia/Shanghai")
PERIOD = month_period("2026-11", ZONE)


def facts_make(count: int, seed: int = 7, slots: int = SLOTS) -> Iterator[Fact]:
    """`count` facts over a month, sorted by time: attempts of an hour or so that save, end, and run again if evicted.

    Memory: the open attempts.
    """
    draw = random.Random(seed)  # noqa: S311  facts are invented, not guarded
    shapes = [_shape(draw) for _ in range(2_000)]
    # (time, slot, job, attempt, step): what a slot does next
    line = [(PERIOD.start + draw.randrange(STEP), slot, slot, 1, 0) for slot in range(slots)]
    heapq.heapify(line)
    made, jobs = len(line), slots  # so many are kept for the ends of those who are open at last
    again: list[tuple[int, Fact]] = []
    while made < count:
        at, slot, job, attempt, step = line[0]
        while again and again[0][0] <= at and made < count:
            yield again[0][1]._replace(time=heapq.heappop(again)[0])
            made += 1
        if made >= count:
            break
        fact = _fact(at, job, attempt, step, shapes[job % len(shapes)])
        yield fact
        made += 1
        if draw.random() < REPEATED:
            heapq.heappush(again, (at + draw.randrange(1, 3 * STEP), fact))
        if fact.event is not Event.ENDED:
            following = (at + draw.randrange(1, STEP), slot, job, attempt, 2 if draw.random() < 0.6 else step + 1)
            heapq.heapreplace(line, following)
        elif fact.reason in AGAIN:
            heapq.heapreplace(line, (at + draw.randrange(1, STEP), slot, job, attempt + 1, 0))
        else:
            jobs += 1
            heapq.heapreplace(line, (at + draw.randrange(1, STEP), slot, jobs, 1, 0))
    last = line[0][0]
    yield from (_fact(last, job, attempt, 2, shapes[0]) for _, _, job, attempt, step in sorted(line) if step)


def _shape(draw: random.Random) -> Shape:
    milli = draw.choice((250, 1000, 1000, 2000, 8000))
    tenant = draw.randrange(TENANTS)
    klass = draw.choice(("prod", "batch", "besteffort"))
    return Shape(milli, draw.choice(SKUS), klass, f"p{tenant}", f"u{draw.randrange(8)}")


def _fact(at: int, job: int, attempt: int, step: int, shape: Shape) -> Fact:
    name = f"j{job:09d}"
    if step == 0:
        return Fact(at, Event.STARTED, f"{name}-{attempt}-s", name, attempt, None, shape)
    if step == 1:
        return Fact(at, Event.CHECKPOINTED, f"{name}-{attempt}-c", name, attempt)
    reason = REASONS[(job * 7 + attempt) % len(REASONS)]
    return Fact(at, Event.ENDED, f"{name}-{attempt}-e", name, attempt, reason)


def book_make() -> PriceBook:
    """Two versions of every model: the price changes in the middle of the month."""
    currency = currency_find("CNY")
    middle = PERIOD.start + 15 * 86_400
    book = PriceBook()
    for index, sku in enumerate(SKUS):
        book.add(PriceVersion("v1", sku, "*", Money(Decimal(f"{12 - index}.00"), currency), 0, middle))
        book.add(PriceVersion("v2", sku, "*", Money(Decimal(f"{10 - index}.50"), currency), middle))
    return book


def _once(count: int) -> dict[str, float]:
    """One run, timed without the making of facts; peak memory in MiB."""
    account = Account("bench", ZONE, currency_find("CNY"), Decimal("0.06"))
    spent = 0.0
    with ExitStack() as memories:
        memories.enter_context(collector_rests())
        seen = memories.enter_context(closing(SpilledSeen()))
        pipeline = Pipeline(
            account, PERIOD, book_make(), Rules(), lambda: memories.enter_context(closing(SpilledSums()))
        )
        making = 0.0

        def told() -> Iterator[Fact]:
            nonlocal making
            source = facts_make(count)
            while True:
                begin = time.process_time()
                batch = list(islice(source, BATCH))
                making += time.process_time() - begin
                if not batch:
                    return
                yield from batch

        begin = time.process_time()
        pipeline.run(told(), seen)
        totals = pipeline.totals()
        rated = time.process_time() - begin - making
        begin = time.process_time()
        buckets = sum(1 for _ in pipeline.buckets())
        lines = sum(1 for _ in pipeline.lines())
        spent = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "rated": rated,
        "written": spent,
        "peak": peak,
        "buckets": buckets,
        "lines": lines,
        "net": float(totals.net.amount),
        "alarms": len(pipeline.alarms()),
    }


def _process(count: int) -> dict[str, float]:
    progress(f"rating {count:,} facts")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.rating", "--once", str(count)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _mark(count: int, net: float) -> tuple[float | None, str]:
    """Facts a second of DuckDB, which must come to the same amount; or why there are none."""
    if importlib.util.find_spec("duckdb") is None:
        return None, "duckdb is not installed"
    spent, minor = duckdb_rate(facts_make(count), book_make(), PERIOD)
    assert minor == round(net * 100), f"DuckDB says {minor}, the product {net}"
    return count / spent, ""


def _reading() -> float:
    """Lines of JSON read a second."""
    names = {event: event.name.lower() for event in Event}
    lines = []
    for fact in facts_make(READ):
        value: dict[str, object] = {
            "id": fact.id,
            "time": f"2026-11-{1 + (fact.time - PERIOD.start) // 86_400:02d}T10:00:00+08:00",
            "event": names[fact.event],
            "job": fact.job,
            "attempt": fact.attempt,
        }
        if fact.shape is not None:
            shape = fact.shape
            value |= {"milli": shape.milli, "sku": shape.sku, "class": shape.klass, "cards": ["GPU-a"]}
            value |= {"project": shape.project, "user": shape.user}
        if fact.reason is not None:
            value["reason"] = fact.reason.value
        lines.append(json.dumps(value) + "\n")
    begin = time.process_time()
    for number, line in enumerate(lines, 1):
        fact_of_line(line, number, "facts.jsonl")
    return len(lines) / (time.process_time() - begin)


def run(mode: Mode) -> list[Figure]:
    few, many = FACTS[mode]
    small, large = _process(few), _process(many)
    rate = many / large["rated"]
    mark, missing = _mark(many, large["net"])
    note = f"{many:,} facts, {large['buckets']:,.0f} buckets, {large['lines']:,.0f} lines; ids and sums in files"
    return [
        Figure(
            "rate",
            "facts metered and rated",
            rate,
            "/s",
            aim=AIM,
            better="more",
            mark_source="DuckDB, lines and invoice from CSV, two cores, wall clock" if mark else "",
            measured_mark=mark,
            missing=missing,
            note=note,
        ),
        Figure(
            "rate",
            "the same, rows read back",
            many / (large["rated"] + large["written"]),
            "/s",
            note="and every bucket and line read, sorted, as --json does",
        ),
        Figure("rate", f"peak memory, {few:,} facts", small["peak"], "MiB"),
        Figure("rate", f"peak memory, {many:,} facts", large["peak"], "MiB"),
        Figure(
            "rate",
            "memory, many over few",
            large["peak"] / small["peak"],
            "",
            aim=1.25,
            note=f"{many // few} times the facts; what grows at first is held in memory until it is large",
        ),
        Figure("rate", "JSON lines read", _reading(), "/s", note="by the command, before they are metered"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--once", type=int)
    once, rest = parser.parse_known_args()
    if once.once is not None:
        print(json.dumps(_once(once.once)))
        return 0
    return benchmark_main("rating", run, rest)


if __name__ == "__main__":
    sys.exit(main())
