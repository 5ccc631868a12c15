"""Figures of the bounds: batches against T*/T_min and against gamma, instances (Figure 1), a ball (Figure 2)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.policies import PET
from roundwise.questions import BestArm, Question
from roundwise.theory.bounds.affine import centre, hardest_corner, instances, one_instance
from roundwise.theory.bounds.curves import BatchCurve, TradeOff, batch_curve, trade_off
from roundwise.theory.bounds.upper import estimation_radius
from roundwise.theory.figures.canvas import Axes, Figure, new_figure, save

LOWER, SEEN, UPPER = "tab:blue", "black", "tab:orange"


def draw(folder: Path) -> list[Path]:
    """Write the four figures of docs/bounds.md as SVG; the paths."""
    pair = Problem(BestArm(), arms=2)
    hard = [2 * np.sqrt(2e-10), 0.0]  # T* = 8 / gap^2 = 1e10
    figures = {
        "bounds-batches": batches_figure(batch_curve(pair, hard, np.geomspace(1, 1e10, 41), runs=1000)),
        "bounds-trade-off": trade_off_figure(trade_off(pair, hard, easiest=1.0)),
        "bounds-sequence": sequence_figure(pair, [1.15, 0.85], ratio=0.25, steps=3),
        "bounds-ball": ball_figure(pair, [1.15, 0.85]),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{name}.svg")
        save(figure, paths[-1])
    return paths


def figure_for(name: str, problem: Problem, means: ArrayLike, policy: PET, runs: int, seed: int) -> Figure:
    """The figure with this name for an instance: batches, trade-off, sequence or ball."""
    if name == "sequence":
        return sequence_figure(problem, means, ratio=0.25, steps=3)
    if name == "ball":
        return ball_figure(problem, means)
    if name == "trade-off":
        return trade_off_figure(trade_off(problem, means, policy.guess, runs=runs, seed=seed))
    complexity = float(problem.question.complexity(means, sigma=problem.sigma).value)
    if not policy.guess < complexity < np.inf:
        raise InputError(
            f"T* is {complexity:.6g}, but must be finite and above T_min = {policy.guess:g} for this figure."
        )
    grid = np.geomspace(policy.guess, complexity, 41)
    return batches_figure(batch_curve(problem, means, grid, policy, runs, seed))


def batches_figure(curve: BatchCurve) -> Figure:
    """Batches against T*/T_min: the lower bound, PET as measured, and the upper bound."""
    figure, axes = new_figure(7.2, 4.4)
    pet = curve.pet
    ranges = pet.complexities / curve.easiest
    if np.isfinite(curve.upper_stated).any():
        axes.plot(ranges, curve.upper_stated, color=UPPER, linestyle=":", label="PET at most, as stated (Theorem 3.11)")
    axes.plot(ranges, curve.upper, color=UPPER, drawstyle="steps-pre", label="PET at most, proved")
    axes.errorbar(ranges, pet.batches, 2 * pet.batches_se, color=SEEN, fmt=".", markersize=5, label="PET, measured")
    axes.plot(ranges, curve.lower, color=LOWER, label="any algorithm at least, proved")
    if np.isfinite(curve.lower_stated).any():
        label = "any algorithm at least, as stated (Theorem 2.3)"
        axes.plot(ranges, curve.lower_stated, color=LOWER, linestyle=":", label=label)
    axes.set_xscale("log")
    axes.set_xlabel("T* / T_min")
    axes.set_ylabel("mean number of batches")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set_title(
        f"Batches, {_asked(curve.problem)}\nlower bounds are for algorithms whose samples are at most "
        f"{pet.gamma:.3g} T* ln(1/δ), as PET's were",
        loc="left",
        fontsize=10,
    )
    return figure


def trade_off_figure(found: TradeOff) -> Figure:
    """Batches against gamma: what no algorithm can do better than, and PET with several growths."""
    figure, axes = new_figure(7.2, 4.4)
    stated = np.isfinite(found.lower_stated).any()
    floor = min(0.5, 0.8 * float(found.lower_stated.min()) or 0.5) if stated else 0.5
    axes.fill_between(found.gammas, floor, found.lower, color=LOWER, alpha=0.15, linewidth=0)
    axes.plot(found.gammas, found.lower, color=LOWER, label="any algorithm at least, proved")
    if stated:
        label = "any algorithm at least, as stated (Theorem 2.3)"
        axes.plot(found.gammas, found.lower_stated, color=LOWER, linestyle=":", label=label)
    gammas, batches = np.array(list(found.points.values())).T
    axes.plot(gammas, batches, color=SEEN, marker="o", linewidth=1, label="PET with several growths, measured")
    for name, point in found.points.items():
        axes.annotate(name, point, xytext=(6, 4), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if floor <= tick <= 2 * batches.max()]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("γ: samples are at most γ T* ln(1/δ), on average, from T_min to T*")
    axes.set_ylabel("mean number of batches")
    axes.legend(frameon=False, fontsize=8)
    given = found.promise
    axes.set_title(
        f"Fewer batches cost samples\nT* = {given.complexity:.3g}, T_min = {given.easiest:.3g}, δ = {given.delta:g}",
        loc="left",
        fontsize=10,
    )
    return figure


def sequence_figure(problem: Problem, means: ArrayLike, ratio: float, steps: int) -> Figure:
    """Two arms: a sequence of instances, each harder than the one before, as in Figure 1 of the paper."""
    values = one_instance(means)
    if len(values) != 2:
        raise InputError(f"The picture of the sequence is for two arms; found {len(values)}.")
    if problem.question.tolerance:
        raise InputError("The picture of the sequence is for questions without a tolerance; leave it out to draw one.")
    middle = centre(problem.question, values)
    if middle is None:
        raise InputError("These means have no affine sequence of easier instances, so there is nothing to draw.")
    points = instances(values, middle, ratio, steps)[:, ::-1]  # as in the paper: the second mean to the right
    hard = problem.question.complexity(points[:, ::-1], sigma=problem.sigma).value
    figure, axes = new_figure(6.4, 5.0)
    axes.grid(False)
    size = float(np.ptp(np.vstack([points, middle.values[::-1]]), axis=0).max())
    _frame(axes, points, middle.values[::-1], size)
    _borders(axes, problem.question)
    if (
        problem.question.number_sought == 1 and not problem.question.tolerance
    ):  # on the same line as the sequence, so drawn beside it
        for n, point in enumerate(points):
            aside = 0.05 * size * (len(points) - n)
            ends = np.array([point, np.full(2, point.mean())]) - aside
            axes.annotate(
                "",
                *ends,
                arrowprops={"arrowstyle": "<|-|>", "color": LOWER, "linewidth": 1, "shrinkA": 0, "shrinkB": 0},
            )
        axes.plot([], [], color=LOWER, label="to the nearest wrong answer")
    for start, end in itertools.pairwise(points):
        axes.annotate(
            "", end, start, arrowprops={"arrowstyle": "-|>", "color": "tab:red", "linewidth": 1.6, "shrinkB": 3}
        )
    axes.plot([], [], color="tab:red", label="to the next instance")
    axes.plot(*points.T, "o", color=SEEN, markersize=5)
    right, up = points[0] - points[-1]
    for n, (point, value) in enumerate(zip(points, hard, strict=True)):
        axes.annotate(
            f"instance {n}: T* = {value:.3g}",
            point,
            xytext=(8, -3 if right * up > 0 else 3),
            textcoords="offset points",
            fontsize=8,
            va="top" if right * up > 0 else "bottom",
            rotation=35 if up == 0 else 0,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    axes.set_title(f"Each instance is {1 / ratio:g} times as hard as the one before", loc="left", fontsize=10)
    return figure


def ball_figure(problem: Problem, means: ArrayLike, radius: float | None = None) -> Figure:
    """Two arms: a ball around the means and its hardest corner b, as in Figure 2 of the paper."""
    values, question = one_instance(means), problem.question
    if len(values) != 2:
        raise InputError(f"The picture of the ball is for two arms; found {len(values)}.")
    complexity = float(question.complexity(values, sigma=problem.sigma).value)
    if not np.isfinite(complexity):
        raise InputError("The complexity is infinite: the means lie on the border of two answers.")
    size = estimation_radius(complexity, problem.sigma) if radius is None else radius
    corner = hardest_corner(question, values, size)
    if corner is None:
        raise InputError("No corner of the ball around these means is hardest for all wrong answers: nothing to draw.")
    worst = float(question.complexity(corner, sigma=problem.sigma).value)
    points, hardest = values[::-1], corner[::-1]  # as in the paper: the second mean to the right
    figure, axes = new_figure(6.4, 5.0)
    axes.grid(False)
    low, high = points - size, points + size
    axes.fill(*np.array([low, (high[0], low[1]), high, (low[0], high[1])]).T, facecolor=LOWER, alpha=0.15)
    axes.plot(
        *np.array([low, (high[0], low[1]), high, (low[0], high[1]), low]).T,
        color=LOWER,
        label=f"all means within {size:.3g}",
    )
    axes.set(xlim=(low[0] - 2 * size, high[0] + 6 * size), ylim=(low[1] - 3 * size, high[1] + 3 * size))
    axes.set(aspect="equal", xlabel="mean of the second arm", ylabel="mean of the first arm")
    _borders(axes, question)
    start = np.array([high[0] + 3 * size, high[1] + size])
    for step in np.diag(hardest - points):
        if step.any():
            axes.annotate("", start + 1.2 * step, start, arrowprops={"arrowstyle": "-|>", "color": "tab:red"})
    axes.plot([], [], color="tab:red", label="towards more difficulty")
    for point, words, above in ((points, f"μ: T* = {complexity:.3g}", 5), (hardest, f"b: T* = {worst:.3g}", -5)):
        axes.plot(*point, "o", color=SEEN, markersize=5)
        place = {"ha": "center", "va": "bottom"} if above > 0 else {"ha": "left", "va": "top"}
        axes.annotate(words, point, xytext=(0, above), textcoords="offset points", fontsize=8, **place)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    axes.set_title("Who samples for b has sampled for the whole ball", loc="left", fontsize=10)
    return figure


def _frame(axes: Axes, points: Any, middle: Any, size: float) -> None:
    """Room for the points, the centre, and the labels to the right of them."""
    low, high = (edge(np.vstack([points, middle]), axis=0) for edge in (np.min, np.max))
    below = max(0.3 * size, 0.55 * size - (high[1] - low[1]) / 2)  # a flat sequence has room, too
    axes.set(xlim=(low[0] - 0.3 * size, high[0] + 0.6 * size), ylim=(low[1] - below, high[1] + below))
    axes.set(aspect="equal", xlabel="mean of the second arm", ylabel="mean of the first arm")


def _borders(axes: Axes, question: Question) -> None:
    """Where the answer changes."""
    level = question.level
    if level is not None:
        axes.axhline(level, color="0.4", linewidth=1, label="the level")
        axes.axvline(level, color="0.4", linewidth=1)
    elif question.halfspaces(question.answer(np.zeros(2)), 2).pairs:
        axes.axline((0, 0), slope=1, color="0.4", linewidth=1, label="both means equal")


def _asked(problem: Problem) -> str:
    return f"{problem.question.name}, {problem.arms} arms, δ = {problem.delta:g}"
