"""Plots and the table of the guide, made from the result files.

    python -m benchmarks.plots [--results FOLDER] [--out FOLDER]

One SVG a benchmark in ``img/``: our figures beside their marks and bounds; ``benchmark-results.md``: every figure.
A benchmark without a result file gets an image that says so.  The same results give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import RESULTS, ROOT, Figure, Result, number, result_read
from benchmarks.panels import GROWTH, Panel, panels_draw

GUIDE = ROOT / "docs" / "guide"
BUSY = 0.2
"""Cores kept busy by others from which on it is said."""

INTRODUCTION = """# Benchmark results

Made by `python -m benchmarks.plots` from `benchmarks/results/`: the full form where it has been run, else the short
one, which says in its notes what it leaves out. Times measured beside other work are too long; how much ran is said.
What is measured, and how, is in [benchmarks](benchmarks.md).
"""
HEADER = "| figure | value | mark | bound | ratio | aim | notes |\n|---|---|---|---|---|---|---|\n"

PLOTS: dict[str, tuple[Panel, ...]] = {
    "packing": (
        Panel("B1: cards allocated at 130 %, ties by name, %", r"(?!worth|loss).*_at_130", near=True),
        Panel("B1: cards allocated at 130 %, ties at random, %", r".*_at_130(_fresh)?_random_ties", near=True),
        Panel("B1: fresh lists, ties by name; jobs held back, %", r".*_at_130_(fresh|hold_\d+)", near=True),
    ),
    "decisions": (
        Panel("B2: microseconds a decision, by nodes", GROWTH.pattern, growth=True),
        Panel("B2: decisions a second", r".*_per_s(_.*)?", log=True),
        Panel("B2: 99th percentile of a plan for one arrival, µs", r"p99_us_.*"),
    ),
    "admission": (
        Panel("B3: makespan, s", r"makespan_.*_s", log=True),
        Panel("B3: cards in use until the last end, %", r"usage_.*"),
    ),
    "completion": (
        Panel("B4: mean time to completion over that of SRSF", r"mean_jct_vs_srsf_.*"),
        Panel("B4: mean time to completion, s", r".*_mean_jct_s", log=True),
    ),
    "sharing": (
        Panel("B5: jobs that wait longer than in a private cluster", r".*anomalies.*"),
        Panel("B5: cards in use, % (of the pool without quotas: vs_pooled)", r".*utilisation.*"),
        Panel("B5: worst finish-time ratio", r".*worst_rho.*", log=True),
    ),
    "eviction": (
        Panel("B6: milliseconds a decision", r"ms_at_.*", log=True),
        Panel("B6: lost work over the optimum", r"lost_work_vs_milp_.*"),
    ),
    "whatif": (Panel("B7: seconds", r".*_s", log=True),),
    "pooling": (
        Panel("B9: cards allocated, %", r".*allocated_.*"),
        Panel("B9: jobs and work done, pool over islands", r".*(throughput|work)_ratio"),
    ),
    "explain": (
        Panel("B11: milliseconds of a why", r"why_.*ms"),
        Panel("B11: intervals that held, % (aim 75 to 85)", r"eta_coverage(_raw)?"),
        Panel("B11: seconds", r"eta_.*_s", log=True),
    ),
}
"""Name → the parts of its picture."""


def table(results: Sequence[Result]) -> str:
    """Every figure of every result, as a page of the guide."""
    parts = [INTRODUCTION]
    for result in results:
        facts = result.machine
        core = "compiled core" if result.compiled else "pure Python core"
        other = facts.get("other_work_cores")
        beside = f", beside other work on {other} cores" if isinstance(other, float) and other >= BUSY else ""
        form = "Full" if result.mode == "full" else "Short"
        parts.append(
            f"\n## {result.name}\n\n{form} form, {result.seconds:.0f} s, {core}, commit `{result.commit[:12]}`, "
            f"{result.started[:10]}, {facts.get('cpu')} with {facts.get('cores')} cores{beside}, "
            f"Python {facts.get('python')}.\n\n{HEADER}"
        )
        parts += [_row(figure) + "\n" for figure in result.figures]
    return "".join(parts)


def _row(figure: Figure) -> str:
    marks = [f"{number(figure.mark)} {figure.mark_source}".strip()] if figure.mark is not None else []
    if figure.measured_mark is not None:
        marks.append(f"here {number(figure.measured_mark)}" + ("" if marks else f" {figure.mark_source}"))
    sign = "≥" if figure.better == "more" else "≤"
    aim = "" if figure.aim is None else f"{sign} {number(figure.aim)}, {'met' if figure.met else '**missed**'}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3f}"
    bound = "" if figure.bound is None else number(figure.bound)
    notes = "; ".join(filter(None, (figure.note, f"peer missing: {figure.missing}" if figure.missing else "")))
    value = f"{number(figure.value)} {figure.unit}".strip()
    cells = (f"`{figure.figure}`", value, ", ".join(marks), bound, ratio, aim, notes)
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=GUIDE)
    options = parser.parse_args(argv)
    results = []
    for name in (*PLOTS, "checked", "start_latency"):
        source = options.results / f"{name}.json"
        if not source.exists():
            source = options.results / "short" / f"{name}.json"
        result = result_read(source) if source.exists() else None
        if result is None:
            print(f"{name}: no results; run python -m benchmarks.{name}")
        else:
            results.append(result)
        if name in PLOTS:
            panels_draw(PLOTS[name], result, options.out / "img" / f"benchmark-{name}.svg", name)
    (options.out / "benchmark-results.md").write_text(table(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
