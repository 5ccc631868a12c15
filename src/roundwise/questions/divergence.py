"""Complexity and evidence with the divergences of the rewards' own family: the paper's T~* (Section 1.1).

1/T~* = max_w min_j C_j(w), C_j(w) = min of sum_i w_i KL(mu_i, lambda_i) over the wrong side a_j.lambda <= b_j of each
half-space of the answer. C_j is concave, of degree 1, and its derivative in w_i is KL(mu_i, lambda_i). The pulls
n = T w are the least with C_j(n) >= 1, a convex programme; the Hessian of C_j is a diagonal and one more term.

The optimum is certified: n / min_j C_j(n) is enough, and for any shares z of the half-spaces and any lambda^j on their
wrong sides T~* >= 1 / max_i sum_j z_j KL(mu_i, lambda_i^j).

Where lambda lies: at the common mean, weighted by w, for "one arm exceeds another"; at the level for one arm; else
where lambda_i - mu_i = eta a_i V(lambda_i) / w_i for all i, with the one number eta that puts it on the border.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError, RoundwiseError
from roundwise.questions import program
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Question,
    Tolerant,
    cells_of,
    complexity_where,
    finite,
    quiet,
    range_of_forms,
)
from roundwise.questions.families import Family, NormalFamily

STEPS = 200  # of Newton's method: 10 to 30 are usual
EXACT = 1e-8  # certified relative gap at which a run is done


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


class Pace(NamedTuple):
    """How far one step may go."""

    growth: float  # by how much of themselves pulls may change: far away the gradient says little
    aim: float  # to what share of itself the mean of the products may be brought


BOLD, CAREFUL = Pace(2.0, 1e-4), Pace(0.2, 0.3)  # the second where the first does not come to an end


class Bent(NamedTuple):
    """C_j at some pulls with its derivatives: the gradient, and the Hessian -diag(curves) + crossed crossed'."""

    costs: Floats  # (P)
    gradient: Floats  # (P, K), KL(mu_i, lambda_i)
    curves: Floats  # (P, K)
    crossed: Floats  # (P, K)


class Iterate(NamedTuple):
    """Where the interior point stands."""

    pulls: Floats  # (K), n
    unused: Floats  # (K), the prices of n >= 0: an arm may be of no use
    spare: Floats  # (P), s = C - 1
    prices: Floats  # (P), y


@quiet
def evidence(question: Question, counts: ArrayLike, means: ArrayLike, family: Family) -> Floats:
    """min over wrong answers of sum_i N_i KL(mu_i, lambda_i); where several are right, the largest over them."""
    values = family.inside(finite(means))
    pulls = np.asarray(counts, dtype=np.float64)
    values, pulls = np.broadcast_arrays(values, pulls)
    yes = _one_arm(question, values)
    if yes is not None:
        costs = _level_costs(question, values, family)
        return np.where(yes, total(np.where(_said(question, values), pulls * costs, 0.0)), (pulls * costs).min(axis=-1))
    found = [
        np.where(right, _costs(_sides(question, answer, values, family), pulls, family)[0].min(axis=-1), 0.0)
        for answer, right in _answers(question, values)
    ]
    return np.asarray(np.max(found, axis=0))


@quiet
def complexity(question: Question, means: ArrayLike, family: Family) -> Complexity:
    """T~* and w*; where several answers are right, those of the easiest."""
    values = family.inside(finite(means))
    yes = _one_arm(question, values)
    if yes is not None:
        return _some_arm(question, values, family, yes)
    best: Complexity | None = None
    for answer, right in _answers(question, values):
        found = _solved(question, answer, values, family, right)
        if best is None:
            best = found
        else:
            easier = found.value < best.value
            best = Complexity(
                np.where(easier, found.value, best.value), np.where(easier[..., None], found.weights, best.weights)
            )
    assert best is not None  # some answer is right
    return best


def complexities(question: Question, means: ArrayLike, family: Family) -> Floats:
    """T~_i of each right answer i of a question that may have several; nan for the others."""
    values = family.inside(finite(means))
    found = [
        np.where(right, _solved(question, answer, values, family, right).value, np.nan)
        for answer, right in _answers(question, values)
    ]
    return np.stack(found, axis=-1)


def _answers(question: Question, means: Floats) -> list[tuple[Answer, Bools]]:
    """Every answer that is right in some run, with the runs in which it is: one of each run, or every arm."""
    if isinstance(question, Tolerant) and getattr(question, "tolerance", False):
        right = question.right(means)
        return [(np.full(means.shape[:-1], i), right[..., i]) for i in range(means.shape[-1])]
    return [(question.answer(means), np.ones(means.shape[:-1], dtype=np.bool_))]


# ---------------------------------------------------------------- one arm and a level


def _one_arm(question: Question, means: Floats) -> Bools | None:
    """Whether the answer is yes, for "is any mean above (below) the level"; None for other questions."""
    if cells_of(question) not in ("some above a level", "some below a level"):
        return None
    return np.asarray(question.answer(means), dtype=np.bool_)


def _said(question: Question, means: Floats) -> Bools:
    """Which arms are on the side that makes it yes."""
    level: float = question.level  # type: ignore[attr-defined]
    return np.asarray(means > level if cells_of(question) == "some above a level" else means < level)


def _level_costs(question: Question, means: Floats, family: Family) -> Floats:
    """KL(mu_i, level)."""
    return family.divergence(means, question.level - means)  # type: ignore[attr-defined]


def _some_arm(question: Question, means: Floats, family: Family, yes: Bools) -> Complexity:
    """Yes: all on the arm with the largest divergence from the level; no: in proportion to 1/KL, as for all arms."""
    costs = _level_costs(question, means, family)
    saying = np.where(_said(question, means), costs, 0.0)
    most = saying.max(axis=-1)
    first = (saying == most[..., None]) & yes[..., None]
    needs = 1 / costs
    value = np.where(yes, 1 / most, total(needs))
    weights = np.where(
        yes[..., None], first / np.maximum(total(first), 1.0)[..., None], needs / total(needs)[..., None]
    )
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)


# ---------------------------------------------------------------- half-spaces


def _sides(question: Question, answer: Answer, means: Floats, family: Family) -> Sides:
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
def _costs(sides: Sides, pulls: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
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
    """The steps of the first two arms to their common mean, weighted by w (normal rewards: by w / sigma^2)."""
    pair = np.arange(means.shape[-1]) < 2
    share = np.where(pair, weights if not isinstance(family, NormalFamily) else weights / family.sigmas**2, 0.0)
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


def _solved(question: Question, answer: Answer, means: Floats, family: Family, right: Bools) -> Complexity:
    """T~* and w* of "this answer is right", in the runs where it is."""
    arms = means.shape[-1]
    sides = _sides(question, answer, means, family)
    wanted = right & (~sides.possible | (sides.distances > 0)).all(axis=-1)
    certain = wanted & ~sides.possible.any(axis=-1)  # no means of the family make it wrong
    value, weights = np.where(certain, 0.0, np.inf), np.full(means.shape, 1.0 / arms)
    wanted &= ~certain
    if wanted.any():
        total_pulls, pulls = _least(sides.only(wanted), means[wanted], family)
        value[wanted], weights[wanted] = total_pulls, pulls / total_pulls[:, None]
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)


def _least(sides: Sides, means: Floats, family: Family) -> tuple[Floats, Floats]:
    """The least pulls with C_j >= 1 for all j, certified. Runs are on the first axis. (R)->(R),(R,K)"""
    least, best, most = _searched(sides, means, family, BOLD)
    again = ~(least <= (1 + EXACT) * most)
    if again.any():
        careful = _searched(sides.only(again), means[again], family, CAREFUL)
        better = careful[0] < least[again]
        least[again], most[again] = np.fmin(careful[0], least[again]), np.fmax(careful[2], most[again])
        best[again] = np.where(better[:, None], careful[1], best[again])
    gap = float((least / most - 1).max(initial=0.0))
    if not gap <= 1e-6:
        raise RoundwiseError(f"The complexity could be computed only to a relative gap of {gap:.1e}; please report it.")
    return least, best


@quiet
def _searched(sides: Sides, means: Floats, family: Family, pace: Pace) -> tuple[Floats, Floats, Floats]:
    """Enough pulls: how many, which, and how many are needed at least. (R)->(R),(R,K),(R)

    A primal-dual interior point: 1 = sum_j y_j KL(mu_i, lambda_i^j) + x_i, C_j(n) - 1 = s_j, s_j y_j -> 0 and
    x_i n_i -> 0 by Newton's method.
    """
    arms = means.shape[-1]
    best, least, most = np.ones(means.shape), np.full(len(means), np.inf), np.zeros(len(means))
    at, now = np.arange(len(means)), _start(sides, means, family)
    for _ in range(STEPS):
        bent = _bent(sides, now.pulls, family, arms)
        weakest = bent.costs.min(axis=-1)
        amount = total(now.pulls) / weakest
        better = amount < least[at]
        least[at[better]], best[at[better]] = amount[better], (now.pulls / weakest[:, None])[better]
        dual = (now.prices[:, None, :] @ bent.gradient)[:, 0, :]
        most[at] = np.fmax(most[at], now.prices.sum(axis=-1) / dual.max(axis=-1))
        going = least[at] > (1 + EXACT) * most[at]
        at, now, bent = at[going], Iterate(*(x[going] for x in now)), Bent(*(x[going] for x in bent))
        if not at.size:
            break
        sides = sides.only(going)
        now = _newton(now, bent, dual[going], sides.possible, pace)
    return least, best, most


def _newton(now: Iterate, bent: Bent, dual: Floats, possible: Bools, pace: Pace) -> Iterate:
    """One step (Mehrotra's predictor and corrector); pulls are reckoned in units of themselves."""
    pulls, unused, spare, prices = now
    number = possible.sum(axis=-1, keepdims=True) + pulls.shape[-1]
    short = np.where(possible, bent.costs - 1 - spare, 0.0)
    by, rank = bent.gradient * pulls[:, None, :], bent.crossed * pulls[:, None, :]
    matrix = by.swapaxes(1, 2) @ ((prices / spare)[..., None] * by) - rank.swapaxes(1, 2) @ (prices[..., None] * rank)
    entries = np.arange(pulls.shape[-1])
    matrix[:, entries, entries] += total((prices[..., None] * bent.curves).swapaxes(1, 2)) * pulls**2 + unused * pulls
    scale = 1 / np.sqrt(np.maximum(matrix[:, entries, entries], 1e-300))
    matrix = matrix * scale[:, :, None] * scale[:, None, :]
    matrix[:, entries, entries] += 1e-15

    def direction(aim: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        rest = np.where(possible, (aim - spare * prices - prices * short) / spare, 0.0)
        right = (dual - 1) * pulls + aim + (rest[:, None, :] @ by)[:, 0, :]
        move = scale * np.linalg.solve(matrix, (scale * right)[..., None])[..., 0]
        more = (by @ move[..., None])[..., 0] + short
        dearer = np.where(possible, (aim - spare * prices - prices * more) / spare, 0.0)
        return move, aim / pulls - unused - unused * move, more, dearer

    def reached(move: Floats, idle: Floats, more: Floats, dearer: Floats) -> Iterate:
        far = np.minimum(_reach(np.ones_like(move), move), _reach(spare, more))
        far = np.minimum(far, pace.growth / np.maximum(np.abs(move).max(axis=-1, keepdims=True), pace.growth))
        dual_far = np.minimum(_reach(unused, idle), _reach(prices, dearer))
        return Iterate(
            pulls * (1 + far * move), unused + dual_far * idle, spare + far * more, prices + dual_far * dearer
        )

    def mean(point: Iterate) -> Floats:
        return (total(point.spare * point.prices) + total(point.pulls * point.unused))[:, None] / number

    share = np.clip(mean(reached(*direction(np.zeros((len(pulls), 1))))) / mean(now), 1e-3, 1.0)
    return reached(*direction(mean(now) * np.clip(share**3, pace.aim, 0.5)))


def _reach(values: Floats, change: Floats) -> Floats:
    """The share of the change, at most 1, that keeps the values positive."""
    steepest = np.where(values > 0, -change / np.where(values > 0, values, 1.0), 0.0).max(axis=-1, keepdims=True)
    return np.asarray(0.95 / np.maximum(steepest, 0.95))


def _start(sides: Sides, means: Floats, family: Family) -> Iterate:
    """Twice the pulls that are enough in the proportions for normal rewards, with the variances at the means."""
    squares = _dense(sides, sides.pieces.coefficients**2, means.shape[-1]) * family.variance(means)[:, None, :]
    limits = np.where(sides.possible, sides.distances**2 / 2, np.inf)
    q = squares / np.where(np.isinf(limits), 1.0, limits)[..., None]
    pulls = program.general(q, np.where(np.isinf(limits), np.inf, 1.0), program.ROUGH).pulls
    pulls = np.maximum(pulls, 1e-3 * pulls.max(axis=-1, keepdims=True))
    bent = _bent(sides, pulls, family, means.shape[-1])
    factor = 2 / bent.costs.min(axis=-1, keepdims=True)
    spare = np.where(sides.possible, bent.costs * factor - 1, 1.0)
    prices = np.where(sides.possible, 1 / spare, 0.0)
    prices /= np.maximum((prices[:, None, :] @ bent.gradient)[:, 0, :].max(axis=-1), 1e-300)[:, None]
    pulls = pulls * factor
    return Iterate(pulls, (prices * spare).max(axis=-1, keepdims=True) / pulls, spare, prices)


def _bent(sides: Sides, pulls: Floats, family: Family, arms: int) -> Bent:
    """C_j and its derivatives. With h_i = 1/(n_i KL''), t_i = KL'^2 h_i and r_i = a_i KL' h_i / sqrt(sum a^2 h)."""
    costs, each, steps = _costs(sides, pulls, family)
    own, pieces = family.only(sides.pieces.arms), sides.pieces
    weights = np.take_along_axis(np.broadcast_to(pulls[..., None, :], _wide(pieces, pulls)), pieces.arms, axis=-1)
    first, second = own.bends(sides.means, steps)
    ease = 1 / (np.maximum(weights, 1e-300) * second)
    factors = pieces.coefficients
    together = np.sqrt(np.maximum(total(factors**2 * ease), 1e-300))[..., None]
    live = sides.possible[..., None] & (factors != 0)
    curves, crossed = first**2 * ease, factors * first * ease / together
    dense = (_dense(sides, np.where(live & np.isfinite(x), x, 0.0), arms) for x in (each, curves, crossed))
    return Bent(np.where(sides.possible, costs, np.inf), *dense)


def _dense(sides: Sides, values: Floats, arms: int) -> Floats:
    """Values of the arms of each half-space as values of all arms. (P,S)->(P,K)"""
    found = np.zeros((*values.shape[:-1], arms))
    np.put_along_axis(found, sides.pieces.arms, values, axis=-1)
    return found
