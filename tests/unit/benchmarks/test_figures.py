"""Figures: what they say about themselves, and that a result file gives back what was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.figures import Figure, Result, benchmark_run, quantile, result_read, result_write
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.errors import InvalidInput

numbers = st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
figures = st.builds(
    Figure,
    texts,
    texts,
    numbers,
    texts,
    runs=st.integers(1, 100),
    mark=st.none() | numbers,
    mark_source=texts,
    measured_mark=st.none() | numbers,
    missing=texts,
    bound=st.none() | numbers,
    note=texts,
)


def result(*figures: Figure) -> Result:
    return Result("demo", "short", {"cores": 2}, "0123abc", "2026-11-30T12:00:00+00:00", 1.5, False, figures)


@given(st.lists(figures, max_size=4))
def test_a_result_file_gives_back_its_figures(tmp_path_factory: pytest.TempPathFactory, found: list[Figure]) -> None:
    path = result_write(result(*found), tmp_path_factory.mktemp("results"))
    assert result_read(path) == result(*found)


def test_the_file_has_the_keys_that_others_read(tmp_path: Path) -> None:
    figure = Figure("B1", "default_at_130", 96.7, "%", mark=95.39, mark_source="FGD", measured_mark=95.24, bound=99.9)
    written = json.loads(result_write(result(figure), tmp_path).read_text())
    assert written["figures"] == [
        {
            "id": "B1",
            "figure": "default_at_130",
            "value": 96.7,
            "unit": "%",
            "runs": 1,
            "mark": 95.39,
            "mark_source": "FGD",
            "measured_mark": 95.24,
            "bound": 99.9,
            "ratio": 1.013733,
        }
    ]
    assert {"machine", "commit", "started"} <= set(written)


@pytest.mark.parametrize(
    ("value", "aim", "better", "met"),
    [(5, 5, "less", True), (6, 5, "less", False), (5, 5, "more", True), (4, 5, "more", False), (4, None, "less", None)],
)
def test_an_aim_is_met_from_its_own_side(value: float, aim: float | None, better: str, met: bool | None) -> None:
    assert Figure("B0", "x", value, "s", aim=aim, better="more" if better == "more" else "less").met is met


def test_a_line_names_mark_bound_ratio_aim_and_a_missing_peer() -> None:
    figure = Figure(
        "B2",
        "per_s",
        20_500,
        "1/s",
        mark=810,
        mark_source="kube-scheduler, published",
        missing="go is not on the PATH",
        bound=90_000,
        aim=20_000,
        better="more",
    )
    line = figure.line()
    for part in ("20 500", "mark 810 kube-scheduler, published", "bound 90 000", "ratio 25.309", "aim ≥ 20 000: met"):
        assert part in line
    assert "peer missing: go is not on the PATH" in line
    assert "MISSED" in Figure("B2", "per_s", 10, "1/s", aim=20_000, better="more").line()


BEGIN = '{"machine": {}, "commit": "x", "started": "2026-11-30T12:00:00+00:00", "figures": '


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        BEGIN.replace("2026-11-30T12:00:00+00:00", "yesterday") + "[]}",
        BEGIN + '[{"id": "B1"}]}',
        BEGIN + '[{"id": "B1", "figure": "x", "unit": "s", "value": "fast"}]}',
    ],
)
def test_what_is_not_a_result_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "packing.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"packing\.json is not a result file") as refused:
        result_read(path)
    assert "benchmarks.packing" in refused.value.hint


def test_nothing_half_written_stays_when_a_benchmark_fails(tmp_path: Path) -> None:
    def run(_: str) -> list[Figure]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        benchmark_run("demo", run, "short", tmp_path)
    assert not list(tmp_path.iterdir())


@given(st.lists(st.integers(0, 100), min_size=1), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_is_the_least_value_that_enough_do_not_exceed(values: list[int], share: float) -> None:
    found = quantile(values, share)
    assert sum(value <= found for value in values) >= share * len(values)
    assert all(sum(value <= other for value in values) < share * len(values) for other in values if other < found)


def test_no_values_have_no_quantile() -> None:
    with pytest.raises(InvalidInput):
        quantile([], 0.5)
