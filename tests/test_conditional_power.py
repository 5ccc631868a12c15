"""How many claims to feed: the numbers that are looked at in all digits are enough, whatever is left out."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from roundwise.questions.claims import Claims
from roundwise.rules.eprocess import conditional_power

CLAIMS = {
    "control": Claims.against_control(14, 0),
    "two sides": Claims.against_control(11, 3, sides="two"),
    "ratios": Claims.against_control(12, 0, 0.8, scale="ratio"),
    "odds": Claims.against_control(12, 0, 1.2, scale="odds-ratio"),
}


def situation(question, runs, seed):
    """Random purses and estimates, some of them unknown, some claims shown, and in some runs nothing left."""
    rng = np.random.default_rng(seed)
    lines, number = len(question.lines.forms), question.number
    settled = rng.random((*runs, number)) < 0.2
    unshown = np.tile(~settled, lines // number)
    need = rng.uniform(-1.0, 12.0, (*runs, lines))
    need[rng.random(need.shape) < 0.05] = np.inf
    value = rng.normal(0.2, 0.4, (*runs, lines))
    error = rng.uniform(0.05, 0.5, (*runs, lines))
    error[rng.random(error.shape) < 0.05] = np.inf
    arms = question.forms.shape[1]
    spread = rng.uniform(0.5, 2.0, (*runs, arms)) if question.odds else np.ones((*runs, arms))
    left = np.where(rng.random(runs) < 0.2, 0.0, rng.uniform(10.0, 5000.0, runs))
    return question.forms, question.bets(()), unshown, need, value, error, spread, left


def by_hand(forms, pieces, unshown, need, value, error, spread, left):
    """One run, claim by claim, with lists and loops."""
    number = len(forms)
    sides = len(unshown) // number
    squares = (forms / np.abs(forms).max(axis=1, keepdims=True)) ** 2
    open_ = [j for j in range(number) if unshown[j]]

    def chance(j, pulls):
        found = 0.0
        for line in range(j, sides * number, number):
            if not (math.isfinite(error[line]) and math.isfinite(value[line])):
                found = max(found, 0.5)
                continue
            arms = np.flatnonzero(forms[j])
            noise = sum(forms[j, i] ** 2 * spread[i] / pulls[i] if pulls[i] else math.inf for i in arms)
            score = -ndtri(math.exp(-max(need[line], 0.0)))
            away = (value[line] / math.sqrt(noise) - score) / math.sqrt(1 + error[line] ** 2 / noise)
            found = max(found, ndtr(away))
        return found

    def chances_of(fed):
        share = np.sqrt(squares[fed].sum(axis=0)) if fed else np.zeros(forms.shape[1])
        pulls = left * share / max(share.sum(), 1e-300)
        return {j: chance(j, pulls) for j in fed}

    everything = chances_of(open_)
    ranked = sorted(open_, key=lambda j: -everything[j])
    sums = [sum(chances_of(ranked[: k + 1]).values()) for k in range(len(ranked))]
    return sums, ranked


@pytest.mark.parametrize("name", CLAIMS)
def test_the_sum_is_the_largest_of_all_numbers(name):
    given = situation(CLAIMS[name], (12,), 5)
    found = conditional_power.forecast_power(*given)
    forms, pieces, *rest = given
    for run in range(12):
        sums, ranked = by_hand(forms, pieces, *(each[run] for each in rest))
        best = max(sums, default=0.0)
        assert found.expected[run] == pytest.approx(best, abs=1e-12)
        assert found.targeted[run].sum() <= len(ranked)
        if rest[-1][run] > 0 and sums:
            assert found.targeted[run].sum() == np.argmax(sums) + 1
            assert set(np.flatnonzero(found.targeted[run])) == set(ranked[: np.argmax(sums) + 1])


def test_one_run_is_as_it_is_among_others():
    question = CLAIMS["control"]
    given = situation(question, (20,), 9)
    together = conditional_power.forecast_power(*given)
    for run in range(20):
        forms, pieces, *rest = given
        alone = conditional_power.forecast_power(forms, pieces, *(each[run] for each in rest))
        for ours, one in zip(together, alone, strict=True):
            np.testing.assert_array_equal(ours[run], one)
