"""The figure of a sweep: a chart for each problem, a color for each policy.

Samples over the lower bound are drawn against delta where that varies, else against batches.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from roundwise.arrays import Plain
from roundwise.render.svg import SERIES, SHAPES, Axis, Chart, render_file

MOST = 24  # charts that can be read in one figure
LETTERS = 34  # of a chart's title in a line


def draw_sweep(rows: Sequence[Plain], folder: Path) -> tuple[list[Path], list[str]]:
    """Write the figure as SVG, if a cell compares with a lower bound; return its files, and what it leaves out."""
    path = folder / "figure-sweep.svg"
    decided = [row for row in rows if not row["undecided"]]
    shown = [row for row in decided if row["samples_over_lower_bound"] is not None]
    reasons = {
        "they have undecided runs, so their mean is cut off": len(rows) - len(decided),
        "their lower bound is 0 or infinite": len(decided) - len(shown),
    }
    left_out = [f"{number} of {len(rows)} cells are left out: {why}" for why, number in reasons.items() if number]
    if not shown:
        path.unlink(missing_ok=True)  # of an earlier sweep
        return [], left_out
    problems = len({_problem(row) for row in shown})
    if problems > MOST:
        left_out.append(
            f"the first {MOST} of {problems} problems are drawn, the other {problems - MOST} are left out; "
            "summary.csv and cells have all"
        )
    charts = draw_problems(shown)
    runs, seeds = sorted({row["runs"] for row in shown}), len({row["seed"] for row in shown})
    parts = [] if _several_levels(shown) else [f"δ = {shown[0]['delta']:g}"]
    parts += [f"{' or '.join(map(str, runs))} runs a point", *([f"{seeds} seeds"] if seeds > 1 else [])]
    heading = ["Samples over the lower bound (dashed)", ", ".join(parts)]
    heading += [each[0].upper() + each[1:] for each in left_out]
    columns = {1: 1, 2: 2, 4: 2}.get(len(charts), 3 if len(charts) <= 9 else 4)
    folder.mkdir(parents=True, exist_ok=True)
    text = render_file(charts, columns, width=max(300 * columns, 640), shared_legend=True, heading=heading)
    path.write_text(text, encoding="utf-8")
    return [path], left_out


def draw_problems(rows: Sequence[Plain]) -> list[Chart]:
    """Draw a chart for each of the first problems of these rows, all with the same axes."""
    problems = list(dict.fromkeys(map(_problem, rows)))[:MOST]
    rows = [row for row in rows if _problem(row) in problems]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    y = Axis.logarithmic([1.0, *(row["samples_over_lower_bound"] for row in rows)])
    levels = _several_levels(rows)
    if levels:
        x = Axis.logarithmic(row["delta"] for row in rows)
        ticks = _spread({row["delta"] for row in rows}, 8 if len(problems) == 1 else 4)
        x = Axis(x.high, x.low, ticks, True)  # from easy to hard
    else:
        x = Axis.linear([0.0, *(row["batches_mean"] for row in rows)])
    titles = [_title(problem, rows) for problem in problems]
    tallest = max(len(title) for title in titles)
    charts = []
    for problem, title in zip(problems, titles, strict=True):
        chart = Chart(x, y, height=160.0, top=30.0 + 16 * tallest, left=14.0)
        axis = "δ, the error that is allowed" if levels else "mean batches"
        chart.draw_names(axis, "samples / lower bound", "\n".join(title))
        chart.draw_ticks(lambda tick: f"{tick:g}", lambda tick: f"{tick:g}", grid="y")
        chart.draw_level(1.0, across=True, kind="threshold")
        series: dict[tuple[str, int, int], list[tuple[float, float]]] = {}  # points of one policy, runs and seed
        for row in sorted((row for row in rows if _problem(row) == problem), key=lambda row: row["delta"]):
            point = (row["delta" if levels else "batches_mean"], row["samples_over_lower_bound"])
            series.setdefault((row["policy"], row["runs"], row["seed"]), []).append(point)
        for (policy, _, _), points in series.items():
            number = policies.index(policy)
            kind = f"s{number % SERIES}" + (" hollow" if number // (SERIES * len(SHAPES)) % 2 else "")
            shape = SHAPES[number // SERIES % len(SHAPES)]
            if levels:
                chart.draw_line(points, kind)
            for point in points:
                chart.draw_point(*point, kind, shape, title=policy)
            chart.explain(policy, kind, shape)
        charts.append(chart)
    return charts


def _spread(levels: set[float], most: int) -> tuple[float, ...]:
    """Levels so far apart on a log scale that `most` of them would fill it."""
    ordered = sorted(levels, reverse=True)
    room = math.log(ordered[0] / ordered[-1]) / most
    ticks = [ordered[0]]
    for level in ordered[1:]:
        if math.log(ticks[-1] / level) >= room:
            ticks.append(level)
    return tuple(ticks)


def _title(problem: tuple[str, str, str], rows: Sequence[Plain]) -> list[str]:
    """Question and instance, and the assumed noise only where that makes a difference."""
    question, instance, noise = problem
    lines = [question, instance]
    if len({row["noise"] for row in rows if _problem(row)[:2] == problem[:2]}) > 1:
        lines.append(f"assumed {noise}")
    short = [textwrap.shorten(line, 2 * LETTERS, placeholder=" …") for line in lines]
    return [part for line in short for part in textwrap.wrap(line, LETTERS)]


def _problem(row: Plain) -> tuple[str, str, str]:
    return row["question"], row["instance"], row["noise"]


def _several_levels(rows: Sequence[Plain]) -> bool:
    return len({row["delta"] for row in rows}) > 1
