"""A figure for a protocol: the front with the recommended point, results and rounds, and the chance by lead."""

from __future__ import annotations

import io
import math

import numpy as np

from roundwise.errors import InputError
from roundwise.planning.quantities import exact
from roundwise.planning.render import Shown
from roundwise.planning.tradeoff import Setting
from roundwise.planning.wording import what_if
from roundwise.theory.figures.canvas import Axes, Figure

BLUE, RED, GREY = "#3a6ea5", "#b22222", "#8a8a8a"


def figure_of(plan: Shown) -> Figure:
    """Four panels; one that has nothing to show is left out."""
    try:
        from matplotlib.figure import Figure as Sheet
    except ImportError:
        raise InputError("Figures need the extra 'sim': pip install 'roundwise[sim]'.") from None
    panels = [_results, _rounds]
    if len(plan.front) > 1:
        panels.insert(0, _front)
    if len(plan.rows) > 1:
        panels.append(_by_lead)
    columns = 2
    lines = math.ceil(len(panels) / columns)
    figure = Sheet(figsize=(9.0, 3.3 * lines), layout="constrained")
    axes = np.atleast_1d(figure.subplots(lines, columns)).reshape(-1)
    for panel, here in zip(panels, axes, strict=False):
        here.spines[["top", "right"]].set_visible(False)
        here.grid(axis="y", color="0.9", linewidth=0.8)
        here.set_axisbelow(True)
        panel(plan, here)
    for here in axes[len(panels) :]:
        here.set_axis_off()
    return figure


def drawing_of(figure: Figure) -> str:
    """A figure as SVG to stand in a page; the same figure gives the same text."""
    import matplotlib as mpl

    target = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "roundwise", "svg.fonttype": "none"}):
        figure.savefig(target, format="svg", metadata={"Date": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def _front(plan: Shown, axes: Axes) -> None:
    """Results against rounds; of claims, which end with the budget, the chance that one is shown."""
    power = plan.front[0].power is not None

    def height(each: Setting) -> float:
        return 100 * (each.power or 0.0) if power else each.mean_samples

    front = sorted((each for each in plan.front if each.front), key=lambda each: each.mean_batches)
    others = [each for each in plan.front if not each.front]
    style = {"color": BLUE, "ms": 4, "label": "nothing needs fewer of both" if not power else None}
    axes.plot([each.mean_batches for each in front], [height(each) for each in front], "-o", **style)
    axes.plot([each.mean_batches for each in others], [height(each) for each in others], "x", color=GREY)
    for each in plan.front:
        if each.recommended:
            axes.plot(each.mean_batches, height(each), "o", ms=10, mfc="none", mec=RED, mew=2, label="recommended")
    if plan.row.lower_bound is not None and not power:
        axes.axhline(plan.row.lower_bound, color=GREY, linestyle=":", linewidth=1, label="lower bound of any method")
    axes.set_ylim(0, 105 if power else 1.1 * max(height(each) for each in plan.front))
    axes.set_xlim(0, 1.1 * max(each.mean_batches for each in plan.front))
    axes.set_xlabel("rounds, on average")
    axes.set_ylabel("a true claim is shown, %" if power else "results, on average")
    axes.yaxis.set_major_formatter(lambda value, _: exact(value))
    axes.set_title(f"Settings, for {what_if(plan.row)}", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _results(plan: Shown, axes: Axes) -> None:
    """How many studies have an answer (or have ended, of claims) by so many results."""
    seen: list[float] = []
    shades = ["#b9c9dc", "#8fa9c7", "#6f6f6f", "#a9a9a9", "#c9b08f"]
    for i, row in enumerate(plan.rows):
        values = [value for value in row.quantiles if math.isfinite(value)]
        if values:
            seen += values
            bold = i == plan.target
            levels = np.linspace(1, len(values), len(values))
            shade = BLUE if bold else shades[i % len(shades)]
            axes.step(values, levels, color=shade, linewidth=2.2 if bold else 1.3, label=row.expected.label)
    if plan.wish.budget is not None:
        label = f"budget {exact(plan.wish.budget)}"
        axes.axvline(plan.wish.budget, color=RED, linestyle="--", linewidth=1, label=label)
    if seen and max(seen) > 6 * min(seen):
        _logarithmic(axes, "x", max(seen) > 100 * min(seen))
    axes.set_ylim(0, 100)
    axes.xaxis.set_major_formatter(lambda value, _: exact(value))
    lost = ", also those that never come back" if plan.wish.missing else ""
    axes.set_xlabel(f"results asked for{lost}")
    axes.set_ylabel(f"studies {'that ended' if plan.row.claims else 'with an answer'}, %")
    axes.set_title(f"Results until the {'end' if plan.row.claims else 'answer'}", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _rounds(plan: Shown, axes: Axes) -> None:
    row = plan.row
    if row.rounds:
        first, last = row.rounds[0][0], row.rounds[-1][0]
        step = math.ceil((last - first + 1) / 20)  # rounds a bar
        shares: dict[int, float] = {}
        for number, each in row.rounds:
            place = first + (number - first) // step * step
            shares[place] = shares.get(place, 0.0) + 100 * each
        axes.bar([place + (step - 1) / 2 for place in shares], list(shares.values()), color=BLUE, width=0.85 * step)
        if last - first < 12:
            axes.set_xticks(range(first, last + 1))
    axes.set_xlabel("rounds")
    axes.set_ylabel("studies, %")
    axes.set_title(f"Rounds until the {'end' if row.claims else 'answer'}, for {what_if(row)}", loc="left", fontsize=10)


def _by_lead(plan: Shown, axes: Axes) -> None:
    """The chance of an answer within the budget, or of each claim; without a budget, the results by lead."""
    rows = sorted(plan.rows, key=lambda row: row.expected.lead or 0.0)
    places = range(len(rows))
    axes.set_xlim(-0.4, len(rows) - 0.6)
    axes.set_xticks(list(places), [row.expected.label.removeprefix("nothing, ") for row in rows], fontsize=8)
    if rows[0].claims:
        for j, claim in enumerate(rows[0].claims):
            axes.plot(places, [100 * row.claims[j].power for row in rows], "-o", ms=4, label=claim.claim)
        axes.plot(
            places, [100 * (row.at_least_one or 0.0) for row in rows], ":", color="0.3", label="at least one true"
        )
        axes.legend(frameon=False, fontsize=7, loc="upper left")
        axes.set_ylabel("chance to be shown, %")
        axes.set_ylim(0, 105)
        axes.set_title("Power of each claim", loc="left", fontsize=10)
    elif plan.wish.budget is not None:
        axes.plot(places, [100 * (row.within_budget or 0.0) for row in rows], "-o", color=BLUE)
        axes.set_ylim(0, 105)
        axes.set_ylabel("answer within the budget, %")
        axes.set_title(f"Chance of an answer within {exact(plan.wish.budget)}", loc="left", fontsize=10)
    else:
        known = [(i, row) for i, row in enumerate(rows) if row.answerable]
        axes.plot([i for i, _ in known], [row.samples.typical for _, row in known], "-o", color=BLUE, label="typical")
        axes.plot([i for i, _ in known], [row.samples.p95 for _, row in known], "-o", color=GREY, label="19 in 20")
        fixed = [(i, row.fixed.samples) for i, row in known if row.fixed is not None]
        if fixed:
            axes.plot(*zip(*fixed, strict=True), "s", color=RED, ms=4, label="a fixed design")
        _logarithmic(axes, "y", False)
        axes.set_ylabel("results")
        axes.legend(frameon=False, fontsize=8)
        axes.set_title("Results by lead", loc="left", fontsize=10)


def _logarithmic(axes: Axes, which: str, wide: bool) -> None:
    """A scale of logarithms whose ticks are round numbers: 1, 2, 5, ..., or powers of ten where that is many."""
    from matplotlib.ticker import LogLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    getattr(axes, f"set_{which}scale")("log")
    axis.set_major_locator(LogLocator(base=10, subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(lambda value, _: exact(value))
    axis.set_minor_formatter(lambda value, _: "")
