"""Plots and the table of the guide, made from the result files.

    python -m benchmarks.plots [--results FOLDER] [--out FOLDER]

One SVG a benchmark in ``img/``: our figures beside their marks and bounds; ``benchmark-results.md``: every figure.
A benchmark without a result file gets an image that says so.  The same results give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.figures import RESULTS, ROOT, Figure, Result, number, result_read

GUIDE = ROOT / "docs" / "guide"
OURS, MARK, BOUND, AIM = "#2563a8", "#c0c4c9", "#333333", "#c2410c"
MAX_BARS = 24
BUSY = 0.2
"""Cores kept busy by others from which on it is said."""

INTRODUCTION = """# Benchmark results

Made by `python -m benchmarks.plots` from `benchmarks/results/`: the full form where it has been run, else the short
one, which says in its notes what it leaves out. Times measured beside other work are too long; how much ran is said.
What is measured, and how, is in [benchmarks](benchmarks.md).
"""
HEADER = "| figure | value | mark | bound | ratio | aim | notes |\n|---|---|---|---|---|---|---|\n"

mpl.rcParams.update(
    {
        "svg.hashsalt": "millpond",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


def bars(axes: Axes, figures: Sequence[Figure], labels: Sequence[str], *, log: bool = False) -> None:
    """Horizontal bars: ours, the mark below it, the bound as a tick, the aim as a red one."""
    for place, figure in enumerate(reversed(figures)):
        axes.barh(place + 0.2, figure.value, 0.36, color=OURS, label="millpond" if place == 0 else None)
        mark = figure.measured_mark if figure.measured_mark is not None else figure.mark
        if mark is not None:
            axes.barh(place - 0.2, mark, 0.36, color=MARK, label="mark" if place == 0 else None)
        for value, colour, name in ((figure.bound, BOUND, "bound"), (figure.aim, AIM, "aim")):
            if value is not None and (value > 0 or not log):
                axes.plot([value, value], [place - 0.42, place + 0.42], color=colour, linewidth=1.6, label=name)
    axes.set_yticks(range(len(labels)), [*reversed(labels)])
    if log:
        axes.set_xscale("log")
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    axes.legend(unique.values(), unique.keys(), fontsize=8, frameon=False, loc="best")


def _pick(result: Result, *endings: str) -> list[Figure]:
    return [figure for figure in result.figures if figure.figure.endswith(endings)][:MAX_BARS]


def _with_marks(result: Result) -> list[Figure]:
    return [figure for figure in result.figures if figure.mark is not None or figure.measured_mark is not None][
        :MAX_BARS
    ]


Chooser = Callable[[Result], list[Figure]]

PLOTS: dict[str, tuple[str, Chooser, bool, bool]] = {
    "packing": ("B1: cards allocated, %", lambda result: _pick(result, "_at_100", "_at_130"), False, True),
    "decisions": (
        "B2: decisions a second",
        lambda result: _pick(result, "1213", "5000", "20000", "per_s"),
        True,
        False,
    ),
    "admission": ("B3: makespan, s", lambda result: _pick(result, "15k_s", "50k_s"), True, False),
    "completion": ("B4: mean time to completion, s", lambda result: _pick(result, "mean_jct_s"), True, False),
    "sharing": ("B5: sharing", lambda result: _pick(result, "pooled", "rho", "islands"), False, False),
    "eviction": ("B6: ms a decision", lambda result: _pick(result, "500", "1000", "5000"), True, False),
    "whatif": ("B7: seconds", lambda result: _pick(result, "_s"), True, False),
    "pooling": ("B9: allocated, %", lambda result: _pick(result, "islands", "pooled"), False, False),
    "explain": ("B11: explain and forecast", _with_marks, True, False),
}
"""Name → (title, which figures, logarithmic axis, axis begins near the values)."""


def plot_draw(name: str, result: Result | None, path: Path) -> None:
    """Draw the plot of one benchmark; without a result, or with none of its figures, say so in its place."""
    title, choose, log, near = PLOTS[name]
    figures = choose(result) if result is not None else []
    canvas = Canvas(figsize=(7.2, 0.9 + 0.42 * max(1, len(figures))), layout="constrained")
    axes = canvas.subplots()
    if result is not None and figures:
        bars(axes, figures, [figure.figure for figure in figures], log=log)
        if near:
            values = [value for figure in figures for value in (figure.value, figure.mark, figure.bound) if value]
            axes.set_xlim(min(values) - 2, max(values) + 1)
        cores, mode = result.machine.get("cores", "?"), "" if result.mode == "full" else ", short form"
        title = f"{title} ({cores} cores{mode})"
    else:
        axes.set_axis_off()
        axes.text(0, 0.5, f"not measured yet: python -m benchmarks.{name}", va="center")
    axes.set_title(title, loc="left", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, metadata={"Date": None})


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
            plot_draw(name, result, options.out / "img" / f"benchmark-{name}.svg")
    (options.out / "benchmark-results.md").write_text(table(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
