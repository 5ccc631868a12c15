"""Which settings of the policy: the front of results against rounds, and the point that costs least."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.arrays import Plain
from roundwise.planning.ahead import ahead, without_budget
from roundwise.planning.bound import lower_bound
from roundwise.planning.expected import Expected
from roundwise.planning.fixed import fixed_design
from roundwise.planning.quantities import exact
from roundwise.planning.rows import Spread, spread
from roundwise.planning.wish import Wish
from roundwise.policies import Policy, Wager
from roundwise.policies.limited import limits_of

RUNS = 100
MANY = 25  # rounds from which on their size is set by the limits, not by the policy
GUESS = 0.3  # the price of a round that is tried first, in shares of the results that any method needs
PRICES = (0.03, 0.1, 0.3, 3.0, 10.0)  # others that are looked at, in those that were tried first
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

    def plain(self) -> Plain:
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


def guessed(wish: Wish, expected: Expected) -> Wish:
    """The wish with a price of a round for the policy where it has none: that of the costs, or a share of the results.

    The share is of the least number that any method needs, or of half a fixed design, where these are known.
    """
    if not _free(wish):
        return wish
    price = wish.costs.price_of_batch
    if price is None:
        least = lower_bound(wish.problem, expected.means, wish.deviation)
        if least is None:
            fixed = fixed_design(wish.problem, expected.means, power=wish.power, deviation=wish.deviation)
            least = None if fixed is None else fixed.samples / 2
        if least is None:
            return wish
        price = GUESS * least
    return dataclasses.replace(wish, policy=_priced(wish, price))


def front_of(wish: Wish, guess: Wish, expected: Expected, runs: int = RUNS) -> tuple[Setting, ...]:
    """The given settings and others along the front, from few results to few rounds; one of them is recommended.

    A round that was fixed stays as it is: rounds of other sizes are shown beside it.
    """
    first = _measured(guess, expected, runs)
    if not np.isfinite(first.mean_samples) or first.mean_batches > MANY:
        return (dataclasses.replace(first, front=True, recommended=True),)
    others = [_measured(each, expected, runs) for each in candidates(wish, guess)]
    found = _marked([first, *(each for each in others if np.isfinite(each.mean_samples))])
    best = min(found, key=lambda each: _cost(each, wish))
    if wish.round is not None or _cost(found[0], wish) <= GOOD_ENOUGH * _cost(best, wish):
        best = found[0]
    shown = [each for each in found if each.front or each is best or each is found[0]]
    marked = [dataclasses.replace(each, recommended=each is best) for each in shown]
    return tuple(sorted(marked, key=lambda each: (each.mean_samples, each.mean_batches)))


def candidates(wish: Wish, guess: Wish) -> list[Wish]:
    """Other settings to look at: as given, other prices of a round, or rounds of other sizes; else none."""
    if wish.round is not None:
        sizes = {max(round(each * wish.round), 2 * len(wish.names)) for each in SIZES} - {wish.round}
        return [dataclasses.replace(wish, round=size) for size in sorted(sizes)]
    price = getattr(guess.policy, "batch_price", None)
    if not _free(wish) or price is None:
        return []
    priced = [_priced(wish, each * price) for each in PRICES]
    return [wish, *(dataclasses.replace(wish, policy=each) for each in priced)]


def _free(wish: Wish) -> bool:
    """Whether the settings of the policy are open: Wager as it is, in rounds of its own."""
    policy = wish.policy
    most, least = limits_of(policy)
    return wish.round is None and wish.split is None and policy == Wager(max_batch=most, min_per_arm=least)


def _priced(wish: Wish, price: float) -> Policy:
    """The policy with a price of a round, to one digit."""
    found: Policy = dataclasses.replace(wish.policy, batch_price=max(float(f"{price:.1g}"), 1.0))  # type: ignore[type-var]
    return found


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


def _cost(setting: Setting, wish: Wish) -> float:
    """What is made small: the cost; with a little weight on the rounds, where they have no price."""
    cost = setting.mean_samples if setting.mean_cost is None else setting.mean_cost
    return cost if wish.costs.batch > 0 else cost * setting.mean_batches**SAVING


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
