"""Several metrics of the same rows in one closed test (docs/why-the-guarantee-holds.md, Proposition 32)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, norm

from roundwise import Binary, Claims, ConditionalPower, Gaussian, InputError, Normal, Problem, begin
from roundwise.arrays import Floats
from roundwise.model.batch import Batch
from roundwise.model.problem import Trial, advance
from roundwise.noise import Noise
from roundwise.policies import Rounds
from roundwise.rules.eprocess.claim_bounds import adjusted_of, claims_elsewhere, join_claims, states_of
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.rules.eprocess.closed_testing import reject_closed

ARMS, DELTA = 3, 0.05


def build(noises: list[Noise], levels: list[float], sides: str = "one", delta: float = DELTA) -> Problem:
    """Arms 1 and 2 against arm 0, by several metrics: each beats it by more than the level."""
    claims = [Claims.against_control(ARMS, 0, level, sides=sides) for level in levels]
    first, *others = (Problem(*each) for each in zip(claims, [ARMS] * 9, [delta] * 9, noises, strict=False))
    return Problem(first.question, ARMS, delta, first.noise, metrics=tuple(others))


def draw(rng: np.random.Generator, counts: Floats, means: Floats, correlation: float, kinds: list[str]) -> Batch:
    """Rows with one value a metric: normal, or 0/1 where a normal one is below a threshold. (runs, K)"""
    runs, arms = counts.shape
    size = int(counts.max(initial=0.0))
    z = rng.standard_normal((2, runs, arms, size))
    z[1] = correlation * z[0] + np.sqrt(1 - correlation**2) * z[1]
    here = np.arange(size) < counts[..., None]
    found = []
    for m, kind in enumerate(kinds):
        x = z[m] + means[m][:, None] if kind == "normal" else (z[m] < norm.ppf(means[m])[:, None]) * 1.0
        totals = (x * here).sum(axis=-1)
        off = x - (totals / np.maximum(counts, 1.0))[..., None]
        found.append(Batch(counts, totals, (off * off * here).sum(axis=-1)))
    return found[0]._replace(metrics=tuple(found[1:]))


def simulate(problem: Problem, means: Floats, correlation: float, kinds: list[str], runs: int, seed: int = 1) -> Trial:
    rng, policy = np.random.default_rng(seed), Rounds(ConditionalPower(), budget=600, round=120)
    trial = begin(problem, policy, (runs,))
    for _ in range(8):
        pulls = np.where(trial.done[:, None], 0.0, trial.plan.pulls)
        if not pulls.any():
            break
        trial = advance(problem, policy, trial, draw(rng, pulls, means, correlation, kinds))
    return trial


def false_claims(trial: Trial, true: list[list[bool]]) -> Floats:
    """Runs in which something false was shown, of any metric."""
    shown = [state.shown for state in states_of(trial.kept)]
    return np.any([(each & ~np.array(holds)).any(axis=-1) for each, holds in zip(shown, true, strict=True)], axis=0)


KINDS = {"normal": Gaussian(1.0), "0/1": Binary()}
MEANS = {"normal": 0.0, "0/1": 0.3}  # of the control
MARGINS = {"normal": 0.2, "0/1": 0.1}  # of the guardrail, the second metric
LAWS = list(itertools.product((0.0, 0.8, -0.8), (("normal", "normal"), ("0/1", "0/1"), ("0/1", "normal"))))


def world(kinds: tuple[str, str], null: bool) -> tuple[Problem, Floats, list[list[bool]]]:
    """Claims, means and which claims are true: none, or all but one guardrail, which fails by just its margin."""
    first, second = kinds
    problem = build([KINDS[first], KINDS[second]], [0.0, -MARGINS[second]])
    up, down = MARGINS[first], -MARGINS[second]
    above = MEANS[first] + np.array([0, 0, 0] if null else [0, up, up])
    below = MEANS[second] + np.array([0, down, down if null else 0.0])
    true = [[False, False], [False, False]] if null else [[True, True], [False, True]]
    return problem, np.array([above, below]), true


def check_familywise_error(correlation: float, kinds: tuple[str, str], null: bool, runs: int) -> None:
    problem, means, true = world(kinds, null)
    trial = simulate(problem, means, correlation, list(kinds), runs)
    wrong = int(false_claims(trial, true).sum())
    assert binom.sf(wrong - 1, runs, DELTA) > 1e-6, f"{wrong} of {runs}"
    if not null:  # and the true ones are found
        assert states_of(trial.kept)[0].shown.mean() > 0.2


@pytest.mark.parametrize("null", [True, False])
@pytest.mark.parametrize(("correlation", "kinds"), LAWS[::4])
def test_familywise_error_over_metrics(correlation: float, kinds: tuple[str, str], null: bool) -> None:
    check_familywise_error(correlation, kinds, null, 800)


@pytest.mark.slow
@pytest.mark.parametrize("null", [True, False])
@pytest.mark.parametrize(("correlation", "kinds"), LAWS)
def test_familywise_error_over_metrics_in_20000_runs(correlation: float, kinds: tuple[str, str], null: bool) -> None:
    check_familywise_error(correlation, kinds, null, 20_000)


def test_one_test_a_metric_shows_more_that_is_false() -> None:
    """The control that must fail: each metric by itself at delta."""
    problem, means, _ = world(("normal", "normal"), null=True)
    runs, rng = 4000, np.random.default_rng(3)
    policy, wrong = Rounds(ConditionalPower(), budget=600, round=120), np.zeros(runs, dtype=np.bool_)
    first, second = Problem(problem.question, ARMS, DELTA, problem.noise), problem.metrics[0]
    trials = [begin(each, policy, (runs,)) for each in (first, second)]
    for _ in range(5):
        batch = draw(rng, np.full((runs, ARMS), 40.0), means, -0.8, ["normal", "normal"])
        for i, (each, own) in enumerate(zip((first, second), (batch, *batch.metrics), strict=True)):
            trials[i] = advance(each, policy, trials[i], own._replace(metrics=()))
            wrong |= trials[i].kept.shown.any(axis=-1)
    assert binom.sf(int(wrong.sum()) - 1, runs, DELTA) < 1e-6


@pytest.mark.parametrize("sides", ["one", "two"])
def test_the_claims_of_all_metrics_are_one_closed_test(sides: str) -> None:
    """Against every subset of the nulls that may be true together, one side a claim (weighted means of e-values)."""
    rng, problem = np.random.default_rng(5), build([Gaussian(1.0), Normal()], [0.0, -0.1], sides)
    lines = 4 if sides == "two" else 2
    for _ in range(100):
        gains = [np.log(rng.exponential(1 / DELTA, lines) * rng.choice([0.01, 1, 4], lines)) for _ in range(2)]
        none = [np.zeros(lines, dtype=np.bool_)] * 2
        test = join_claims(problem, gains, none)
        found = test.split(reject_closed(test.wealth, test.shown, test.weights))
        wealth = np.exp(np.array(gains)).reshape(2, -1, 2).transpose(0, 2, 1).reshape(4, -1)  # claims x sides
        nulls = [list(each) for each in itertools.product(*[[None, *range(wealth.shape[1])]] * 4)]

        def tested(k: int, side: int, wealth: Floats = wealth, nulls: list = nulls) -> bool:
            holding = [each for each in nulls if each[k] == side]
            means = [np.mean([wealth[i, s] for i, s in enumerate(each) if s is not None]) for each in holding]
            return bool(min(means) * (1 + 1e-12) >= 1 / DELTA)

        expected = [tested(2 * m + j, side) for m in range(2) for side in range(lines // 2) for j in range(2)]
        if sides == "one":  # two sides: what is shown takes the least of the sides that are not, and needs no more
            assert np.concatenate(found).tolist() == expected
        assert (np.array(expected) <= np.concatenate(found)).all()


def test_each_claim_has_its_own_wealth_of_its_own_metric() -> None:
    """The bets on a metric are those of a study of this metric alone, whose bar is as high."""
    problem = build([Gaussian(1.0), Binary()], [0.0, -0.1])
    rng, policy = np.random.default_rng(7), Rounds(ConditionalPower(), budget=600, round=120)
    means = np.array([[0.0, 0.1, 0.3], [0.3, 0.35, 0.2]])
    batch = draw(rng, np.full((50, ARMS), 40.0), means, 0.8, ["normal", "0/1"])
    both = advance(problem, policy, begin(problem, policy, (50,)), batch)
    for sub, own, state in zip((problem, *problem.metrics), (batch, *batch.metrics), states_of(both.kept), strict=True):
        alone = Problem(sub.question, ARMS, DELTA / 2, sub.noise)
        after = advance(alone, policy, begin(alone, policy, (50,)), own._replace(metrics=()))
        np.testing.assert_array_equal(after.kept.gains, state.gains)


def test_bounds_and_adjusted_e_values_agree_with_what_is_shown() -> None:
    problem = build([Gaussian(1.0), Gaussian(1.0)], [0.0, -0.2])
    rng, policy = np.random.default_rng(9), Rounds(ConditionalPower(), budget=600, round=120)
    rule, trial = ClosedTestingRule(), begin(problem, policy)
    for _ in range(4):
        batch = draw(rng, np.full((1, ARMS), 40.0), np.array([[0.0, 0.0, 0.4], [0.0, 0.0, 0.2]]), 0.8, ["normal"] * 2)
        one = batch._replace(
            counts=batch.counts[0],
            totals=batch.totals[0],
            scatter=None,
            metrics=tuple(Batch(each.counts[0], each.totals[0]) for each in batch.metrics),
        )
        adjusted = np.concatenate(adjusted_of(problem, trial.kept))
        before = np.concatenate([each.shown for each in states_of(trial.kept)])
        assert (adjusted[~before] < problem.goal).all()
        trial = advance(problem, policy, trial, one)
        every = rule.claims(problem, trial, ["a", "b", "c"])
        assert [each.metric for each in every] == [0, 0, 1, 1]
        for each in every:
            assert each.lower is not None
            assert each.margin is not None
            assert each.lower >= each.margin if each.shown else each.lower <= each.margin
            assert each.evidence >= each.bar if each.shown else each.evidence < each.bar
    assert 0 < sum(each.shown for each in every) < 4
    lacks = claims_elsewhere(
        problem, [each.gains for each in states_of(trial.kept)], [each.shown for each in states_of(trial.kept)]
    )
    assert lacks[0] is not None
    assert trial.kept.elsewhere is not None
    assert lacks[0].lack == trial.kept.elsewhere.lack


def test_metrics_are_not_independent() -> None:
    apart = Claims.above(ARMS, 0.0, independent=True)
    problem = Problem(apart, ARMS, metrics=(Problem(Claims.against_control(ARMS), ARMS),))
    with pytest.raises(InputError, match="not independent"):
        begin(problem, ConditionalPower())
