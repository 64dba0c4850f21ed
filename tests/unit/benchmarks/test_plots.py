"""Plots and tables of the guide: the same bytes for the same results, and what is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.figures import RESULTS, Figure, Result, result_read, result_write
from benchmarks.plots import PLOTS, main, table


def results(folder: Path) -> None:
    figures = (
        Figure("B5", "utilisation_vs_pooled", 98.5, "%", mark=100.0, mark_source="pool", aim=97.0, better="more"),
        Figure("B5", "worst_rho", 1.3, "×", mark=1.2, mark_source="Sia", aim=1.2, note="a | b", missing="no go"),
    )
    result_write(
        Result("sharing", "full", {"cores": 2}, "0" * 40, "2026-11-30T12:00:00+00:00", 2.0, True, figures), folder
    )


def test_the_same_results_give_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results(tmp_path / "results")
    pages = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert main(["--results", str(tmp_path / "results"), "--out", str(tmp_path / name)]) == 0
        pages.append([path.read_bytes() for path in sorted((tmp_path / name).rglob("*.*"))])
    assert pages[0] == pages[1]
    assert len(pages[0]) == 1 + len(PLOTS)
    assert b"not measured yet" not in (tmp_path / "a" / "img" / "benchmark-sharing.svg").read_bytes()
    assert "packing: no results; run python -m benchmarks.packing" in capsys.readouterr().out


def test_losses_are_shown_as_plainly_as_wins(tmp_path: Path) -> None:
    results(tmp_path)
    main(["--results", str(tmp_path), "--out", str(tmp_path)])
    page = (tmp_path / "benchmark-results.md").read_text()
    assert "| `utilisation_vs_pooled` | 98.5 % | 100 pool |  | 0.985 | ≥ 97, met |  |" in page
    assert "| `worst_rho` | 1.3 × | 1.2 Sia |  | 1.083 | ≤ 1.2, **missed** | a / b; peer missing: no go |" in page


def test_pictures_show_short_forms_growth_and_what_was_missed(tmp_path: Path) -> None:
    figures = (
        Figure("B2", "decisions_per_s_1213", 20_000, "/s"),
        Figure("B2", "decisions_per_s_20000", 19_000, "/s", aim=20_000, better="more"),
    )
    short = (Figure("B3", "makespan_15k_quarter_s", 17.9, "s", bound=16.0),)
    for name, mode, given in (("decisions", "full", figures), ("admission", "short", short)):
        result = Result(name, mode, {"cores": 2}, "0" * 40, "2026-11-30T12:00:00+00:00", 2.0, True, given)  # type: ignore[arg-type]
        result_write(result, tmp_path / "short" if mode == "short" else tmp_path)
    main(["--results", str(tmp_path), "--out", str(tmp_path)])
    shown = (tmp_path / "img" / "benchmark-decisions.svg").read_text()
    assert "linear growth" in shown
    assert "19 000  missed" in shown
    shown = (tmp_path / "img" / "benchmark-admission.svg").read_text()
    assert "short form" in shown
    assert "makespan_15k_quarter_s" in shown


def test_every_committed_result_has_its_picture() -> None:
    folder = RESULTS / "short"
    for name, panels in PLOTS.items():
        assert any(panel.choose(result_read(folder / f"{name}.json")) for panel in panels), name


def test_no_results_are_an_empty_page() -> None:
    assert table([]).startswith("# Benchmark results")
