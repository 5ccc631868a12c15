"""Top-k by sets: the exact mean of the wealth under the null, and a plain program beside `simulate`."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from roundwise import (
    Binary,
    Bounded,
    EqualVariances,
    GaussianArms,
    HeteroscedasticGaussian,
    Normal,
    Poisson,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.model.batch import Batch, ValueTable, join_parts
from roundwise.model.problem import BatchPlan, Problem
from roundwise.noise.bets import PartForm, columns, parts_data
from roundwise.rules.eprocess.engine import view_parts
from roundwise.rules.eprocess.rule import EProcessRule, eprocess_for
from roundwise.rules.eprocess.sets import Merge, SetEProcess, SidesForm, merge_arms, sets_of
from test_wager_reference import Estimate, Recorder, log_factor, log_phi

# --- every outcome of a small batch, with its probability

PARTS = np.array([[2, 1, 1, 2], [1, 1, 1, 1]])  # results of each arm in each of two parts


def zero_one(means):
    law = [stats.binom(n, mean) for part in PARTS for n, mean in zip(part, means, strict=True)]
    return law, [range(n + 1) for n in PARTS.reshape(-1)], PARTS


def counted(means):
    law = [stats.poisson(n * mean) for n, mean in zip(PARTS[0], means, strict=True)]
    return law, [range(int(each.isf(1e-12)) + 2) for each in law], PARTS[:1]


MODELS = {
    "0/1": (Binary(), zero_one),
    "values in a range": (Bounded(0.0, 1.0), zero_one),
    "sub-Gaussian": (SubGaussian(0.5), zero_one),
    "counts": (Poisson(), counted),
}
EQUAL, APART = (0.4, 0.4, 0.4, 0.4), (0.2, 0.4, 0.4, 0.7)  # every set is a top two; the last and one of two others


@pytest.mark.parametrize("past", [(0.6, 0.55, 0.35, 0.3), (0.5, 0.3, 0.45, 0.3), (0.6, 0.2, 0.1, 0.65)])
@pytest.mark.parametrize("means", [EQUAL, APART], ids=["equal", "apart"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lower", [False, True], ids=["largest", "smallest"])
def test_against_a_set_of_the_best_nothing_is_won_on_average(model, means, past, lower):
    """In two parts, the second bet on with what the first showed; a past leads the rule to bet the wrong way."""
    noise, draw = MODELS[model]
    means, past = (np.array(each)[::-1] * -1 + 0.85 if lower else np.array(each) for each in (means, past))
    law, values, rows = draw(means)
    every = np.array(list(itertools.product(*values)), dtype=float)
    chance = np.prod([each.pmf(column) for each, column in zip(law, every.T, strict=True)], axis=0)
    parts = []
    for totals, part in zip(np.split(every, len(rows), axis=1), rows, strict=True):
        counts = np.broadcast_to(part.astype(float), totals.shape)
        table = ValueTable(np.broadcast_to([0.0, 1.0], (len(every), 2)), np.stack([counts - totals, totals], axis=-1))
        parts.append(Batch(counts, totals, totals - totals**2 / counts, table if noise.needs == "rows" else None))
    batch = join_parts(parts)
    problem, rule = Problem(TopK(2, lower_is_better=lower), 4, 0.05, noise), EProcessRule()
    before = np.full((*every.shape[:1], 4), 40.0)
    earlier = Batch(before, before * past, before * past * (1 - past))
    known = rule.warm_start(problem, rule.start(problem, (len(every),)), earlier, None)
    wealth = rule.fold(problem, known, BatchPlan(batch.counts, np.ones(len(every), dtype=bool)), batch).wealth
    assert isinstance(eprocess_for(problem), SetEProcess)
    merits = problem.question.merits(means)
    average = chance @ np.exp(wealth.gains)
    right = [merits[each].min() >= merits[~each].max() - 1e-12 for each in sets_of(4, 2).inside]
    assert chance.sum() == pytest.approx(1.0, abs=1e-9)
    assert (average[right] <= 1 + 1e-9).all(), average
    assert wealth.gains.any(axis=0).all()  # each set was bet against
    if all(right):
        assert average.max() > 0.9  # on the border of the null hardly anything is lost


def merged_bets(noise, k, arms, seed):
    """Bets on merged arms in one batch of one run, and the same on forms of several arms."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 40, (arms, 3)).astype(float)
    counts[rng.random(counts.shape) < 0.1] = 0.0
    scales = 10.0 ** rng.integers(-2, 3, arms)[:, None]
    totals = counts * rng.normal(0, 1, counts.shape) * scales
    scatter = np.maximum(counts - 1, 0) * rng.gamma(3, 0.3, counts.shape) * scales**2
    batch = join_parts([Batch(*(each[:, p] for each in (counts, totals, scatter))) for p in range(3)])
    past = Batch(np.full(arms, 30.0), 30 * rng.normal(0, 1, arms), 29.0 * scales[:, 0] ** 2)
    problem, rule = Problem(TopK(k), arms, 0.05, noise), EProcessRule()
    known = rule.warm_start(problem, rule.start(problem, ()), past, None).known
    data = parts_data(known.past, batch.parts)
    view = view_parts(data, columns(known.means, 1), True)
    order = np.argsort(-view.means, axis=1, kind="stable")
    sets = sets_of(arms, k)
    at = np.arange(len(sets.inside))
    merged = merge_arms(view, Merge(sets, order, k, at))
    form = SidesForm.of_nulls(3, at.size, False)
    u = np.zeros((3, arms, at.size))
    for p, c in itertools.product(range(3), at):
        top = np.isin(np.arange(arms), order[p, :k, 0])
        a, b = top & ~sets.inside[c], ~top & sets.inside[c]
        if not a.any():
            a, b = (np.arange(arms) == order[p, rank, 0] for rank in (k, k - 1))
        for side, sign in ((a, 1.0), (b, -1.0)):
            u[p, side, c] = sign * counts[side, p] / max(counts[side, p].sum(), 1e-300)
    place = [p * arms + np.zeros((1, at.size), dtype=int) for p in np.arange(3)[:, None]]
    places = [np.concatenate(place) + arm for arm in range(arms)]
    general = PartForm(places, [u[:, arm] for arm in range(arms)], np.zeros((3, at.size)))
    return merged, form, general, view


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("k", "arms"), [(2, 5), (3, 5), (3, 6)])
@pytest.mark.parametrize("noise", [Normal(), EqualVariances(), HeteroscedasticGaussian], ids=str)
def test_merged_arms_of_normal_results_are_bet_on_as_a_form_of_several_arms(noise, k, arms, seed):
    """Proposition 5 or 30, or Lemma 1, with the forms written out; deviations differ by up to 10^4."""
    noise = noise if isinstance(noise, Normal) else noise(tuple(10.0 ** np.linspace(-2, 2, arms)))
    merged, form, general, view = merged_bets(noise, k, arms, seed)
    ours, plain = noise.part_bets(merged.data), noise.part_bets(view.data)
    value, leverage = form.of(merged.new), form.squares(merged.per_row)
    with np.errstate(invalid="ignore"):  # where neither side has results
        logs = ours.forms(form, value, leverage)
        expected = plain.forms(general, general.of(view.new), general.squares(view.per_row))
    possible = leverage < 1e17
    assert possible.any()
    np.testing.assert_allclose(value[possible], general.of(view.new)[possible], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(leverage[possible], general.squares(view.per_row)[possible], rtol=1e-9)
    for p, q in itertools.product(range(3), (0.3, 2.0)):
        size = np.full(possible.shape[1], q)
        np.testing.assert_allclose(logs(p, size)[possible[p]], expected(p, size)[possible[p]], rtol=1e-5, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("noise", [Normal(), EqualVariances()], ids=str)
def test_normal_sets_keep_delta_where_all_arms_are_equal(noise):
    world = GaussianArms([1.5e-6, 1e-6, 5e-7, 0.0])
    (runs,) = simulate(TopK(2), world, [Wager(first_pulls=12)], runs=4000, noise=noise, seed=8, max_batches=6)
    assert (runs.decided & ~runs.correct).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


# --- a plain program


def plain_wealth(wealth, known, counts, totals, k, sigma, goal):
    """log of the wealth against each set after the parts of one partition; `known` is None in the first batch."""
    wealth, (K, P) = dict(wealth), counts.shape
    N, mu = (np.zeros(K), np.zeros(K)) if known is None else (known.N, known.mu)
    done = {each for each, won in wealth.items() if won >= goal}
    for p in range(P):
        kappa = 1 - ((P - p - 1) / (P - p)) ** 2
        c, t, rows = counts[:, :p].sum(axis=1), totals[:, :p].sum(axis=1), counts[:, p]
        if known is None and p == 0:
            continue
        f, y = c / (N + c), t / (N + c) - c / (N + c) * mu
        weight = (N * f).sum()
        m = mu + y - (f * (N * y).sum() / weight if weight else 0)
        order = sorted(range(K), key=lambda i: -m[i])
        top, rest = order[:k], order[k:]
        if known is None:
            chance = sum(
                log_phi((m[i] - m[j]) / (sigma * math.sqrt(1 / (N + c)[i] + 1 / (N + c)[j]))) for i in top for j in rest
            )
            if chance < math.log(0.5):
                continue
        for each in wealth:
            ahead, behind = [i for i in top if i not in each], [j for j in each if j not in top]
            if not ahead:
                ahead, behind = [rest[0]], [top[-1]]
            n_a, n_b = rows[ahead].sum(), rows[behind].sum()
            if each in done or wealth[each] >= goal or not (n_a and n_b):
                continue
            u = np.zeros(K)
            u[ahead], u[behind] = rows[ahead] / n_a, -rows[behind] / n_b
            v = (u**2 / (N + c)).sum() + ((u @ f) ** 2 / weight if weight else 0)
            d = 1 / n_a + 1 / n_b
            score = (totals[ahead, p].sum() / n_a - totals[behind, p].sum() / n_b) / (sigma * math.sqrt(d))
            wealth[each] += log_factor(u @ m / (sigma * math.sqrt(v)), v / d, kappa, goal - wealth[each], score, 3)
    return wealth


@pytest.mark.parametrize(("k", "arms", "lower"), [(1, 4, False), (2, 5, True), (4, 6, False), (3, 6, False)])
def test_simulate_bets_as_the_definition_says(k, arms, lower):
    sigma, delta = 1.5, 0.05
    world = Recorder(sigma * np.linspace(0.6, 0.0, arms), sigma)
    question = TopK(k, lower_is_better=lower)
    look = {"wealth": lambda trial: trial.kept.wealth.gains, "lost": lambda trial: trial.kept.wealth.rejected}
    (runs,) = simulate(question, world, [Wager()], runs=1, delta=delta, noise=SubGaussian(sigma), seed=77, watch=look)
    goal, known, batches = math.log(1 / delta), None, []
    wealth = dict.fromkeys(itertools.combinations(range(arms), k), 0.0)
    log = world.log[-int(runs.batches[0]) :]
    assert len(log) >= 3
    sign = -1 if lower else 1
    for number, (n, t, counts, totals) in enumerate(log, start=1):
        sides = [plain_wealth(wealth, known, counts[0], sign * each, k, sigma, goal) for each in totals]
        wealth = {each: np.logaddexp.reduce([one[each] for one in sides]) - math.log(len(sides)) for each in wealth}
        batches.append((n, sign * t))
        known = Estimate(batches)
        left = [each for each, won in wealth.items() if won < goal]
        assert (len(left) <= 1) == (number == len(log))
    np.testing.assert_allclose(runs.watched["wealth"][0], list(wealth.values()), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(runs.answer[0]), left[0])


# --- what is asked for, and what is said


def states(k, arms, seed, runs=30):
    """Random estimates, wealth and rejections."""
    rng, rule = np.random.default_rng(seed), EProcessRule()
    problem = Problem(TopK(k), arms, 0.05, SubGaussian(1.0))
    counts = rng.integers(5, 50, (runs, arms)).astype(float)
    past = Batch(counts, rng.normal(0, 1, counts.shape) * counts)
    state = rule.warm_start(problem, rule.start(problem, (runs,)), past, None)
    gains = rng.normal(0, 2, state.wealth.gains.shape)
    return problem, state._replace(wealth=state.wealth._replace(gains=gains, rejected=gains > -1.0))


@pytest.mark.parametrize(("k", "arms"), [(1, 4), (2, 5), (3, 4), (3, 6)])
def test_every_open_set_has_a_pair_that_is_sampled_for(k, arms, monkeypatch):
    problem, state = states(k, arms, 5)
    seen = {}

    def settle(problem, known, forecast, gains, lost):
        seen.update(gains=gains, lost=lost, pairs=forecast.pieces.arms)

    monkeypatch.setattr("roundwise.rules.eprocess.sets.settle_pieces", settle)
    eprocess_for(problem).required_pulls(problem, state)
    for run, means in enumerate(state.known.means):
        order = np.argsort(-means)
        need = {}
        for inside, won, lost in zip(
            sets_of(arms, k).inside, state.wealth.gains[run], state.wealth.rejected[run], strict=True
        ):
            ahead, behind = next(i for i in order if not inside[i]), next(i for i in order[::-1] if inside[i])
            if not lost and not (inside == problem.question.answer(means)).all():
                need[ahead, behind] = min(won, need.get((ahead, behind), math.inf))
        pairs = [tuple(each) for each in seen["pairs"][run].tolist()]
        assert dict(zip(pairs, seen["gains"][run], strict=True)) == {each: need.get(each, math.inf) for each in pairs}
        assert [each not in need for each in pairs] == seen["lost"][run].tolist()


@pytest.mark.parametrize(("k", "arms"), [(2, 4), (2, 5)])
def test_an_arm_is_said_to_beat_another_only_if_it_does_in_every_open_set(k, arms):
    problem, every = states(k, arms, 6, runs=40)
    eprocess, sets = eprocess_for(problem), sets_of(arms, k).inside
    shown = 0
    for run in range(40):
        wealth = every.wealth._replace(gains=every.wealth.gains[run], rejected=every.wealth.rejected[run])
        past = every.known.past.map_sums(lambda each, run=run: each[run])
        state = EProcessRule().restore(problem, EProcessRule().save(problem, every)._replace(wealth=wealth, past=past))
        open_ = sets[~wealth.rejected]
        for claim in eprocess.claims(problem, state, [str(i) for i in range(arms)]):
            one, other = claim.about.arms
            assert claim.shown == (open_[:, one] & ~open_[:, other]).all()
            shown += claim.shown and len(open_) > 1
    assert shown  # also while several sets are open


@pytest.mark.parametrize(("k", "arms"), [(1, 5), (3, 7), (5, 7), (2, 24), (4, 5)])
def test_sums_over_sets_and_their_places(k, arms):
    sets, rng = sets_of(arms, k), np.random.default_rng(k)
    values = rng.normal(size=(3, arms, 2))
    inside = sets.inside != sets.of_rest
    np.testing.assert_allclose(sets.sum_members(values), np.einsum("ca,pan->pcn", inside, values), atol=1e-12)
    members = rng.permuted(np.tile(sets.members, (3, 1, 1)), axis=2)  # in any order
    np.testing.assert_array_equal(sets.number(members.transpose(0, 2, 1)), np.tile(np.arange(len(inside)), (3, 1)))
