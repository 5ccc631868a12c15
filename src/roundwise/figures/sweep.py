"""The figure of a sweep: samples over the lower bound, against batches, or against delta where that varies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roundwise.figures.canvas import new_figure, save

MARKERS = "osD^vP*X"


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG; nothing where no cell can be compared with a lower bound.

    A policy is a colour, a problem (question, instance, noise) a marker. A cell with undecided runs is left out: its
    mean is cut off by a limit, so it may lie below a bound that holds.
    """
    shown = [row for row in rows if 0 < row["sample_lower_bound"] < math.inf and not row["undecided"]]
    if not shown:
        return []
    policies = list(dict.fromkeys(row["policy"] for row in shown))
    problems = list(dict.fromkeys(_problem(row) for row in shown))
    over_delta = len({row["delta"] for row in shown}) > 1
    figure, axes = new_figure(8.0, 4.5)
    for policy in policies:
        for problem in problems:
            mine = [row for row in shown if row["policy"] == policy and _problem(row) == problem]
            mine.sort(key=lambda row: row["delta"])
            axes.plot(
                [row["delta" if over_delta else "batches_mean"] for row in mine],
                [row["samples_over_lower_bound"] for row in mine],
                color=f"C{policies.index(policy) % 10}",
                marker=MARKERS[problems.index(problem) % len(MARKERS)],
                linestyle="-" if over_delta else "none",
                linewidth=1,
                markersize=5,
            )
    axes.axhline(1.0, color="0.4", linestyle="--", linewidth=1)
    axes.set_yscale("log")
    if over_delta:
        axes.set_xscale("log")
        axes.invert_xaxis()
    axes.set_xlabel("δ, the error that is allowed" if over_delta else "mean batches")
    axes.set_ylabel("mean samples / lower bound")
    runs = sorted({row["runs"] for row in shown})
    title = "Samples over the lower bound (dashed)"
    hidden = f", {len(rows) - len(shown)} of {len(rows)} cells left out" if len(shown) < len(rows) else ""
    levels = "" if over_delta else f"δ = {shown[0]['delta']:g}, "
    axes.set_title(f"{title}\n{levels}{' or '.join(map(str, runs))} runs a point{hidden}", loc="left", fontsize=10)
    _legend(figure, axes, policies, problems)
    path = folder / "figure-sweep.png"
    save(figure, path)
    save(figure, path.with_suffix(".svg"))
    return [path, path.with_suffix(".svg")]


def _legend(figure: Any, axes: Any, policies: list[str], problems: list[str]) -> None:
    """Colours of the policies; markers of the problems while there are enough of them."""
    from matplotlib.lines import Line2D

    entries = [Line2D([], [], color=f"C{i % 10}", label=each, linewidth=3) for i, each in enumerate(policies)]
    if 1 < len(problems) <= len(MARKERS):
        entries += [
            Line2D([], [], color="0.3", marker=MARKERS[i], linestyle="none", label=each)
            for i, each in enumerate(problems)
        ]
    figure.legend(handles=entries, loc="outside right upper", frameon=False, fontsize=8)


def _problem(row: dict[str, Any]) -> str:
    return f"{row['question']}: {row['instance']} ({row['noise']})"
