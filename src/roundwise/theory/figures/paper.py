"""Figure 3 of the paper, box plots with the mean as a black cross, and a figure with Wager."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roundwise.simulation.summary import Runs
from roundwise.theory.figures.canvas import Axes, new_figure, new_panels, save
from roundwise.theory.paper import LIMIT, Results, cut_off

BEST_ARM = {
    "Round Robin": "Round\nRobin",
    "Track-and-Stop": "Track-\nand-Stop",
    "PET": "PET",
    "Opt-BBAI": "Opt-\nBBAI",
}
LEVEL = {
    "Round Robin": "Round\nRobin",
    "Track-and-Stop": "Track-\nand-Stop",
    "Track-and-Stop, not forced": "the same,\nnot forced",
    "PET": "PET",
}

# the panels in the paper's order: title, experiment, what is counted, and the label of each policy, in that of its list
PANELS = (
    ("(a) Samples, random best-arm instances", "best-arm", "samples", BEST_ARM),
    ("(b) Batches, random best-arm instances", "best-arm", "batches", BEST_ARM),
    ("(c) Samples, is the smallest of (0.5, 0.6) below 0.6?", "minimum-threshold", "samples", LEVEL),
)


def draw(results: Results, folder: Path) -> list[Path]:
    """Write Figure 3 as PNG, SVG and PDF and the figure with Wager as PNG and SVG; the paths."""
    figure, panels = new_panels(len(PANELS), 14.0, 4.4)
    for axes, (title, experiment, counted, policies) in zip(panels, PANELS, strict=True):
        _draw_boxes(axes, [results[experiment][name] for name in policies], counted, list(policies.values()))
        delta, runs = results[experiment]["PET"].problem.delta, len(results[experiment]["PET"].samples)
        number = f"{runs:,}".replace(",", " ")
        axes.set_title(f"{title}\nδ = {delta:g}, {number} runs, × is the mean", loc="left", fontsize=10)
    paths = [folder / f"figure-3.{kind}" for kind in ("png", "svg", "pdf")]
    for path in paths:
        save(figure, path)
    return [*paths, *_draw_front(results, folder)]


FRONT = {
    # policy: where its name goes, in points from its dot
    "PET": (8, 4),
    "Round Robin": (8, -12),
    "Track-and-Stop": (8, 4),
    "Opt-BBAI": (8, 4),
    "Track-and-Stop, pairwise threshold": (8, 4),
    "Wager": (8, 4),
}


def _draw_front(results: Results, folder: Path) -> list[Path]:
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
    axes.set_ylim(bound / 1.7, 1e6)
    axes.set_xlabel("mean batches")
    axes.set_ylabel("mean samples")
    delta = best["PET"].problem.delta
    axes.set_title(
        f"The same guarantee for fewer samples\nrandom best-arm instances, δ = {delta:g}, {runs} runs",
        loc="left",
        fontsize=10,
    )
    paths = [folder / f"figure-wager.{kind}" for kind in ("png", "svg")]
    for path in paths:
        save(figure, path)
    return paths


def _draw_lower_bound(axes: Axes, bound: float) -> None:
    axes.axhline(bound, color="tab:blue", linestyle="--", linewidth=1)
    axes.annotate(
        "lower bound on the mean of any method", (0.01, bound), xycoords=("axes fraction", "data"), ha="left",
        va="top", xytext=(0, -2), textcoords="offset points", color="tab:blue", fontsize=8,
    )  # fmt: skip


def _draw_boxes(axes: Axes, runs: list[Runs], counted: str, labels: list[str]) -> None:
    """A box for each policy. A run that was cut is no result: it is counted at the top, and there is no mean then."""
    from matplotlib.cbook import boxplot_stats

    values = [one.batches if counted == "batches" else one.samples for one in runs]
    cut = [cut_off(one) for one in runs]
    boxes = boxplot_stats(values, labels=labels)  # quartiles and whiskers are those of all runs, cut or not
    for box, own, gone in zip(boxes, values, cut, strict=True):
        box["fliers"] = np.setdiff1d(box["fliers"], own[gone])  # many runs share a time: one dot each
        box["mean"] = np.nan if gone.any() else box["mean"]
    axes.bxp(
        boxes,
        showmeans=True,
        meanprops={"marker": "x", "markeredgecolor": "black", "markersize": 8, "markeredgewidth": 1.8},
        medianprops={"color": "tab:orange", "linewidth": 1.5},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "0.5"},
        boxprops={"color": "0.25"},
    )
    if counted == "batches":
        axes.set_ylim(bottom=0)
        axes.set_ylabel("batches before stopping")
        return
    axes.set_yscale("log")
    axes.set_ylabel("samples before stopping")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (30 if any(gone.any() for gone in cut) else 1))  # room for what was cut
    _draw_lower_bound(axes, runs[0].summary.lower_bound)
    axes.set_ylim(bottom=min(low, runs[0].summary.lower_bound / 4))
    for place, gone in enumerate(cut, start=1):
        if gone.any():
            number = int(gone.sum())
            words = f"{number} run{'' if number == 1 else 's'} cut\nat {LIMIT:.0e}: no mean".replace("e+", "e")
            axes.annotate(words, (place, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=8)
