"""Figure 3 of the paper, box plots with the mean as a black cross, and a figure with Wager."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roundwise.simulation.summary import Runs
from roundwise.theory.figures.canvas import Axes, Figure, new_figure, save
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
FRONT = {  # policy: where its name goes, in points from its dot
    "PET": (8, 4),
    "Round Robin": (8, -12),
    "Track-and-Stop": (8, 4),
    "Opt-BBAI": (8, 4),
    "Track-and-Stop, pairwise threshold": (8, 4),
    "Wager": (8, 4),
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Write Figure 3 as PNG, SVG and PDF and the figure with Wager as PNG and SVG; return their paths."""
    figure, panels = new_figure(14.0, 4.4, len(PANELS))
    for axes, (title, experiment, counted, policies) in zip(panels, PANELS, strict=True):
        draw_boxes(axes, [results[experiment][name] for name in policies], counted, list(policies.values()))
        delta, runs = results[experiment]["PET"].problem.delta, len(results[experiment]["PET"].samples)
        number = f"{runs:,}".replace(",", " ")
        axes.set_title(f"{title}\nδ = {delta:g}, {number} runs, × is the mean", loc="left", fontsize=10)
    front = _front_figure(results)
    paths = [save(figure, folder / f"figure-3.{kind}") for kind in ("png", "svg", "pdf")]
    return [*paths, *(save(front, folder / f"figure-wager.{kind}") for kind in ("png", "svg"))]


def _front_figure(results: Results) -> Figure:
    """Samples on a log scale against batches, each policy a dot at its means, the lower bound drawn."""
    figure, (axes,) = new_figure()
    best = results["best-arm"] | results["best-arm, normal rewards known"]
    for name, place in FRONT.items():
        found = best[name].summary
        point = (found.batches_mean, found.samples_mean)
        colour = "tab:red" if name.startswith("Wager") else "0.35"
        axes.errorbar(*point, found.samples_se, found.batches_se, "o", color=colour, markersize=5)
        axes.annotate(name, point, xytext=place, textcoords="offset points", fontsize=8.5, color=colour)
    pet = best["PET"].summary
    _draw_lower_bound(axes, pet.lower_bound)
    axes.set_yscale("log")
    axes.set(xlim=(0, 11.5), ylim=(pet.lower_bound / 1.7, 1e6), xlabel="mean batches", ylabel="mean samples")
    about = f"random best-arm instances, δ = {best['PET'].problem.delta:g}, {pet.runs} runs"
    axes.set_title(f"The same guarantee for fewer samples\n{about}", loc="left", fontsize=10)
    return figure


def _draw_lower_bound(axes: Axes, bound: float) -> None:
    axes.axhline(bound, color="tab:blue", linestyle="--", linewidth=1)
    axes.annotate(
        "lower bound on the mean of any method", (0.01, bound), xycoords=("axes fraction", "data"), ha="left",
        va="top", xytext=(0, -2), textcoords="offset points", color="tab:blue", fontsize=8,
    )  # fmt: skip


def draw_boxes(axes: Axes, runs: list[Runs], counted: str, labels: list[str]) -> None:
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
    axes.set_ylabel(f"{counted} before stopping")
    if counted == "batches":
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (30 if any(gone.any() for gone in cut) else 1))  # room for what was cut
    bound = runs[0].summary.lower_bound
    _draw_lower_bound(axes, bound)
    axes.set_ylim(bottom=min(low, bound / 4))
    for place, gone in enumerate(cut, start=1):
        if gone.any():
            number = int(gone.sum())
            words = f"{number} run{'' if number == 1 else 's'} cut\nat {LIMIT:.0e}: no mean".replace("e+", "e")
            axes.annotate(words, (place, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=8)
