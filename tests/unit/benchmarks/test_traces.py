"""Traces: read whole, in order, and refused with file and line where they cannot be."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.traces import TraceJob, muri_read, openb_read, philly_read

from millpond.domain.errors import InvalidInput

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"


def packed(path: Path, *lines: str) -> Path:
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    return path


def test_philly_is_whole_and_in_order() -> None:
    jobs = philly_read()
    assert len(jobs) == 82_247
    assert len({job.team for job in jobs}) == 15
    assert jobs[0].submit == 0
    assert all(a.submit <= b.submit for a, b in pairwise(jobs))
    assert sum(job.work for job in jobs) // 86_400 == 40_753


def test_muri_has_the_jobs_of_its_paper() -> None:
    assert [len(muri_read(f"trace{number}")) for number in (1, 2, 3, 4)] == [1494, 5755, 992, 2638]
    assert all(job.submit == 0 for job in muri_read("trace3_pr"))


def test_openb_shares_are_shares() -> None:
    jobs = openb_read()
    assert {job.team for job in jobs} == {"ls", "be", "burstable", "guaranteed"}
    assert min(job.milli for job in jobs) < 1000
    assert all(job.share == 1000 for job in jobs if job.cards > 1)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("yesterday,60,1,60,a", ":2: timestamp is 'yesterday'"),
        ("2017-10-09 07:01:55,soon,1,60,a", ":2: duration is 'soon'"),
        ("2017-10-09 07:01:55,-5,1,60,a", ":2: duration is '-5'"),
        ("2017-10-09 07:01:55,nan,1,60,a", ":2: duration is 'nan'"),
        ("2017-10-09 07:01:55,60,0,60,a", ":2: num_gpus is '0'"),
        ("2017-10-09 07:01:55,60", ":2: num_gpus is None"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        philly_read(packed(tmp_path / "philly.csv.xz", PHILLY, row))
    assert words in str(refused.value)


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"timestamp,"), lambda path: path.unlink()])
def test_a_file_that_is_no_xz_file_is_named(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = packed(tmp_path / "philly.csv.xz", PHILLY)
    spoil(path)
    with pytest.raises(InvalidInput, match=r"philly\.csv\.xz cannot be read"):
        philly_read(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r":1: no column num_gpus, cluster"):
        philly_read(packed(tmp_path / "philly.csv.xz", "timestamp,duration"))


@pytest.mark.parametrize(
    ("cards", "shape"), [(1, (1, 1)), (8, (1, 8)), (12, (2, 6)), (16, (2, 8)), (24, (3, 8)), (128, (16, 8))]
)
def test_a_job_takes_as_few_nodes_as_it_can(cards: int, shape: tuple[int, int]) -> None:
    assert TraceJob("j", 0, 1, cards).shape == shape
