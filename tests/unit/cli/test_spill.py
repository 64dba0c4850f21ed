"""Memories of long streams say what memories in a process say."""

from __future__ import annotations

import random
from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.cli.offline.spill import SpilledSeen, SpilledSums
from millpond.metering.buckets import SumsInMemory
from millpond.metering.seen import SeenInMemory


@given(st.lists(st.lists(st.integers(0, 60).map(str), max_size=20), max_size=20), st.integers(1, 30))
@settings(max_examples=60)
def test_ids_that_were_seen(batches: list[list[str]], run: int) -> None:
    plain = SeenInMemory()
    with closing(SpilledSeen(run)) as spilled:
        for batch in batches:
            assert spilled.claim(batch) == plain.claim(batch)


def test_many_ids_in_many_runs() -> None:
    draw = random.Random(5)
    plain = SeenInMemory()
    with closing(SpilledSeen(run=500)) as spilled:
        for _ in range(40):
            batch = [f"f{draw.randrange(8_000)}" for _ in range(200)]
            assert spilled.claim(batch) == plain.claim(batch)
        assert len(spilled._sizes) > 5


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.integers(-3, 3), st.integers(-1, 1)), max_size=200
    ),
    st.integers(1, 10),
)
@settings(max_examples=60)
def test_sums(rows: list[tuple[int, str, int, int]], held: int) -> None:
    plain = SumsInMemory()
    with closing(SpilledSums(held)) as spilled:
        for hour, job, first, second in rows:
            plain.add((hour, job), first, second)
            spilled.add((hour, job), first, second)
        assert list(spilled.rows()) == list(plain.rows())
        assert list(spilled.rows()) == list(plain.rows()), "as often as it is asked for"
