"""What a cap changes in a plan: the spread, the results needed, and the share of the total that it removes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Plain
from roundwise.noise import LargeSample
from roundwise.planning.forecast import Quantiles, quantiles, simulate_request
from roundwise.planning.pilot import PilotMoments
from roundwise.planning.request import PlanRequest
from roundwise.planning.rows import PlanRow

RUNS = 400


@dataclass(frozen=True, kw_only=True)
class CapEffect:
    """A cap, or none, on the results of a pilot, and what a study takes with it in the row that matters."""

    cap: float | None
    spread: PilotMoments
    samples: Quantiles
    within_budget: float | None  # chance of an answer, if there is a budget

    def plain(self) -> Plain:
        """The effect as JSON."""
        return {
            "cap": self.cap,
            **self.spread._asdict(),
            "samples": vars(self.samples),
            "within_budget": self.within_budget,
        }


def compare_caps(request: PlanRequest, row: PlanRow) -> tuple[CapEffect, ...]:
    """The plan without a cap and with some, where a pilot has results of any shape; else nothing.

    The lead is the same share of the mean in all of them: more buyers, not larger baskets, of which a cap cuts more.
    """
    past, noise = request.past, request.noise
    capped = noise.outcome.clip
    if past is None or not (noise.needs == "cubes" or capped) or not row.ends:
        return ()
    own, found, models = past.spread(noise), [], [LargeSample(), noise] if capped else [noise, *past.caps()]
    for model in models:
        spread, cap = past.spread(model), model.outcome.high if model.outcome.clip else None
        samples, within = row.samples, row.within_budget
        if model != noise:
            scale, skewness = spread.mean / own.mean, spread.skewness if cap is None else 0.0
            lead = None if request.lead is None else scale * request.lead
            other = dataclasses.replace(request, noise=model, deviation=spread.deviation, skewness=skewness, lead=lead)
            means = scale * np.asarray(row.expected.means)
            ends = simulate_request(other, means.tolist(), min(request.runs, RUNS))
            samples = quantiles((ends if request.budget is not None else ends.until_decided).samples)
            within = None if request.budget is None else ends.answered(other)
        found.append(CapEffect(cap=cap, spread=spread, samples=samples, within_budget=within))
    return tuple(found) if len(found) > 1 else ()
