"""The examples and counterexamples of docs/why-the-guarantee-holds.md, computed by the code.

Nothing here is a test of hypotheses but what is said to be one: the rest is enumeration, quadrature or algebra.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from roundwise import Above, BestArm, Largest, MinimumBelow, Statements, TopK, Wager
from roundwise.ingest import batch_of, read_results
from roundwise.model import batch as batches
from roundwise.model import estimates as past
from roundwise.model.batch import Batch, ValueTable, split_counts
from roundwise.model.problem import Problem, advance, begin, final_answer
from roundwise.noise import (
    Binary,
    Bounded,
    Normal,
    Poisson,
    SubGaussian,
)
from roundwise.rules.eprocess.closed_testing import reject_closed
from roundwise.rules.eprocess.rule import eprocess_for
from roundwise.solvers.halfspaces import pairs

# ---------------------------------------------------------------------------------------------------------- every bet


# ------------------------------------------------------------------------------------------------------- the questions


def test_means_that_move_must_all_lie_in_one_cell() -> None:
    problem, policy = Problem(MinimumBelow(0.0), 2, 0.05, SubGaussian(1.0)), Wager()
    trial, rng = begin(problem, policy), np.random.default_rng(1)
    for r in range(3):
        means = np.array([-0.1, 10.0]) if r % 2 == 0 else np.array([10.0, -0.1])
        pulls = trial.plan.pulls
        trial = advance(problem, policy, trial, Batch(pulls, rng.normal(pulls * means, np.sqrt(pulls))))
    assert trial.kept.wealth.arms_rejected.all()
    assert trial.done
    assert not final_answer(problem, policy, trial)


def test_the_product_of_maxima_is_no_purse() -> None:
    assert stats.binom.sf(3, 10, 0.5) == pytest.approx(0.83, abs=0.005)


def test_positive_correlation_is_not_enough_for_pairs_of_sub_gaussian_rewards() -> None:
    s = np.linspace(0.01, 12, 4000)

    def proxy(chance: float, step: float) -> float:  # of a value that is +-step with this chance, else 0
        return float((2 * np.log1p(chance * (np.cosh(step * s) - 1)) / s**2).max())

    both, same = 0.05, 0.8
    assert (both * same - both * (1 - same)) / both == pytest.approx(0.6)
    assert proxy(both * (1 - same), 2.0) / (2 * proxy(both, 1.0)) == pytest.approx(1.38, abs=0.005)


# ----------------------------------------------------------------------------------------------------- the first batch


def test_a_permutation_for_each_file_of_a_sorted_list_makes_the_parts_repeat_each_other() -> None:
    rng = np.random.default_rng(1)
    for k, files, ones in itertools.product((1, 2, 5), (10, 40), (0.2, 0.5)):
        rows = np.zeros(4 * k * files)
        rows[rng.binomial(len(rows), 1 - ones) :] = 1.0
        parts = np.stack([rng.permutation(file).reshape(4, k).sum(axis=1) for file in rows.reshape(files, 4 * k)])
        assert np.ptp(parts.sum(axis=0)) <= k


@pytest.mark.long
def test_rows_of_several_files_are_dealt_as_those_of_one(monkeypatch) -> None:
    """The first part of a sorted list in 40 files has as many ones as chance has it. (Seeds are fixed.)"""
    monkeypatch.setattr(batches, "PARTITIONS", batches.FEWEST)
    files, size, ones = 40, 20, 400
    rows, found = np.repeat([0.0, 1.0], ones).reshape(files, size), []
    for seed in range(150):
        read = [
            read_results(
                {"arm": ["a"] * size, "outcome": each}, ["a", "b"], SubGaussian(1.0), parts=4, seed=seed, file=i
            )
            for i, each in enumerate(rows, 1)
        ]
        found.append(batch_of(read).parts.totals[0, 0, 0])
    first = split_counts(np.array([2.0 * ones]), 4)[0, 0, 0]
    variance = stats.hypergeom(2 * ones, ones, int(first)).var()
    assert np.mean(found) == pytest.approx(first / 2, abs=4 * math.sqrt(variance / 150))
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 149) / 149
    assert low < np.var(found, ddof=1) / variance < high


# ------------------------------------------------------------------------------------------------------- when it ends


QUESTIONS = {
    "best": BestArm(),
    "tolerance": BestArm(0.1),
    "top": TopK(2),
    "above": Above(0.45),
    "minimum": MinimumBelow(0.45),
    "levels": Statements([[1, 0, 0, 0], [0, 1, -1, 0]], [0.45, 0.0]),
    "largest": Largest([[1, 1, 0, 0], [0, 0, 1, 1]]),
}
POLICIES = {
    "plain": (Wager(), 0.1, 6.0),
    "slow": (Wager(growth=0.05, first_pulls=3), 0.05, 0.05),
    "priced": (Wager(batch_price=500.0), 0.1, 6.0),
    "least": (Wager(min_per_arm=7, growth=1.0), 0.1, 1.0),
}


@pytest.mark.parametrize("setting", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_plans_are_as_large_and_as_spread_as_theorem_9_needs(
    question: BestArm, setting: tuple[Wager, float, float]
) -> None:
    policy, smallest, growth = setting
    problem, rng = Problem(question, 4, 0.01, Binary()), np.random.default_rng(3)
    least = math.ceil(policy.min_per_arm)
    trial = begin(problem, policy)
    for r in range(12):
        pulls, before, trial_before = trial.plan.pulls, float(trial.record.samples), trial
        if r:
            kept = trial_before.kept
            unfinished = eprocess_for(problem).required_pulls(problem, kept).unfinished
            assert (smallest - 1e-6) * before <= pulls.sum() <= (2.1 * growth + 2.1 + least) * before  # (W1)
            assert unfinished.any()
            assert (pulls[unfinished] >= 0.3 * smallest * before / 4 - 1e-6).all()  # (W2)
        rates = np.array([0.52, 0.5, 0.47, 0.43])
        trial = advance(problem, policy, trial, Batch(pulls, rng.binomial(pulls.astype(int), rates).astype(float)))
        record = trial.record
        if record.samples >= 4 * (4 + least) / 0.05:
            assert (record.counts >= 0.05 / (4 + least) * record.samples / 4).all()  # (W3)
        if trial.done:
            break


@pytest.mark.parametrize("question", [Above(0.0), Statements([[1, 0, 0, 0], [0, 1, -1, 0]], [0.0, 0.0])])
def test_with_a_limit_of_five_an_arm_every_unfinished_arm_is_in_every_batch(question: Above) -> None:
    problem, policy, rng = Problem(question, 4, 0.01, SubGaussian(1.0)), Wager(max_batch=20), np.random.default_rng(1)
    means, trial, checked = np.array([0.02, -0.5, -1.0, 3.0]), begin(problem, policy), 0
    for _ in range(150):
        pulls, kept = trial.plan.pulls, trial.kept
        if trial.record.samples >= 30 * 4:
            wanted = eprocess_for(problem).required_pulls(problem, kept)
            assert pulls.sum() == 20
            assert (pulls[wanted.unfinished] >= 1).all()
            checked += 1
        trial = advance(problem, policy, trial, Batch(pulls, rng.normal(pulls * means, np.sqrt(pulls))))
        assert (trial.record.counts >= 0.05 / 4 * trial.record.samples / 4 - 1e-6).all()
    assert checked > 100


@pytest.mark.long
def test_with_a_smaller_limit_the_arms_of_a_pair_may_miss_each_other_for_long() -> None:
    question = Statements([[1, -1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [0.0, 0.0, 0.0])
    problem, policy, rng = Problem(question, 4, 0.05, SubGaussian(1.0)), Wager(max_batch=4), np.random.default_rng(1)
    means, trial, apart, longest = np.array([0.3, 0.0, 0.01, 0.02]), begin(problem, policy), 0, 0
    for _ in range(1200):
        pulls = trial.plan.pulls
        apart = 0 if (pulls[:2] > 0).all() else apart + 1
        longest = max(longest, apart)
        trial = advance(problem, policy, trial, Batch(pulls, rng.normal(pulls * means, np.sqrt(pulls))))
    assert longest > 1000


@pytest.mark.parametrize("batches", [3, 12, 40])
def test_estimates_with_shifts_are_as_near_as_the_proof_says(batches: int) -> None:
    rng, arms = np.random.default_rng(batches), 5
    mu = rng.normal(size=arms)
    f = np.array([1.0, -1.0])
    for _ in range(20):
        seen, square = past.Past.none((arms,)), 0.0
        counts = np.floor(rng.exponential(20.0, (batches, arms)) * 1.1 ** np.arange(batches)[:, None])
        counts[0] = 5.0
        for n in counts:
            xi = rng.normal(size=arms) / np.sqrt(np.maximum(n, 1.0))
            square += float((n * xi**2).sum())
            seen = seen.plus(Batch(n, n * (mu + xi)))
        known = past.estimate_from(seen, np.asarray(1.0), True)
        for a, i in itertools.combinations(range(arms), 2):
            together = np.minimum(counts[:, a], counts[:, i]).max()
            forecast = known.forecast(pairs(np.array([a]), np.array([i])))
            error = abs(float(forecast.value[0]) - (mu[a] - mu[i]))
            assert error <= 2 * np.linalg.norm(f) * math.sqrt(square / together)
            assert 2 / counts.sum() <= forecast.leverage[0] * (1 + 1e-9)
            assert forecast.leverage[0] <= 2 / together * (1 + 1e-6)


@pytest.mark.parametrize(
    ("question", "noise", "mean"),
    [
        (Above(0.0), Binary(), 0.5),
        (Above(1.0), Bounded(0.0, 1.0), 0.5),
        (Above(0.0), Poisson(), 2.0),
        (BestArm(), Normal(), 1.0),
    ],
    ids=["binary", "bounded", "poisson", "no squares"],
)
def test_what_ends_at_the_end_of_the_range_and_what_never_does(question: Above, noise: Binary, mean: float) -> None:
    problem, policy = Problem(question, 2, 0.05, noise), Wager()
    trial = begin(problem, policy)
    for _ in range(8):
        pulls = trial.plan.pulls
        ones = np.floor(pulls * mean * np.array([1.0, 0.5]))
        table = ValueTable(np.array([0.0, 1.0]), np.stack([pulls - ones, ones], axis=-1))
        trial = advance(problem, policy, trial, Batch(pulls, ones, None, table if isinstance(noise, Bounded) else None))
    won = trial.kept.wealth
    assert trial.done == (not isinstance(noise, Normal))
    assert trial.done or all((each == 0).all() for each in won[:-1])


# ------------------------------------------------------------------------------------------------- a study that changes


def test_rules_that_change_between_batches_are_fair_and_chosen_after_one_are_not() -> None:
    """Proposition 21 by quadrature: two versions bet exp(qz - q^2/2) with their own q on z of law N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    versions = [np.exp(q * nodes - q * q / 2) for q in (0.7, 2.5)]
    for each in versions:
        assert weights @ each == pytest.approx(1.0, abs=1e-9)
    chosen = np.where(versions[0] > 1.0, 1, 0)  # the version of batch 2, by what batch 1 brought
    second = np.array([weights @ versions[v] for v in chosen])
    assert weights @ (versions[0] * second) == pytest.approx(1.0, abs=1e-9)
    assert weights @ np.maximum(*versions) > 1.2  # batch 1 counted anew by the version that won more on it


def _needed(others: list[float], delta: float) -> float:
    """What a claim must have to be shown by (R) beside purses of others: at this it is, and just below it is not."""
    need = sum(1.0 / delta - each for each in others) + 1.0 / delta
    for money, shown in ((need, True), (need * (1 - 1e-6), False)):
        purses = np.array([[*others, money]])
        assert reject_closed(purses * delta, np.zeros(purses.shape, dtype=bool), np.ones(purses.size))[0, -1] == shown
    return need


@pytest.mark.parametrize(("claims", "error"), [(2, "0.074"), (6, "0.117")])
def test_claims_that_join_with_a_purse_of_one_would_break_the_promise(claims: int, error: str) -> None:
    """After Proposition 18: all are false, and each bets all it has on just what shows it, one after the other."""
    right = math.prod(1.0 - 1.0 / _needed([0.0] * k, 0.05) for k in range(claims))
    assert f"{1.0 - right:.3f}" == error


def test_a_claim_that_is_taken_out_of_the_sum_would_break_the_promise() -> None:
    """After Proposition 18: of two the first bets all it has, is taken out if it loses, and then the other does."""
    wrong = 1.0 - (1.0 - 1.0 / _needed([1.0], 0.05)) * (1.0 - 1.0 / _needed([], 0.05))
    assert f"{wrong:.3f}" == "0.074"
