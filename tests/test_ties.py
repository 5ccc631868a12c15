"""Ties within a tolerance: wealth against ordered pairs of arms (docs/why-the-guarantee-holds.md, Proposition 37)."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from roundwise import (
    BernoulliArms,
    BestArm,
    Binary,
    GaussianArms,
    Largest,
    Normal,
    Problem,
    Statements,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.environments import PoissonArms
from roundwise.model.batch import Batch, stack_parts
from roundwise.model.problem import BatchPlan, advance, begin, final_answer
from roundwise.noise import Poisson
from roundwise.policies import Elimination
from roundwise.rules.eprocess.candidates import CandidateEProcess
from roundwise.rules.eprocess.rule import EProcessRule, eprocess_for
from roundwise.simulation.environments import ArmState, draw_batch

SIGMA_1 = SubGaussian(1.0)
EPS = 0.3


def within(k, eps=EPS, **more):
    if not isinstance(k, int):
        return k
    return BestArm(tolerance=eps, **more) if k == 1 else TopK(k, tolerance=eps, **more)


# ------------------------------------------------------------------------------------------------------- the proof


@given(st.lists(st.integers(-6, 6), min_size=2, max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_every_wrong_answer_has_a_pair_across_the_cut(means, data):
    """The lemma, by enumeration: the first arm missing and the last one chosen lie on either side of the top k."""
    arms, k = len(means), data.draw(st.integers(1, len(means) - 1))
    order = sorted(range(arms), key=lambda i: (-means[i], i))
    top = set(order[:k])
    for chosen in itertools.combinations(range(arms), k):
        if all(means[j] - means[i] <= 2 for i in chosen for j in range(arms) if j not in chosen):
            continue
        missing = next(j for j in order if j not in chosen)
        last = next(i for i in reversed(order) if i in chosen)
        assert means[missing] - means[last] > 2
        assert missing in top
        assert last not in top


FORMS = {
    "statements": Statements.against_control(4, 0, margin=0.1, tolerance=EPS),
    "levels": Statements([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0]], [0.2, -0.1], tolerance=EPS),
    "scores": Largest([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 2.0]], tolerance=EPS),
    "scores, lowest": Largest([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 1, 1]], tolerance=EPS, lower_is_better=True),
}


LOWER = [(BestArm(tolerance=EPS, lower_is_better=True), 5), (TopK(2, tolerance=EPS, lower_is_better=True), 5)]


@pytest.mark.parametrize(
    ("question", "arms"), [(1, 2), (1, 7), (3, 7), *LOWER, *((each, 4) for each in FORMS.values())]
)
def test_what_can_do_harm_starts_with_no_more_than_its_share(question, arms):
    """Of random means: at most so many comparisons are wrong across the cut, and every wrong answer has one of them."""
    problem, rng = Problem(within(question), arms, 0.05, SIGMA_1), np.random.default_rng(5)
    ledger = eprocess_for(problem)
    wealth, most = ledger.start(problem, ()), ledger.most_harmful(problem)
    assert np.ptp(wealth.comparisons.gains) == 0
    assert most * math.exp(wealth.comparisons.gains[0]) + math.exp(wealth.reserve) == pytest.approx(1.0)
    seen = 0
    for _ in range(200):
        means, other = rng.normal(0, 0.5, arms), problem.question.answer(rng.normal(0, 0.5, arms))
        harmful = ledger.harmful(problem, means)
        assert harmful.sum() <= most
        if not problem.question.correct(other, means):
            seen += 1
            assert harmful[ledger.places(problem, other)].any()
        pieces, all_of_them = problem.question.halfspaces(other, arms), ledger.comparisons(problem)
        dense = all_of_them.dense(arms)[ledger.places(problem, other)]
        np.testing.assert_array_equal(dense, pieces.dense(arms))
        np.testing.assert_array_equal(all_of_them.offsets[ledger.places(problem, other)], pieces.offsets)
    assert seen > 20


def log_wealth(batches, i, j, k, arms, eps, sigma):
    """log B_ij by the definition, for sub-Gaussian results."""
    largest = max(1, math.ceil(math.log2(1.6 * sigma / eps)))
    weights = [0.8, *(0.2 * 0.8 ** (m - 1) / sum(0.8**n for n in range(largest)) for m in range(1, largest + 1))]
    found = 0.0
    for m, weight in enumerate(weights):
        a, log = eps * 2**m, 0.0
        for counts, totals in batches:
            if not (counts[i] and counts[j]):
                continue
            v = sigma**2 * (1 / counts[i] + 1 / counts[j])
            log += a / v * (totals[i] / counts[i] - totals[j] / counts[j] + eps - a / 2)
        found += weight * math.exp(log)
    return math.log(0.3 / (k * (arms - k)) * found)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("k", "sigma"), [(1, 1.0), (2, 0.5)])
def test_the_wealth_of_pairs_and_when_it_stops(k, sigma, lower):
    """As a plain program: pairs, the sum with the candidate's wealth, and what is sticky."""
    arms, rng = 5, np.random.default_rng(8)
    problem = Problem(within(k, lower_is_better=lower), arms, 0.05, SubGaussian(sigma))
    for _ in range(6):
        trial, told, shown, reached = begin(problem, Wager(first_pulls=20)), [], set(), {}
        while not trial.done and len(told) < 12:
            batch, _ = draw_batch(
                problem, GaussianArms(np.zeros(arms), sigma), rng, ArmState(np.zeros(arms)), trial.plan
            )
            trial = advance(problem, Wager(first_pulls=20), trial, batch)
            told.append((batch.counts, batch.totals))
            wealth, bar = trial.kept.wealth, math.log(20)
            logs = {p: log_wealth(told, *p, k, arms, EPS, sigma) for p in itertools.permutations(range(arms), 2)}
            ours = wealth.comparisons.gains.reshape(arms, arms)
            for (i, j), log in logs.items():
                assert ours[i, j] == pytest.approx(log, abs=1e-6)
            shown |= {p for p, log in logs.items() if log >= bar}
            for answer, gains in zip(wealth.answers, wealth.gains, strict=True):
                if answer[0] < 0:
                    continue
                inside = [int(answer[0])] if k == 1 else np.flatnonzero(answer).tolist()
                pairs = problem.question.halfspaces(answer[0].astype(int) if k == 1 else answer > 0, arms).arms.tolist()
                own = reached.setdefault(tuple(inside), set())
                for pair, gain in zip(map(tuple, pairs), gains, strict=True):
                    if tuple(pair) in shown or np.logaddexp(gain, logs[tuple(pair)]) >= bar:
                        own.add(tuple(pair))
            assert trial.done == any(len(own) == k * (arms - k) for own in reached.values())
        if trial.done:
            answer = final_answer(problem, Wager(), trial)
            inside = [int(answer)] if k == 1 else np.flatnonzero(answer).tolist()
            assert len(reached[tuple(inside)]) == k * (arms - k)


@given(st.integers(2, 8), st.data())
@settings(max_examples=30, deadline=None)
def test_enough_pulls_of_all_arms_always_end_it(arms, data):
    """The corollary, whatever the results."""
    k = data.draw(st.integers(1, arms - 1))
    means = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=arms, max_size=arms)))
    problem = Problem(within(k), arms, 0.05, SIGMA_1)
    ledger = eprocess_for(problem)
    state = Wager().stopping.start(problem, ())
    enough = math.ceil(ledger.sufficient_pulls(problem))
    assert enough == math.ceil(4 * math.log(k * (arms - k) / (0.05 * 0.3 * 0.8)) / EPS**2)
    counts = np.full(arms, float(enough))
    after = Wager().stopping.fold(problem, state, BatchPlan(counts, np.asarray(True)), Batch(counts, counts * means))
    assert ledger.stops(problem, after.wealth)
    assert problem.question.correct(ledger.answer(problem, after), means)
    few = np.full(arms, float(enough) // 2)
    after = Wager().stopping.fold(problem, state, BatchPlan(few, np.asarray(True)), Batch(few, few * 0.0))
    assert not ledger.stops(problem, after.wealth)


def mean_of_bets(problem, counts, laws):
    """The exact means of all drifts' e-values against "arm 0 may be ahead of arm 1", over totals and their laws."""
    totals = np.array(list(itertools.product(*(np.arange(len(law), dtype=float) for law in laws))))
    chance = np.prod(np.array(list(itertools.product(*laws))), axis=-1)
    batch = Batch(np.broadcast_to(counts, totals.shape), totals)
    past = Wager().stopping.start(problem, (len(totals),)).known.past
    seen = np.broadcast_to(np.array([12.0, 20.0]), totals.shape)
    for before in (past, past.plus(Batch(seen, seen * [0.25, 0.6]))):
        yield (chance[:, None] * np.exp(eprocess_for(problem)._log_factors(problem, before, batch)[:, :, 1])).sum(
            axis=0
        )


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.35), (0.4, 0.7), (0.69, 0.99)])
def test_bets_on_rates_are_fair_at_the_border(low, high):
    counts = np.array([9.0, 14.0])
    laws = [stats.binom.pmf(np.arange(n + 1), int(n), p) for n, p in zip(counts, (low, high), strict=True)]
    for mean in mean_of_bets(Problem(within(1), 2, 0.05, Binary()), counts, laws):
        assert mean.max() <= 1 + 1e-9
        assert mean[0] > 0.5  # they are bets


def test_bets_on_counts_are_fair_at_the_border():
    counts = np.array([9.0, 14.0])
    laws = [stats.poisson.pmf(np.arange(90), n * rate) for n, rate in zip(counts, (1.0, 1.3), strict=True)]
    _, mean = mean_of_bets(Problem(within(1), 2, 0.05, Poisson()), counts, laws)
    assert mean.max() <= 1 + 1e-9
    assert mean[0] > 0.5


# ---------------------------------------------------------------------------------------------------- errors and size


BEHIND = EPS + 1e-6
HARD = {
    "two arms": (1, GaussianArms([0.0, -BEHIND]), SIGMA_1),
    "six, five behind": (1, GaussianArms([0.0] + [-BEHIND] * 5), SIGMA_1),
    "top-2 of 4": (2, GaussianArms([0.0, 0.0, -BEHIND, -BEHIND]), SIGMA_1),
    "unknown deviation": (1, GaussianArms([0.0] + [-BEHIND] * 4), Normal()),
    "rates": (1, BernoulliArms([0.5 + 1e-7, *[0.2] * 4]), Binary()),
    "counts": (1, PoissonArms([1.0 + 1e-7, *[0.7] * 4]), Poisson()),
    "statements": (FORMS["statements"], GaussianArms([0.0, 0.1 + BEHIND, 0.1 - BEHIND, 0.1 + BEHIND]), SIGMA_1),
    "scores": (Largest(np.eye(4), tolerance=EPS), GaussianArms([0.0, -BEHIND, -BEHIND, -BEHIND]), SIGMA_1),
}


def ever_wrong(k, world, noise, runs, batches=6, seed=3, delta=0.05):
    """How often a wrong pair or candidate ever reaches the bar, also past the end."""
    problem, policy = Problem(within(k), world.arms, delta, noise), Wager(first_pulls=10)
    rng = np.random.default_rng(seed)
    drawn, trial, ever = world.initial_state(rng, runs), begin(problem, policy, (runs,)), np.zeros(runs, dtype=bool)
    for _ in range(batches):
        batch, drawn = draw_batch(problem, world, rng, drawn, trial.plan)
        trial = advance(problem, policy, trial, batch)
        ever |= policy.stopping.false_rejection(problem, trial, np.asarray(world.means))
    return int(ever.sum())


@pytest.mark.parametrize("case", HARD)
def test_errors_where_they_are_likeliest(case):
    runs = 500
    times = ever_wrong(*HARD[case], runs)
    assert stats.binom.sf(times - 1, runs, 0.05) > 1e-6  # false alarm
    assert times < 0.05 * runs


def test_a_sigma_that_is_too_small_is_caught():
    runs = 500
    assert stats.binom.sf(ever_wrong(1, GaussianArms([0.0, -BEHIND]), SubGaussian(0.4), runs) - 1, runs, 0.05) < 1e-6


@pytest.mark.parametrize(("k", "arms"), [(1, 8), (3, 15), pytest.param(1, 40, marks=pytest.mark.long)])
def test_ties_cost_no_more_than_elimination(k, arms):
    """On arms and a tolerance that no constant was chosen on."""
    runs, eps = 40, 0.25
    for means in (np.zeros(arms), lambda rng, n: rng.normal(0, 0.05, (n, arms)), np.linspace(1, 0, arms)):
        rivals = [Elimination(first, growth) for first, growth in ((500, 4), (200, 2), (100, 2), (30, 2))]
        found = simulate(within(k, eps), GaussianArms(means), [Wager(), *rivals], runs=runs, noise=SIGMA_1, seed=11)
        ours, *others = (each.samples.mean() for each in found)
        assert found[0].decided.all()
        assert found[0].correct.all()
        assert ours < 1.3 * min(others)


@dataclass(frozen=True)
class Candidates(EProcessRule):
    """The betting rule without pairs."""

    def eprocess(self, problem):
        return CandidateEProcess(shifts=True)


@pytest.mark.long
@pytest.mark.parametrize(("arms", "tolerance", "lead"), [(25, 0.24, 0.5), (60, 0.1, 0.3), (90, 0.4, 0.7)])
def test_one_arm_ahead_of_many_costs_no_more_than_without_pairs(arms, tolerance, lead):
    """A tie is not taken for certain while one arm may yet turn out to lead."""
    world, alone = GaussianArms([lead] + [0.0] * (arms - 1)), Wager(stopping=Candidates())
    found = simulate(BestArm(tolerance), world, [Wager(), alone], runs=60, noise=SubGaussian(1.0), seed=9)
    ours, without = (each.samples.mean() for each in found)
    assert ours < 1.25 * without


def test_units_do_not_matter():
    """Results, tolerance and deviation in other units: the same decisions, of known and unknown deviation."""
    for noise, large in ((SubGaussian(1.0), SubGaussian(128.0)), (Normal(), Normal())):
        (one,) = simulate(within(2), GaussianArms(np.zeros(6)), [Wager()], runs=20, noise=noise, seed=2)
        world = GaussianArms(np.zeros(6), 128.0)
        (other,) = simulate(within(2, 128 * EPS), world, [Wager()], runs=20, noise=large, seed=2)
        assert one.samples.tolist() == other.samples.tolist()


def test_a_price_asks_for_no_more_than_is_enough():
    problem = Problem(within(1), 20, 0.05, SIGMA_1)
    assert Wager(batch_price=1e6).first(problem, ()).pulls.tolist() == [329.0] * 20
    assert Wager(batch_price=4000).first(problem, ()).pulls.tolist() == [200.0] * 20
    (runs,) = simulate(within(1), GaussianArms(np.zeros(20)), [Wager(batch_price=1e6)], runs=20, noise=SIGMA_1)
    assert (runs.batches == 1).all()


def test_more_arms_than_pairs_are_kept_for():
    problem = Problem(within(1), 201, 0.05, SIGMA_1)
    assert eprocess_for(problem).start(problem, ()).comparisons is None


def test_batches_without_an_arm_are_not_bet_on_for_its_pairs():
    problem = Problem(within(1), 3, 0.05, SIGMA_1)
    state = Wager().stopping.start(problem, ())
    counts = np.array([40.0, 40.0, 0.0])
    parts = stack_parts((Batch(counts, counts * [0.2, 0.0, 0.0]),))
    pairs = eprocess_for(problem).update(problem, state, parts, True).comparisons.drifts[0].reshape(3, 3)
    assert (pairs[2] == 0).all()
    assert (pairs[:, 2] == 0).all()
    assert pairs[0, 1] > 0


def test_a_pair_that_is_not_shown_needs_more():
    """Also where its wealth and what a new candidate would get would do together: that is not bet yet."""
    problem = Problem(within(1), 4, 0.05, SIGMA_1)
    state = Wager().stopping.start(problem, ())
    nearly = np.full(16, math.log(19.9))
    wealth = state.wealth._replace(comparisons=state.wealth.comparisons._replace(gains=nearly))
    gains, lost = eprocess_for(problem).of_candidate(problem, wealth, state.alternative)
    assert not lost.any()
    assert (gains < problem.goal).all()


@pytest.mark.parametrize("question", FORMS.values(), ids=FORMS)
def test_enough_pulls_always_end_statements_and_scores(question):
    problem, rng = Problem(question, 4, 0.05, SIGMA_1), np.random.default_rng(6)
    ledger, state = eprocess_for(problem), Wager().stopping.start(problem, ())
    counts = np.full(4, float(math.ceil(ledger.sufficient_pulls(problem))))
    for _ in range(30):
        means = rng.normal(0, 0.5, 4)
        batch = Batch(counts, counts * means)
        after = Wager().stopping.fold(problem, state, BatchPlan(counts, np.asarray(True)), batch)
        assert ledger.stops(problem, after.wealth)
        assert problem.question.correct(ledger.answer(problem, after), means)


def test_many_statements_on_their_levels_end():
    """Candidates alone: over a million samples in 27 batches."""
    question = Statements.against_control(15, 0, tolerance=EPS)
    (runs,) = simulate(question, GaussianArms(np.zeros(15)), [Wager()], runs=20, noise=SIGMA_1, seed=1)
    assert runs.correct.all()
    assert runs.samples.mean() < 6000
    scores, arms = (
        simulate(each, GaussianArms(np.zeros(6)), [Wager()], runs=20, noise=SIGMA_1, seed=1)[0].samples.tolist()
        for each in (Largest(np.eye(6), tolerance=EPS), BestArm(tolerance=EPS))
    )
    assert scores == arms


def test_what_was_shown_once_stays_shown():
    problem, rule = Problem(within(1), 3, 0.05, SIGMA_1), Wager().stopping
    state = rule.start(problem, ())
    for counts, means in (([500.0, 500, 0], [0.0, 0, 0]), ([500.0, 500, 20], [0.0, 0.35, 0])):
        batch = Batch(np.array(counts), np.array(counts) * means)
        state = rule.fold(problem, state, BatchPlan(batch.counts, np.asarray(True)), batch)
    _, gains, shown = state.wealth.comparisons
    assert gains[1] < problem.goal  # arm 0 is not behind arm 1: shown by the first batch, in doubt after the second
    assert shown[1]
    ledger = eprocess_for(problem)
    first = state.alternative._replace(number=np.asarray(len(state.wealth.answers)), answer=np.zeros(1))
    assert ledger.of_candidate(problem, state.wealth, first)[1].tolist() == [True, False]
    visited = state.wealth._replace(
        answers=np.zeros((1, 1)), gains=np.full((1, 2), -np.inf), rejected=np.zeros((1, 2), dtype=bool)
    )
    nothing = stack_parts((Batch(np.zeros(3), np.zeros(3)),))
    assert ledger.update(problem, state._replace(wealth=visited), nothing, True).rejected[0].tolist() == [True, False]
