"""Sample sizes by metric: the main one, guardrails and secondary metrics. The correlation of metrics is not known, so
each is planned alone, with delta divided by their number: the bar of its claims is then as high as in the study. A
study has what it needs when the slowest of them has.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Plain
from roundwise.planning.budgets import propose_budgets
from roundwise.planning.forecast import simulate_request
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.study.metrics import Metric

FEWER = 10  # times fewer runs than for the budgets of a plan
RUNS = 400


@dataclass(frozen=True, kw_only=True)
class MetricNeed:
    """The sample size that shows a true claim about one metric."""

    name: str  # empty for the main metric
    role: str
    lead: float  # that is assumed, in units of the metric
    budget: int | None  # results for the power that is wanted; None where none is enough
    within_budget: float | None  # the power of the budget of the plan

    def plain(self) -> Plain:
        """The need as JSON."""
        return dataclasses.asdict(self)


def plan_metrics(request: PlanRequest, main: PlanRequest, expected: Scenario) -> tuple[MetricNeed, ...]:
    """The needs of all metrics in this row, in the order of the study.

    Guardrails are forecast with arms that are all alike; a secondary metric with a gain that is the same share of its
    baseline as that of the main metric, beyond its margin.
    """
    settings = {"budget": main.budget, "round_size": main.round_size, "policy": main.policy}
    found = [_need("", "main", expected.lead or 0.0, main, expected)]
    base = abs(float(expected.means[request.question.reference_arm or 0]))
    for metric, other in zip(request.metrics, request.by_metric, strict=True):
        other = dataclasses.replace(other, **settings)  # type: ignore[arg-type]
        lead = _lead(metric, other, (expected.lead or 0.0) / base if base else 0.0)
        means = other.question.means_with_lead(np.asarray(other.means), lead)
        alone = Scenario(means=tuple(means.tolist()), lead=lead, rates=other.noise.outcome.rates)
        found.append(_need(metric.name, metric.role, lead, other, alone))
    return tuple(found)


def _lead(metric: Metric, request: PlanRequest, share: float) -> float:
    """By how much the best arm gains: not at all for a guardrail."""
    base = 0.0 if request.means is None else abs(request.means[0])
    return 0.0 if metric.role == "guardrail" else metric.margin + share * base


def _need(name: str, role: str, lead: float, request: PlanRequest, expected: Scenario) -> MetricNeed:
    budgets = propose_budgets(request, expected, (request.power,), fewer=FEWER)
    within = None
    if request.budget is not None:
        within = simulate_request(request, expected.means, min(request.runs, RUNS)).answered(request)
    enough = budgets[0].budget if budgets else None
    return MetricNeed(name=name, role=role, lead=lead, budget=enough, within_budget=within)
