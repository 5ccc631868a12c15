"""Figures of the bounds: batches against T*/T_min and against gamma, instances (Figure 1), a ball (Figure 2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.policies import PET, Policy
from roundwise.questions import BestArm, Question
from roundwise.simulation.environments import GaussianArms
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import standard_error
from roundwise.theory import bounds
from roundwise.theory.figures.canvas import Axes, Figure, new_figure, save

LOWER, SEEN, UPPER = "tab:blue", "black", "tab:orange"
STATED_LABEL = "any algorithm at least, as stated (Theorem 2.3)"
HARDER = 4  # times, each instance of a sequence than the one before


def draw(folder: Path) -> list[Path]:
    """Write the four figures of docs/bounds.md as SVG and return their paths."""
    pair = Problem(BestArm(), arms=2)
    hard = [2 * np.sqrt(2e-10), 0.0]  # T* = 8 / gap^2 = 1e10
    figures = {
        "bounds-batches": batches_figure(batch_curve(pair, hard, np.geomspace(1, 1e10, 41), runs=1000)),
        "bounds-trade-off": trade_off_figure(trade_off(pair, hard, easiest=1.0)),
        "bounds-sequence": sequence_figure(pair, [1.15, 0.85]),
        "bounds-ball": ball_figure(pair, [1.15, 0.85]),
    }
    return [save(figure, folder / f"{name}.svg") for name, figure in figures.items()]


def figure_for(name: str, problem: Problem, means: ArrayLike, policy: PET, runs: int, seed: int) -> Figure:
    """The figure with this name for an instance: batches, trade-off, sequence or ball."""
    if name == "sequence":
        return sequence_figure(problem, means)
    if name == "ball":
        return ball_figure(problem, means)
    if name == "trade-off":
        return trade_off_figure(trade_off(problem, means, policy.guess, runs=runs, seed=seed))
    grid = _complexities_up_to(problem, bounds.one_instance(means), policy.guess, 41)
    return batches_figure(batch_curve(problem, means, grid, policy, runs, seed))


@dataclass(frozen=True, eq=False)
class MeasuredCurve:
    """One policy on instances of the same shape, from easy to hard."""

    complexities: Floats  # T*
    batches: Floats  # mean of R
    batches_se: Floats
    samples: Floats  # mean of tau
    delta: float

    @property
    def gamma(self) -> float:
        """The largest mean of tau / (T* ln(1/delta)): what the policy was seen to keep on these instances."""
        return float((self.samples / self.complexities).max() / -math.log(self.delta))


def measured(
    policy: Policy, problem: Problem, means: ArrayLike, complexities: ArrayLike, runs: int = 1000, seed: int = 1
) -> MeasuredCurve:
    """Simulate a policy on the means moved away from (or towards) their centre until T* has these values."""
    wanted = np.asarray(complexities, dtype=np.float64)
    batches, errors, samples = (np.empty(len(wanted)) for _ in range(3))
    options: Plain = {"runs": runs, "delta": problem.delta, "noise": problem.noise, "seed": seed}
    for i, instance in enumerate(scaled(problem, means, wanted)):
        (found,) = simulate(problem.question, GaussianArms(instance, problem.sigma), [policy], **options)
        batches[i], errors[i] = found.batches.mean(), standard_error(found.batches)
        samples[i] = found.samples.mean()
    return MeasuredCurve(wanted, batches, errors, samples, problem.delta)


def scaled(problem: Problem, means: ArrayLike, complexities: ArrayLike) -> Floats:
    """The means moved along their affine sequence until T* has these values, (number, K)."""
    values = bounds.one_instance(means)
    middle = bounds.centre(problem.question, values)
    if middle is None:
        raise InputError("These means have no affine sequence of easier instances, so there is no curve to draw.")
    complexity = bounds.complexity_at(problem, values)
    factors = np.sqrt(complexity / np.asarray(complexities, dtype=np.float64))
    if problem.question.tolerance and (factors < 1 - 1e-9).any():
        raise InputError(
            "With a tolerance instances can be made easier only: ask for complexities of at most "
            f"T* = {complexity:.6g}."
        )
    return np.stack([bounds.moved(values, middle, factor) for factor in factors])


def _complexities_up_to(problem: Problem, means: Floats, easiest: float, number: int) -> Floats:
    complexity = float(problem.question.complexity(means, sigma=problem.sigma).value)
    if not easiest < complexity < math.inf:
        raise InputError(f"T* is {complexity:.6g}, but must be finite and above T_min = {easiest:g} for this figure.")
    return np.geomspace(easiest, complexity, number)


@dataclass(frozen=True, eq=False)
class BatchCurve:
    """Batches against T*/T_min: what any algorithm needs, what PET needed, what PET is promised to need."""

    problem: Problem
    easiest: float  # T_min
    pet: MeasuredCurve
    lower: Floats  # on E[R], for algorithms as sample-efficient as PET was measured to be
    lower_stated: Floats  # Theorem 2.3 as stated; NaN where it is not
    upper: Floats
    upper_stated: Floats  # Theorem 3.11 as stated; NaN where it does not apply


def batch_curve(
    problem: Problem,
    means: ArrayLike,
    complexities: ArrayLike,
    policy: PET | None = None,
    runs: int = 1000,
    seed: int = 1,
) -> BatchCurve:
    """Both bounds and a simulation for instances of the same shape with these complexities; T_min is PET's T_0."""
    policy = PET() if policy is None else policy
    wanted = np.asarray(complexities, dtype=np.float64)
    pet = measured(policy, problem, means, wanted, runs, seed)
    points, first = scaled(problem, means, wanted), policy.guess
    routes = [bounds.route(problem, at, first) for at in points]
    promises = [_promise(problem, at, first, pet.gamma) for at in points]
    lower = [bounds.expected_batches(*each) for each in zip(promises, routes, strict=True)]
    upper = [bounds.stated_upper_bounds(policy, problem, float(each)) for each in wanted]
    return BatchCurve(
        problem,
        first,
        pet,
        np.array(lower),
        np.array([_stated(problem, each, first, pet.gamma) for each in points]),
        np.array([bounds.upper_bounds(policy, problem, each).batches for each in points]),
        np.array([math.nan if each is None else each.batches for each in upper]),
    )


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Batches against gamma on one instance: the lower bound, and policies that buy batches with samples."""

    promise: bounds.Promise  # for the largest gamma
    gammas: Floats
    lower: Floats  # on E[R]
    lower_stated: Floats  # NaN where the paper does not state it
    points: dict[str, tuple[float, float]]  # policy: gamma and batches, measured


def trade_off(
    problem: Problem,
    means: ArrayLike,
    easiest: float,
    growths: Sequence[float] = (1.5, 2, 4, 8, 16, 32),
    runs: int = 300,
    seed: int = 1,
    number: int = 25,
) -> TradeOff:
    """PET with several growths at these means, and what no algorithm with the same gamma can stay below.

    Gamma is the largest that was measured at `number` complexities from T_min to T*.
    """
    values = bounds.one_instance(means)
    grid = _complexities_up_to(problem, values, easiest, number)
    points = {}
    for growth in growths:
        seen = measured(PET(guess=easiest, growth=growth), problem, values, grid, runs, seed)
        points[f"growth {growth:g}"] = (seen.gamma, float(seen.batches[-1]))
    least = (1 - 2 * problem.delta) * math.log(1 / problem.delta - 1) / -math.log(problem.delta)
    gammas = np.geomspace(max(least, 1e-3), 2 * max(gamma for gamma, _ in points.values()), 60)
    given = _promise(problem, values, easiest, float(gammas[-1]))
    along = bounds.route(problem, values, easiest)
    lower = [bounds.expected_batches(replace(given, gamma=float(gamma)), along) for gamma in gammas]
    stated = [_stated(problem, values, easiest, float(gamma)) for gamma in gammas]
    return TradeOff(given, gammas, np.array(lower), np.array(stated), points)


def _stated(problem: Problem, means: Floats, easiest: float, gamma: float) -> float:
    found = bounds.stated_closed_form(problem, means, easiest, gamma)
    return math.nan if found is None else found.expected


def _promise(problem: Problem, means: Floats, easiest: float, gamma: float) -> bounds.Promise:
    found = bounds.promise(problem, means, easiest, gamma)
    assert found is not None  # `scaled` has found a centre
    return found


def batches_figure(curve: BatchCurve) -> Figure:
    """Batches against T*/T_min: the lower bound, PET as measured, and the upper bound."""
    figure, (axes,) = new_figure(7.2, 4.4)
    pet, problem = curve.pet, curve.problem
    ranges = pet.complexities / curve.easiest
    if np.isfinite(curve.upper_stated).any():
        axes.plot(ranges, curve.upper_stated, color=UPPER, linestyle=":", label="PET at most, as stated (Theorem 3.11)")
    axes.plot(ranges, curve.upper, color=UPPER, drawstyle="steps-pre", label="PET at most, proved")
    axes.errorbar(ranges, pet.batches, 2 * pet.batches_se, color=SEEN, fmt=".", markersize=5, label="PET, measured")
    axes.plot(ranges, curve.lower, color=LOWER, label="any algorithm at least, proved")
    if np.isfinite(curve.lower_stated).any():
        axes.plot(ranges, curve.lower_stated, color=LOWER, linestyle=":", label=STATED_LABEL)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set(xlabel="T* / T_min", ylabel="mean number of batches")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set_title(
        f"Batches, {problem.question.name}, {problem.arms} arms, δ = {problem.delta:g}\nlower bounds are for "
        f"algorithms whose samples are at most {pet.gamma:.3g} T* ln(1/δ), as PET's were",
        loc="left",
        fontsize=10,
    )
    return figure


def trade_off_figure(found: TradeOff) -> Figure:
    """Batches against gamma: what no algorithm can do better than, and PET with several growths."""
    figure, (axes,) = new_figure(7.2, 4.4)
    stated = np.isfinite(found.lower_stated).any()
    floor = min(0.5, 0.8 * float(found.lower_stated.min()) or 0.5) if stated else 0.5
    axes.fill_between(found.gammas, floor, found.lower, color=LOWER, alpha=0.15, linewidth=0)
    axes.plot(found.gammas, found.lower, color=LOWER, label="any algorithm at least, proved")
    if stated:
        axes.plot(found.gammas, found.lower_stated, color=LOWER, linestyle=":", label=STATED_LABEL)
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
    given_words = f"T* = {given.complexity:.3g}, T_min = {given.easiest:.3g}, δ = {given.delta:g}"
    axes.set_title(f"Fewer batches cost samples\n{given_words}", loc="left", fontsize=10)
    return figure


def sequence_figure(problem: Problem, means: ArrayLike) -> Figure:
    """Two arms: a sequence of instances, each harder than the one before, as in Figure 1 of the paper."""
    values, question = _check_two_arms(means, "sequence"), problem.question
    if question.tolerance:
        raise InputError("The picture of the sequence is for questions without a tolerance; leave it out to draw one.")
    middle = bounds.centre(question, values)
    if middle is None:
        raise InputError("These means have no affine sequence of easier instances, so there is nothing to draw.")
    points = bounds.instances(values, middle, 1 / HARDER, 3)[:, ::-1]  # as in the paper: the second mean to the right
    hard = question.complexity(points[:, ::-1], sigma=problem.sigma).value
    figure, (axes,) = new_figure(6.4, 5.0)
    axes.grid(False)
    everything = np.vstack([points, middle.values[::-1]])
    size = float(np.ptp(everything, axis=0).max())
    low, high = everything.min(axis=0), everything.max(axis=0)
    below = max(0.3 * size, 0.55 * size - (high[1] - low[1]) / 2)  # a flat sequence has room, too
    axes.set(xlim=(low[0] - 0.3 * size, high[0] + 0.6 * size), ylim=(low[1] - below, high[1] + below))
    _draw_plane(axes, question)
    if question.number_sought == 1:  # on the same line as the sequence, so drawn next to it
        arrow = {"arrowstyle": "<|-|>", "color": LOWER, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        for n, point in enumerate(points):
            aside = 0.05 * size * (len(points) - n)
            axes.annotate("", *(np.array([point, np.full(2, point.mean())]) - aside), arrowprops=arrow)
        axes.plot([], [], color=LOWER, label="to the nearest wrong answer")
    arrow = {"arrowstyle": "-|>", "color": "tab:red", "linewidth": 1.6, "shrinkB": 3}
    for start, end in itertools.pairwise(points):
        axes.annotate("", end, start, arrowprops=arrow)
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
    axes.set_title(f"Each instance is {HARDER} times as hard as the one before", loc="left", fontsize=10)
    return figure


def ball_figure(problem: Problem, means: ArrayLike) -> Figure:
    """Two arms: a ball around the means and its hardest corner b, as in Figure 2 of the paper."""
    values, question = _check_two_arms(means, "ball"), problem.question
    complexity = bounds.complexity_at(problem, values)
    size = bounds.estimation_radius(complexity, problem.sigma)
    corner = bounds.hardest_corner(question, values, size)
    if corner is None:
        raise InputError("No corner of the ball around these means is hardest for all wrong answers: nothing to draw.")
    worst = bounds.complexity_at(problem, corner)
    points, hardest = values[::-1], corner[::-1]  # as in the paper: the second mean to the right
    figure, (axes,) = new_figure(6.4, 5.0)
    axes.grid(False)
    low, high = points - size, points + size
    edges = np.array([low, (high[0], low[1]), high, (low[0], high[1]), low])
    axes.fill(*edges[:-1].T, facecolor=LOWER, alpha=0.15)
    axes.plot(*edges.T, color=LOWER, label=f"all means within {size:.3g}")
    axes.set(xlim=(low[0] - 2 * size, high[0] + 6 * size), ylim=(low[1] - 3 * size, high[1] + 3 * size))
    _draw_plane(axes, question)
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
    axes.set_title("Samples that suffice for b suffice for the whole ball", loc="left", fontsize=10)
    return figure


def _check_two_arms(means: ArrayLike, picture: str) -> Floats:
    values = bounds.one_instance(means)
    if len(values) != 2:
        raise InputError(f"The picture of the {picture} is for two arms; found {len(values)}.")
    return values


def _draw_plane(axes: Axes, question: Question) -> None:
    """The axes of two means, and the borders at which the answer changes."""
    axes.set(aspect="equal", xlabel="mean of the second arm", ylabel="mean of the first arm")
    if question.level is not None:
        axes.axhline(question.level, color="0.4", linewidth=1, label="the level")
        axes.axvline(question.level, color="0.4", linewidth=1)
    elif question.halfspaces(question.answer(np.zeros(2)), 2).pairs:
        axes.axline((0, 0), slope=1, color="0.4", linewidth=1, label="both means equal")
