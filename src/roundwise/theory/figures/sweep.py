"""The figure of a sweep: a panel for each problem, a colour for each policy.

Samples over the lower bound are drawn against delta where that varies, else against batches.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from roundwise.arrays import Plain
from roundwise.theory.figures.canvas import Axes, Figure, new_figure, save

Row = Plain
Problem = tuple[str, str, str]  # question, instance, noise

MARKERS = "osD^vP*X"  # with ten colours: forty policies that look different
MOST = 24  # panels that can be read on one figure
WIDE, HIGH = 3.0, 2.3  # of a panel, in inches
LETTERS = 34  # of a panel's title in a line


class Drawn(NamedTuple):
    """The files that were written, and what the figure does not show."""

    files: list[Path]
    left_out: list[str]


def draw(rows: Sequence[Row], folder: Path) -> Drawn:
    """Write the figure as PNG and SVG; none where no cell can be compared with a lower bound."""
    files = [folder / f"figure-sweep.{ending}" for ending in ("png", "svg")]
    shown, left_out = _comparable(rows)
    if not shown:
        for path in files:  # of an earlier sweep, and no longer true
            path.unlink(missing_ok=True)
        return Drawn([], left_out)
    problems = list(dict.fromkeys(_problem(row) for row in shown))
    if len(problems) > MOST:
        left_out.append(
            f"the first {MOST} of {len(problems)} problems are drawn, the other {len(problems) - MOST} are left out; "
            "summary.csv and cells have all"
        )
    figure = sweep_figure(shown, left_out)
    for path in files:
        save(figure, path)
    return Drawn(files, left_out)


def sweep_figure(rows: Sequence[Row], left_out: Sequence[str] = ()) -> Figure:
    """The panels of the first problems of these rows."""
    problems = list(dict.fromkeys(_problem(row) for row in rows))[:MOST]
    rows = [row for row in rows if _problem(row) in problems]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    x = "delta" if _varies(rows, "delta") else "batches_mean"
    columns = _columns(len(problems))
    lines = -(-len(problems) // columns)
    heading = [*_heading(rows), *(each[0].upper() + each[1:] for each in left_out)]
    size = (8.0, 4.5) if len(problems) == 1 else (WIDE * columns, HIGH * lines + 0.4 + 0.2 * len(heading))
    figure, only = new_figure(*size)
    only.remove()
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for i, (problem, panel) in enumerate(zip(problems, grid, strict=False)):
        mine = [row for row in rows if _problem(row) == problem]
        _panel(panel, mine, policies, x)
        panel.set_title(_title(problem, rows), loc="left", fontsize=9, parse_math=False)
        if i % columns == 0:
            panel.set_ylabel("samples / lower bound", fontsize=8)
        if i + columns >= len(problems):
            panel.set_xlabel("δ, the error that is allowed" if x == "delta" else "mean batches", fontsize=8)
            panel.tick_params(labelbottom=True)
    for empty in grid[len(problems) :]:
        empty.remove()
    _scales(grid[0], rows, x, len(problems))
    figure.suptitle("\n".join(heading), x=0.01, ha="left", fontsize=10)
    _legend(figure, policies, beside=len(problems) == 1, width=size[0])
    return figure


def _comparable(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The cells to draw, and why not the others: a mean that a limit cuts off may lie below a bound that holds."""
    undecided = [row for row in rows if row["undecided"]]
    rest = [row for row in rows if not row["undecided"]]
    shown = [row for row in rest if row["samples_over_lower_bound"] is not None]
    reasons = [
        f"{number} of {len(rows)} cells are left out: {why}"
        for number, why in (
            (len(undecided), "they have undecided runs, so their mean is cut off"),
            (len(rest) - len(shown), "their lower bound is 0 or infinite"),
        )
        if number
    ]
    return shown, reasons


def _panel(panel: Axes, rows: Sequence[Row], policies: list[str], x: str) -> None:
    """The points of one problem; those of the same policy, runs and seed are joined over delta."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8)
    panel.axhline(1.0, color="0.4", linestyle="--", linewidth=1)
    series: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["delta"]):
        series.setdefault((row["policy"], row["runs"], row["seed"]), []).append(row)
    for (policy, _, _), mine in series.items():
        panel.plot(
            [row[x] for row in mine],
            [row["samples_over_lower_bound"] for row in mine],
            linestyle="-" if x == "delta" else "none",
            **_look(policies.index(policy)),
        )


def _scales(panel: Axes, rows: Sequence[Row], x: str, panels: int) -> None:
    """Ratios on a log scale with plain numbers; levels from easy to hard, each at a tick if there is room."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    ratios = [1.0, *(row["samples_over_lower_bound"] for row in rows)]
    decades = math.log10(max(ratios) / min(ratios))
    room = 10 ** max(0.06, 0.07 * decades)  # for markers at the edge
    panel.set_yscale("log")
    panel.set_ylim(min(ratios) / room, max(ratios) * room)
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,)))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    if x == "delta":
        panel.set_xscale("log")
        panel.xaxis.set_minor_locator(NullLocator())
        ticks = _spread({row["delta"] for row in rows}, 8 if panels == 1 else 4)
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.invert_xaxis()
    else:
        panel.set_xlim(left=0)


def _spread(levels: set[float], most: int) -> list[float]:
    """Levels that lie so far apart on a log scale that `most` of them would fill it."""
    ordered = sorted(levels, reverse=True)
    room = math.log(ordered[0] / ordered[-1]) / most
    ticks = [ordered[0]]
    for level in ordered[1:]:
        if math.log(ticks[-1] / level) >= room:
            ticks.append(level)
    return ticks


def _heading(rows: Sequence[Row]) -> list[str]:
    runs = sorted({row["runs"] for row in rows})
    parts = [] if _varies(rows, "delta") else [f"δ = {rows[0]['delta']:g}"]
    parts += [f"{' or '.join(map(str, runs))} runs a point"]
    if _varies(rows, "seed"):
        parts += [f"{len({row['seed'] for row in rows})} seeds"]
    return ["Samples over the lower bound (dashed)", ", ".join(parts)]


def _title(problem: Problem, rows: Sequence[Row]) -> str:
    """Question and instance; what is assumed only where that makes a difference."""
    question, instance, noise = problem
    lines = [question, instance]
    if len({row["noise"] for row in rows if _problem(row)[:2] == problem[:2]}) > 1:
        lines.append(f"assumed {noise}")
    short = [textwrap.shorten(line, 2 * LETTERS, placeholder=" …") for line in lines]
    return "\n".join(textwrap.fill(line, LETTERS) for line in short)


def _legend(figure: Figure, policies: list[str], beside: bool, width: float) -> None:
    """One entry for each policy: to the right of a single panel, else below all of them."""
    from matplotlib.lines import Line2D

    entries = [Line2D([], [], label=policy, **_look(i)) for i, policy in enumerate(policies)]
    letters = max(len(policy) for policy in policies) + 8
    columns = 1 if beside else max(1, min(len(policies), int(width * 14 / letters)))
    place = "outside right upper" if beside else "outside lower left"
    figure.legend(handles=entries, loc=place, ncols=columns, frameon=False, fontsize=8)


def _look(i: int) -> Plain:
    """Colour and marker of a policy."""
    return {"color": f"C{i % 10}", "marker": MARKERS[i % len(MARKERS)], "linewidth": 1, "markersize": 5}


def _columns(panels: int) -> int:
    return {1: 1, 2: 2, 3: 3, 4: 2}.get(panels, 3 if panels <= 9 else 4)


def _problem(row: Row) -> Problem:
    return row["question"], row["instance"], row["noise"]


def _varies(rows: Sequence[Row], key: str) -> bool:
    return len({row[key] for row in rows}) > 1
