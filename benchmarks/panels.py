"""The drawings of the guide's benchmark pictures: bars beside marks and bounds, and how times grow with the pool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.figures import Figure, Result, number

OURS, MARK, BOUND, AIM = "#2563a8", "#c0c4c9", "#333333", "#c2410c"
MAX_BARS = 24
GROWTH = re.compile(r"(decisions|arrivals)_per_s_(\d+)\Z")

mpl.rcParams.update(
    {
        "svg.hashsalt": "millpond",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: the figures whose whole name matches `names`, all in one unit, which `title` tells.

    ``log``: the axis is logarithmic; ``near``: it begins near the values.  ``growth``: not bars, but microseconds a
    decision over the nodes of the pool, beside what linear growth would be.
    """

    title: str
    names: str
    log: bool = False
    near: bool = False
    growth: bool = False

    def choose(self, result: Result) -> list[Figure]:
        """Its figures, in their order."""
        return [figure for figure in result.figures if re.fullmatch(self.names, figure.figure)][:MAX_BARS]


def panels_draw(panels: Sequence[Panel], result: Result | None, path: Path, name: str) -> None:
    """Draw those panels for which there are figures, one below the other; without any, say what to run."""
    shown = [(panel, panel.choose(result)) for panel in panels] if result is not None else []
    shown = [(panel, figures) for panel, figures in shown if figures]
    heights = [3.0 if panel.growth else 0.85 + 0.36 * len(figures) for panel, figures in shown] or [1.2]
    canvas = Canvas(figsize=(7.6, sum(heights) + 0.3), layout="constrained")
    rows = canvas.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for (panel, figures), axes in zip(shown, rows[:, 0], strict=bool(shown)):
        if panel.growth:
            growth(axes, figures)
        else:
            bars(axes, figures, log=panel.log, near=panel.near)
        axes.set_title(panel.title, loc="left", fontsize=10)
    known: dict[str, Artist] = {}
    for panel, axes in zip((panel for panel, _ in shown), rows[:, 0], strict=bool(shown)):
        if not panel.growth:
            handles, names = axes.get_legend_handles_labels()
            known.update(zip(names, handles, strict=True))
    if known:
        canvas.legend(
            list(known.values()), list(known), fontsize=8, frameon=False, ncols=len(known), loc="outside lower right"
        )
    if result is not None and shown:
        form = "full form" if result.mode == "full" else "short form"
        canvas.suptitle(f"{form}, {result.machine.get('cores', '?')} cores", x=0.99, ha="right", fontsize=8)
    else:
        rows[0, 0].set_axis_off()
        rows[0, 0].text(0, 0.5, f"not measured yet: python -m benchmarks.{name}", va="center")
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, metadata={"Date": None})


def bars(axes: Axes, figures: Sequence[Figure], *, log: bool = False, near: bool = False) -> None:
    """Horizontal bars: ours with its value, the mark below it, the bound as a tick, the aim as a red one.

    A missed aim is said in red beside its value.
    """
    for place, figure in enumerate(reversed(figures)):
        if figure.value > 0 or not log:
            axes.barh(place + 0.2, figure.value, 0.36, color=OURS, label="millpond")
        mark = _mark(figure)
        if mark is not None:
            axes.barh(place - 0.2, mark, 0.36, color=MARK, label="mark")
        for value, colour, name in ((figure.bound, BOUND, "bound"), (figure.aim, AIM, "aim")):
            if value is not None and (value > 0 or not log):
                axes.plot([value, value], [place - 0.42, place + 0.42], color=colour, linewidth=1.6, label=name)
        missed = figure.met is False
        axes.annotate(
            f"{number(figure.value)}{'  missed' if missed else ''}",
            (1.0, place + 0.2),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=AIM if missed else BOUND,
            annotation_clip=False,
        )
    axes.set_yticks(range(len(figures)), [figure.figure for figure in reversed(figures)])
    if log:
        axes.set_xscale("log")
    if near:
        values = [value for figure in figures for value in (figure.value, _mark(figure), figure.bound) if value]
        axes.set_xlim(min(values) - 2, max(values) + 1)


def growth(axes: Axes, figures: Sequence[Figure]) -> None:
    """Microseconds of a decision over nodes, both logarithmic; dashed: as it would be if it grew as the pool does."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for figure in figures:
        match = GROWTH.match(figure.figure)
        if match is not None and figure.value > 0:
            lines.setdefault(match.group(1), []).append((int(match.group(2)), 1e6 / figure.value))
    words = {"decisions": "a decision, all jobs at once", "arrivals": "a plan for each arrival"}
    for colour, (kind, points) in zip((OURS, BOUND), sorted(lines.items(), reverse=True), strict=False):
        nodes, times = [node for node, _ in sorted(points)], [time for _, time in sorted(points)]
        axes.plot(nodes, times, "o-", color=colour, label=words[kind])
        axes.plot(nodes, [times[0] * node / nodes[0] for node in nodes], "--", color=MARK, label="linear growth")
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({node for points in lines.values() for node, _ in points})
    axes.set_xticks(ticks, [number(node) for node in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("nodes")
    axes.set_ylabel("µs")
    handles, names = axes.get_legend_handles_labels()
    known = dict(zip(names, handles, strict=True))
    axes.legend(known.values(), known.keys(), fontsize=8, frameon=False, loc="upper left")


def _mark(figure: Figure) -> float | None:
    return figure.measured_mark if figure.measured_mark is not None else figure.mark
