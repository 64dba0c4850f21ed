"""Invented clusters for a while (`benchmarks.days`), every plan judged by the checker."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.checked import Tally, day_check

from millpond.files.snapshots import snapshot_load
from millpond.scheduling.decisions import Plan


@pytest.mark.parametrize("seed", [2, 22])
def test_some_minutes_of_a_day(seed: int, tmp_path: Path) -> None:
    tally = day_check(seed, 900, tmp_path, again=10)
    assert tally.broken == ""
    assert tally.starts
    assert tally.again


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_hours_of_several_days(tmp_path: Path) -> None:
    """Some 20 s on an idle core, with evictions and reservations; `make check-million` goes on from there."""
    total = Tally()
    for seed in (20, 21, 22, 24, 26, 27, 28):  # 23 and 25 are crowded, and take many minutes each
        total.add(day_check(seed, 3600, tmp_path, again=20))
        assert total.broken == ""
    assert total.evictions
    assert total.reservations


def test_what_breaks_a_rule_is_kept_in_a_file_that_can_be_planned(tmp_path: Path) -> None:
    tally = day_check(22, 900, tmp_path, planner=lambda given: Plan(given.now - 1), again=3)
    assert "says something else" in tally.broken
    [path] = tmp_path.iterdir()
    assert str(path) in tally.broken
    assert snapshot_load(path.read_text(), str(path)).snapshot.jobs
