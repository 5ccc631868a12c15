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
from roundwise.planning.fixed_designs import fixed_design, lower_bound
from roundwise.planning.forecast import Ends, Quantiles, join_ends, quantiles, simulate_ahead, without_budget
from roundwise.planning.quantities import exact
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.rows import PlanRow
from roundwise.policies import Policy, Wager
from roundwise.policies.rounds import as_rounds

GUESS = 0.3  # the price of a round that is tried first, in shares of the results that any method needs
PRICES = (0.1, 0.3, 3.0, 10.0)  # others, in shares of the first guess
FIRST_AND_GROWTH = ((0.3, 0.5), (0.3, 1.0), (1.0, 0.5), (1.0, 1.0), (2.0, 0.5))  # in shares of the same results
SIZES = (0.25, 0.5, 2.0, 4.0)  # of a round that was fixed, in shares of it
LOOKS = (3, 5, 20)  # rounds that a budget for claims is cut into


def guess_settings(request: PlanRequest, expected: Scenario) -> PlanRequest:
    """The request with a price of a round for the policy where it has none: that of the costs, or a share of results.

    The share is of the least number that any method needs, or of half a fixed design, where these are known.
    """
    price = _price(request, expected)
    return request if price is None else _with(request, batch_price=price)


def _price(request: PlanRequest, expected: Scenario) -> float | None:
    """The price of a round that is tried first, to one digit; None where the policy takes none."""
    least = _least(request, expected) if _free(request) else None
    return None if least is None else _one_digit(request.costs.price_of_round or GUESS * least)


def _one_digit(price: float) -> float:
    return max(float(f"{price:.1g}"), 1.0)


def list_candidates(request: PlanRequest, expected: Scenario) -> list[PlanRequest]:
    """Other settings to look at: as given; along the dial and off it; rounds of other sizes. None of a policy's own."""
    if request.round is not None:
        sizes = {max(round(each * request.round), 2 * len(request.arms)) for each in SIZES} - {request.round}
        if request.budget is not None:
            sizes = {each for each in sizes if each <= request.budget}
        return [dataclasses.replace(request, round=size) for size in sorted(sizes)]
    if request.question.separate_claims:
        if request.budget is None:
            return []
        sizes = {math.ceil(request.budget / each) for each in LOOKS}
        return [dataclasses.replace(request, round=size) for size in sorted(sizes) if size >= 2 * len(request.arms)]
    least, price = _least(request, expected), _price(request, expected)
    if least is None or price is None:
        return []
    found = [request, *(_with(request, batch_price=_one_digit(each * price)) for each in PRICES)]
    for first, growth in FIRST_AND_GROWTH:
        each = max(round(float(f"{first * least / len(request.arms):.2g}")), 2)
        found.append(_with(request, first_pulls=each, growth=growth))
    return found


def setting_words(request: PlanRequest) -> str:
    """What is set, as on the command line."""
    if request.round is not None:
        return f"rounds of {exact(request.round)}"
    if request.question.separate_claims and request.budget is not None:
        return f"rounds of {exact(as_rounds(request.acting).size or request.budget)} (as it is)"
    return policy_words(request.policy)


def policy_words(policy: Policy) -> str:
    """A policy as on the command line, without the limits that have options of their own.

    >>> policy_words(Wager(batch_price=300, max_batch=50))
    'wager:batch_price=300'
    """
    given, usual = vars(policy), vars(type(policy)())
    words = [
        f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in given.items()
        if name not in ("stopping", "max_batch", "min_per_arm") and value != usual[name]
    ]
    return policy.name + (":" + ",".join(words) if words else "")


def _least(request: PlanRequest, expected: Scenario) -> float | None:
    """Results that any method needs, or about as many; with shared items, as if every arm had its own."""
    request = request.alone
    least = lower_bound(request.problem, expected.means, request.deviation)
    if least is not None:
        return least
    fixed = fixed_design(request.problem, expected.means, power=request.power, deviation=request.deviation)
    return None if fixed is None else fixed.samples / 2


def _free(request: PlanRequest) -> bool:
    """Whether the settings of the policy are open: Wager as it is, in rounds of its own."""
    most, least = request.policy.max_batch, request.policy.min_per_arm
    return request.round is None and request.policy == Wager(max_batch=most, min_per_arm=least)


def _with(request: PlanRequest, **settings: float) -> PlanRequest:
    policy: Policy = dataclasses.replace(request.policy, **settings)  # type: ignore[type-var]
    return dataclasses.replace(request, policy=policy)


RUNS = (500, 20, 100)  # of every candidate, times arms; at least, at most
MORE = (2000, 60, 600)  # more of the best,
BEST = 3  # of so many of them
ITEMS = 10  # shared ones are drawn one by one: as if there were so many times the arms
OF_CLAIMS = 400  # runs where it is a chance that is compared
MANY = 25  # rounds from which on their size is set by the limits, not by the policy
SAVING = 0.25  # without prices, twice the rounds must save 1 - 2^-SAVING of the results, a sixth
GOOD_ENOUGH = 1.02  # of the least cost: then the settings are left as they are
LESS = 0.03  # of the power that fewer rounds may cost


@dataclass(frozen=True, kw_only=True)
class TradeoffPoint:
    """A policy with its settings, and what it takes."""

    request: PlanRequest
    words: str  # as on the command line
    samples: Quantiles
    batches: Quantiles
    mean_samples: float
    mean_batches: float
    mean_cost: float | None
    mean_days: float | None
    power: float | None  # of claims: chance that one which is true is shown
    front: bool = False  # no other needs fewer results and fewer rounds
    recommended: bool = False

    def plain(self) -> Plain:
        """As JSON."""
        return {
            "policy": self.words,
            "samples": self.samples.plain() | {"mean": self.mean_samples},
            "rounds": self.batches.plain() | {"mean": self.mean_batches},
            "cost_mean": self.mean_cost,
            "days_mean": self.mean_days,
            "power": self.power,
            "front": self.front,
            "recommended": self.recommended,
        }


class _Tried:
    """A candidate and its runs."""

    def __init__(self, request: PlanRequest, expected: Scenario) -> None:
        self.request, self.expected, self.lots = request, expected, list[Ends]()

    def run(self, runs: int) -> None:
        """So many more; of claims within the budget, else as if there were none."""
        request, claims = self.request, self.request.question.separate_claims
        policy = request.acting if claims else without_budget(request.acting)
        world, block = request.world(self.expected.means), len(self.lots)
        found = simulate_ahead(
            request.problem, policy, world, runs=runs, seed=request.seed, block=block, most_rounds=200
        )
        self.lots.append(found if claims else found.until_decided)

    @property
    def setting(self) -> TradeoffPoint:
        """What it takes."""
        ends, costs = join_ends(self.lots), self.request.costs
        batches = float(ends.batches.mean())
        return TradeoffPoint(
            request=self.request,
            words=setting_words(self.request),
            samples=quantiles(ends.samples),
            batches=quantiles(ends.batches),
            mean_samples=float(ends.samples.mean()),
            mean_batches=batches,
            mean_cost=float(costs.of(ends.counts, ends.batches).mean()) if costs.known else None,
            mean_days=None if costs.days is None else batches * costs.days,
            power=self._power(ends),
        )

    def _power(self, ends: Ends) -> float | None:
        question = self.request.question
        if not question.separate_claims:
            return None
        return float((ends.shown & question.answer(ends.truth)).any(axis=-1).mean())


def find_front(request: PlanRequest, expected: Scenario) -> tuple[TradeoffPoint, ...]:
    """The guessed settings and others along the front, from few results to few rounds; one of them is recommended.

    A round that was fixed stays as it is: rounds of other sizes are shown beside it.
    """
    load = len(request.arms) * (ITEMS if request.of_items else 1)
    runs, more = (int(np.clip(work // load, low, high)) for work, low, high in (RUNS, MORE))
    claims = request.question.separate_claims
    first = _Tried(guess_settings(request, expected), expected)
    first.run(OF_CLAIMS if claims else runs)
    start = first.setting
    if not np.isfinite(start.mean_samples) or start.mean_batches > MANY:
        as_given = _Tried(request, expected)
        as_given.run(runs)
        return (dataclasses.replace(as_given.setting, front=True, recommended=True),)
    others = [_Tried(each, expected) for each in list_candidates(request, expected)]
    for each in others:
        each.run(OF_CLAIMS if claims else runs)
    if others and request.round is None and not claims:
        for each in sorted([first, *others], key=lambda tried: _cost(tried.setting))[:BEST]:
            each.run(more)
        if len(first.lots) == 1:
            first.run(more)
    found = _marked([each.setting for each in [first, *others] if np.isfinite(each.setting.mean_samples)])
    best = _best(found)
    shown = [each for each in found if each.front or each is best or each is found[0] or each.request == request]
    marked = [dataclasses.replace(each, recommended=each is best) for each in shown]
    return tuple(sorted(marked, key=lambda each: (-each.mean_batches, each.mean_samples)))


def remeasure(setting: TradeoffPoint, row: PlanRow) -> TradeoffPoint:
    """The setting with the numbers of a row that was run with it: they are of more runs."""
    return dataclasses.replace(
        setting,
        samples=row.samples,
        batches=row.batches,
        mean_samples=row.mean_samples,
        mean_batches=row.mean_batches,
        mean_cost=row.mean_cost,
        mean_days=None if setting.request.costs.days is None else setting.request.costs.days * row.mean_batches,
        power=None if setting.power is None else row.at_least_one,
    )


def _best(found: Sequence[TradeoffPoint]) -> TradeoffPoint:
    """What costs least; the first, if it is as good, or its round was fixed."""
    first = found[0]
    if first.request.round is not None:
        return first
    powers = [each.power for each in found if each.power is not None]
    enough = [each for each in found if not powers or (each.power or 0.0) >= max(powers) - LESS]
    best = min(enough, key=_cost)
    good = first in enough and _cost(first) <= GOOD_ENOUGH * _cost(best)
    return first if good or (powers and first.request.costs.round == 0) else best


def _cost(setting: TradeoffPoint) -> float:
    """What is made small: the cost; with a little weight on the rounds, where they have no price."""
    cost = setting.mean_samples if setting.mean_cost is None else setting.mean_cost
    return cost if setting.request.costs.round > 0 else cost * setting.mean_batches**SAVING


def _marked(settings: Sequence[TradeoffPoint]) -> list[TradeoffPoint]:
    return [
        dataclasses.replace(
            one,
            front=not any(
                other.mean_samples <= one.mean_samples
                and other.mean_batches <= one.mean_batches
                and (other.power or 0.0) >= (one.power or 0.0)
                and other is not one
                and (other.mean_samples, other.mean_batches) != (one.mean_samples, one.mean_batches)
                for other in settings
            ),
        )
        for one in settings
    ]
