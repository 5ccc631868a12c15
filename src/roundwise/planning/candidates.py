"""Settings that a plan looks at: prices of a round, first rounds and growths, sizes of rounds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from roundwise.planning.bound import lower_bound
from roundwise.planning.expected import Expected
from roundwise.planning.fixed import fixed_design
from roundwise.planning.quantities import exact
from roundwise.planning.wish import Wish
from roundwise.policies import Policy, Wager
from roundwise.policies.limited import limits_of
from roundwise.questions.besides import one_by_one

GUESS = 0.3  # the price of a round that is tried first, in shares of the results that any method needs
PRICES = (0.1, 0.3, 3.0, 10.0)  # others, in shares of the first guess
FIRST_AND_GROWTH = ((0.3, 0.5), (0.3, 1.0), (1.0, 0.5), (1.0, 1.0), (2.0, 0.5))  # in shares of the same results
SIZES = (0.25, 0.5, 2.0, 4.0)  # of a round that was fixed, in shares of it
LOOKS = (3, 5, 20)  # rounds that a budget for claims is cut into


def guessed(wish: Wish, expected: Expected) -> Wish:
    """The wish with a price of a round for the policy where it has none: that of the costs, or a share of the results.

    The share is of the least number that any method needs, or of half a fixed design, where these are known.
    """
    least = _least(wish, expected) if _free(wish) else None
    price = wish.costs.price_of_batch or (None if least is None else GUESS * least)
    return wish if least is None or price is None else _priced(wish, price)


def candidates(wish: Wish, guess: Wish, expected: Expected) -> list[Wish]:
    """Other settings to look at: as given; along the dial and off it; rounds of other sizes. None of a policy's own."""
    if wish.round is not None:
        sizes = {max(round(each * wish.round), 2 * len(wish.names)) for each in SIZES} - {wish.round}
        if wish.budget is not None:
            sizes = {each for each in sizes if each <= wish.budget}
        return [dataclasses.replace(wish, round=size) for size in sorted(sizes)]
    if one_by_one(wish.question):
        if wish.budget is None:
            return []
        sizes = {math.ceil(wish.budget / each) for each in LOOKS}
        return [dataclasses.replace(wish, round=size) for size in sorted(sizes) if size >= 2 * len(wish.names)]
    least, price = _least(wish, expected), getattr(guess.policy, "batch_price", None)
    if not _free(wish) or least is None or price is None:
        return []
    found = [wish, *(_priced(wish, each * price) for each in PRICES)]
    for first, growth in FIRST_AND_GROWTH:
        each = max(round(float(f"{first * least / len(wish.names):.2g}")), 2)
        found.append(_with(wish, first_pulls=each, growth=growth))
    return found


def setting_words(wish: Wish) -> str:
    """What is set, as on the command line."""
    if wish.round is not None:
        return f"rounds of {exact(wish.round)}"
    if one_by_one(wish.question) and wish.budget is not None:
        return f"rounds of {exact(getattr(wish.acting, 'size', wish.budget))} (as it is)"
    return policy_words(wish.policy)


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


def _least(wish: Wish, expected: Expected) -> float | None:
    """Results that any method needs, or about as many; with shared items, as if every arm had its own."""
    wish = wish.alone
    least = lower_bound(wish.problem, expected.means, wish.deviation)
    if least is not None:
        return least
    fixed = fixed_design(wish.problem, expected.means, power=wish.power, deviation=wish.deviation)
    return None if fixed is None else fixed.samples / 2


def _free(wish: Wish) -> bool:
    """Whether the settings of the policy are open: Wager as it is, in rounds of its own."""
    most, least = limits_of(wish.policy)
    return wish.round is None and wish.policy == Wager(max_batch=most, min_per_arm=least)


def _priced(wish: Wish, price: float) -> Wish:
    """With a price of a round, to one digit."""
    return _with(wish, batch_price=max(float(f"{price:.1g}"), 1.0))


def _with(wish: Wish, **settings: float) -> Wish:
    policy: Policy = dataclasses.replace(wish.policy, **settings)  # type: ignore[type-var]
    return dataclasses.replace(wish, policy=policy)
