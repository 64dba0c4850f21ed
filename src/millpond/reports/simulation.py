"""Runs of a simulation as one page: plots and tables, nothing loaded from elsewhere, light or dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from millpond.domain.amounts import duration_format
from millpond.reports.plots import MAX_TENANTS, STYLES, colour_of, series_plot, unit_of, waits_plot
from millpond.reports.words import Words
from millpond.simulation.comparison import (
    BASELINE,
    RUN_FIGURES,
    TENANT_FIGURES,
    difference_text,
    figure_text,
    run_figures,
    tenant_figures,
    tenant_names,
)
from millpond.simulation.outcome import Outcome

PLOTS = ("used", "waiting", "stranded", "evictions")

STYLE = """
:root { --ink: #1d2328; --dim: #5b6670; --grid: #c9d1d9; --paper: #ffffff; --band: #f3f5f7; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --dim: #9aa6b2; --grid: #46515c; --paper: #14181c; --band: #1d2329; }
}
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0 .6rem; color: var(--dim); }
figure { margin: 0; overflow-x: auto; }
svg { width: 100%; height: auto; display: block; }
figure svg { min-width: 36rem; }
svg text { font-family: inherit !important; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .5rem; text-align: right; }
th { color: var(--dim); font-weight: 600; white-space: normal; vertical-align: bottom;
  border-bottom: 1px solid var(--grid); }
th.name, td.name { text-align: left; }
td.said { white-space: normal; min-width: 12rem; }
tr.difference td { color: var(--dim); padding-top: 0; }
tbody.group { border-bottom: 1px solid var(--grid); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .2rem 0; padding: 0; list-style: none; }
.key li { display: flex; align-items: center; gap: .4rem; }
.key svg { width: 2rem; height: .7rem; }
code { background: var(--band); padding: .05rem .3rem; border-radius: .2rem; }
"""

DASHES = {"-": "", "--": "6 3", "-.": "7 3 2 3", ":": "2 3"}


def report_html(outcomes: Sequence[Outcome], lang: str = "en") -> str:
    """The page.  The first outcome is the one that the others are compared with."""
    words = Words(lang)
    title = words("title", count=len(outcomes)) if len(outcomes) > 1 else words("title_one")
    first = outcomes[0]
    pools = sorted({outcome.record.pool // 1000 for outcome in outcomes})
    cards = "–".join(str(pool) for pool in (pools[0], pools[-1])) if len(pools) > 1 else str(pools[0])
    about = words("pool", cards=cards, time=duration_format(first.record.elapsed))
    unit = words(unit_of(max(outcome.record.elapsed for outcome in outcomes))[0])
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(about)}</p>",
        _key(words, outcomes),
        f"<h2>{escape(words('runs'))}</h2>",
        _runs(words, outcomes),
    ]
    for name in PLOTS:
        say = f"{words(f'say_{name}')} {words('axis', unit=unit)}"
        parts.append(_plot(words(f"plot_{name}"), say, series_plot(outcomes, name), _key(words, outcomes)))
    parts.append(_waits(words, outcomes))
    parts += [f"<h2>{escape(words('tenants'))}</h2>", _tenants(words, outcomes)]
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="{words.lang}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _name(words: Words, outcome: Outcome) -> str:
    return words("baseline") if outcome.name == BASELINE else outcome.name


def _key(words: Words, outcomes: Sequence[Outcome]) -> str:
    """Which line is which run."""
    items = []
    for index, outcome in enumerate(outcomes):
        dash = DASHES[STYLES[index % len(STYLES)]]
        line = (
            f'<svg viewBox="0 0 32 10" aria-hidden="true"><line x1="0" y1="5" x2="32" y2="5" '
            f'stroke="{colour_of(index)}" stroke-width="3" stroke-dasharray="{dash}"/></svg>'
        )
        items.append(f"<li>{line}{escape(_name(words, outcome))}</li>")
    return f'<ul class="key">{"".join(items)}</ul>'


def _plot(heading: str, say: str, svg: str, key: str) -> str:
    title = escape(heading)
    return f'<h2>{title}</h2>\n<p>{escape(say)}</p>\n{key}\n<figure role="img" aria-label="{title}">{svg}</figure>'


def _waits(words: Words, outcomes: Sequence[Outcome]) -> str:
    tenants = sorted(tenant_names(outcomes), key=lambda name: (-_arrived(outcomes, name), name))
    shown = sorted(tenants[:MAX_TENANTS])
    svg, unit = waits_plot(outcomes, shown)
    say = f"{words('say_waits')} {words('axis', unit=words(unit))}"
    if len(tenants) > len(shown):
        say += f" {words('say_some', count=len(shown))}"
    return _plot(words("plot_waits"), say, svg, _key(words, outcomes))


def _arrived(outcomes: Sequence[Outcome], tenant: str) -> int:
    counts = [outcome.record.tenants.get(tenant, {}).get("arrived", 0) for outcome in outcomes]
    return max(count for count in counts if isinstance(count, int))


def _runs(words: Words, outcomes: Sequence[Outcome]) -> str:
    heads = _heads(words, ("run", "changes"), RUN_FIGURES)
    base = run_figures(outcomes[0])
    rows = []
    for index, outcome in enumerate(outcomes):
        figures = run_figures(outcome)
        said = ", ".join(f"<code>{escape(change)}</code>" for change in outcome.changes) or escape(words("unchanged"))
        if outcome.stopped:
            said += f" ({escape(words('stopped', time=duration_format(outcome.record.elapsed)))})"
        lead = f'<td class="name">{escape(_name(words, outcome))}</td><td class="name said">{said}</td>'
        rows.append(f"<tr>{lead}{_cells(figures)}</tr>")
        if index:
            rows.append(_difference(words, 2, base, figures))
    return f'<div class="scroll"><table><thead>{heads}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _tenants(words: Words, outcomes: Sequence[Outcome]) -> str:
    heads = _heads(words, ("tenant", "run"), TENANT_FIGURES)
    groups = []
    for name in tenant_names(outcomes):
        rows = []
        base = tenant_figures(outcomes[0], name)
        for index, outcome in enumerate(outcomes):
            figures = tenant_figures(outcome, name)
            first = "" if index else escape(name)
            lead = f'<td class="name">{first}</td><td class="name">{escape(_name(words, outcome))}</td>'
            rows.append(f"<tr>{lead}{_cells(figures)}</tr>")
            if index:
                rows.append(_difference(words, 2, base, figures))
        groups.append(f'<tbody class="group">{"".join(rows)}</tbody>')
    return f'<div class="scroll"><table><thead>{heads}</thead>{"".join(groups)}</table></div>'


def _heads(words: Words, names: Sequence[str], numbers: Sequence[str]) -> str:
    left = "".join(f'<th class="name" scope="col">{escape(words(name))}</th>' for name in names)
    right = "".join(f'<th scope="col">{escape(words(name))}</th>' for name in numbers)
    return f"<tr>{left}{right}</tr>"


def _cells(figures: Mapping[str, int]) -> str:
    return "".join(f"<td>{figure_text(name, value)}</td>" for name, value in figures.items())


def _difference(words: Words, before: int, base: Mapping[str, int], figures: Mapping[str, int]) -> str:
    told = "".join(f"<td>{difference_text(name, figures[name] - base[name])}</td>" for name in figures)
    lead = "<td></td>" * (before - 1) + f'<td class="name">{escape(words("difference"))}</td>'
    return f'<tr class="difference">{lead}{told}</tr>'
