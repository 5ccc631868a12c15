"""Claims that one mean is more than so many times another, as claims about their ratio."""

from __future__ import annotations

from dataclasses import replace

from roundwise.arrays import Floats
from roundwise.noise.base import Outcome
from roundwise.report.model import Shown
from roundwise.report.wording import TINY, number
from roundwise.rules.base import LinearForm

RATIO = "ratio"


def as_ratio(claim: Shown, about: LinearForm | None, means: Floats, outcome: Outcome) -> Shown:
    """A claim y - r p > 0 with y/p for its size, where no result is below 0; any other as it is.

    What is bounded is y - r p. From y - r p >= L >= 0 follows y/p >= r + L/p, and p is at most the largest result;
    where L < 0 nothing follows, as p may be as small as it likes: there is no bound then. Likewise above.
    """
    if about is None or about.level != 0 or not outcome.low >= 0:
        return claim
    (y, p), factors = about.arms, about.factors
    if factors[0] < 0:
        y, p, factors = p, y, factors[::-1]
    margin = -factors[1] / factors[0]
    over, under = claim.shown and not claim.below, claim.shown and claim.below  # then its own bound is on its side of 0
    lower, upper = (
        margin + bound / outcome.high if bound is not None and (side * bound > 0 or own) else None
        for bound, side, own in ((claim.lower, 1, over), (claim.upper, -1, under))
    )
    single_lower, single_upper = (
        margin + bound / outcome.high if bound is not None and side * bound > 0 else None
        for bound, side in ((claim.single_lower, 1), (claim.single_upper, -1))
    )
    known = claim.estimate is not None and means[p] > 0
    estimate = float(means[y] / means[p]) if known else None
    return replace(
        claim, scale=RATIO, estimate=estimate, lower=lower, upper=upper, margin=margin,
        single_lower=single_lower, single_upper=single_upper,
    )  # fmt: skip


def ratio_words(claim: Shown) -> str:
    """Its size, and what is shown of it."""
    shown, than = "shown" if claim.shown else "not shown", "be at most" if claim.below else "exceed"
    parts = [f"{shown} to {than} {claim.margin:g}"]
    if claim.estimate is not None:
        parts.insert(0, number(claim.estimate))
    if claim.lower is not None and claim.margin is not None and claim.lower > claim.margin + TINY:
        parts.append(f"at least {number(claim.lower, 'down')}")
    if claim.upper is not None and claim.margin is not None and claim.upper < claim.margin - TINY:
        parts.append(f"at most {number(claim.upper, 'up')}")
    return f"{RATIO} {', '.join(parts)}"
