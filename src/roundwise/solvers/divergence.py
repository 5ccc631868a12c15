"""Complexity and evidence with the divergences of the rewards' own family: the paper's T~* (Section 1.1).

For half-space j, a_j.mu > b_j: C_j(n) = min of sum_i n_i KL(mu_i, lambda_i) over a_j.lambda <= b_j. It is concave and
of degree 1 in n, and its derivative in n_i is KL(mu_i, lambda_i). Where lambda lies: at the common mean, weighted by n,
for "one arm exceeds another"; at the level for one arm; else where lambda_i - mu_i = eta a_i V(lambda_i) / n_i for all
i, with the one number eta that puts it on the border.

1/T~* = max_w min_j C_j(w), C_j(w) = min of sum_i w_i KL(mu_i, lambda_i) over the wrong side of each half-space j of the
answer, certified to 1e-6 or better (`interior`; docs/paper.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Question,
    complexity_where,
    finite,
    quiet,
    range_of_forms,
)
from roundwise.questions.besides import cells_of, one_by_one, tolerance_of, tolerant
from roundwise.questions.several import MOST
from roundwise.solvers import program
from roundwise.solvers.families import Family
from roundwise.solvers.interior_point import Bent, least_pulls

START = 1e-3  # the gap at which the programme of normal rewards is near enough to start from


class Sides(NamedTuple):
    """The half-spaces of an answer with the means of their arms."""

    pieces: Halfspaces
    means: Floats  # (P, S)
    distances: Floats  # (P), a.mu - b
    possible: Bools  # (P), whether means of the family can lie on the wrong side at all
    single: Bools  # (P), whether one arm only is in it
    even: Bools  # (P), whether it says that its first arm exceeds its second

    def only(self, runs: Bools) -> Sides:
        """Those of these runs."""
        pieces = self.pieces
        chosen = pieces._replace(
            arms=pieces.arms[runs], factors=pieces.coefficients[runs], offsets=pieces.offsets[runs]
        )
        return Sides(
            chosen, self.means[runs], self.distances[runs], self.possible[runs], self.single[runs], self.even[runs]
        )


def sides_of(question: Question, answer: Answer, means: Floats, family: Family) -> Sides:
    """The half-spaces of an answer at these means; an InputError for what the family cannot reckon."""
    pieces = question.halfspaces(answer, means.shape[-1])
    arms = np.broadcast_to(pieces.arms, (*means.shape[:-1], *pieces.arms.shape[-2:]))
    factors = np.broadcast_to(pieces.coefficients, arms.shape)
    own = np.take_along_axis(means[..., None, :], arms, axis=-1)
    offsets = np.broadcast_to(pieces.offsets, arms.shape[:-1])
    least, _ = range_of_forms(factors, family.low, family.high)
    alone = pieces._replace(arms=arms, factors=factors, offsets=offsets)
    used = (factors != 0).sum(axis=-1)
    even = (used == 2) & (offsets == 0) & (factors[..., 0] == -factors[..., min(1, factors.shape[-1] - 1)])
    if not (family.convex or ((used <= 1) | even).all()):
        raise InputError(f"For {family.name} only levels and comparisons of two arms without a margin can be reckoned.")
    return Sides(alone, own, total(factors * own) - offsets, np.asarray(least < offsets), used <= 1, even)


@quiet
def costs_of(sides: Sides, pulls: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
    """C_j at these pulls, KL(mu_i, lambda_i) of the arms of each half-space, and lambda_i - mu_i."""
    pieces, means = sides.pieces, sides.means
    weights = np.take_along_axis(np.broadcast_to(pulls[..., None, :], _wide(pieces, pulls)), pieces.arms, axis=-1)
    own, factors = family.only(pieces.arms), pieces.coefficients
    steps = np.where(factors == 0, 0.0, -sides.distances[..., None] / np.where(factors == 0, 1.0, factors))
    if sides.even.any():
        steps = np.where(sides.even[..., None], _together(means, weights, own), steps)
    if not (sides.single | sides.even).all():
        least = 1e-100 * weights.max(axis=(-2, -1), keepdims=True)
        border = _on_border(sides, np.maximum(weights, least), own)
        steps = np.where((sides.single | sides.even)[..., None], steps, border)
    each = np.where(sides.possible[..., None], own.divergence(means, steps), np.inf)
    each = np.where(factors == 0, 0.0, each)
    return np.where(sides.possible, total(np.where(each > 0, weights * each, 0.0)), np.inf), each, steps


def _together(means: Floats, weights: Floats, family: Family) -> Floats:
    """The steps of the first two arms to their common mean, weighted as the family has it."""
    pair = np.arange(means.shape[-1]) < 2
    share = np.where(pair, family.common(weights), 0.0)
    share = share / np.maximum(total(share), 1e-300)[..., None]
    gap = means[..., 1] - means[..., 0]
    first, second = gap * share[..., 1], -gap * share[..., 0]
    return np.asarray(np.where(np.arange(means.shape[-1]) == 0, first[..., None], second[..., None]) * pair)


def _wide(pieces: Halfspaces, pulls: Floats) -> tuple[int, ...]:
    return (*pieces.arms.shape[:-1], pulls.shape[-1])


def _on_border(sides: Sides, weights: Floats, family: Family) -> Floats:
    """The steps lambda_i - mu_i with lambda - mu = eta a V(lambda) / w for all arms, and a.lambda = b. (P,S)

    The way a.(mu - lambda) rises with y, eta = -scale exp(y), at first in proportion to exp(y): y is found by secants
    of the logarithm of the way, kept between bounds that are halved in every third turn.
    """
    factors, distances = sides.pieces.coefficients, sides.distances
    rates = -factors / weights
    rates = rates / np.maximum(np.abs(rates).max(axis=-1, keepdims=True), 1e-300)
    todo = sides.possible & (distances > 0)
    goal = np.log(np.where(todo, distances, 1.0))

    def excess(y: Floats) -> Floats:
        way = -total(np.where(factors == 0, 0.0, factors * family.steps(sides.means, rates * np.exp(y)[..., None])))
        return np.where(np.isnan(way), np.inf, np.log(np.maximum(way, 1e-300)) - goal)

    low, high = np.full(goal.shape, -690.0), np.full(goal.shape, 690.0)
    below, above = excess(low), np.full(goal.shape, np.inf)
    for turn in range(200):
        middle = (low + high) / 2
        secant = np.where(np.isfinite(above), low - below * (high - low) / (above - below), low - below)
        y = np.where((turn % 3 < 2) & (secant > low) & (secant < high), secant, middle)
        found = excess(y)
        past = found > 0
        low, below = np.where(past, low, y), np.where(past, below, found)
        high, above = np.where(past, y, high), np.where(past, found, above)
        if not (todo & (below < -1e-15) & (high - low > 1e-15 * np.maximum(1.0, np.abs(low)))).any():
            break
    steps = family.steps(sides.means, rates * np.exp(low)[..., None])
    return np.where(todo[..., None], steps, 0.0)


class Nearest(NamedTuple):
    """C_j of half-spaces in the divergence of a family, for the least pulls (`interior.Costs`)."""

    sides: Sides
    arms: int
    means: Floats  # (K)
    family: Family

    @property
    def possible(self) -> Bools:
        """Which half-spaces means of the family can be beyond."""
        return self.sides.possible

    def only(self, runs: Bools) -> Nearest:
        """Those of these runs."""
        return self._replace(sides=self.sides.only(runs), means=self.means[runs])

    def rough(self) -> Floats:
        """The proportions for normal rewards with the variances at the means."""
        sides = self.sides
        squares = dense(sides, sides.pieces.coefficients**2, self.arms) * self.family.variance(self.means)[:, None, :]
        limits = np.where(sides.possible, sides.distances**2 / 2, np.inf)
        q = squares / np.where(np.isinf(limits), 1.0, limits)[..., None]
        pulls = program.general(q, np.where(np.isinf(limits), np.inf, 1.0), START).pulls
        return np.maximum(pulls, 1e-3 * pulls.max(axis=-1, keepdims=True))

    def bent(self, pulls: Floats, prices: Floats) -> Bent:
        """dC_j/dn_i = KL(mu_i, lambda_i); -C_j'' = diag(t) - r r'.

        h_i = 1/(n_i KL''), t_i = KL'^2 h_i and r_i = a_i KL' h_i / sqrt(sum a^2 h).
        """
        sides, family = self.sides, self.family
        costs, each, steps = costs_of(sides, pulls, family)
        own, pieces = family.only(sides.pieces.arms), sides.pieces
        weights = np.take_along_axis(np.broadcast_to(pulls[..., None, :], _wide(pieces, pulls)), pieces.arms, axis=-1)
        first, second = own.bends(sides.means, steps)
        ease = 1 / (np.maximum(weights, 1e-300) * second)
        factors = pieces.coefficients
        together = np.sqrt(np.maximum(total(factors**2 * ease), 1e-300))[..., None]
        live = sides.possible[..., None] & (factors != 0)
        bends = first**2 * ease, factors * first * ease / together
        gradient, curves, crossed = (
            dense(sides, np.where(live & np.isfinite(x), x, 0.0), self.arms) for x in (each, *bends)
        )
        curvature = -crossed.swapaxes(1, 2) @ (prices[..., None] * crossed)
        entries = np.arange(self.arms)
        curvature[:, entries, entries] += total((prices[..., None] * curves).swapaxes(1, 2))
        return Bent(np.where(sides.possible, costs, np.inf), gradient, curvature)


def dense(sides: Sides, values: Floats, arms: int) -> Floats:
    """Values of the arms of each half-space as values of all arms. (P,S)->(P,K)"""
    found = np.zeros((*values.shape[:-1], arms))
    np.put_along_axis(found, sides.pieces.arms, values, axis=-1)
    return found


@quiet
def evidence(question: Question, counts: ArrayLike, means: ArrayLike, family: Family) -> Floats:
    """min over wrong answers of sum_i N_i KL(mu_i, lambda_i); where several are right, the largest over them."""
    values, pulls = np.broadcast_arrays(family.inside(finite(means)), np.asarray(counts, dtype=np.float64))
    cells = cells_of(question)
    if cells == "sides of a level":
        return np.asarray((pulls * _from_level(question, values, family).max(axis=0)).min(axis=-1))
    if cells in SIGNS:
        yes, no = _yes_and_no(question, values, family)
        return np.asarray(np.maximum(total(pulls * yes), (pulls * no).min(axis=-1)))
    found = [
        np.where(right, costs_of(sides_of(question, answer, values, family), pulls, family)[0].min(axis=-1), 0.0)
        for answer, right in _answers(question, values)
    ]
    return np.asarray(np.max(found, axis=0))


@quiet
def complexity(question: Question, means: ArrayLike, family: Family) -> Complexity:
    """T~* and w*; where several answers are right, those of the easiest."""
    values = family.inside(finite(means))
    cells = cells_of(question)
    if cells == "arms with features":
        raise InputError("Arms with features have no divergences of their own.")
    if cells == "sides of a level":
        return _every_arm(_from_level(question, values, family).max(axis=0))
    if cells in SIGNS:
        return _easier(*_some_and_none(question, values, family))
    best: Complexity | None = None
    for answer, right in _answers(question, values):
        found = _solved(question, answer, values, family, right)
        best = found if best is None else _easier(best, found)
    assert best is not None  # some answer is right
    return best


@quiet
def complexities(question: Question, means: ArrayLike, family: Family) -> Floats:
    """T~_i of the right answers i; nan beyond. (A)"""
    values = family.inside(finite(means))
    if cells_of(question) in SIGNS:
        both = [each.value for each in _some_and_none(question, values, family)]
        right = [question.correct(np.full(values.shape[:-1], each), values) for each in (True, False)]
        return np.where(np.stack(right, axis=-1), np.stack(both, axis=-1), np.nan)
    found = [
        np.where(right, _solved(question, answer, values, family, right).value, np.nan)
        for answer, right in _answers(question, values)
    ]
    return np.stack(found, axis=-1)


def _answers(question: Question, means: Floats) -> list[tuple[Answer, Bools]]:
    """Every answer that is right in some run, with the runs in which it is: one of each run, or several."""
    may = tolerant(question)
    if may is not None and tolerance_of(question):
        if (may.ways(means) > max(MOST, means.shape[-1])).any():
            raise InputError(
                f"More than {MOST} answers are right within the tolerance, too many to look at one by one with the "
                "divergences of these rewards: choose a smaller tolerance."
            )
        return list(zip(*may.right_answers(means), strict=True))
    return [(question.answer(means), np.ones(means.shape[:-1], dtype=np.bool_))]


def _easier(one: Complexity, other: Complexity) -> Complexity:
    """The smaller of two."""
    easier = other.value < one.value
    weights = np.where(easier[..., None], other.weights, one.weights)
    return Complexity(np.where(easier, other.value, one.value), weights)


def _solved(question: Question, answer: Answer, means: Floats, family: Family, right: Bools) -> Complexity:
    """T~* and w* of "this answer is right", in the runs where it is."""
    arms = means.shape[-1]
    sides = sides_of(question, answer, means, family)
    if one_by_one(question):  # what is not in the answer need not be shown to be wrong
        sides = sides._replace(possible=sides.possible & np.asarray(answer))
    wanted = right & (~sides.possible | (sides.distances > 0)).all(axis=-1)
    certain = wanted & ~sides.possible.any(axis=-1)  # no means of the family make it wrong
    value, weights = np.where(certain, 0.0, np.inf), np.full(means.shape, 1.0 / arms)
    wanted &= ~certain
    if wanted.any():
        total_pulls, pulls = least_pulls(Nearest(sides.only(wanted), arms, means[wanted], family))
        value[wanted], weights[wanted] = total_pulls, pulls / total_pulls[:, None]
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)


# ---------------------------------------------------------------- arms and a level

SIGNS = {"some above a level": 1.0, "some below a level": -1.0}  # the side on which an arm makes it yes


def _from_level(question: Question, means: Floats, family: Family) -> Floats:
    """What it costs to move each mean to where "above", and "below", is wrong of it; 0 where it is. (2, K)"""
    level: float = question.level  # type: ignore[attr-defined]
    found = []
    for sign in (1.0, -1.0):
        border = level - sign * tolerance_of(question)
        costs = family.divergence(means, border - means) if family.low < border < family.high else np.inf
        found.append(np.where(sign * (border - means) < 0, costs, 0.0))  # a mean that cannot be there never is
    return np.stack(found)


def _yes_and_no(question: Question, means: Floats, family: Family) -> Floats:
    """The same for "is any mean above (below) the level": what speaks for yes, and for no. (2, K)"""
    above, below = _from_level(question, means, family)
    return np.stack([above, below] if SIGNS[cells_of(question)] > 0 else [below, above])


def _every_arm(costs: Floats) -> Complexity:
    """All arms must be shown: in proportion to 1/KL."""
    needs = 1 / costs
    amount = total(needs)
    return complexity_where(np.asarray(np.isfinite(amount)), amount, needs / amount[..., None])


def _some_and_none(question: Question, means: Floats, family: Family) -> tuple[Complexity, Complexity]:
    """Yes: all on the arm with the largest divergence from the level; no: as for all arms."""
    yes, no = _yes_and_no(question, means, family)
    most = yes.max(axis=-1)
    first = yes == most[..., None]
    value = 1 / most
    shown = complexity_where(np.asarray(np.isfinite(value)), value, first / total(first)[..., None])
    return shown, _every_arm(no)
