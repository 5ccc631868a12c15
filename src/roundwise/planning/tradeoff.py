"""The front of results against rounds over the settings of a policy, and the point that costs least.

A few runs of every candidate, then more of the best: all start from the same seed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Plain
from roundwise.messages import number
from roundwise.planning.fixed_designs import fixed_design, lower_bound
from roundwise.planning.forecast import (
    Ends,
    Forecast,
    join_ends,
    planned_looks,
    plural,
    simulate_request,
    starts_small,
    summarize,
)
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.rows import PlanRow
from roundwise.policies import Designed, Policy, Wager, usual_policy
from roundwise.policies.base import as_rounds
from roundwise.questions.lower_bounds import lower_bound_at
from roundwise.simulation.environments import deviations

GUESS = 0.3  # the price of a round that is tried first, in shares of the results that any method needs
PRICES = (0.1, 0.3, 3.0, 10.0)  # others, in shares of the first guess
FIRST_AND_GROWTH = ((0.3, 0.5), (0.3, 1.0), (1.0, 0.5), (1.0, 1.0), (2.0, 0.5))  # in shares of the same results
SIZES = (0.25, 0.5, 2.0, 4.0)  # of a round that was fixed, in shares of it
CLAIM_LOOKS = (3, 5, 20)  # rounds that a budget for claims is cut into
LOOKS = (1, 2, 3, 5, 8, 12)  # rounds that a budget of a designed study is planned for
RUNS = (500, 20, 100)  # of every candidate: divided by arms, at least, at most
MORE = (2000, 60, 600)  # more of the best,
BEST = 3  # which are this many
ITEMS = 10  # shared items are drawn one by one: as if there were this many times the arms
OF_CHANCES = (1600, 60, 400)  # runs where chances are compared
MANY_ARMS = 50
MANY = 25  # rounds from which on their size is set by the limits, not by the policy
SAVING = 0.25  # without prices, twice the rounds must save 1 - 2^-SAVING of the results, a sixth
GOOD_ENOUGH = 1.02  # of the least cost: then the settings are left as they are
LESS = 0.03  # of the power that fewer rounds may cost


def guess_settings(request: PlanRequest, expected: Scenario) -> PlanRequest:
    """The request with a price of a round for the policy where it has none: that of the costs, or a share of results.

    The share is of the least number that any method needs, or of half a fixed design, where these are known.
    """
    least = _least_results(request, expected)
    return request if least is None else _with_policy(request, batch_price=_first_price(request, least))


def _least_results(request: PlanRequest, expected: Scenario) -> float | None:
    """Results that any method needs, or about as many, if the settings of the policy are open: Wager in its own rounds.

    With shared items, as if every arm had its own.
    """
    if request.round_size is not None or request.policy != Wager().with_limits(*_limits(request)):
        return None
    problem, deviation = request.alone.problem, request.deviation
    if problem.question.tolerance and problem.arms > MANY_ARMS:  # many answers are right: as if results were normal
        means = np.asarray(expected.means)
        sigma = float(np.median(deviations(problem.noise, means, deviation)))
        normal = float(lower_bound_at(problem.question, means, problem.delta, sigma))
        return normal if np.isfinite(normal) and normal > 0 else None
    least = lower_bound(problem, expected.means, deviation)
    if least is not None:
        return least
    fixed = fixed_design(problem, expected.means, power=request.power, deviation=deviation)
    return None if fixed is None else fixed.samples / 2


def _limits(request: PlanRequest) -> tuple[float | None, float]:
    return request.policy.max_batch, request.policy.min_per_arm


def _first_price(request: PlanRequest, least: float) -> float:
    return _one_digit(request.costs.price_of_round or GUESS * least)


def _one_digit(price: float) -> float:
    return max(float(f"{price:.1g}"), 1.0)


def _with_policy(request: PlanRequest, **settings: float) -> PlanRequest:
    policy: Policy = dataclasses.replace(request.policy, **settings)  # type: ignore[type-var]
    return dataclasses.replace(request, policy=policy)


def _list_candidates(request: PlanRequest, expected: Scenario) -> list[PlanRequest]:
    """Other settings: as given; other prices of a round, first rounds and growth; rounds of other sizes."""
    budget, fewest = request.budget, 2 * len(request.arms)
    if request.round_size is not None or request.question.separate_claims:
        if request.round_size is not None:
            sizes = {max(round(each * request.round_size), fewest) for each in SIZES} - {request.round_size}
        else:
            sizes = set() if budget is None else {math.ceil(budget / each) for each in CLAIM_LOOKS}
        low, high = (fewest, math.inf) if budget is None else (max(fewest, budget / MANY), budget)
        fitting = [size for size in sorted(sizes) if low <= size <= high]
        return [*(dataclasses.replace(request, round_size=size) for size in fitting), *_as_wager(request, expected)]
    if wager := _as_wager(request, expected):
        assert budget is not None
        own = None if starts_small(request) else planned_looks(request)
        least_looks = planned_looks(dataclasses.replace(request, looks=1))  # more where rounds are limited
        shown = [each for each in LOOKS if each != own and each >= least_looks and budget / each >= fewest]
        found = [dataclasses.replace(request, looks=each) for each in shown]
        if request.lead is None and expected.lead:  # what to say the lead would bring
            found.append(dataclasses.replace(request, lead=expected.lead))
        return [*found, *wager]
    least = _least_results(request, expected)
    if least is None:
        return []
    price = _first_price(request, least)
    found = [request, *(_with_policy(request, batch_price=_one_digit(each * price)) for each in PRICES)]
    for first, growth in FIRST_AND_GROWTH:
        each = max(round(float(f"{first * least / len(request.arms):.2g}")), 2)
        found.append(_with_policy(request, first_pulls=each, growth=growth))
    return found


def _as_wager(request: PlanRequest, expected: Scenario) -> list[PlanRequest]:
    """A designed study whose policy was not named, with Wager in its place; nothing for others."""
    usual = Designed().with_design(request.budget, request.lead, request.looks).with_limits(*_limits(request))
    if request.policy != usual:
        return []
    policy = Wager().with_limits(*_limits(request))
    return [guess_settings(dataclasses.replace(request, policy=policy, lead=None, looks=None), expected)]


def policy_words(policy: Policy, request: PlanRequest | None = None) -> str:
    """A policy in command-line notation, without settings that have their own options: limits, and the design.

    >>> policy_words(Wager(batch_price=300, max_batch=50))
    'wager:batch_price=300'
    """
    usual_policy = type(policy)()
    if request is not None:
        usual_policy = usual_policy.with_design(request.budget, request.lead, request.looks)
    given, usual = vars(policy), vars(usual_policy)
    words = [
        f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in given.items()
        if name not in ("stopping", "max_batch", "min_per_arm") and value != usual[name]
    ]
    return policy.name + (":" + ",".join(words) if words else "")


@dataclass(frozen=True, kw_only=True)
class TradeoffPoint(Forecast):
    """A policy with its settings, and its forecast."""

    request: PlanRequest
    power: float | None  # with a budget: chance of an answer within it; of claims, that a true one is shown
    designed_for: str | None = None  # a lead that the user did not say
    front: bool = False  # no other needs fewer results and fewer rounds
    recommended: bool = False

    @property
    def mean_days(self) -> float | None:
        costs = self.request.costs
        return float(costs.days_of(np.array(self.mean_samples), np.array(self.mean_rounds))) if costs.timed else None

    @property
    def words(self) -> str:
        """The settings, as on the command line."""
        request = self.request
        if request.round_size is not None:
            usual = usual_policy(request.question, request.budget is not None, len(request.arms)).name
            other = "" if request.policy.name == usual else f", {request.policy.name}"
            return f"rounds of {number(request.round_size)}{other}"
        if request.question.separate_claims and request.budget is not None:
            return f"rounds of {number(as_rounds(request.acting).size or request.budget)} (as it is)"
        if request.policy.plans_budget:
            looks = "looks as they come" if starts_small(request) else plural(planned_looks(request), "look")
            return looks if self.designed_for is None else f"{looks}, designed for {self.designed_for}"
        return policy_words(request.policy, request)

    @property
    def weighed_cost(self) -> float:
        """What is minimized: the cost; with a little weight on the rounds, where they have no price."""
        cost = self.mean_samples if self.mean_cost is None else self.mean_cost
        return cost if self.request.costs.round > 0 else cost * self.mean_rounds**SAVING

    def plain(self) -> Plain:
        """The settings as JSON."""
        return {
            "policy": self.words,
            "samples": vars(self.samples) | {"mean": self.mean_samples},
            "rounds": vars(self.rounds) | {"mean": self.mean_rounds},
            "cost_mean": self.mean_cost,
            "days_mean": self.mean_days,
            "power": self.power,
            "on_pareto_front": self.front,
            "recommended": self.recommended,
        }

    def remeasured(self, row: PlanRow) -> TradeoffPoint:
        """The same settings with the numbers of a row that was run with them: those of more runs."""
        newer = {each.name: vars(row)[each.name] for each in dataclasses.fields(Forecast)}
        return dataclasses.replace(self, **newer, power=None if self.power is None else row.within_budget)


class _Tried:
    def __init__(self, request: PlanRequest, expected: Scenario, runs: int) -> None:
        self.request, self.expected, self.ends = request, expected, list[Ends]()
        self.run(runs)

    def run(self, runs: int) -> None:
        request = self.request
        found = simulate_request(request, self.expected.means, runs, block=len(self.ends), most_rounds=200)
        self.ends.append(found.until_decided if request.budget is None else found)
        every = join_ends(self.ends)
        power = None if request.budget is None else every.answered(request)
        self.point = TradeoffPoint(**summarize(every, request.costs), request=request, power=power)


def find_front(request: PlanRequest, expected: Scenario) -> tuple[TradeoffPoint, ...]:
    """The guessed settings and others along the front, from few results to few rounds; one of them is recommended.

    A round that was fixed stays as it is; rounds of other sizes are listed for comparison.
    """
    load = len(request.arms) * (ITEMS if request.noise.shares_items else 1)
    runs, more, of_chances = (int(np.clip(work // load, low, high)) for work, low, high in (RUNS, MORE, OF_CHANCES))
    chances = request.budget is not None
    several = of_chances if chances else runs
    first = _Tried(guess_settings(request, expected), expected, several)
    if not np.isfinite(first.point.mean_samples) or first.point.mean_rounds > MANY:
        return (dataclasses.replace(_Tried(request, expected, runs).point, front=True, recommended=True),)
    others = [_Tried(each, expected, several) for each in _list_candidates(request, expected)]
    if others and request.round_size is None and not chances:
        for each in sorted([first, *others], key=lambda tried: tried.point.weighed_cost)[:BEST]:
            each.run(more)
        if len(first.ends) == 1:
            first.run(more)
    points = [each.point for each in [first, *others] if np.isfinite(each.point.mean_samples)]
    said = [each for each in points if each.request.lead is None or request.lead is not None]
    best = _best(said)
    found = []
    for one in points:
        front = not any(_dominates(other, one) for other in points)
        if front or one is best or one is points[0] or one.request == request:
            lead = None if one in said else expected.given
            found.append(dataclasses.replace(one, front=front, recommended=one is best, designed_for=lead))
    return tuple(sorted(found, key=lambda each: (-each.mean_rounds, each.mean_samples)))


def _best(points: Sequence[TradeoffPoint]) -> TradeoffPoint:
    """The cheapest with about the largest power; the first, if it is as good, or what it differs in was said."""
    first, request = points[0], points[0].request
    designed = request.budget is not None and request.policy.stopping.uses_budget
    powers = [each.power for each in points if each.power is not None]
    enough = [each for each in points if not powers or (each.power or 0.0) >= max(powers) - LESS]
    if request.looks is not None or (request.lead is not None and request.costs.round == 0):
        return first
    if request.round_size is not None or (designed and request.costs.round == 0):  # rounds stay as they are
        enough = [each for each in enough if each is first or each.request.policy.name != request.policy.name]
        if request.question.separate_claims or not enough:
            return first
    best = min(enough, key=lambda each: each.weighed_cost)
    return first if first in enough and first.weighed_cost <= GOOD_ENOUGH * best.weighed_cost else best


def _dominates(other: TradeoffPoint, one: TradeoffPoint) -> bool:
    """Whether another point needs no more results and rounds, has no less power, and is not the same."""
    return (
        other.mean_samples <= one.mean_samples
        and other.mean_rounds <= one.mean_rounds
        and (other.power or 0.0) >= (one.power or 0.0)
        and (other.mean_samples, other.mean_rounds) != (one.mean_samples, one.mean_rounds)
    )
