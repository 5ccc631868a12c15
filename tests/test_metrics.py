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


def simulate(
    problem: Problem,
    means: Floats,
    correlation: float,
    kinds: list[str],
    runs: int,
    seed: int = 1,
    budget: int | None = 600,
) -> Trial:
    rng, policy = np.random.default_rng(seed), Rounds(ConditionalPower(), budget=budget, round_size=120)
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


def test_familywise_error_without_a_budget() -> None:
    problem, means, true = world(("0/1", "normal"), null=True)
    wrong = int(false_claims(simulate(problem, means, 0.8, ["0/1", "normal"], 800, budget=None), true).sum())
    assert binom.sf(wrong - 1, 800, DELTA) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("null", [True, False])
@pytest.mark.parametrize(("correlation", "kinds"), LAWS)
def test_familywise_error_over_metrics_in_20000_runs(correlation: float, kinds: tuple[str, str], null: bool) -> None:
    check_familywise_error(correlation, kinds, null, 20_000)


def test_one_test_a_metric_shows_more_that_is_false() -> None:
    """The control that must fail: each metric by itself at delta."""
    problem, means, _ = world(("normal", "normal"), null=True)
    runs, rng = 4000, np.random.default_rng(3)
    policy, wrong = Rounds(ConditionalPower(), budget=600, round_size=120), np.zeros(runs, dtype=np.bool_)
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
    rng, policy = np.random.default_rng(7), Rounds(ConditionalPower(), budget=600, round_size=120)
    means = np.array([[0.0, 0.1, 0.3], [0.3, 0.35, 0.2]])
    batch = draw(rng, np.full((50, ARMS), 40.0), means, 0.8, ["normal", "0/1"])
    both = advance(problem, policy, begin(problem, policy, (50,)), batch)
    for sub, own, state in zip((problem, *problem.metrics), (batch, *batch.metrics), states_of(both.kept), strict=True):
        alone = Problem(sub.question, ARMS, DELTA / 2, sub.noise)
        after = advance(alone, policy, begin(alone, policy, (50,)), own._replace(metrics=()))
        np.testing.assert_array_equal(after.kept.gains, state.gains)


def test_bounds_and_adjusted_e_values_agree_with_what_is_shown() -> None:
    problem = build([Gaussian(1.0), Gaussian(1.0)], [0.0, -0.2])
    rng, policy = np.random.default_rng(9), Rounds(ConditionalPower(), budget=600, round_size=120)
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
    assert trial.kept.other_metrics is not None
    assert lacks[0].shortfall == trial.kept.other_metrics.shortfall


def test_metrics_are_not_independent() -> None:
    apart = Claims.above(ARMS, 0.0, independent=True)
    problem = Problem(apart, ARMS, metrics=(Problem(Claims.against_control(ARMS), ARMS),))
    with pytest.raises(InputError, match="not independent"):
        begin(problem, ConditionalPower())


def single(batch: Batch, run: int) -> Batch:
    """One run of a batch."""
    return Batch(
        batch.counts[run],
        batch.totals[run],
        None if batch.scatter is None else batch.scatter[run],
        metrics=tuple(single(each, run) for each in batch.metrics),
    )


def rule_r(wealth: list[float], shown: list[bool]) -> list[bool]:
    """Rule (R) over all claims of all metrics, as the page states it; one side a claim."""
    shown = list(shown)
    while True:
        lack = [0.0 if done else max(1 / DELTA - each, 0.0) for each, done in zip(wealth, shown, strict=True)]
        now = [
            done or (each - 1 / DELTA) * (1 + 1e-9) >= sum(lack) - lack[j]
            for j, (each, done) in enumerate(zip(wealth, shown, strict=True))
        ]
        if now == shown:
            return shown
        shown = now


def test_studies_follow_rule_r_and_their_bounds_do() -> None:
    """Shown, bars and bounds of single runs, by a plain program; what each metric by itself would show is not."""
    problem = build([Gaussian(1.0), Gaussian(1.0)], [0.0, -0.2])
    policy, rule, between = Rounds(ConditionalPower(), budget=600, round_size=120), ClosedTestingRule(), 0
    rng, runs = np.random.default_rng(17), 8
    means = np.array([[0.0, 0.2, 0.4], [0.0, 0.0, 0.1]])
    batches = [draw(rng, np.full((runs, ARMS), 40.0), means, 0.8, ["normal"] * 2) for _ in range(3)]
    for run in range(runs):
        trial, shown = begin(problem, policy), [False] * 4
        for batch in batches:
            trial = advance(problem, policy, trial, single(batch, run))
            wealth = [float(np.exp(each)) for state in states_of(trial.kept) for each in state.gains]
            shown = rule_r(wealth, shown)
            assert [bool(each) for state in states_of(trial.kept) for each in state.shown] == shown
            lack = [0.0 if done else max(1 / DELTA - each, 0.0) for each, done in zip(wealth, shown, strict=True)]
            for j, claim in enumerate(rule.claims(problem, trial, "abc")):
                if shown[j]:
                    continue
                assert claim.bar == pytest.approx(np.log(1 / DELTA + sum(lack) - lack[j]))
                own = [k for k in range(4) if k // 2 == j // 2]
                alone = wealth[j] - 1 / DELTA >= sum(lack[k] for k in own) - lack[j]
                assert claim.lower is not None
                assert claim.single_lower is not None
                if alone and claim.single_lower < claim.margin:
                    assert claim.lower < claim.margin
                    between += 1
    assert between > 0


def test_single_step_bounds_count_the_claims_of_all_metrics() -> None:
    """They are those of a study of one metric with as high a bar: twice the claims at delta, or half of delta."""
    problem = build([Gaussian(1.0), Binary()], [0.0, -0.1])
    rng, policy, rule = (
        np.random.default_rng(19),
        Rounds(ConditionalPower(), budget=600, round_size=120),
        ClosedTestingRule(),
    )
    means = np.array([[0.0, 0.1, 0.3], [0.3, 0.35, 0.2]])
    batch = draw(rng, np.full((1, ARMS), 40.0), means, 0.8, ["normal", "0/1"])
    both = advance(problem, policy, begin(problem, policy), single(batch, 0))
    every = rule.claims(problem, both, "abc")
    for m, sub in enumerate((problem, *problem.metrics)):
        alone = Problem(sub.question, ARMS, DELTA / 2, sub.noise)
        own = single((batch, *batch.metrics)[m], 0)._replace(metrics=())
        expected = rule.claims(alone, advance(alone, policy, begin(alone, policy), own), "abc")
        for one, other in zip([each for each in every if each.metric == m], expected, strict=True):
            assert one.single_lower == pytest.approx(other.single_lower, abs=1e-6)
            assert one.single_upper == pytest.approx(other.single_upper, abs=1e-6)


@pytest.mark.parametrize("budget", [600, None])
def test_results_are_asked_for_as_long_as_any_metric_is_open(budget: int | None) -> None:
    problem = build([Gaussian(1.0), Gaussian(1.0)], [0.0, -0.1])
    policy = ConditionalPower() if budget is None else Rounds(ConditionalPower(), budget=budget, round_size=240)
    trial, rng = begin(problem, policy, (20,)), np.random.default_rng(23)
    means = np.array([[0.0, 3.0, 3.0], [0.0, 3.0, 0.0]])
    for _ in range(1 if budget else 2):  # without a budget a first batch without parts only teaches
        trial = advance(problem, policy, trial, draw(rng, np.full((20, ARMS), 80.0), means, 0.8, ["normal"] * 2))
    assert trial.kept.shown.all()
    unsettled = ~trial.kept.metrics[0].shown.all(axis=-1)
    unsettled &= ~trial.done  # in some runs nothing more can be expected
    assert unsettled.sum() > 10
    assert trial.kept.metrics[0].shown[:, 0].all()
    assert (trial.plan.pulls[unsettled] > 0).tolist() == [[True, False, True]] * int(
        unsettled.sum()
    )  # for what is open
