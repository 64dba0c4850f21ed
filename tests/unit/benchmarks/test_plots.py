"""Plots and tables of the guide: the same bytes for the same results, and what is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.figures import Figure, Result, result_write
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


def test_no_results_are_an_empty_page() -> None:
    assert table([]).startswith("# Benchmark results")
