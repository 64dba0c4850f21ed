"""Plots of runs as SVG that is put into a page: it takes the page's colours, so it reads in the light and in the dark.

Nothing but numbers is written inside a plot; names and units stand in the page, where every script has a font.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from millpond.simulation.outcome import Outcome

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f")
"""Okabe and Ito's palette (without yellow and black), told apart by the colour-blind, on white and on black."""

STYLES = ("-", "--", "-.", ":")
UNITS = (("seconds", 1), ("minutes", 60), ("hours", 3_600), ("days", 86_400))
MAX_TENANTS = 20

_INK, _GRID = "#010203", "#040506"
_VARIABLES = {_INK: "var(--ink, #6e7781)", _GRID: "var(--grid, #8c959f)"}
"""Colours that the page decides; an image that stands alone takes one that shows on white and on black."""


def colour_of(index: int) -> str:
    """The colour of run number `index`."""
    return COLOURS[index % len(COLOURS)]


def dash_of(index: int) -> str:
    """The line style of run number `index`."""
    return STYLES[index % len(STYLES)]


def unit_of(seconds: int) -> tuple[str, int]:
    """The unit (word, seconds) in which such a time has few digits."""
    return next((unit for unit in reversed(UNITS) if seconds >= 3 * unit[1]), UNITS[0])


def series_plot(outcomes: Sequence[Outcome], name: str) -> str:
    """``used`` and ``stranded`` in percent of the pool, ``waiting`` in jobs, ``evictions`` added up."""
    unit = unit_of(max(outcome.record.elapsed for outcome in outcomes))[1]
    figure, axes = _figure(2.5)
    top = 0.0
    for index, outcome in enumerate(outcomes):
        times, values = _points(outcome, name)
        top = max(top, *values, 0.0)
        axes.plot(
            [time / unit for time in times],
            values,
            color=colour_of(index),
            linestyle=dash_of(index),
            # The first is drawn first and widest: where others are equal, it still shows.
            linewidth=1.6 if index else 3.2,
            drawstyle="steps-post",
        )
    axes.set_ylim(0, 102 if name == "used" else max(top * 1.08, 1.0))
    axes.set_xlim(0, max(outcome.record.elapsed for outcome in outcomes) / unit or 1)
    if name in {"waiting", "evictions"}:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    return _svg(figure, name)


def waits_plot(outcomes: Sequence[Outcome], tenants: Sequence[str]) -> tuple[str, str]:
    """(SVG, word of the unit): a group of bars a tenant, the first on top."""
    bars = [[_waits(outcome, tenant) for tenant in tenants] for outcome in outcomes]
    word, unit = unit_of(max((p95 for each in bars for _, p95 in each), default=0))
    height = 0.8 / len(outcomes)
    figure, axes = _figure(0.9 + 0.22 * len(tenants) * max(len(outcomes), 1))
    for index, each in enumerate(bars):
        places = [row + (index - (len(outcomes) - 1) / 2) * height for row in range(len(tenants))]
        axes.barh(places, [p95 / unit for _, p95 in each], height * 0.9, color=colour_of(index), alpha=0.4)
        axes.barh(places, [p50 / unit for p50, _ in each], height * 0.9, color=colour_of(index))
    axes.set_yticks(range(len(tenants)), list(tenants))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=0)
    return _svg(figure, "waits"), word


def _points(outcome: Outcome, name: str) -> tuple[list[int], list[float]]:
    """Beginnings of intervals and values; the last value is repeated at the end, so that its step shows."""
    record = outcome.record
    times: list[int] = []
    values: list[float] = []
    total = 0
    for index, amount in enumerate(record.series[name]):
        begin = index * record.width
        seconds = min(record.width, record.elapsed - begin)
        total += amount
        if seconds <= 0 and name != "evictions":
            continue
        times.append(begin)
        if name == "used":
            values.append(100 * amount / (record.pool * seconds) if record.pool else 0.0)
        elif name == "stranded":
            scale = record.pool * record.weight * seconds
            values.append(100 * amount / scale if scale else 0.0)
        elif name == "waiting":
            values.append(amount / seconds)
        else:
            values.append(float(total))
    return ([*times, record.elapsed], [*values, values[-1]]) if values else ([0], [0.0])


def _waits(outcome: Outcome, tenant: str) -> tuple[int, int]:
    figures = outcome.record.tenants.get(tenant, {}).get("wait_seconds")
    if not isinstance(figures, dict):
        return 0, 0
    return figures["p50"], figures["p95"]


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.6, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    figure.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_GRID)
    axes.tick_params(colors=_GRID, labelcolor=_INK, labelsize=9)
    axes.grid(visible=True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Figure, salt: str) -> str:
    """The bare element: no prolog, no metadata, ids of its own, the same bytes every time."""
    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt, "font.family": "sans-serif"}):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = stream.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    # Ids of several plots live in one page.
    text = re.sub(r'\bid="([^"]+)"', rf'id="{salt}-\1"', text)
    text = re.sub(r"(href=\"#|url\(#)", rf"\g<1>{salt}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    return text
