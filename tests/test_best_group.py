"""Which group has the best arm: its complexity against a search, its rule against that of the best arm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from roundwise import (
    BestArm,
    BestGroup,
    GaussianArms,
    HeteroscedasticGaussian,
    InputError,
    SubGaussian,
    TrackAndStop,
    Wager,
    simulate,
)
from roundwise.solvers.halfspaces import BinaryFamily
from strategies import cheapest_alternative

PAIRS = BestGroup(("a", "a", "b", "b"))
MEANS = np.array([0.3, 0.22, 0.0, -0.1])


def best_allocation(information, arms, start):
    """The largest information of any allocation, by a search on the simplex."""

    def loss(x):
        w = np.exp(x - x.max())
        return -information(w / w.sum())

    found = [
        minimize(loss, np.log(begin), method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-12, "xatol": 1e-8})
        for begin in (start, np.full(arms, 1 / arms), np.array([0.3, 0.3, 0.2, 0.2]))
    ]
    return -min(each.fun for each in found)


@pytest.mark.long
def test_no_allocation_is_better_than_that_without_the_other_arms_of_the_group():
    for question in (PAIRS, BestGroup(("b", "a", "b", "c"))):
        found = question.complexity(MEANS)
        own = float(cheapest_alternative(question, found.weights + 1e-9, MEANS)[1])
        most = best_allocation(lambda w, q=question: float(q.evidence(w, MEANS)), 4, found.weights + 1e-6)
        assert 1 / own == pytest.approx(float(found.value), rel=1e-6)
        assert most == pytest.approx(own, rel=1e-4)
        assert most <= own * (1 + 1e-9)


@pytest.mark.long
def test_the_same_with_the_divergences_of_rates():
    rates, family = np.array([0.5, 0.45, 0.3, 0.2]), BinaryFamily()
    found = PAIRS.family_complexity(rates, family)
    grid = np.linspace(0.15, 0.55, 2001)
    costs = np.array([family.divergence(np.full(grid.shape, m), grid - m) for m in rates])  # (K, x)
    above = np.where(grid <= rates[:, None], costs, 0.0)
    below = np.where(grid >= rates[:, None], costs, 0.0)

    def information(w):
        return min((w[0] * above[0] + w[1] * above[1] + w[b] * below[b]).min() for b in (2, 3))

    assert information(found.weights) == pytest.approx(1 / float(found.value), rel=2e-3)
    assert best_allocation(information, 4, found.weights + 1e-6) == pytest.approx(1 / float(found.value), rel=2e-3)


@pytest.mark.parametrize("policy", [Wager(), TrackAndStop()], ids=lambda each: each.name)
def test_groups_of_one_arm_are_the_arms(policy):
    means = [0.6, 0.2, 0.0]
    alone, groups = (
        simulate(question, GaussianArms(means), [policy], runs=20, noise=SubGaussian(1.0), seed=5)[0]
        for question in (BestArm(), BestGroup(("x", "y", "z")))
    )
    np.testing.assert_array_equal(groups.answer, alone.answer)
    np.testing.assert_allclose(groups.samples, alone.samples, rtol=1e-12)


def test_the_best_two_of_one_group_need_not_be_told_apart():
    lower = BestGroup(PAIRS.groups, lower_is_better=True)
    for question, sign in ((PAIRS, 1.0), (lower, -1.0)):
        world = GaussianArms((sign * np.array([0.5, 0.5, 0.0, 0.0])).tolist())
        (found,) = simulate(question, world, [Wager()], runs=40, noise=SubGaussian(1.0), seed=3)
        assert found.correct.all()
        assert found.samples.mean() < 800  # 4.5 times the bound; the best of the four arms is a tie


@pytest.mark.slow
@pytest.mark.parametrize("groups", [("a", "b", "a", "b"), ("a", "b", "b", "b", "b")])
def test_errors_at_a_tie(groups):
    means = np.array([0.0 if g == "a" else -1e-6 for g in groups])
    (found,) = simulate(
        BestGroup(groups), GaussianArms(means.tolist()), [Wager()], runs=20_000, noise=SubGaussian(1.0), max_batches=10
    )
    assert (found.decided & ~found.correct).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 20_000)


def test_bad_groups_are_refused():
    with pytest.raises(InputError, match="at least two"):
        BestGroup(("a", "a"))
    with pytest.raises(InputError, match="2 arms, but there are 3"):
        BestGroup(("a", "b")).check(3)
    with pytest.raises(InputError, match="needs a name"):
        BestGroup(("a", " "))


def test_plans_by_complexity_need_one_sigma():
    """With several, another arm of the group than its best may tell more; Wager needs no complexity."""
    world, noise = GaussianArms(MEANS), HeteroscedasticGaussian((1.0, 2.0, 1.0, 1.0))
    with pytest.raises(InputError, match="only if all arms have one sigma"):
        simulate(PAIRS, world, [TrackAndStop()], runs=2, noise=noise)
    (found,) = simulate(PAIRS, world, [Wager()], runs=20, noise=noise, seed=1)
    assert found.decided.all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("new=b,c", "leaves out the arm 'a'"),
        ("new=b,c;old=a,b", "the arm 'b' twice"),
        ("new=b,d;old=a", "no arm called 'd'"),
        ("a,b", "must name groups"),
    ],
)
def test_groups_on_the_command_line(roundwise, text, words):
    code, _, errors = roundwise(
        "new", "study", "--question", "best-group", "--groups", text, "--arms", "a,b,c", "--binary"
    )
    assert code == 2
    assert words in " ".join(errors.split())


def test_the_command_line_says_it_again(roundwise):
    question = BestGroup(("new", "old", "new"))
    assert question.cli_options(["x", "y", "z"]) == ["--groups", "new=x,z;old=y"]
    code, _, errors = roundwise("new", "s", "--question", "best-arm", "--groups", "a=x;b=y", "--arms", "x,y")
    assert code == 2
    assert "does not take --groups" in " ".join(errors.split())
