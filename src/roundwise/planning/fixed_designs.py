"""Sample sizes of fixed designs, and the lower bound for any method.

A fixed design has fixed shares, one look at the end and no betting. Normal approximations, as in every textbook of
sample sizes: for each comparison j that the right answer consists of, with gap_j > 0 between what is compared and its
offset, and N results in all, the estimate has the variance v_j/N (at the offset v0_j/N), and the comparison is shown if
it exceeds z sqrt(v0_j/N). So one is shown with this `power` if

    N = (z sqrt(v0) + z_power sqrt(v))^2 / gap^2.

Rates (counts) are pooled at the offset 0. The level of one comparison is delta over their number (Bonferroni); against
a control z is Dunnett's, from the correlation that the shared control makes. Where the answer needs all comparisons,
`power` is that of all of them together; against a control, of the claim with the largest effect.

With several looks (O'Brien and Fleming 1979) the estimate is looked at when 1/L, 2/L, ... of the results are there, and
is a Brownian motion on [0, 1] that must pass one constant; the largest number of results grows by the inflation factor,
the expected one shrinks (Jennison and Turnbull 2000, chapters 2 and 19, by recursive integration).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.deadline import check_deadline
from roundwise.errors import InputError
from roundwise.messages import Remedy
from roundwise.model.problem import Problem
from roundwise.noise import Noise
from roundwise.questions import Claims, Question
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound
from roundwise.simulation.environments import deviations

DRAWS = 40_000  # of the estimates, for the power of several comparisons together; at most,
FEWEST_DRAWS = 2_000  # and at least,
WORK = 2**32  # draws times comparisons times arms: from here on fewer are drawn
CHUNK = 2**21  # draws times comparisons that are kept at a time
MOST_FORMS = 2**24  # comparisons times arms: beyond these there is no fixed design to speak of
EACH = 5  # results of every arm at least: with fewer the normal approximation says nothing
MOST_COMPARISONS = 20_000  # of an answer: of the top 100 among 200 there are 10 000
MOST_ARMS = 2_000  # of an interactive plan


def check_size(question: Question, arms: int) -> None:
    """Raise an InputError where a forecast would take more memory than a server gives to one request."""
    if arms > MOST_ARMS or comparisons(question, arms) > MOST_COMPARISONS:
        raise InputError(
            f"Forecasts of more than {MOST_ARMS} arms, or of answers that consist of more than {MOST_COMPARISONS} "
            "comparisons, are not made here.",
            Remedy("Use {@plan} on a machine of your own."),
        )


def comparisons(question: Question, arms: int) -> int:
    """The number of comparisons that an answer consists of."""
    if question.separate_claims:
        return len(question.claim_texts([""] * arms))
    pieces = question.pieces(arms)
    if pieces is None:  # any arm beyond a level: one comparison an arm
        return arms
    if pieces.number > MOST_COMPARISONS:
        return pieces.number
    return int(question.halfspaces(question.answer(np.zeros(arms)), arms).offsets.size)


@dataclass(frozen=True, kw_only=True)
class Looks:
    """A group-sequential design: as many looks as our study typically has rounds."""

    looks: int
    max_samples: float  # results if nothing is shown before the end
    mean_samples: float  # results on average, with these means


@dataclass(frozen=True, kw_only=True)
class FixedDesign:
    """One look at the end, shares fixed in advance."""

    samples: float  # in all
    critical_z: float
    comparisons: int
    power: float
    method: str
    sequential: Looks | None = None


def fixed_design(
    problem: Problem,
    means: Sequence[float],
    *,
    power: float = 0.9,
    shares: Sequence[float] | None = None,
    looks: int | None = None,
    deviation: float | None = None,
    missing: float = 0.0,
) -> FixedDesign | None:
    """The fixed design for these means, None where there is none: ties, or no comparisons that make up the answer.

    Where a share of the results is missing, more of them must be asked for.
    """
    mu = np.asarray(means, dtype=np.float64)
    question, claims = problem.question, problem.question.separate_claims
    if question.features is not None or problem.noise.shares_items or (found := _comparisons(problem, mu)) is None:
        return None
    forms, offsets = found
    gaps, number = forms @ mu - offsets, len(offsets)
    weights = np.full(problem.arms, 1 / problem.arms) if shares is None else np.asarray(shares) / np.sum(shares)
    each = deviations(problem.noise, mu, deviation) ** 2 / weights  # variance of an estimate, times the results. (K)
    against, null = _variances(problem.noise, mu, forms, offsets, weights, each)
    best = int((gaps / np.sqrt(np.maximum(against, 1e-300))).argmax())
    if gaps[best] <= 0 or not (claims or (gaps > 0).all()):
        return None

    def needed(z: float) -> float:
        return float(((z * math.sqrt(null[best]) + ndtri(power) * math.sqrt(against[best])) / gaps[best]) ** 2)

    critical, method = float(-ndtri(problem.delta / number)), "one look, Bonferroni"
    if claims and question.control is not None:
        critical = dunnett(problem.delta, tuple(_correlations(forms, weights, question.control)))
        method = "one look, Dunnett"
    samples = needed(critical) if claims or number == 1 else _enough(critical, gaps, forms, null, each, power)
    samples = max(samples, EACH / weights[weights > 0].min())
    sequential, factor = None, 1 / (1 - missing)
    if looks is not None and looks > 1 and (claims or number == 1):
        level, looks = problem.delta / number, min(looks, 20)
        inflation, expected = obrien_fleming(looks, level, power)
        once = needed(-ndtri(level))
        sequential = Looks(
            looks=looks, max_samples=factor * (once * inflation), mean_samples=factor * (once * expected)
        )
    return FixedDesign(
        samples=factor * samples,
        critical_z=critical,
        comparisons=number,
        power=power,
        method=method if number > 1 else "one look",
        sequential=sequential,
    )


def _comparisons(problem: Problem, means: Floats) -> tuple[Floats, Floats] | None:
    """Forms and offsets of what must be shown: every claim, or all that the right answer consists of. (P, K), (P)"""
    question = problem.question
    if isinstance(question, Claims):  # odds are no linear form of the means
        return None if question.odds else (question.forms, question.levels)
    try:
        known = question.pieces(problem.arms)
        if known is not None and known.number * problem.arms > MOST_FORMS:
            return None
        pieces = question.halfspaces(question.answer(means), problem.arms)
    except InputError:
        return None
    if pieces.offsets.size * problem.arms > MOST_FORMS:
        return None
    return pieces.dense(problem.arms), np.asarray(pieces.offsets)


def _variances(
    noise: Noise, means: Floats, forms: Floats, offsets: Floats, shares: Floats, each: Floats
) -> tuple[Floats, Floats]:
    """Of each comparison, times the results in all: with these means, and at its offset. (P)"""
    against = forms**2 @ each
    family = noise.family
    if family is None or noise.outcome.normal:  # deviations do not depend on means
        return against, against
    null = against.copy()
    for j, (form, offset) in enumerate(zip(forms, offsets, strict=True)):
        arms = np.flatnonzero(form)
        if arms.size == 1 and abs(form[arms[0]]) == 1:  # against a level
            null[j] = family.variance(abs(offset)) / shares[arms[0]]
        elif arms.size == 2 and form.sum() == 0 and abs(form[arms[0]]) == 1 and offset == 0:
            rate = (means[arms] * shares[arms]).sum() / shares[arms].sum()
            null[j] = family.variance(rate) * (1 / shares[arms]).sum()
    return against, null


def _enough(critical: float, gaps: Floats, forms: Floats, null: Floats, each: Floats, power: float) -> float:
    """Results with which all comparisons are shown together, with probability `power`.

    With estimates gap + noise/sqrt(N) all are shown as soon as sqrt(N) >= max_j (z sqrt(v0_j) - noise_j)/gap_j, so the
    answer is a quantile over draws of the noise; for a single comparison it is the formula above.
    """
    draws = int(np.clip(WORK // forms.size, FEWEST_DRAWS, DRAWS))
    half = np.random.default_rng(1).standard_normal((draws // 2, len(each)))
    scaled, needed, roots = forms.T / gaps, critical * np.sqrt(null) / gaps, []
    step = max(CHUNK // len(gaps), 1)
    for start in range(0, len(half), step):
        check_deadline()
        noise = (half[start : start + step] * np.sqrt(each)) @ scaled
        roots += [(needed - noise).max(axis=-1), (needed + noise).max(axis=-1)]
    return float(max(np.quantile(np.concatenate(roots), power), 0.0) ** 2)


def _correlations(forms: Floats, shares: Floats, control: int) -> Floats:
    """The square roots of the correlations that a shared control makes: rho_jk is their product. (P)"""
    others = [int(np.flatnonzero((form != 0) & (np.arange(len(form)) != control))[0]) for form in forms]
    return np.sqrt((1 / shares[control]) / (1 / shares[control] + 1 / shares[others]))


@lru_cache(maxsize=256)
def dunnett(level: float, roots: tuple[float, ...]) -> float:
    """z with P(max_j Z_j > z) = level, Z standard normal with correlations roots_j roots_k (Dunnett 1955).

    >>> round(dunnett(0.025, (0.5**0.5, 0.5**0.5)), 3)
    2.212
    """
    if len(roots) == 1:
        return float(-ndtri(level))
    x, w = _nodes(200)
    x, w = 9 * x, 9 * w * np.exp(-((9 * x) ** 2) / 2) / math.sqrt(2 * math.pi)
    lam = np.asarray(roots)

    def exceeds(z: float) -> bool:
        inside = float((w * ndtr((z + lam[:, None] * x) / np.sqrt(1 - lam[:, None] ** 2)).prod(axis=0)).sum())
        return 1 - inside > level

    return _bisect(exceeds, 0.0, float(-ndtri(level / len(roots))), 60)


def dunnett_level(delta: float, forms: Floats, shares: Floats, control: int) -> float:
    """The one-sided level of each claim against a control in Dunnett's test with these shares."""
    return float(ndtr(-dunnett(delta, tuple(_correlations(forms, shares, control)))))


def _bisect(below: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=256)
def obrien_fleming(looks: int, level: float, power: float) -> tuple[float, float]:
    """Inflation factor and relative expected sample size against one look (one-sided, no futility).

    >>> [round(each, 4) for each in obrien_fleming(5, 0.025, 0.9)]
    [1.0265, 0.7503]
    """
    bounds = boundary(looks, level, 0.0)
    drift = _bisect(lambda d: sum(_exits(bounds, d)) < power, 0.0, bounds[-1] + float(ndtri(power)) + 2, 50)
    inflation = (drift / float(ndtri(power) - ndtri(level))) ** 2
    exits = _exits(bounds, drift)
    late = sum(p * k / looks for k, p in enumerate(exits, 1)) + 1 - sum(exits)
    return inflation, inflation * late


@lru_cache(maxsize=256)
def boundary(looks: int, level: float, shape: float) -> tuple[float, ...]:
    """Critical z of each of equally spaced looks, c (k/looks)^(shape - 1/2).

    Shape 0 is O'Brien and Fleming's, 1/2 Pocock's. One-sided; the chance to pass it at any look is `level` (Wang and
    Tsiatis 1987).

    >>> [round(each, 3) for each in boundary(5, 0.025, 0.5)][:1], [round(each, 3) for each in boundary(5, 0.025, 0.0)]
    ([2.413], [4.562, 3.226, 2.634, 2.281, 2.04])
    """
    z, times = float(-ndtri(level)), [(k + 1) / looks for k in range(looks)]

    def scaled(c: float) -> tuple[float, ...]:
        return tuple(c * time ** (shape - 0.5) for time in times)

    return scaled(_bisect(lambda c: sum(_exits(scaled(c), 0.0)) > level, z, z + 3, 50))


_nodes = lru_cache(maxsize=4)(np.polynomial.legendre.leggauss)  # Gauss and Legendre


def _exits(bounds: Sequence[float], drift: float) -> list[float]:
    """P(the motion with this drift passes the boundary of z first at look k), k = 1, ..., by recursive integration."""
    step, (nodes, weights) = 1 / len(bounds), _nodes(160)
    scale = math.sqrt(step)
    tops = [z * math.sqrt((k + 1) * step) for k, z in enumerate(bounds)]  # of the motion

    def density_at(moves: Floats) -> Floats:
        return np.asarray(np.exp(-((moves - drift * step) ** 2) / (2 * step)) / (scale * math.sqrt(2 * math.pi)))

    exits = [float(ndtr((drift * step - tops[0]) / scale))]
    x, w, density = np.zeros(1), np.ones(1), np.ones(1)
    for top, after in pairwise(tops):
        place = top - 4.5 + 4.5 * nodes
        density = density_at(place[:, None] - x[None]) @ (w * density)
        x, w = place, weights * 4.5
        exits.append(float((w * density * ndtr((x + drift * step - after) / scale)).sum()))
    return exits


def ndtr(x: ArrayLike) -> Floats:
    """The normal distribution function; SciPy is slow to import, so it is imported here."""
    from scipy.special import ndtr as found

    return np.asarray(found(x))


def ndtri(p: float) -> float:
    """Its inverse."""
    from scipy.special import ndtri as found

    return float(found(p))


def lower_bound(problem: Problem, means: Sequence[float], deviation: float | None = None) -> float | None:
    """Results that no method can stay below on average at these means; None where nothing is known, as on shared items.

    T* kl(delta, 1 - delta), for 0/1 results and counts with their own divergences (docs/bounds.md). With an unknown
    deviation no alternative is dearer than with a known one, so the bound of normal results holds.

    >>> from roundwise.noise import Gaussian
    >>> from roundwise.questions import BestArm
    >>> round(lower_bound(Problem(BestArm(), 2, 0.05, Gaussian()), [0.2, 0.0]) or 0)
    530
    """
    if problem.noise.shares_items:
        return None
    mu = np.asarray(means, dtype=np.float64)
    family = problem.noise.family
    if family is None and problem.noise.outcome.limited:  # means do not say all of such results
        return None
    if family is None:
        sigma = float(deviations(problem.noise, mu, deviation).min())
        value = float(lower_bound_at(problem.question, mu, problem.delta, sigma))
    elif comparisons(problem.question, problem.arms) > MOST_COMPARISONS:
        return None
    else:
        own = own_lower_bound(problem.question, mu, problem.delta, family)
        value = 0.0 if own is None else float(own[1])
    return value if np.isfinite(value) and value > 0 else None
