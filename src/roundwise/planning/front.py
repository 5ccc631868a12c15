"""Which settings of the policy: the front of results against rounds, and the point that costs least."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.planning.ahead import ahead
from roundwise.planning.costs import Costs
from roundwise.planning.rows import Spread, average, spread
from roundwise.policies import Policy, Wager
from roundwise.problem import Problem
from roundwise.simulation.environments import Environment

RUNS = 100
MANY = 25  # rounds from which on their size is set by the limits, not by the policy
SAVING = 0.25  # without prices, twice the rounds must save 1 - 2^-SAVING of the results, a sixth
PRICES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of a round, in shares of the results that are typical
GOOD_ENOUGH = 1.02  # of the least cost: then the settings are left as they are


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A policy with its settings, and what it takes."""

    policy: Policy
    words: str  # as on the command line
    samples: Spread
    batches: Spread
    mean_samples: float
    mean_batches: float
    mean_cost: float | None
    mean_days: float | None
    front: bool  # no other needs fewer results and fewer rounds
    recommended: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "policy": self.words,
            "samples": self.samples.plain() | {"mean": self.mean_samples},
            "batches": self.batches.plain() | {"mean": self.mean_batches},
            "cost_mean": self.mean_cost,
            "days_mean": self.mean_days,
            "front": self.front,
            "recommended": self.recommended,
        }


def front_of(
    problem: Problem, policy: Policy, environment: Environment, costs: Costs, *, seed: int, runs: int = RUNS
) -> tuple[Setting, ...]:
    """The given policy and others along the front, from few results to few rounds; one of them is recommended."""
    first = _measured(problem, policy, environment, costs, seed, runs)
    if not np.isfinite(first.mean_samples) or first.mean_batches > MANY:
        return (dataclasses.replace(first, recommended=True),)
    others = [_measured(problem, each, environment, costs, seed, runs) for each in candidates(policy, first, costs)]
    found = _marked([first, *(each for each in others if np.isfinite(each.mean_samples))])
    best = min(found, key=_cost)
    if _cost(found[0]) <= GOOD_ENOUGH * _cost(best):
        best = found[0]
    shown = [each for each in found if each.front or each is best or each is found[0]]
    marked = [dataclasses.replace(each, recommended=each is best) for each in shown]
    return tuple(sorted(marked, key=lambda each: (each.mean_samples, each.mean_batches)))


def candidates(policy: Policy, first: Setting, costs: Costs) -> list[Policy]:
    """Other settings to look at: Wager with the price of a round; a policy that was chosen stays as it is."""
    if not isinstance(policy, Wager) or policy.batch_price is not None:
        return []
    prices = {float(f"{each * first.mean_samples:.1g}") for each in PRICES}
    if costs.price_of_batch is not None:
        prices.add(float(f"{costs.price_of_batch:.2g}"))
    return [dataclasses.replace(policy, batch_price=max(price, 1.0)) for price in sorted(prices)]


def policy_words(policy: Policy) -> str:
    """A policy as on the command line, without the limits that have options of their own.

    >>> policy_words(Wager(batch_price=300, max_batch=50))
    'wager:batch_price=300'
    """
    inner: Any = getattr(policy, "policy", policy)
    plain = type(inner)()
    changed = [
        f"{each.name}={value:g}"
        if isinstance(value, float | int) and not isinstance(value, bool)
        else f"{each.name}={value}"
        for each in dataclasses.fields(inner)
        if each.name not in ("stopping", "max_batch", "min_per_arm")
        and (value := getattr(inner, each.name)) != getattr(plain, each.name)
    ]
    return inner.name + (":" + ",".join(changed) if changed else "")


def _measured(
    problem: Problem, policy: Policy, environment: Environment, costs: Costs, seed: int, runs: int
) -> Setting:
    paths = ahead(problem, policy, environment, runs=runs, seed=seed, most_rounds=200)
    ends, weights = paths.needed, paths.weights
    mean_batches = average(ends.batches, weights)
    return Setting(
        policy=policy,
        words=policy_words(policy),
        samples=spread(ends.samples, weights),
        batches=spread(ends.batches, weights),
        mean_samples=average(ends.samples, weights),
        mean_batches=mean_batches,
        mean_cost=average(costs.of(ends.counts, ends.batches), weights) if costs.known else None,
        mean_days=None if costs.days is None else mean_batches * costs.days,
        front=False,
    )


def _cost(setting: Setting) -> float:
    """What is made small: the cost, or without prices the results, with a little weight on the rounds."""
    if setting.mean_cost is not None:
        return setting.mean_cost
    return setting.mean_samples * setting.mean_batches**SAVING


def _marked(settings: Iterable[Setting]) -> list[Setting]:
    found = list(settings)
    return [
        dataclasses.replace(
            one,
            front=not any(
                other.mean_samples <= one.mean_samples
                and other.mean_batches <= one.mean_batches
                and (other.mean_samples, other.mean_batches) != (one.mean_samples, one.mean_batches)
                for other in found
            ),
        )
        for one in found
    ]
