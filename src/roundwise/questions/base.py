"""What a question owes.

A question is asked of the unknown means of K arms. All it gives is for arrays with the arms on the last
axis and any axes of runs before it:

- `answer: (K)->...`                  the answer if these were the means (arrays; see each question)
- `evidence: (K),(K)->()`             counts, means: inf over alternatives of sum_i N_i (mu_i - lambda_i)^2/(2 sigma^2),
                                      the generalised likelihood ratio (eq. 1 of the paper)
                                      (where several answers may be right: the largest over them; see `Tolerant`)
- `complexity: (K)->(),(K)`           T* and w*; with a radius Tbar* and wbar* over the sup-norm ball (Definition 3.3)
- `floor: (K)->()`                    a lower bound on the complexity that costs next to nothing

Alternatives are unions of half-spaces `a.lambda >= b`. One of them costs, with counts N,
(b - a.mu)^2 / (2 sigma^2 sum_i a_i^2/N_i), and over a ball of radius eps its distance shrinks by eps |a|_1,
which does not depend on N (docs/paper.md). Hence one function serves T* and Tbar*.

Infinite complexity (a tie, a mean on the level, a ball with two answers) is `inf`, with equal weights.

`besides` has what a question may say besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Array, Bools, Floats, total, zeros
from roundwise.errors import InputError

Answer = Array

Cells = Literal[  # what the means fall into, each with its answer: bets are made against them (`betting.ledger`)
    "one best",  # one for each arm: it has the largest mean
    "best within a tolerance",  # as candidates, of which each is an arm that no other exceeds by more
    "sides of a level",  # one for each set of arms: those above
    "some above a level",  # one for each arm, and one for none
    "some below a level",
    "claims",  # one for each claim: that it is false; several may be true at once (`betting.claims`)
    "arms with features",  # the same, where the means are linear in features of the arms
    "candidates",  # any answers that are intersections of half-spaces
]

quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")


class Complexity(NamedTuple):
    """T*, the samples per ln(1/delta) that the best fixed allocation needs, and w*, that allocation."""

    value: Floats
    weights: Floats


class Pieces(NamedTuple):
    """How a wrong answer can come about: at most `number` half-spaces contain it, of `support` arms each."""

    number: int
    support: int


class Halfspaces(NamedTuple):
    """What makes an answer right: sum_s factors[p, s] means[arms[p, s]] > offsets[p] for every piece p."""

    arms: NDArray[np.intp]  # (P, S)
    factors: Floats | None  # (P, S); None for pairs: 1 and -1
    offsets: Floats  # (P)
    pairs: bool  # whether every piece is "the first arm exceeds the second by the offset"
    each: bool = False  # whether, moreover, the second arm of piece p is arm p (then `arms` has the first only)
    grid: int = 0  # k, if the pairs are k arms with all others, in the order of rows and columns

    @property
    def coefficients(self) -> Floats:
        """The factors, also of pairs. (P, S)"""
        return np.broadcast_to(np.array([1.0, -1.0]), self.arms.shape) if self.factors is None else self.factors

    def dense(self, arms: int) -> Floats:
        """The coefficient of every arm. (P, K)"""
        found = np.zeros((*self.arms.shape[:-1], arms))
        np.put_along_axis(found, self.arms, self.coefficients, axis=-1)
        return found


class Wording(NamedTuple):
    """How values are written for people: what a mean is called, a value, and a difference of two."""

    mean: str = "mean"
    value: Callable[[float], str] = "{:g}".format
    gap: Callable[[float], str] = "{:g}".format

    def near(self, tolerance: float) -> str:
        """How far off an answer may be, if it may."""
        return f", give or take {self.gap(tolerance)}" if tolerance else ""


class Question(Protocol):
    """Something to find out about the means of K arms; one that may have several right answers is `Tolerant`, too."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    def check(self, arms: int) -> None:
        """Raise an InputError if the question cannot be asked of so many arms."""

    def answer(self, means: ArrayLike) -> Answer:
        """The answer if these were the means."""

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether the answer is right for these means, in each run."""

    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """The generalised likelihood ratio of the answer at `means` against all others."""

    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*, or with a radius the worst case over the ball."""

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """A cheap lower bound on `complexity(...).value`."""

    def pieces(self, arms: int) -> Pieces | None:
        """The half-spaces a wrong answer must cross, or None if it is no such union."""

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The half-spaces whose intersection is where the answer is right; their complements are the pieces."""

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """One answer in plain words."""

    def plain(self, answer: Answer) -> object:
        """One answer as JSON: an index, a list of indices, or true/false."""


@runtime_checkable
class Tolerant(Protocol):
    """What a question owes, besides, if several answers may be right: what it takes to show that each one is."""

    def ways(self, means: ArrayLike) -> Floats:
        """How many answers are right at these means. ()"""

    def right_answers(self, means: ArrayLike, most: int = ...) -> tuple[Answer, Bools]:
        """Right answers on the first axis, no more than so many, and whether a run has that one. (A,...),(A)"""

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = ...) -> Floats:
        """T_i of right answers i, the complexity of "i is right": the smallest is among them; nan beyond. (A)"""

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The answer that the evidence is for."""


def form_words(pieces: Halfspaces, names: Sequence[str]) -> list[str]:
    """What each half-space says.

    >>> form_words(pairs(np.array([0]), np.array([1]), -0.1), "xy")
    ['x beats y (or is within 0.1)']
    >>> form_words(Halfspaces(np.array([[0, 1]]), np.array([[1.0, -2.0]]), np.array([0.5]), False), "xy")
    ['+1 x -2 y exceeds 0.5']
    """
    if pieces.pairs:
        slack = [f" (or is within {-offset:g})" if offset < 0 else "" for offset in pieces.offsets]
        return [f"{names[int(a)]} beats {names[int(b)]}{near}" for (a, b), near in zip(pieces.arms, slack, strict=True)]
    terms = [
        " ".join(f"{f:+g} {names[int(arm)]}" for arm, f in zip(*each, strict=True) if f)
        for each in zip(pieces.arms, pieces.coefficients, strict=True)
    ]
    return [f"{each} exceeds {offset:g}" for each, offset in zip(terms, pieces.offsets, strict=True)]


def range_of_forms(factors: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Where sums of numbers between two others, with these factors, can lie at all. (P, S)->(P)"""
    with np.errstate(invalid="ignore"):
        least = np.where(factors == 0, 0.0, np.where(factors > 0, factors * low, factors * high))
        most = np.where(factors == 0, 0.0, np.where(factors > 0, factors * high, factors * low))
    return total(least), total(most)


def checked_open(what: str, inside: bool, low: float, high: float) -> None:
    """Raise an InputError where means between these two alone give the answer."""
    if not inside:
        rates = " For 30 % write 0.3." if (low, high) == (0, 1) else ""
        raise InputError(
            f"{what}, but the means of such results lie between {low:g} and {high:g}, so the answer is certain "
            f"without any.{rates}"
        )


def midrange(means: Floats) -> Floats:
    """The number, for every arm, from which the farthest mean is nearest."""
    return np.full(means.shape, (means.max() + means.min()) / 2)


def pairs(first: NDArray[np.intp], second: NDArray[np.intp] | None, offset: float = 0.0, grid: int = 0) -> Halfspaces:
    """Pieces that say: each arm of `first` exceeds its partner in `second`, None for all arms in order. (P),(P)"""
    each = second is None
    arms = first[..., None] if second is None else np.stack(np.broadcast_arrays(first, second), axis=-1)
    return Halfspaces(arms, None, zeros(arms.shape[:-1]) + offset, True, each, grid)


def checked_tolerance(tolerance: float) -> None:
    """Raise an InputError unless it is a number of at least 0."""
    if not (tolerance >= 0 and np.isfinite(tolerance)):
        raise InputError(f"`tolerance` is {tolerance:g}, but must be a number of at least 0.")


def at_least_two(arms: int) -> None:
    """Raise an InputError for fewer arms."""
    if arms < 2:
        raise InputError(f"A question needs at least two arms; found {arms}.")


def finite(means: ArrayLike) -> Floats:
    """The means as an array of at least two arms without NaN or infinity."""
    array = np.asarray(means, dtype=np.float64)
    at_least_two(array.shape[-1] if array.ndim else 1)
    if not np.isfinite(array).all():
        raise InputError("The means must be finite numbers; found NaN or infinity.")
    return array


def column(radius: ArrayLike) -> Floats:
    """A radius for each run, ready to be used against an axis of arms."""
    array = np.asarray(radius, dtype=np.float64)
    if not (array >= 0).all():
        raise InputError(f"`radius` is {array.min():g}, but must be a number of at least 0.")
    return array[..., None]


def spread_over(means: Floats, radius: ArrayLike) -> tuple[Floats, Floats]:
    """Means and radii with the same axes of runs; the radii as a column."""
    radii = column(radius)
    runs = np.broadcast_shapes(means.shape[:-1], radii.shape[:-1])
    return np.broadcast_to(means, (*runs, means.shape[-1])), np.broadcast_to(radii, (*runs, 1))


def complexity_where(possible: Bools, value: Floats, weights: Floats) -> Complexity:
    """The complexity where it is finite; elsewhere infinity and equal weights."""
    possible = possible & np.isfinite(value)
    if possible.all():
        return Complexity(value, weights)
    return Complexity(
        np.where(possible, value, np.inf), np.where(possible[..., None], weights, 1.0 / weights.shape[-1])
    )
