"""Which settings of the policy: the front of results against rounds, and the point that costs least."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.planning.ahead import ahead, without_budget
from roundwise.planning.expected import Expected
from roundwise.planning.quantities import exact
from roundwise.planning.rows import Spread, spread
from roundwise.planning.wish import Wish
from roundwise.policies import Policy, Wager

RUNS = 100
MANY = 25  # rounds from which on their size is set by the limits, not by the policy
PRICES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of a round, in shares of the results that are typical
SIZES = (0.25, 0.5, 2.0, 4.0)  # of a round that was fixed, in shares of it
SAVING = 0.25  # without prices, twice the rounds must save 1 - 2^-SAVING of the results, a sixth
GOOD_ENOUGH = 1.02  # of the least cost: then the settings are left as they are


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A policy with its settings, and what it takes."""

    policy: Policy
    round: int | None
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


def front_of(wish: Wish, expected: Expected, runs: int = RUNS) -> tuple[Setting, ...]:
    """The given settings and others along the front, from few results to few rounds; one of them is recommended.

    A round that was fixed stays as it is: rounds of other sizes are shown beside it.
    """
    first = _measured(wish, expected, runs)
    if not np.isfinite(first.mean_samples) or first.mean_batches > MANY:
        return (dataclasses.replace(first, front=True, recommended=True),)
    others = [_measured(each, expected, runs) for each in candidates(wish, first)]
    found = _marked([first, *(each for each in others if np.isfinite(each.mean_samples))])
    best = min(found, key=_cost)
    if wish.round is not None or _cost(found[0]) <= GOOD_ENOUGH * _cost(best):
        best = found[0]
    shown = [each for each in found if each.front or each is best or each is found[0]]
    marked = [dataclasses.replace(each, recommended=each is best) for each in shown]
    return tuple(sorted(marked, key=lambda each: (each.mean_samples, each.mean_batches)))


def candidates(wish: Wish, first: Setting) -> list[Wish]:
    """Other settings to look at: Wager with the price of a round, or rounds of other sizes; else none."""
    if wish.round is not None:
        sizes = {max(round(each * wish.round), 2 * len(wish.names)) for each in SIZES} - {wish.round}
        return [dataclasses.replace(wish, round=size) for size in sorted(sizes)]
    if not isinstance(wish.policy, Wager) or wish.policy.batch_price is not None or wish.split is not None:
        return []
    prices = {float(f"{each * first.mean_samples:.1g}") for each in PRICES}
    if wish.costs.price_of_batch is not None:
        prices.add(float(f"{wish.costs.price_of_batch:.2g}"))
    priced = [dataclasses.replace(wish.policy, batch_price=max(price, 1.0)) for price in sorted(prices)]
    return [dataclasses.replace(wish, policy=each) for each in priced]


def policy_words(policy: Policy) -> str:
    """A policy as on the command line, without the limits that have options of their own.

    >>> policy_words(Wager(batch_price=300, max_batch=50))
    'wager:batch_price=300'
    """
    inner: Any = getattr(policy, "policy", policy)
    usual = type(inner)()
    changed = [
        (each.name, getattr(inner, each.name))
        for each in dataclasses.fields(inner)
        if each.name not in ("stopping", "max_batch", "min_per_arm")
        and getattr(inner, each.name) != getattr(usual, each.name)
    ]
    words = [f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value}" for name, value in changed]
    return inner.name + (":" + ",".join(words) if words else "")


def _measured(wish: Wish, expected: Expected, runs: int) -> Setting:
    world, policy = wish.world(expected.means), without_budget(wish.acting)
    ends = ahead(wish.problem, policy, world, runs=runs, seed=wish.seed, most_rounds=200).until_decided
    costs, mean_batches = wish.costs, float(ends.batches.mean())
    return Setting(
        policy=wish.policy,
        round=wish.round,
        words=policy_words(wish.policy) if wish.round is None else f"rounds of {exact(wish.round)}",
        samples=spread(ends.samples),
        batches=spread(ends.batches),
        mean_samples=float(ends.samples.mean()),
        mean_batches=mean_batches,
        mean_cost=float(costs.of(ends.counts, ends.batches).mean()) if costs.known else None,
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
