"""Textbook designs with the budget of a study: what they need for the same power, and their boundaries.

Normal approximations: the estimate of arm i with n_i results has the variance v_i/n_i. For the best arm, every look
adds as many results of each arm; an arm is dropped when another beats it beyond the boundary at level delta/(K - 1),
and its results are saved (with other group sizes the boundary would not hold). Against a control the shares are fixed,
the level of a claim is that of Dunnett's test, and the looks have an O'Brien-Fleming boundary of that level. Budgets
are results that come back, means are results asked for.

A designed study stakes levels, so when it ends depends on all looks. Where every look shows the same lead, one number
a look says it, as the boundary of a group-sequential design does; those of O'Brien and Fleming and of Pocock are on the
same scale, for the same budget and number of looks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from roundwise.arrays import Bools, Floats, tree_take
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.planning.budgets import BudgetProposal
from roundwise.planning.fixed_designs import boundary, dunnett_level
from roundwise.planning.forecast import Ends, planned_looks, simulate_request
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.rows import PlanRow
from roundwise.simulation.environments import deviations

RUNS = 4000
ENTRIES = 400_000  # runs times squared arms at most
LOOKS = 5  # where a study does not say how many it is planned for
MOST_LOOKS = 20
SHAPES = {"O'Brien-Fleming": 0.0, "Pocock": 0.5}
TRIED, LARGEST = 240, 6.0  # leads that are tried, up to this multiple of the one that is planned for


@dataclass(frozen=True, kw_only=True)
class ComparedDesign:
    """A design with the budget of the study, in the row that matters."""

    name: str
    power: float  # of an answer within the budget; of claims, of at least one that is true
    mean_samples: float
    all_true: float | None = None  # of claims: all that are true are shown
    claims: tuple[float, ...] = ()  # the power of each
    budget_needed: float | None = None  # budget for the power that is wanted
    by_row: tuple[float, ...] = ()  # the power in every row of the plan; () where it is the plan's own


def compare_designs(
    request: PlanRequest, rows: Sequence[PlanRow], row: PlanRow, enough: BudgetProposal | None
) -> tuple[ComparedDesign, ...]:
    """Fixed and group-sequential designs next to this one, with its budget; nothing where there is no budget.

    Args:
        request: The study.
        rows: The rows of its plan.
        row: The one that matters.
        enough: The budget that this study needs for the power that is wanted.
    """
    question, noise = request.question, request.noise
    if request.budget is None or question.features is not None or noise.shares_items:
        return ()
    if question.separate_claims and question.control is not None:
        return _compare_claims(request, row)
    if question.name != "best-arm" or question.tolerance or request.split is not None or not row.expected.lead:
        return ()
    return _compare_best_arm(request, rows, row, enough)


def _compare_best_arm(
    request: PlanRequest, rows: Sequence[PlanRow], row: PlanRow, ours: BudgetProposal | None
) -> tuple[ComparedDesign, ...]:
    looks = LOOKS if request.round_size is not None else int(np.clip(planned_looks(request), 2, MOST_LOOKS))
    budget, found = float(request.budget or 0), []
    for name, shape, number in (
        ("fixed, Bonferroni", 0.0, 1),
        *((f"{name}, {looks} looks, losers dropped", shape, looks) for name, shape in SHAPES.items()),
    ):
        run = partial(run_looks, request, shape=shape, looks=number)
        power, mean = run(row.expected, budget)
        enough = _enough(partial(run, row.expected), request)
        by_row = tuple(run(each.expected, budget)[0] for each in rows)
        found.append(ComparedDesign(name=name, power=power, mean_samples=mean, budget_needed=enough, by_row=by_row))
    found.append(
        ComparedDesign(
            name="roundwise",
            power=row.within_budget or 0.0,
            mean_samples=row.mean_samples,
            budget_needed=None if ours is None else float(ours.budget),
        )
    )
    return tuple(found)


def _enough(run: Callable[[float], tuple[float, float]], request: PlanRequest) -> float | None:
    """The budget at which the power of a design, which grows with it, is the one that is wanted, to a per cent."""

    def enough(budget: float) -> bool:
        power, _ = run(budget)
        return power >= request.power

    low = high = float(request.budget or 1)
    for _ in range(20):
        if enough(high):
            break
        low, high = high, 2 * high
    else:
        return None
    for _ in range(20):
        if not enough(low):
            break
        low, high = low / 2, low
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def run_looks(request: PlanRequest, expected: Scenario, budget: float, shape: float, looks: int) -> tuple[float, float]:
    """Power and mean results of a group-sequential design for the best arm that drops losers.

    If all arms are alike, every answer counts.
    """
    question, arms = request.question, len(request.arms)
    means = question.sign * np.asarray(expected.means)
    variances = deviations(request.noise, np.asarray(expected.means), request.deviation) ** 2
    runs = int(np.clip(ENTRIES // arms**2, 100, RUNS))
    rng = np.random.default_rng(1)
    bounds = boundary(looks, request.delta / (arms - 1), shape)
    inside, counts, sums = np.ones((runs, arms), dtype=np.bool_), np.zeros((runs, arms)), np.zeros((runs, arms))
    used = np.zeros(runs)
    for bound in bounds:
        open_ = inside.sum(axis=-1) > 1
        share = np.where(inside & open_[:, None], budget / looks / arms, 0.0)
        counts, used = counts + share, used + share.sum(axis=-1)
        sums = sums + share * means + np.sqrt(share * variances) * rng.standard_normal((runs, arms))
        found, error = sums / counts, variances / counts
        ahead = (found[:, None, :] - found[:, :, None]) / np.sqrt(error[:, None, :] + error[:, :, None])
        beaten = (ahead >= bound) & inside[:, None, :] & inside[:, :, None] & open_[:, None, None]
        inside &= ~beaten.any(axis=-1)
    right = (inside & (means == means.max())).any(axis=-1) & (inside.sum(axis=-1) == 1)
    return float(right.mean()), float(used.mean()) / (1 - request.missing)


def _compare_claims(request: PlanRequest, row: PlanRow) -> tuple[ComparedDesign, ...]:
    shares = np.ones(len(request.arms)) if request.split is None else np.asarray(request.split)
    looks = LOOKS if request.round_size is None else max(round((request.budget or 0) / request.round_size), 2)
    found = [
        _shown("Dunnett, one look", request, row, *run_claims(request, row.expected, shares, 1)),
        _shown(f"O'Brien-Fleming, {looks} looks", request, row, *run_claims(request, row.expected, shares, looks)),
    ]
    same = dataclasses.replace(request, split=tuple(shares.tolist()))
    for name, other in (("same shares", same), ("its own shares", dataclasses.replace(request, split=None))):
        if other.split == request.split:
            powers = tuple(each.power for each in row.claims[: len(np.asarray(request.question.levels))])
            numbers = {"power": row.at_least_one or 0.0, "all_true": row.all_true, "mean_samples": row.mean_samples}
            found.append(ComparedDesign(name=f"roundwise, {name}", claims=powers, **numbers))  # type: ignore[arg-type]
        else:
            ends: Ends = simulate_request(other, row.expected.means, min(request.runs, 1000))
            found.append(_shown(f"roundwise, {name}", request, row, ends.shown, float(ends.samples.mean())))
    return tuple(found)


def _shown(name: str, request: PlanRequest, row: PlanRow, shown: Bools, mean: float) -> ComparedDesign:
    number = len(np.asarray(request.question.levels))  # claims alone: textbook designs show no opposites
    shown = shown[:, :number]
    right = np.array([each.true for each in row.claims[:number]])
    true = shown[:, right]
    return ComparedDesign(
        name=name,
        power=float(true.any(axis=-1).mean()) if right.any() else 0.0,
        all_true=float(true.all(axis=-1).mean()) if right.any() else None,
        claims=tuple(shown.mean(axis=0).tolist()),
        mean_samples=mean,
    )


def run_claims(request: PlanRequest, expected: Scenario, shares: Floats, looks: int) -> tuple[Bools, float]:
    """Which claims a design with these shares shows in each of many runs, and the mean of its results. (runs, J)"""
    question, means = request.question, np.asarray(expected.means)
    variances = deviations(request.noise, means, request.deviation) ** 2
    forms, levels = question.forms, question.levels
    assert forms is not None
    assert levels is not None
    level = dunnett_level(request.delta, forms, shares / shares.sum(), question.control or 0)
    part = (request.budget or 0) / looks * shares / shares.sum()
    rng = np.random.default_rng(1)
    shown, sums, used = np.zeros((RUNS, len(levels)), dtype=np.bool_), np.zeros((RUNS, len(means))), np.zeros(RUNS)
    for k, bound in enumerate(boundary(looks, level, 0.0), 1):
        used = used + np.where(shown.all(axis=-1), 0.0, part.sum())
        sums = sums + part * means + np.sqrt(part * variances) * rng.standard_normal(sums.shape)
        z = (sums / (k * part) @ forms.T - levels) / np.sqrt(forms**2 @ (variances / (k * part)))
        shown |= z >= bound
    return shown, float(used.mean()) / (1 - request.missing)


@dataclass(frozen=True, kw_only=True)
class StoppingLeads:
    """The lead that ends a design at each look."""

    name: str
    leads: tuple[float | None, ...]  # None: no lead that was tried ends it there


def find_stopping_leads(request: PlanRequest, row: PlanRow) -> tuple[StoppingLeads, ...]:
    """The boundary of the study, and of textbook designs for the best arm; nothing where no lead is planned for.

    Args:
        request: The study.
        row: The row that matters, with its lead.
    """
    planned = request.policy.plans_budget and request.lead is not None and row.expected.lead
    if not planned or request.noise.shares_items or request.noise.needs not in ("sums", "squares"):
        return ()
    looks, question = planned_looks(request), request.question
    found = [StoppingLeads(name="roundwise", leads=_own_leads(request, row, looks))]
    if question.name == "best-arm" and request.split is None:
        arms, middle = len(request.arms), np.median(row.expected.means)
        variance = float(deviations(request.noise, np.asarray([middle]), request.deviation)[0]) ** 2
        for name, shape in SHAPES.items():
            bounds = boundary(looks, request.delta / (arms - 1), shape)
            counts = (request.budget or 0) / arms * (np.arange(looks) + 1) / looks
            leads = tuple((np.array(bounds) * np.sqrt(2 * variance / counts)).tolist())
            found.append(StoppingLeads(name=name, leads=leads))
    return tuple(found)


def _own_leads(request: PlanRequest, row: PlanRow, looks: int) -> tuple[float | None, ...]:
    """The smallest lead that ends the study by each look: all leads are tried together, one run each."""
    problem, policy, lead = request.problem, request.acting, float(row.expected.lead or 1.0)
    leads = lead * LARGEST * np.arange(1, TRIED + 1) / TRIED
    means = np.asarray(row.expected.means)
    start = np.median(means) if request.question.level is None else request.question.level
    shown = start + (means - start) * (leads / lead)[:, None]  # (leads, K)
    low, high = request.noise.mean_range
    shown, leads = (each[((shown >= low) & (shown <= high)).all(axis=-1)] for each in (shown, leads))
    trial, found, ended = begin(problem, policy, (len(leads),)), list[float | None](), np.inf
    for _ in range(looks):
        trial = advance(problem, policy, trial, _exact_batch(request, trial.plan.pulls, shown))
        ended = min(ended, float(leads[trial.done].min(initial=np.inf)))
        found.append(None if np.isinf(ended) else ended)
        trial, shown, leads = tree_take((trial, shown, leads), np.flatnonzero(~trial.done))
    return tuple(found)


def _exact_batch(request: PlanRequest, pulls: Floats, means: Floats) -> Batch:
    """A batch with just these means, and the expected squares about them."""
    totals = pulls * means
    if request.noise.outcome.rates or request.noise.outcome.counts:
        totals = np.round(totals)
    if request.noise.needs == "sums":
        return Batch(pulls, totals)
    deviation = deviations(request.noise, means, request.deviation)
    return Batch(pulls, totals, np.maximum(pulls - 1.0, 0.0) * deviation**2)
