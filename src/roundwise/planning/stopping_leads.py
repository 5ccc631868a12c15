"""The boundary of a designed study: the lead that ends it at each look, if every look shows just that lead.

A designed study stakes levels, so when it ends depends on all looks. Where every look shows the same lead, one number
a look says it, as the boundary of a group-sequential design does; those of O'Brien and Fleming and of Pocock are on the
same scale, for the same budget and number of looks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats, Plain, tree_take
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.planning.comparison import SHAPES
from roundwise.planning.fixed_designs import boundary
from roundwise.planning.forecast import planned_looks
from roundwise.planning.request import PlanRequest
from roundwise.planning.rows import PlanRow
from roundwise.simulation.environments import deviations

TRIED, LARGEST = 240, 6.0  # leads that are tried, up to this multiple of the one that is planned for


@dataclass(frozen=True, kw_only=True)
class StoppingLeads:
    """The lead that ends a design at each look."""

    name: str
    leads: tuple[float | None, ...]  # None: no lead that was tried ends it there

    def plain(self) -> Plain:
        """The boundary as JSON."""
        return dataclasses.asdict(self)


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
    found = [StoppingLeads(name="roundwise", leads=_find_own(request, row, looks))]
    if question.name == "best-arm" and request.split is None:
        arms, middle = len(request.arms), np.median(row.expected.means)
        variance = float(deviations(request.noise, np.asarray([middle]), request.deviation)[0]) ** 2
        for name, shape in SHAPES.items():
            bounds = boundary(looks, request.delta / (arms - 1), shape)
            counts = (request.budget or 0) / arms * (np.arange(looks) + 1) / looks
            leads = tuple((np.array(bounds) * np.sqrt(2 * variance / counts)).tolist())
            found.append(StoppingLeads(name=name, leads=leads))
    return tuple(found)


def _find_own(request: PlanRequest, row: PlanRow, looks: int) -> tuple[float | None, ...]:
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
        trial = advance(problem, policy, trial, _show(request, trial.plan.pulls, shown))
        ended = min(ended, float(leads[trial.done].min(initial=np.inf)))
        found.append(None if np.isinf(ended) else ended)
        trial, shown, leads = tree_take((trial, shown, leads), np.flatnonzero(~trial.done))
    return tuple(found)


def _show(request: PlanRequest, pulls: Floats, means: Floats) -> Batch:
    """A batch with just these means, and the expected squares about them."""
    totals = pulls * means
    if request.noise.outcome.rates or request.noise.outcome.counts:
        totals = np.round(totals)
    if request.noise.needs == "sums":
        return Batch(pulls, totals)
    deviation = deviations(request.noise, means, request.deviation)
    return Batch(pulls, totals, np.maximum(pulls - 1.0, 0.0) * deviation**2)
