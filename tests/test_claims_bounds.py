"""Bounds of claims agree with what is shown, and hold; what may change, and what it does to the purses."""

import math

import numpy as np
import pytest

from products import diagonals, thinned
from roundwise import (
    Binary,
    Claims,
    ConditionalPower,
    Gaussian,
    InputError,
    Normal,
    Problem,
    Rounds,
    SubGaussian,
)
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.noise.budget_bets import hypergeometric_budget_bet
from roundwise.policies.base import BatchPlan
from roundwise.rules.eprocess.claims import ClosedTestingRule, with_claims

RULE = ClosedTestingRule()


def played(problem, means, seed, policy=None, batches=99):
    """One study to its end, or so many batches of it."""
    rng = np.random.default_rng(seed)
    policy = policy or Rounds(ConditionalPower(), budget=300, round_size=50)
    trial = begin(problem, policy)
    while not trial.done and trial.plan.pulls.any() and trial.record.batches < batches:
        pulls = trial.plan.pulls
        if isinstance(problem.noise, Binary):
            batch = Batch(pulls, rng.binomial(pulls.astype(int), means).astype(float))
        else:
            totals = pulls * means + np.sqrt(pulls) * rng.standard_normal(len(means))
            freedom = np.maximum(pulls - 1, 0)
            batch = Batch(pulls, totals, np.where(freedom > 0, rng.chisquare(np.maximum(freedom, 1)), 0.0))
        trial = advance(problem, policy, trial, batch)
    return trial


MODELS = [Gaussian(1.0), Normal(), SubGaussian(1.0), Binary()]


@pytest.mark.long
@pytest.mark.parametrize(("noise", "more"), diagonals(MODELS, [{}, {"futility": 0.4}, {"sides": "two"}], 2))
def test_a_bound_passes_the_margin_just_where_the_claim_is_shown(noise, more):
    means = np.array([0.3, 0.35, 0.6, 0.9])
    problem = Problem(Claims.against_control(4, 0, 0.1, **more), 4, 0.05, noise)
    seen = set()
    for seed in range(6):
        trial = played(problem, means, seed)
        for claim in RULE.claims(problem, trial, "pabc")[:3]:
            seen.add(claim.shown)
            if claim.lower is not None:
                assert (claim.lower >= 0.1) == claim.shown or (claim.lower == 0.1 and not claim.shown)
            assert claim.shown == (claim.shown_at is not None)
            if claim.upper is not None and claim.lower is not None and not more:
                assert claim.lower <= claim.upper
    assert seen == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("noise", thinned(((each,) for each in MODELS), 2))
def test_bounds_hold(noise):
    """All lower bounds of a study, and all upper ones: each family wrong with probability at most 2 delta, here 0.4."""
    means, delta, runs = np.array([0.3, 0.3, 0.5, 0.8]), 0.2, 30
    problem = Problem(Claims.against_control(4, 0), 4, delta, noise)
    below = above = 0
    for seed in range(runs):
        found = RULE.claims(problem, played(problem, means, seed), "pabc")
        sizes = list(zip(found, means[1:] - means[0], strict=True))
        below += any(each.lower is not None and each.lower > true + 1e-9 for each, true in sizes)
        above += any(each.upper is not None and each.upper < true - 1e-9 for each, true in sizes)
    assert max(below, above) / runs <= 2 * delta
    assert any(each.lower is not None and each.lower > -0.5 for each in found)  # they say something


@pytest.mark.long
def test_bounds_of_odds_agree_and_hold():
    problem = Problem(Claims.against_control(3, 0, 1.5, scale="odds-ratio"), 3, 0.1, Binary())
    rates = np.array([0.2, 1 / 3, 0.6])  # odds ratios 2 and 6
    wrong, seen = 0, set()
    for seed in range(12):
        found = RULE.claims(problem, played(problem, rates, seed), "pab")
        for claim, truth in zip(found, (math.log(2.0), math.log(6.0)), strict=True):
            seen.add(claim.shown)
            assert claim.lower is None or (claim.lower >= math.log(1.5)) == claim.shown or not claim.shown
            wrong += claim.lower is not None and claim.lower > truth
    assert wrong <= 4
    assert True in seen


def plain_odds_bounds(totals, n, budget, delta, level):
    """Proposition 17(e) for claims of equal weight against a control, from rule (R) as it is written down."""
    values = level - 4.0 + np.arange(257) / 64
    claims, goal = totals.shape[1] - 1, 1 / delta
    wealth, best = np.ones((claims, 257)), np.full(claims, -np.inf)
    bar = math.log(claims * goal)
    for r, won in enumerate(totals):
        for j in range(claims):
            need = np.maximum(bar - np.log(wealth[j]), 0.0)
            wealth[j] *= np.exp(hypergeometric_budget_bet(won[j + 1], n, won[0], n, values, need, 1 / (budget - r)))
        for j in range(claims):
            lacking = sum(max(goal - wealth[i].min(), 0.0) for i in range(claims) if i != j)
            out = wealth[j] - goal >= lacking - 1e-9
            best[j] = max(best[j], values[out.argmin() - 1] if out[0] and not out.all() else -np.inf)
    return best


@pytest.mark.parametrize(("seed", "n", "arms"), [(116, 8, 2), (24, 5, 2), (248, 8, 2), (3, 8, 3), (6, 20, 4)])
def test_bounds_of_odds_rule_out_every_smaller_ratio(seed, n, arms):
    """What is won may rise with the ratio, by 0.2 and more: no bound may lie beyond one that is not ruled out."""
    budget, delta, level = 12, 0.2, math.log(1.2)
    problem = Problem(Claims.against_control(arms, 0, 1.2, scale="odds-ratio"), arms, delta, Binary())
    rates = np.array([0.4] + [0.5] * (arms - 1))
    rng, kept, totals = np.random.default_rng(seed), RULE.start(problem, ()), []
    for r in range(10):
        totals.append(rng.binomial(n, rates).astype(float))
        left = np.asarray(float(arms * n * (budget - r - 1)))
        plan = BatchPlan(np.full(arms, float(n)), np.asarray(True), left=left, last=np.asarray(False))
        kept = RULE.fold(problem, kept, plan, Batch(np.full(arms, float(n)), totals[-1]))
    assert not kept.shown.any()
    found = RULE.claims(problem, begin(problem, ConditionalPower())._replace(kept=kept), "pabc")
    expected = plain_odds_bounds(np.array(totals), n, budget, delta, level)
    assert [each.lower for each in found] == pytest.approx([v if math.isfinite(v) else None for v in expected])


def test_what_a_claim_says_of_itself():
    names = ["placebo", "75mg", "300mg"]
    problem = Problem(Claims.against_control(names, "placebo"), 3, 0.025, Binary())
    policy = Rounds(ConditionalPower(), budget=300, round_size=60)
    trial = begin(problem, policy)
    counts = np.full(3, 20.0)
    trial = advance(problem, policy, trial, Batch(counts, np.array([6.0, 0.0, 13.0])))
    low, high = RULE.claims(problem, trial, names)
    assert (low.words, low.label, low.shown, low.shown_at) == ("75mg beats placebo", "75mg", False, None)
    assert low.given_up
    assert low.estimate == pytest.approx(-0.3)
    assert high.estimate == pytest.approx(0.35)
    assert 0.7 < high.chance < 1
    assert high.bar == pytest.approx(math.log(2 / 0.025), abs=0.05)
    trial = advance(problem, policy, trial, Batch(counts * [2, 0, 2], np.array([4.0, 0.0, 38.0])))
    low, high = RULE.claims(problem, trial, names)
    assert (high.shown, high.shown_at, high.samples) == (True, 2, 140)
    assert high.lower >= 0
    assert high.evidence >= high.bar


class TestChanges:
    problem = Problem(Claims.against_control(3, 0), 3, 0.05, Gaussian(1.0))
    wider = Problem(Claims.against_control(4, 0), 4, 0.05, Gaussian(1.0))

    def test_a_claim_that_is_added_because_of_the_data_starts_with_the_smallest_purse(self):
        kept = played(self.problem, np.array([0.0, 0.0, 0.3]), 1, batches=3).kept
        more = with_claims(RULE, self.problem, kept, self.wider)
        assert more.gains[:2].tolist() == kept.gains.tolist()
        assert more.gains[2] == min(0.0, kept.gains[~kept.shown].min())
        assert more.past.counts.tolist() == [*kept.past.counts.tolist(), 0.0]
        assert more.rounds == 3

    def test_the_mean_over_true_nulls_does_not_rise(self):
        """Whatever the purses were, and whichever of the claims are false."""
        rng = np.random.default_rng(2)
        kept = RULE.start(self.problem, ())
        for _ in range(200):
            now = kept._replace(gains=rng.normal(0, 2, 2), shown=rng.random(2) < 0.2)
            more = with_claims(RULE, self.problem, now, self.wider)
            for false in ([0], [1], [0, 1]):
                if not now.shown[false].any():
                    before = np.exp(now.gains[false]).mean()
                    assert np.exp(more.gains[[*false, 2]]).mean() <= before + 1e-12

    @pytest.mark.long
    def test_claims_that_are_added_on_and_on_because_of_the_data_keep_the_error(self):
        """After every batch another claim, of a null: wrong in at most delta of the studies."""
        wrong, runs = 0, 300
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            problem = Problem(Claims.against_control(2, 0), 2, 0.1, Gaussian(1.0))
            kept = RULE.start(problem, ())
            policy = Rounds(ConditionalPower(), budget=400)
            for arms in range(3, 8):
                plan = policy.first(problem, ())._replace(left=np.array(300.0), last=np.array(False))
                pulls = np.full(arms - 1, 20.0)
                batch = Batch(pulls, np.sqrt(20.0) * rng.standard_normal(arms - 1))
                kept = RULE.fold(problem, kept, plan, batch)
                after = Problem(Claims.against_control(arms, 0), arms, 0.1, Gaussian(1.0))
                kept, problem = with_claims(RULE, problem, kept, after), after
            last = policy.first(problem, ())._replace(left=np.array(0.0), last=np.array(True))
            pulls = np.full(7, 20.0)
            kept = RULE.fold(problem, kept, last, Batch(pulls, np.sqrt(20.0) * rng.standard_normal(7)))
            wrong += bool(kept.shown.any())
        assert wrong <= 0.1 * runs + 3 * math.sqrt(0.09 * runs)

    def test_what_is_no_change_is_refused(self):
        kept = RULE.start(self.problem, ())
        turned = Problem(Claims.against_control(4, 1), 4, 0.05, Gaussian(1.0))
        with pytest.raises(InputError, match="keep their order"):
            with_claims(RULE, self.problem, kept, turned)
        heavier = Problem(Claims.against_control(4, 0, weights=[2.0, 1.0, 1.0]), 4, 0.05, Gaussian(1.0))
        with pytest.raises(InputError, match="weights"):
            with_claims(RULE, self.problem, kept, heavier)
        for other in (Claims.against_control(4, 0, -0.2), Claims.against_control(4, 0, sides="two")):
            with pytest.raises(InputError, match="order and their levels"):
                with_claims(RULE, self.problem, kept, Problem(other, 4, 0.05, Gaussian(1.0)))
        levels = [Problem(Claims.above(2, 0.0, independent=each), 2, 0.05, Gaussian(1.0)) for each in (False, True)]
        with pytest.raises(InputError, match="order and their levels"):  # the product after looking at the mean
            with_claims(RULE, levels[0], RULE.start(levels[0], ()), levels[1])

    @pytest.mark.long
    def test_a_budget_that_is_extended_before_the_last_batch_keeps_the_error(self):
        """The budget doubles whenever it looks promising at half time; 20 % of the studies may be wrong."""
        problem, wrong, runs = Problem(Claims.against_control(3, 0), 3, 0.2, Gaussian(1.0)), 0, 300
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            policy = Rounds(ConditionalPower(), budget=200, round_size=50)
            trial = begin(problem, policy)
            while not trial.done:
                pulls = trial.plan.pulls
                if trial.record.batches == 2 and trial.kept.chances.max() > 0.3:
                    policy = Rounds(ConditionalPower(), budget=400, round_size=50)
                trial = advance(problem, policy, trial, Batch(pulls, np.sqrt(pulls) * rng.standard_normal(3)))
            wrong += bool(trial.kept.shown.any())
        assert wrong <= 0.2 * runs + 3 * math.sqrt(0.16 * runs)
