"""The complexity of the best k of thousands of arms: constraint generation on the k (K - k) pairs.

Few pairs are binding at the optimum. The programme of `interior_point` is solved for a subset of pairs; then the
cheapest pair of each arm that violates its constraint is added, and so on. The lower bound for a subset holds for all
pairs; the pulls suffice once they are divided by the smallest cost over all pairs. The Newton equations of pairs are
sparse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, quiet
from roundwise.deadline import check_deadline
from roundwise.errors import RoundwiseError
from roundwise.solvers.halfspaces import Family
from roundwise.solvers.interior_point import Iterate

Index = NDArray[np.intp]

STEPS = 100  # most Newton steps for one set of pairs
ROUNDS = 40  # most rounds of adding pairs
EXACT = 1e-6  # certified relative gap
CHUNK = 2**20  # pairs evaluated at a time
NEAR = 64  # arms next to the border whose pairs are evaluated first,
FEW = 3  # and those whose pairs form the initial set
AROUND = np.array([0, 1, -1, 2, -2, 4, -4, 8, -8])  # offsets, from an arm's cheapest pair, of the pairs that are added
ROUGH = 1e-3  # initial gap


class PairCosts(NamedTuple):
    """C = n_a KL(mu_a, lambda) + n_b KL(mu_b, lambda) of each pair, and its derivatives in the log pulls."""

    costs: Floats  # (P)
    shares: tuple[Floats, Floats]  # n_a KL(mu_a, lambda) and n_b KL(mu_b, lambda)
    bends: Floats  # of -C'' = bend [1, -1; -1, 1]


class Pairs(NamedTuple):
    """A set of pairs of arms, the first of which must be shown to exceed the second."""

    first: Index  # (P)
    second: Index
    means: Floats  # (K)
    family: Family

    def evaluate(self, pulls: Floats, bends: bool = True) -> PairCosts:
        """The costs at these pulls. (K)"""
        a, b = self.first, self.second
        one, other = self.family.select_arms(a), self.family.select_arms(b)
        weights, gaps = self.family.pooling_weights(pulls), self.means[b] - self.means[a]
        way = weights[b] / (weights[a] + weights[b])
        steps = gaps * way, gaps * (way - 1.0)
        mine = pulls[a] * one.divergence(self.means[a], steps[0])
        theirs = pulls[b] * other.divergence(self.means[b], steps[1])
        if not bends:
            return PairCosts(mine + theirs, (mine, theirs), mine)
        slope, curve = one.derivatives(self.means[a], steps[0])
        rise, turn = other.derivatives(self.means[b], steps[1])
        # with h = 1/(n KL''): n_a n_b |KL_a' KL_b'| h_a h_b / (h_a + h_b)
        bend = np.abs(slope * rise) / (pulls[a] * curve + pulls[b] * turn) * pulls[a] * pulls[b]
        return PairCosts(mine + theirs, (mine, theirs), bend)

    def add_up(self, shares: tuple[Floats, Floats], prices: Floats) -> Floats:
        """The sum over pairs of the price times each arm's share of the cost. (P)->(K)"""
        size = len(self.means)
        return np.asarray(
            np.bincount(self.first, prices * shares[0], size) + np.bincount(self.second, prices * shares[1], size)
        )


@quiet
def solve_pairs(means: Floats, inside: Bools, family: Family) -> tuple[float, Floats]:
    """The fewest pulls that show that each arm inside exceeds each outside, certified. (K),(K)->(),(K)"""
    alike = np.stack([inside, means, np.broadcast_to(family.pooling_weights(np.ones(means.shape)), means.shape)])
    _, which, group, sizes = np.unique(alike, axis=1, return_index=True, return_inverse=True, return_counts=True)
    total, pulls = _solve_groups(means[which], inside[which], family.select_arms(which), sizes.astype(np.float64))
    return total, pulls[group.ravel()]


def _solve_groups(means: Floats, inside: Bools, family: Family, sizes: Floats) -> tuple[float, Floats]:
    """As `solve_pairs`, with one arm for each group of identical arms, which need equal pulls."""
    merits = means if means[inside].min() > means[~inside].max() else -means
    order = np.argsort(merits)  # arms next to the border come first on either side
    chosen, others = order[inside[order]], order[~inside[order]][::-1]
    pairs = {(a, b) for a in chosen.tolist() for b in others[:FEW].tolist()}
    pairs |= {(a, b) for a in chosen[:FEW].tolist() for b in others.tolist()}
    pulls, gap = None, ROUGH
    for _ in range(ROUNDS):
        each = np.array(sorted(pairs), dtype=np.intp)
        needed, pulls = _follow_path(Pairs(each[:, 0], each[:, 1], means, family), sizes, pulls, gap)
        new: set[tuple[int, int]] = set()
        for first, second in ((chosen, others[:NEAR]), (chosen[:NEAR], others), (chosen, others)):
            least, cheap = _find_cheapest(first, second, pulls, means, family)
            new |= cheap
            if least < 1 - 4 * gap:
                break
        amount = float(sizes @ pulls / least)
        if least >= 1 - 4 * gap and amount <= (1 + EXACT) * needed:
            return amount, pulls / least
        gap = gap if least < 1 - 4 * gap else max(gap / 30, EXACT / 4)
        pairs |= new
    raise RoundwiseError("The complexity of this many arms could not be computed; please report it.")


def _find_cheapest(
    chosen: Index, others: Index, pulls: Floats, means: Floats, family: Family
) -> tuple[float, set[tuple[int, int]]]:
    """The smallest cost of any pair, and the pairs around each arm's cheapest one where that costs less than 1."""
    most, of_chosen = np.full(len(others), np.inf), np.zeros(len(others), dtype=np.intp)
    new: set[tuple[int, int]] = set()
    step = max(CHUNK // len(others), 1)
    for start in range(0, len(chosen), step):
        check_deadline()
        rows = chosen[start : start + step]
        first, second = np.repeat(rows, len(others)), np.tile(others, len(rows))
        costs = Pairs(first, second, means, family).evaluate(pulls, bends=False).costs.reshape(len(rows), -1)
        places, cheap = costs.argmin(axis=1), costs.min(axis=1) < 1
        new |= _pair_up(np.tile(rows[cheap], len(AROUND)), _around(others, places[cheap]))
        least = costs.min(axis=0)
        lower = least < most
        most[lower], of_chosen[lower] = least[lower], start + costs.argmin(axis=0)[lower]
    cheap = most < 1
    new |= _pair_up(_around(chosen, of_chosen[cheap]), np.tile(others[cheap], len(AROUND)))
    return float(most.min()), new


def _pair_up(first: Index, second: Index) -> set[tuple[int, int]]:
    return set(zip(first.tolist(), second.tolist(), strict=True))


def _around(arms: Index, places: Index) -> Index:
    """The arms at these places, then their neighbours."""
    return arms[np.clip(AROUND[:, None] + places, 0, len(arms) - 1)].ravel()


def _follow_path(pairs: Pairs, sizes: Floats, before: Floats | None, exact: float) -> tuple[float, Floats]:
    """A lower bound on the pulls that these pairs need, and nearly as few pulls: `interior_point` for one run."""
    pulls = np.ones(len(pairs.means)) if before is None else before
    costs = pairs.evaluate(pulls).costs
    pulls, spare = pulls * 2 / costs.min(), costs * 2 / costs.min() - 1
    prices = 1 / spare
    prices /= (pairs.add_up(pairs.evaluate(pulls).shares, prices) / (sizes * pulls)).max()
    now = Iterate(pulls, (prices * spare).max() / pulls, spare, prices)
    best, least, most = pulls, np.inf, 0.0
    for _ in range(STEPS):
        check_deadline()
        at = pairs.evaluate(now.pulls)
        amount = float(sizes @ now.pulls / at.costs.min())
        if amount < least:
            least, best = amount, now.pulls / at.costs.min()
        dual = pairs.add_up(at.shares, now.prices)
        most = max(most, float(now.prices.sum() / (dual / (sizes * now.pulls)).max()))
        if least <= (1 + exact) * most:
            break
        try:
            now = _newton(pairs, at, now, dual - sizes * now.pulls)
        except RuntimeError:  # singular: the best pulls so far are still certified
            break
    return most, best


def _newton(pairs: Pairs, at: PairCosts, now: Iterate, rest: Floats) -> Iterate:
    """One step of `interior_point._newton`; pulls are scaled to 1, and so is the `rest` of the duals."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    pulls, unused, spare, prices = now
    (mine, theirs), arms, (a, b) = at.shares, len(pulls), pairs[:2]
    short, weight, bend = at.costs - 1 - spare, prices / spare, prices * at.bends
    squares, crossed = (weight * mine**2 + bend, weight * theirs**2 + bend), weight * mine * theirs - bend
    scale = 1 / np.sqrt(np.bincount(a, squares[0], arms) + np.bincount(b, squares[1], arms) + unused * pulls)
    rows, others = (np.concatenate([*each, np.arange(arms)]) for each in ((a, b, a, b), (a, b, b, a)))
    entries = np.concatenate([*squares, crossed, crossed, unused * pulls]) * scale[rows] * scale[others]
    entries[-arms:] += 1e-15
    solver = splu(csc_array((entries, (rows, others)), shape=(arms, arms)))

    def direction(aim: float) -> Iterate:
        change = (aim - spare * prices - prices * short) / spare
        move = scale * solver.solve(scale * (rest + aim + pairs.add_up(at.shares, change)))
        more = mine * move[a] + theirs * move[b] + short
        return Iterate(move, aim / pulls - unused - unused * move, more, (aim - spare * prices - prices * more) / spare)

    def reached(step: Iterate) -> Iterate:
        largest = 2.0 / max(float(np.abs(step.pulls).max()), 2.0)
        far = min(_reach(np.ones(arms), step.pulls), _reach(spare, step.margins), largest)
        dual_far = min(_reach(unused, step.unused), _reach(prices, step.prices))
        return Iterate(
            pulls * (1 + far * step.pulls),
            unused + dual_far * step.unused,
            spare + far * step.margins,
            prices + dual_far * step.prices,
        )

    def mean(point: Iterate) -> float:
        return float(point.margins @ point.prices + point.pulls @ point.unused) / (arms + len(a))

    share = np.clip(mean(reached(direction(0.0))) / mean(now), 1e-3, 1.0)
    return reached(direction(mean(now) * float(np.clip(share**3, 1e-4, 0.5))))


def _reach(values: Floats, change: Floats) -> float:
    """The largest share of the change, at most 1, that keeps the values positive."""
    return 0.95 / max(float((-change / values).max()), 0.95)
