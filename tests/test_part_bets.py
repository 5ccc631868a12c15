"""Bets on the parts of a batch: the table, every bet of one size at its null, and the kernel against a plain loop."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from roundwise import (
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    Largest,
    MinimumBelow,
    Normal,
    Poisson,
    Problem,
    Statements,
    SubGaussian,
    TopK,
    Wager,
)
from roundwise.model.batch import Batch, Parts, ValueTable, part_shares_of_rest, split_counts
from roundwise.model.estimates import Past
from roundwise.model.problem import advance, begin
from roundwise.noise.bets import PartForm, PartsData
from roundwise.rules.eprocess import bet_sizes
from roundwise.rules.eprocess.bet_sizes import ALONE
from roundwise.rules.eprocess.engine import settle_parts, table_cells

# ------------------------------------------------------------------------------------------------------------ the table


@pytest.mark.long
def test_the_table_that_is_shipped_is_the_one_that_is_made() -> None:
    for shipped, sizing in zip(bet_sizes.shipped(), bet_sizes.TABLES.values(), strict=True):
        assert np.abs(shipped.astype(int) - bet_sizes.nodes(sizing).astype(int)).max() <= 1


@pytest.mark.parametrize("number", bet_sizes.TABLES)
def test_stakes_and_slopes_are_allowed(number: int) -> None:
    table = bet_sizes.slopes(number)
    assert table.slope.size == table.stake.size == math.prod(bet_sizes.SHAPE)
    assert (table.slope >= 0).all()
    assert (table.stake >= np.float32(0.001)).all()
    assert (table.stake <= np.float32(0.999)).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("z", "ratio", "need", "sizing"),
    [
        (*each, sizing)
        for each, sizing in zip(
            itertools.product((-1.0, 0.5, 3.0, 7.0), (0.1, 1.0, 8.0), (0.3, 2.0, 4.0)),
            itertools.cycle(bet_sizes.TABLES.values()),
            strict=False,
        )
    ],
)
def test_the_payoff_that_is_replicated(z: float, ratio: float, need: float, sizing: bet_sizes.Sizing) -> None:
    """E_0 f = 1, and lam and gam are its first two sensitivities: by quadrature, y by a search of its own."""
    x = np.linspace(-14.0, 14.0, 200_001)
    weights = (x[1] - x[0]) * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    drifts, logs = sizing.log_stakes(np.array([z]))
    stakes, q = np.exp(logs)[:, 0], np.array([0.0, *np.minimum(drifts * math.sqrt(ratio), bet_sizes.SUREST)])

    def mixture(at):
        return (stakes[:, None] * np.exp(q[:, None] * at - q[:, None] ** 2 / 2)).sum(axis=0)

    def level(y):
        inside = (stakes * stats.norm.cdf(y - q)).sum()
        return (1.0 - math.exp(need) * stats.norm.sf(y)) / inside

    low, high = float(stats.norm.isf(math.exp(-need))), 40.0
    for _ in range(80):
        y = (low + high) / 2
        low, high = (y, high) if sizing.X * level(y) * mixture(np.array([y]))[0] < math.exp(need) else (low, y)
    payoff = np.where(x >= y, math.exp(need), level(y) * mixture(x))
    assert (payoff * weights).sum() == pytest.approx(1.0, abs=1e-3)  # it jumps, between points of the grid
    lam, pi = bet_sizes.replicated(np.array([z]), np.array([ratio]), np.array([need]), sizing)
    first, second = (payoff * weights * x).sum(), (payoff * weights * (x * x - 1)).sum()
    assert lam[0] == pytest.approx(first, abs=0.005)
    assert pi[0] == pytest.approx(min(first**2 / second, 1.0) if second > first**2 else 1.0, abs=0.005)


def test_the_nearest_entry_is_found() -> None:
    z, ratio = np.array([-9.0, -3.0, 0.06, 0.07, 10.0, 50.0]), np.array([1e-9, 2.0**-8, 1.0, 1.12, 1.13, 1e9])
    place = table_cells(z.copy(), ratio.copy()) // bet_sizes.SHAPE[2]
    assert (place // bet_sizes.SHAPE[1]).tolist() == [0, 0, 24, 25, 104, 104]
    assert (place % bet_sizes.SHAPE[1]).tolist() == [0, 0, 32, 32, 33, 52]


# --------------------------------------------------------------------------------------- bets of one size at their null


def seen_of(past_counts, past_totals, counts, totals, scatter=None, past_scatter=0.0, rows=None) -> PartsData:
    """One part of two arms, with one column for each result that is possible."""
    n = np.shape(totals)[-1]
    wide = [np.broadcast_to(np.asarray(each, dtype=float)[:, None], (2, n)) for each in (past_counts, past_totals)]
    freedom = np.maximum(wide[0] - 1.0, 0.0)
    before = Past(wide[0], wide[1], np.full((2, n), float(past_scatter)), freedom, ())
    part = np.broadcast_to(np.asarray(counts, dtype=float)[:, None], (2, n))[None].copy()
    return PartsData(
        before, part, np.asarray(totals, dtype=float)[None], None if scatter is None else scatter[None], rows
    )


def both(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n)[None], n + np.arange(n)[None]


def pair_of(places, margin: float) -> PartForm:
    return PartForm(list(places), None, np.full(places[0].shape, margin))


SIZES = (0.1, 0.7, 2.0, 9.0, 30.0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("margin", [-0.2, 0.0, 0.15])
def test_zeros_and_ones(size: float, margin: float) -> None:
    n_a, n_b = 7, 5
    won_a, won_b = (each.reshape(-1) for each in np.meshgrid(np.arange(n_a + 1), np.arange(n_b + 1), indexing="ij"))
    seen = seen_of((40, 30), (9, 3), (n_a, n_b), np.stack([won_a, won_b]))
    places = both(won_a.size)
    tilts = Binary().part_bets(seen)
    factor = np.exp(
        tilts.forms(pair_of(places, margin), np.zeros((1, won_a.size)), np.full((1, won_a.size), 1 / 7 + 1 / 5))(
            0, np.full(won_a.size, size)
        )
    )
    for rate in (0.01, 0.2, 0.3, 0.6, 0.84):
        a, b = rate + margin, rate
        if 0 <= a <= 1:
            law = stats.binom.pmf(won_a, n_a, a) * stats.binom.pmf(won_b, n_b, b)
            assert (law * factor).sum() <= 1 + 1e-12
    for sign, tau in itertools.product((1.0, -1.0), (0.05, 0.4)):
        at = np.full((1, won_a.size), sign)
        bet = tilts.levels(places[0], at, np.zeros_like(at), np.full_like(at, 1 / 7), tau)(0, np.full(won_a.size, size))
        law = stats.binom.pmf(won_a, n_a, tau) * stats.binom.pmf(won_b, n_b, 0.5)
        assert (law * np.exp(bet)).sum() <= 1 + 1e-12


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("margin", [-0.2, 0.0, 0.5])
def test_counts_of_events(size: float, margin: float) -> None:
    n_a, n_b, most = 3, 4, 60
    won_a, won_b = (each.reshape(-1) for each in np.meshgrid(np.arange(most), np.arange(most), indexing="ij"))
    seen = seen_of((40, 30), (50, 30), (n_a, n_b), np.stack([won_a, won_b]))
    places, leverage = both(won_a.size), np.full((1, won_a.size), 1 / 3 + 1 / 4)
    tilts, q = Poisson().part_bets(seen), np.full(won_a.size, size)
    pair = np.exp(tilts.forms(pair_of(places, margin), np.zeros((1, won_a.size)), leverage)(0, q))
    factors = [np.full((1, won_a.size), 2.0), np.full((1, won_a.size), -1.0)]
    form = PartForm(list(places), factors, np.full((1, won_a.size), margin))
    other = np.exp(tilts.forms(form, np.zeros((1, won_a.size)), leverage)(0, q))
    for rate in (0.3, 0.6, 1.1):
        law = stats.poisson.pmf(won_a, n_a * (rate + margin)) * stats.poisson.pmf(won_b, n_b * rate)
        assert (law * pair)[np.isfinite(pair)].sum() <= 1 + 1e-9
        law = stats.poisson.pmf(won_a, n_a * (rate + margin) / 2) * stats.poisson.pmf(won_b, n_b * rate)
        assert (law * other)[np.isfinite(other)].sum() <= 1 + 1e-9
    for sign, tau in itertools.product((1.0, -1.0), (0.4, 1.5)):
        at = np.full((1, won_a.size), sign)
        bet = tilts.levels(places[0], at, np.zeros_like(at), np.full_like(at, 1 / 3), tau)(0, q)
        law = stats.poisson.pmf(won_a, n_a * tau) * stats.poisson.pmf(won_b, n_b)
        assert (law * np.exp(np.minimum(bet, 600))).sum() <= 1 + 1e-9


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("margin", [-0.4, 0.0, 0.3])
def test_values_in_a_range(size: float, margin: float) -> None:
    """Two rows of each arm with values 1, 1.6 or 3, range [1, 3]; margins in units of the values."""
    values, chances = np.array([1.0, 1.6, 3.0]), np.array([0.5, 0.3, 0.2])
    every = np.array(list(itertools.product(range(3), repeat=4)))  # two of a, two of b
    table = np.stack([[(every[:, :2] == v).sum(axis=1), (every[:, 2:] == v).sum(axis=1)] for v in range(3)])
    totals = np.stack([values[every[:, :2]].sum(axis=1), values[every[:, 2:]].sum(axis=1)])
    rows = ValueTable(values, table[:, None].astype(float))
    seen = seen_of((40, 30), (70, 50), (2, 2), totals, np.zeros_like(totals), 20.0, rows)
    places, n = both(len(every)), len(every)
    tilts = Bounded(1, 3).part_bets(seen)
    mean = values @ chances
    # of a the same law moved towards an end so that it lies the margin above
    target, end = mean + margin, 3.0 if margin > 0 else 1.0
    share = abs(margin) / abs(end - mean)
    of_a = (1 - share) * chances + share * (values == end)
    assert of_a @ values == pytest.approx(target)
    law = of_a[every[:, :2]].prod(axis=1) * chances[every[:, 2:]].prod(axis=1)
    bet = tilts.forms(pair_of(places, margin), np.zeros((1, n)), np.ones((1, n)))(0, np.full(n, size))
    assert (law * np.exp(bet)).sum() <= 1 + 1e-12
    for sign in (1.0, -1.0):
        at = np.full((1, n), sign)
        bet = tilts.levels(places[1], at, np.zeros_like(at), np.full_like(at, 0.5), mean)(0, np.full(n, size))
        assert (law * np.exp(bet)).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("size", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("dof", [2, 9, 150])
def test_t(size: float, dof: int) -> None:
    """D normal, the scatter chi-squared: nested quadrature of the bet at equal means."""
    z, w = np.polynomial.hermite_e.hermegauss(80)
    square = stats.chi2.ppf((np.arange(400) + 0.5) / 400, 2 * dof)
    grid_z, grid_s = (each.reshape(-1) for each in np.meshgrid(z, square, indexing="ij"))
    law = np.repeat(w / w.sum(), 400) / 400
    scatter = np.stack([grid_s / 2, grid_s / 2])
    seen = seen_of((40, 30), (0, 0), (dof + 1, dof + 1), np.zeros_like(scatter), scatter, 40.0)
    leverage = np.full((1, z.size * 400), 2 / (dof + 1))
    form, value = pair_of(both(grid_z.size), 0.0), (grid_z * np.sqrt(leverage[0]))[None]
    tilt = Normal().part_bets(seen).forms(form, value, leverage)
    mean = (law * np.exp(tilt(0, np.full(grid_z.size, size)))).sum()
    assert mean <= 1 + 2e-3
    assert mean > 0.9 or size**4 > dof  # one node loses more of bolder bets, and the quadrature sees nothing of them


# ---------------------------------------------------------------------------------------- the kernel and a plain loop


def one_bet(
    goal: float, gain: float, z: float, ratio: float, share: float, new: float, variance: float, table_number: int
) -> float:
    """log E after a part, for Gaussian bets: the definition of docs/wager.md, with the entry of the table."""
    need = goal - gain
    if need <= 0:
        return gain
    table = bet_sizes.slopes(table_number)
    i = int(np.clip(round_half_up(8 * z + 24), 0, 104))
    mantissa, exponent = math.frexp(ratio / share)
    j = int(np.clip(round_half_up(4 * (exponent - 1 + 2 * mantissa - 1 + 8)), 0, 52))
    k = int(np.clip(round_half_up(16 * math.sqrt(need)), 0, 80))
    at = (i * 53 + j) * 81 + max(k, 0)
    q = min(float(table.slope[at]) * math.sqrt(share), 30.0)
    stake = float(table.stake[at])
    x = min(q * (new / math.sqrt(variance) - q / 2), 600.0)
    return gain + math.log1p(stake * math.expm1(x))


def round_half_up(x: float) -> int:
    return math.floor(x + 0.5)


def batches_of(rng, trial, means, partitions=1):
    counts = split_counts(trial.plan.pulls, trial.plan.parts)
    totals = rng.normal(counts * means[:, None], np.sqrt(counts), (partitions, *counts.shape[1:]))
    whole = totals[0].sum(axis=-1)
    totals[1:] += (counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)) * (whole - totals[1:].sum(axis=-1))[
        ..., None
    ]
    return Batch(trial.plan.pulls, whole, parts=Parts(counts, totals))


def test_extremes_and_levels_as_a_plain_loop() -> None:
    rng, arms = np.random.default_rng(5), 3
    means = np.array([0.3, -0.2, -0.6])
    for question in (MinimumBelow(0.0), AnyAbove(0.0), Above(0.0)):
        problem, trial = (
            Problem(question, arms, 0.05, SubGaussian(1.0)),
            begin(Problem(question, arms, 0.05, SubGaussian(1.0)), Wager()),
        )
        trial = advance(problem, Wager(), trial, batches_of(rng, trial, means)._replace(parts=None))
        batch = batches_of(rng, trial, means)
        assert batch.parts is not None
        share, N, T = part_shares_of_rest(12), trial.record.counts, trial.record.totals
        side = -1.0 if isinstance(question, MinimumBelow) else 1.0
        none, each = 0.0, np.zeros(arms)
        plus, minus = np.zeros(arms), np.zeros(arms)
        for p in range(12):
            rows, sums = batch.parts.counts[0, :, p], batch.parts.totals[0, :, p]
            now, new = T / N, sums / np.maximum(rows, 1)
            j = int((side * now).argmax())
            if isinstance(question, Above):
                least = np.minimum(plus, minus)
                for i in range(arms):
                    sign = 1.0 if now[i] > 0 else -1.0
                    mine = plus if sign > 0 else minus
                    if rows[i] and abs(now[i]) * math.sqrt(N[i]) >= 0.5:
                        goal = problem.goal - (least.sum() - least[i])
                        z, v = sign * now[i] * math.sqrt(N[i]), 1 / rows[i]
                        mine[i] = one_bet(goal, mine[i], z, rows[i] / N[i], share[p], sign * new[i], v, 0)
            else:
                if rows[j]:
                    z = side * now[j] * math.sqrt(N[j])
                    v = 1 / rows[j]
                    none = one_bet(problem.goal, none, z, rows[j] / N[j], share[p], side * new[j], v, ALONE)
                for i in range(arms):
                    if rows[i]:
                        z = -side * now[i] * math.sqrt(N[i])
                        v = 1 / rows[i]
                        each[i] = one_bet(problem.goal, each[i], z, rows[i] / N[i], share[p], -side * new[i], v, ALONE)
            N, T = N + rows, T + sums
        won = advance(problem, Wager(), trial, batch).kept.wealth
        if isinstance(question, Above):
            np.testing.assert_allclose([won.above, won.below], [plus, minus], rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_allclose([won.none, *won.arms], [none, *each], rtol=1e-9, atol=1e-9)


QUESTIONS = {
    "best": BestArm(),
    "tolerance": BestArm(0.05),
    "top": TopK(2),
    "above": Above(0.1),
    "minimum": MinimumBelow(0.1),
    "any": AnyAbove(0.1),
    "statements": Statements([[1, 0, 0, 0], [0, 1, -1, 0]], [0.1, 0.0]),
    "largest": Largest([[1, 1, 0, 0], [0, 0, 1, 1]]),
}
NOISES = {
    "sub-gaussian": SubGaussian(1.0),
    "gaussian": Gaussian(1.0),
    "t": Normal(),
    "binary": Binary(),
    "bounded": Bounded(0.0, 1.0),
    "poisson": Poisson(),
}


def rows_in_parts(rng, noise, pulls, parts, partitions, shift=0.0) -> Batch:
    """Rows of arms with these means, partitioned at random: every model sees what it asks for."""
    counts = split_counts(pulls, parts)
    ends = np.cumsum(counts[0], axis=-1).astype(int)
    means = np.array([0.55, 0.5, 0.35, 0.3])
    values = np.array([0.0, 1.0])
    totals, scatter = np.zeros((partitions, 4, parts)), np.zeros((partitions, 4, parts))
    table, whole, spread = np.zeros((partitions, 4, parts, 2)), np.zeros(4), np.zeros(4)
    for arm, n in enumerate(pulls.astype(int)):
        if isinstance(noise, Poisson):
            rows = rng.poisson(means[arm], n).astype(float)
        elif isinstance(noise, (Binary, Bounded)):
            rows = rng.binomial(1, means[arm], n).astype(float)
        else:
            rows = rng.normal(means[arm] + shift, 1.0, n)
        whole[arm], spread[arm] = rows.sum(), rows.var() * n if n else 0.0
        for m in range(partitions):
            for p, piece in enumerate(np.split(rng.permutation(rows), ends[arm][:-1])):
                totals[m, arm, p] = piece.sum()
                scatter[m, arm, p] = piece.var() * len(piece) if len(piece) else 0.0
                table[m, arm, p] = [(piece == v).sum() for v in values]
    bounded = isinstance(noise, Bounded)
    of_values = ValueTable(values, np.stack([pulls - whole, whole], axis=-1)) if bounded else None
    inside = Parts(counts, totals, scatter, ValueTable(values, table) if bounded else None)
    return Batch(pulls, whole, spread, of_values, inside)


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_partitions_that_are_alike_count_as_one_and_runs_do_not_see_each_other(question, noise) -> None:
    problem, policy, rng = Problem(question, 4, 0.05, noise), Wager(), np.random.default_rng(7)
    one, several, many = begin(problem, policy), begin(problem, policy), begin(problem, policy, (3,))
    moved = False
    for _ in range(6):
        batch = rows_in_parts(rng, noise, one.plan.pulls, one.plan.parts, 1)
        inside = batch.parts
        assert inside is not None
        one = advance(problem, policy, one, batch)
        table = inside.table

        def times(array, number=3):
            return np.concatenate([array] * number)

        alike = Parts(
            inside.counts,
            times(inside.totals),
            None if inside.scatter is None else times(inside.scatter),
            None if table is None else ValueTable(table.values, times(table.counts)),
        )
        several = advance(problem, policy, several, batch._replace(parts=alike))

        def runs(array):
            return np.stack([array * 0.0 + array, array, array]) if array is not None else None

        wide = Batch(
            *(runs(each) for each in batch[:3]),
            None if batch.table is None else ValueTable(*(runs(each) for each in batch.table)),
            Parts(
                *(runs(each) for each in inside[:3]),
                None if table is None else ValueTable(*(runs(each) for each in table)),
            ),
        )
        many = advance(problem, policy, many, wide)
        for alone, beside in zip(leaves(one.kept.wealth), leaves(many.kept.wealth), strict=True):
            assert all(np.array_equal(alone, each, equal_nan=True) for each in beside)
        assert np.array_equal(one.plan.pulls, many.plan.pulls[1])
        if not isinstance(
            question, Above
        ):  # whose arms are bet on apart from each other if there are several partitions
            for alone, averaged in zip(leaves(one.kept.wealth), leaves(several.kept.wealth), strict=True):
                np.testing.assert_allclose(np.asarray(averaged, dtype=float), np.asarray(alone, dtype=float), atol=1e-9)
        moved |= any(
            np.isfinite(each).all() and np.abs(np.asarray(each, dtype=float)).max() > 0.3
            for each in leaves(one.kept.wealth)[:1]
        )
        if one.done:
            break
    assert moved or one.done


def leaves(tree):
    return [each for item in tree if item is not None for each in (leaves(item) if isinstance(item, tuple) else [item])]


@pytest.mark.parametrize("question", [BestArm(), TopK(2), BestArm(0.05)], ids=["best", "top", "tolerance"])
def test_a_shift_of_a_whole_batch_changes_nothing(question) -> None:
    problem, policy = Problem(question, 4, 1e-4, SubGaussian(1.0)), Wager()
    trials = [begin(problem, policy), begin(problem, policy)]
    for number in range(4):
        batch = rows_in_parts(
            np.random.default_rng(number), SubGaussian(1.0), trials[0].plan.pulls, trials[0].plan.parts, 4
        )
        inside = batch.parts
        assert inside is not None
        shift = 7.3 * number**2
        moved = batch._replace(
            totals=batch.totals + shift * batch.counts,
            parts=inside._replace(totals=inside.totals + shift * inside.counts),
        )
        trials = [advance(problem, policy, trial, each) for trial, each in zip(trials, (batch, moved), strict=True)]
        assert np.array_equal(trials[0].plan.pulls, trials[1].plan.pulls)
        np.testing.assert_allclose(trials[0].kept.wealth.gains, trials[1].kept.wealth.gains, atol=1e-8)


def test_settling_stops_at_the_goal_and_takes_no_bet_where_there_is_none() -> None:
    z, ratio = np.full((3, 2), 9.0), np.full((3, 2), 1.0)
    won = settle_parts(1.0, np.zeros(2), z, ratio, lambda p, q: 5.0 * q, np.array([[True, False]] * 3))
    assert won[0] >= 1.0
    assert won[1] == 0.0
    again = settle_parts(1.0, won, np.full((3, 2), 9.0), np.full((3, 2), 1.0), lambda p, q: 5.0 * q, None)
    assert again[0] == won[0]
    assert again[1] >= 1.0
