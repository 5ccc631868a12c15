"""The question of claims and its closed test: against brute force over all sets, sticky, in words."""

import itertools
import math

import numpy as np
import pytest

from roundwise import PET, Binary, HeteroscedasticGaussian, InputError, Problem, Statements
from roundwise.questions import Claims
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.rules.eprocess.closed_testing import adjusted_e_values, least_of, reject_closed
from roundwise.solvers.halfspaces import BinaryFamily

ODDS = Claims.against_control(2, 0, 2.0, scale="odds-ratio")


def brute(money, shown, weights):
    """The closed test: a line is shown when every intersection that it is in rejects.

    Intersections hold at most one side of a claim, only sides that are not shown yet; repeated until nothing changes.
    """
    sides, number = money.shape
    while True:
        now = shown.copy()
        for side, j in itertools.product(range(sides), range(number)):
            if shown[side, j]:
                continue
            choices = [
                [(side, j)] if i == j else [None, *((s, i) for s in range(sides) if not shown[s, i])]
                for i in range(number)
            ]
            now[side, j] = all(
                sum(weights[i] * money[s, i] for s, i in filter(None, each))
                >= sum(weights[i] for _, i in filter(None, each)) * (1 - 1e-11)
                for each in itertools.product(*choices)
            )
        if (now == shown).all():
            return shown
        shown = now


def cases(rng, sides, number):
    """Random money near the bars, where the rule has something to decide."""
    money = np.exp(rng.normal(0.3, 1.5, (sides, number)))
    if rng.random() < 0.3:
        money[:, rng.integers(number)] = 0.0
    if rng.random() < 0.3:
        money[0, 0] = number  # just the bar, if all others lost everything
        money[:, 1:] = 0.0
    weights = rng.uniform(0.2, 3.0, number) if rng.random() < 0.7 else np.ones(number)
    return money, rng.random((sides, number)) < 0.15, weights


@pytest.mark.parametrize(("sides", "most", "number"), [(1, 8, 300), (2, 5, 150)])
def test_the_rule_is_the_closed_test_over_all_sets(sides, most, number):
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(number):
        money, shown, weights = cases(rng, sides, int(rng.integers(1, most + 1)))
        expected = brute(money, shown, weights)
        assert reject_closed(money, shown, weights).tolist() == expected.tolist()
        found += int((expected & ~shown).sum())
    assert found > number / 4  # the cases decide something


@pytest.mark.parametrize("sides", [1, 2])
def test_adjusted_e_values_are_the_least_means_over_all_sets(sides):
    rng = np.random.default_rng(2)
    for _ in range(100):
        number = int(rng.integers(1, 6))
        money, shown, weights = cases(rng, sides, number)
        least = least_of(money, shown)
        found = adjusted_e_values(money, shown, weights)
        for side, j in itertools.product(range(sides), range(number)):
            others = [i for i in range(number) if i != j and np.isfinite(least[i])]
            means = []
            for size in range(len(others) + 1):
                for among in itertools.combinations(others, size):
                    paid = weights[j] * money[side, j] + sum(weights[i] * least[i] for i in among)
                    means.append(paid / (weights[j] + sum(weights[i] for i in among)))
            assert math.isclose(found[side, j], min(means), rel_tol=1e-12)


def test_an_adjusted_e_value_of_at_least_one_is_what_the_rule_shows_first():
    rng = np.random.default_rng(3)
    for _ in range(300):
        money, _, weights = cases(rng, 1, int(rng.integers(1, 9)))
        nothing = np.zeros(money.shape, dtype=bool)
        first = adjusted_e_values(money, nothing, weights) >= 1 - 1e-12
        assert (reject_closed(money, nothing, weights) >= first).all()
        assert reject_closed(money, nothing, weights).any() == first.any()


def test_it_shows_no_less_than_bonferroni_and_holm():
    rng = np.random.default_rng(4)
    for _ in range(300):
        money, _, _ = cases(rng, 1, int(rng.integers(1, 9)))
        number = money.shape[-1]
        shown = reject_closed(money, np.zeros(money.shape, dtype=bool), np.ones(number))[0]
        holm = np.zeros(number, dtype=bool)
        for place, j in enumerate(np.argsort(-money[0])):
            if money[0, j] < number - place:
                break
            holm[j] = True
        assert (shown >= holm).all()
        assert (shown >= (money[0] >= number)).all()


def test_what_is_shown_stays_shown_on_random_paths():
    """Money goes up and down at will, also to nothing; what the rule showed is never taken back."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        sides, number = int(rng.integers(1, 3)), int(rng.integers(1, 7))
        logs, shown = np.zeros((sides, number)), np.zeros((sides, number), dtype=bool)
        for _ in range(30):
            logs += rng.normal(0, 1.5, logs.shape)
            after = reject_closed(np.exp(logs), shown, np.ones(number))
            assert (after >= shown).all()
            shown = after


def test_dependent_coins_that_always_double_or_lose():
    """Five true nulls whose purses move together in pairs: shown with probability at most delta, here near it."""
    rng = np.random.default_rng(6)
    runs, delta = 4000, 0.05
    logs, shown = np.zeros((runs, 1, 5)), np.zeros((runs, 1, 5), dtype=bool)
    for _ in range(60):
        up = rng.random((runs, 1, 1)) < 0.5
        signs = np.where(rng.random((runs, 1, 5)) < 0.8, up, ~up)  # each a fair coin, together dependent
        logs += np.log(np.where(signs, 1.6, 0.4))
        shown = reject_closed(np.exp(logs) * delta, shown, np.ones(5))
    assert shown.any(axis=(-1, -2)).mean() < delta + 3 * math.sqrt(delta * (1 - delta) / runs)


class TestQuestion:
    def test_against_control_by_name_and_by_number(self):
        one = Claims.against_control(["p", "a", "b"], "p", 0.1)
        other = Claims.against_control(3, 0, 0.1)
        assert one.forms.tolist() == other.forms.tolist() == [[-1, 1, 0], [-1, 0, 1]]
        assert list(one.claim_texts(["p", "a", "b"])) == ["a beats p by more than 0.1", "b beats p by more than 0.1"]
        assert one.labels(["p", "a", "b"]) == ["a", "b"]

    def test_what_is_correct_is_that_nothing_false_was_shown(self):
        claims = Claims.against_control(4, 0)
        means = [0.3, 0.3, 0.4, 0.2]
        assert claims.holds(means).tolist() == [False, True, False]
        for shown, right, true in (([0, 0, 0], True, 0), ([0, 1, 0], True, 1), ([1, 1, 0], False, 1)):
            assert bool(claims.correct(np.array(shown, dtype=bool), means)) is right
            assert float(claims.count_true_claims(np.array(shown, dtype=bool), means)) == true

    def test_a_margin_that_is_just_met_is_not_exceeded(self):
        """0.41 - 0.36 is 0.04999...; 0.41 - 0.36 against 0.05 is on the level, whichever way it rounds."""
        for low in np.arange(0.01, 0.9, 0.01):
            assert not Claims.against_control(2, 0, 0.05).holds([low, low + 0.05]).any()

    def test_two_sides_and_futility(self):
        two = Claims.against_control(2, 0, sides="two")
        assert two.holds([0.3, 0.3]).tolist() == [False, True]  # it does not beat it: one of the two is true
        assert two.holds([0.3, 0.4]).tolist() == [True, False]
        futile = Claims.against_control(2, 0, 0.0, futility=0.1)
        assert futile.holds([0.3, 0.35]).tolist() == [True, True]
        assert futile.holds([0.3, 0.4]).tolist() == [True, False]
        assert futile.holds([0.3, 0.3]).tolist() == [False, True]
        assert list(futile.claim_texts("pa")) == ["a beats p", "a does not beat p by 0.1 or more"]
        assert futile.answer_to_json(np.array([False, True])) == [1]

    def test_a_futility_margin_at_the_level_is_two_sides(self):
        """Otherwise both would be false on the level, and one of them be shown there with 2 delta (0.0977 for 0.05)."""
        pair = Claims.against_control(2, 0, 0.1, futility=0.1)
        assert pair.holds([0.3, 0.4]).tolist() == [False, True]
        assert list(pair.claim_texts("pa")) == ["a beats p by more than 0.1", "a does not beat p by more than 0.1"]
        level = Claims.above(2, 0.5, futility=[0.5, 0.6])
        assert level.holds([0.5, 0.6]).tolist() == [False, True, True, False]
        assert list(level.claim_texts("pa")) == [
            "p is above 0.5",
            "a is above 0.5",
            "p is not above 0.5",
            "a is below 0.6",
        ]
        below = Claims([[-1.0, 0.0]], [-0.5], sides="two")
        assert list(below.claim_texts("pa")) == ["p is below 0.5", "p is not below 0.5"]

    def test_other_lists_of_claims(self):
        assert len(Claims.pairs(4).forms) == 12
        assert list(Claims.above(3, 0.5).claim_texts("abc")) == ["a is above 0.5", "b is above 0.5", "c is above 0.5"]
        several = Claims.against_control(["p", "old", "new"], ["p", "old"])
        assert list(several.claim_texts(["p", "old", "new"])) == ["new beats p", "new beats old"]
        assert several.labels(["p", "old", "new"]) == ["new beats p", "new beats old"]
        ratio = Claims.against_control(2, 0, 1.5, scale="ratio")
        assert list(ratio.claim_texts("pa")) == ["a is more than 1.5 times p"]
        assert ratio.holds([0.2, 0.29]).tolist() == [False]
        assert ratio.holds([0.2, 0.31]).tolist() == [True]
        odds = Claims.against_control(2, 0, 2.0, scale="odds-ratio")
        assert list(odds.claim_texts("pa")) == ["a beats p by an odds ratio above 2"]
        assert odds.holds([0.2, 1 / 3]).tolist() == [False]  # exactly 2
        assert odds.holds([0.2, 0.34]).tolist() == [True]

    def test_rates_of_nothing_have_odds_that_can_be_compared(self):
        """Every study of odds ratios that ended asked this once, and warned of an invalid value."""
        two = Claims.against_control(2, 0, 1.0, scale="odds-ratio", sides="two")
        for rate in (0.0, 1.0):
            assert two.values([rate, rate]).tolist() == [0.0, 0.0]
            assert two.holds([rate, rate]).tolist() == [False, True]  # "not above" is true of the same odds
        assert two.holds([0.0, 0.2]).tolist() == [True, False]

    def test_its_complexity_is_that_of_what_is_true(self):
        """A dose like placebo costs nothing: statements without it are as hard; with it they cannot be settled."""
        means = np.array([0.0, 0.0, 0.5, 0.3])
        found = Claims.against_control(4, 0).complexity(means)
        without = Statements.against_control(3, 0).complexity(means[[0, 2, 3]])
        np.testing.assert_allclose(found.value, without.value, rtol=1e-7)
        assert found.weights[1] == 0
        assert Statements.against_control(4, 0).complexity(means).value == np.inf
        assert Claims.against_control(4, 0).complexity(np.zeros(4)).value == 0
        both = Claims.against_control(4, 0).complexity(np.array([means, means[[0, 2, 1, 3]], np.zeros(4)]))
        np.testing.assert_allclose(both.value, [found.value, found.value, 0.0], rtol=1e-7)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Claims.against_control(["a", "b"], "c"), "no arm called 'c'"),
            (lambda: Claims.against_control(3, 3), "control"),
            (lambda: Claims.against_control(2, [0, 1]), "All arms are controls"),
            (lambda: Claims.against_control(2, 0, 0.1, futility=0.05), "margin"),
            (lambda: Claims.against_control(2, 0, futility=0.1, sides="two"), "futility"),
            (lambda: Claims.against_control(2, 0, sides="both"), "number of sides"),
            (lambda: Claims.against_control(2, 0, 0.0, scale="ratio"), "ratio"),
            (lambda: Claims([[1, -1]], [0], weights=0.0), "weights"),
            (lambda: Claims([[1, -1]], [0], weights=[1.0, 2.0]), "claims"),
            (lambda: Claims([[1, 1]], [0], odds=True), "compare two rates"),
            (lambda: ClosedTestingRule(eta=1.5), "`eta` is 1.5"),
            (lambda: PET().check(Problem(ODDS, 2, noise=Binary())), "no likelihood ratio"),
            (lambda: Problem(Claims.against_control(2, 0, 1.5), 2, noise=Binary()), "the answer is certain"),
        ],
    )
    def test_what_cannot_be_asked_is_refused(self, make, message):
        with pytest.raises(InputError, match=message):
            make()


@pytest.mark.parametrize("asked", [{}, {"margin": 0.05}, {"margin": 0.05, "futility": 0.1}, {"sides": "two"}])
def test_complexities_are_of_showing_what_is_true_for_every_kind_of_rewards(asked):
    """Near 1/2 rates are as hard as normal results of deviation 1/2; what is false need not be shown to be."""
    question, means = Claims.against_control(4, 0, **asked), np.array([0.46, 0.44, 0.57, 0.637])
    plain = question.complexity(means, sigma=0.5)
    apart = Problem(question, 4, 0.05, HeteroscedasticGaussian((0.5,) * 4)).complexity(means)
    rates = question.family_complexity(means, BinaryFamily())
    assert apart.value == pytest.approx(plain.value, rel=1e-6)
    assert rates.value == pytest.approx(plain.value, rel=0.03)
    np.testing.assert_allclose(apart.weights, plain.weights, atol=1e-5)
    np.testing.assert_allclose(rates.weights, plain.weights, atol=0.02)


def test_nothing_true_costs_nothing():
    question, means = Claims.against_control(3, 0), np.array([0.5, 0.4, 0.3])
    for found in (
        question.complexity(means),
        Problem(question, 3, 0.05, HeteroscedasticGaussian((1.0, 2.0, 3.0))).complexity(means),
        question.family_complexity(means, BinaryFamily()),
    ):
        assert found.value == 0
        assert found.weights.tolist() == [1 / 3] * 3


def test_one_arm_against_a_control_is_one_question():
    assert Claims.against_control("ab", "b").question_text("ab") == "Does a beat b?"
    lower = Claims.against_control("ab", "a", 0.1, lower_is_better=True)
    assert lower.question_text("ab") == "Is b below a by more than 0.1?"
