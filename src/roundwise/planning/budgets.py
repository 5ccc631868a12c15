"""Which budget a study needs for a power: simulations at several budgets, and a curve through them.

The power of a test with N results is about Phi(a sqrt(N) - b). The line through the probits of the simulated powers
smooths out chance, and gives the budget of each power that is asked for.

The correlation of several metrics is not known, so each is planned alone, with delta divided by their number: the bar
of its claims is then as high as in the study. A study has what it needs when the slowest of them has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.planning.fixed_designs import fixed_design, ndtri
from roundwise.planning.forecast import most_in_a_round, simulate_request
from roundwise.planning.request import PlanRequest, Scenario

POWERS = (0.8, 0.9, 0.95)
RUNS = (12_000, 200, 2000)  # at every budget: divided by arms, at least, at most
STEP = 1.15  # from one budget to the next
USEFUL = (0.6, 0.985)  # powers that the line goes through
MOST = 30  # budgets that are tried,
ROUNDS = 100  # each with at most this many rounds where their size is limited
EACH = 1000  # results of each arm to begin with, where no fixed design is known
FEWER = 10  # times fewer runs at every budget of one of several metrics
METRIC_RUNS = 400  # with the budget of the plan


@dataclass(frozen=True, kw_only=True)
class BudgetProposal:
    """A power, and the budget that has it."""

    power: float
    budget: int


def propose_budgets(
    request: PlanRequest, expected: Scenario, powers: Sequence[float] = POWERS, fewer: int = 1
) -> tuple[BudgetProposal, ...]:
    """Budgets with which a study has these powers if these were the means.

    Args:
        request: The study; its own budget does not matter.
        expected: The means.
        powers: Chances of an answer within the budget; of claims, that a true one is shown.
        fewer: Divides the number of runs.

    Returns:
        A proposal for each power; nothing where no budget is enough.
    """
    tried: dict[int, float] = {}
    runs = int(np.clip(RUNS[0] // len(request.arms), *RUNS[1:])) // fewer

    def power_at(budget: float) -> float:
        size = math.ceil(budget)
        if size not in tried:
            other = dataclasses.replace(request, budget=size)
            tried[size] = simulate_request(other, expected.means, runs, block=len(tried)).answered(other)
        return tried[size]

    assumed = {"power": max(powers), "shares": request.split, "deviation": request.deviation}
    fixed = fixed_design(request.problem, expected.means, missing=request.missing, **assumed)  # type: ignore[arg-type]
    least, most = 2 * len(request.arms), ROUNDS * (most_in_a_round(request.policy) or math.inf)
    if request.round_size is not None:
        most = ROUNDS * request.round_size
    budget = float(np.clip(EACH * len(request.arms) if fixed is None else fixed.samples, least, most))
    while (power := power_at(budget)) > min(powers) - 0.1 and budget > least:
        budget = max(budget / (STEP**2 if power < USEFUL[1] else 2.0), least)
    while (power := power_at(budget)) < min(max(powers) + 0.02, USEFUL[1]) and budget <= most and len(tried) < MOST:
        budget *= STEP if power > 0.3 else 2 * STEP
    known = {size: power for size, power in tried.items() if USEFUL[0] <= power <= USEFUL[1]}
    if len(known) < 2:  # the power jumps: a noise model that waits for results, or nothing is enough
        jumps = [_find_jump(power, tried, power_at) for power in powers]
        return tuple(
            BudgetProposal(power=p, budget=_round_up(each)) for p, each in zip(powers, jumps, strict=True) if each
        )
    roots, chances = np.sqrt(np.array(list(known))), np.array(list(known.values()))
    probits = np.array([ndtri(each) for each in chances])
    precision = np.exp(-0.5 * probits**2) / np.sqrt(chances * (1 - chances))  # of a probit: the delta method
    slope, intercept = np.polyfit(roots, probits, 1, w=precision)
    if slope <= 0:
        return ()
    found = (((ndtri(power) - intercept) / slope) ** 2 for power in powers)
    return tuple(BudgetProposal(power=power, budget=_round_up(each)) for power, each in zip(powers, found, strict=True))


def _find_jump(power: float, tried: Mapping[int, float], power_at: Callable[[float], float]) -> float | None:
    """The smallest budget with this power to 5 %, by bisection; None where no budget that was tried has it."""
    high = min((size for size, found in tried.items() if found >= power), default=None)
    if high is None:
        return None
    low = max((size for size, found in tried.items() if found < power and size < high), default=high)
    while high > 1.05 * low:
        middle = math.ceil(math.sqrt(low * high))
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high


def _round_up(budget: float) -> int:
    """A round number of results: to two digits, and three where the first is 1."""
    digits = math.floor(math.log10(budget))
    unit = 10 ** max(digits - (2 if budget < 2 * 10**digits else 1), 0)
    return math.ceil(budget / unit) * unit


@dataclass(frozen=True, kw_only=True)
class MetricNeed:
    """The sample size that shows a true claim about one metric."""

    name: str  # empty for the main metric
    role: str
    lead: float  # that is assumed, in units of the metric
    budget: int | None  # results for the power that is wanted; None where none is enough
    within_budget: float | None  # the power of the budget of the plan


def plan_metrics(request: PlanRequest, main: PlanRequest, expected: Scenario) -> tuple[MetricNeed, ...]:
    """The needs of all metrics in this row, in the order of the study.

    Guardrails are forecast with arms that are all alike; a secondary metric with a gain that is the same share of its
    baseline as that of the main metric, beyond its margin.
    """
    settings = {"budget": main.budget, "round_size": main.round_size, "policy": main.policy}
    found = [_need("", "main", expected.lead or 0.0, main, expected)]
    base = abs(float(expected.means[request.question.reference_arm or 0]))
    gain = (expected.lead or 0.0) / base if base else 0.0
    for metric, other in zip(request.metrics, request.by_metric, strict=True):
        other = dataclasses.replace(other, **settings)  # type: ignore[arg-type]
        baseline = 0.0 if other.means is None else abs(other.means[0])
        lead = 0.0 if metric.role == "guardrail" else metric.margin + gain * baseline
        means = other.question.means_with_lead(np.asarray(other.means), lead)
        alone = Scenario(means=tuple(means.tolist()), lead=lead, rates=other.noise.outcome.rates)
        found.append(_need(metric.name, metric.role, lead, other, alone))
    return tuple(found)


def _need(name: str, role: str, lead: float, request: PlanRequest, expected: Scenario) -> MetricNeed:
    budgets = propose_budgets(request, expected, (request.power,), fewer=FEWER)
    within = None
    if request.budget is not None:
        within = simulate_request(request, expected.means, min(request.runs, METRIC_RUNS)).answered(request)
    enough = budgets[0].budget if budgets else None
    return MetricNeed(name=name, role=role, lead=lead, budget=enough, within_budget=within)
