"""The three figures of the paper, box plots with the mean as a black cross, and a fourth with Wager."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roundwise.simulation.summary import Runs
from roundwise.theory.figures.canvas import Axes, Figure, new_figure, save
from roundwise.theory.paper import Results

BEST_ARM = {name: name for name in ("PET", "Round Robin", "Track-and-Stop", "Opt-BBAI")}

# figure: the experiment, and the label of each policy that is shown
SHOWN = {
    "samples": ("best-arm", BEST_ARM),
    "batches": ("best-arm", BEST_ARM),
    "minimum-threshold": (
        "minimum-threshold",
        {
            "PET": "PET",
            "Round Robin": "Round Robin",
            "Track-and-Stop": "Track-and-Stop,\nforced exploration",
            "Track-and-Stop, not forced": "Track-and-Stop,\nnot forced",
        },
    ),
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Write each figure as PNG and SVG; the paths of the PNG files."""
    paths = []
    for name, (experiment, policies) in SHOWN.items():
        runs = [results[experiment][policy] for policy in policies]
        figure = _boxes(name, runs, list(policies.values()))
        path = folder / f"figure-{name}.png"
        save(figure, path)
        save(figure, path.with_suffix(".svg"))
        paths.append(path)
    return [*paths, _draw_front(results, folder / "figure-wager.png")]


FRONT = {
    # policy: where its name goes, in points from its dot
    "PET": (8, 4),
    "Round Robin": (8, -12),
    "Track-and-Stop": (8, 4),
    "Opt-BBAI": (8, 4),
    "Track-and-Stop, pairwise threshold": (8, 4),
    "Wager": (8, 4),
    "Wager, exactly normal": (8, -12),
}


def _draw_front(results: Results, path: Path) -> Path:
    """Samples on a log scale against batches, each policy a dot at its means, the lower bound drawn."""
    figure, axes = new_figure()
    best = results["best-arm"] | results["best-arm, normal rewards known"]
    for name, place in FRONT.items():
        found = best[name].summary
        colour = "tab:red" if name.startswith("Wager") else "0.35"
        axes.errorbar(
            found.batches_mean, found.samples_mean, found.samples_se, found.batches_se, "o", color=colour, markersize=5
        )
        axes.annotate(
            name, (found.batches_mean, found.samples_mean), xytext=place, textcoords="offset points", fontsize=8.5,
            color=colour,
        )  # fmt: skip
    bound, runs = best["PET"].summary.lower_bound, best["PET"].summary.runs
    _draw_lower_bound(axes, bound)
    axes.set_yscale("log")
    axes.set_xlim(0, 11.5)
    axes.set_ylim(bound / 1.5, 1e6)
    axes.set_xlabel("mean batches")
    axes.set_ylabel("mean samples")
    delta = best["PET"].problem.delta
    axes.set_title(
        f"The same guarantee for fewer samples\nrandom best-arm instances, δ = {delta:g}, {runs} runs",
        loc="left",
        fontsize=10,
    )
    save(figure, path)
    save(figure, path.with_suffix(".svg"))
    return path


def _draw_lower_bound(axes: Axes, bound: float) -> None:
    axes.axhline(bound, color="tab:blue", linestyle="--", linewidth=1)
    axes.annotate(
        "lower bound for any method", (0.99, bound), xycoords=("axes fraction", "data"), ha="right", va="bottom",
        xytext=(0, 2), textcoords="offset points", color="tab:blue", fontsize=8,
    )  # fmt: skip


def _boxes(name: str, runs: list[Runs], labels: list[str]) -> Figure:
    figure, axes = new_figure()
    from matplotlib.cbook import boxplot_stats

    values = [one.batches if name == "batches" else one.samples for one in runs]
    boxes = boxplot_stats(values, labels=labels)
    for box in boxes:
        box["fliers"] = np.unique(box["fliers"])  # many runs share a time: one dot each
    axes.bxp(
        boxes,
        showmeans=True,
        meanprops={"marker": "x", "markeredgecolor": "black", "markersize": 8, "markeredgewidth": 1.8},
        medianprops={"color": "tab:orange", "linewidth": 1.5},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "0.5"},
        boxprops={"color": "0.25"},
    )
    number, delta = len(values[0]), runs[0].problem.delta
    if name == "batches":
        axes.set_ylim(bottom=0)
        axes.set_ylabel("batches before stopping")
    else:
        bound = runs[0].summary.lower_bound
        axes.set_yscale("log")
        axes.set_ylabel("samples before stopping")
        _draw_lower_bound(axes, bound)
    titles = {
        "samples": "Samples, random best-arm instances",
        "batches": "Batches, random best-arm instances",
        "minimum-threshold": "Samples, is the smallest of (0.5, 0.6) below 0.6?",
    }
    axes.set_title(f"{titles[name]}\nδ = {delta:g}, {number} runs, × is the mean", loc="left", fontsize=10)
    return figure
