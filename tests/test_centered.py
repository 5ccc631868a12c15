"""The cheapest k limits around one arm: against the general programme, one number of limits after the other."""

import numpy as np
import pytest

from roundwise import Claims
from roundwise.solvers import program
from roundwise.solvers.shared_arm import find_shared_arm, solve_cheapest


def setting(rng, claims, runs):
    """Forms that share an arm somewhere in the middle, variances of all arms, limits and their order."""
    arms = rng.permutation(claims + 2)[: claims + 1]
    forms = np.zeros((claims, claims + 2))
    forms[:, arms[0]] = -rng.uniform(0.5, 2.0, claims)
    forms[np.arange(claims), arms[1:]] = rng.choice([-1.0, 1.0], claims) * rng.uniform(0.5, 2.0, claims)
    limits = 10.0 ** rng.uniform(-4, 2, (*runs, claims))
    return forms, rng.uniform(0.1, 3.0, (*runs, claims + 2)), limits


@pytest.mark.parametrize("claims", [1, 2, 5, 40])
@pytest.mark.parametrize("every", [False, True])
def test_it_is_the_best_number_of_limits(claims, every):
    rng = np.random.default_rng([claims, every])
    forms, variances, limits = setting(rng, claims, (6,))
    open_ = rng.random(limits.shape) < 0.8
    open_[0] = False
    order = np.argsort(np.where(open_, -limits, np.inf), axis=-1)
    found = solve_cheapest(find_shared_arm(forms), forms, variances, limits, order, open_, every)
    for run in range(6):
        totals = []
        for k in range(1, int(open_[run].sum()) + 1):
            allowed = np.full(claims, np.inf)
            allowed[order[run, :k]] = limits[run, order[run, :k]]
            totals.append(program.solve_general(forms**2 * variances[run], allowed[None]).total[0])
        if not totals:
            assert found.number[run] == 0
            assert not found.pulls[run].any()
            continue
        rates = np.arange(1, len(totals) + 1) / totals
        best = len(totals) - 1 if every else int(rates.argmax())
        assert found.number[run] == best + 1
        assert found.pulls[run].sum() == pytest.approx(totals[best], rel=1e-8)
        kept = order[run, : best + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            spent = np.where(forms[kept] != 0, forms[kept] ** 2 * variances[run] / found.pulls[run], 0.0).sum(axis=-1)
        assert (spent <= limits[run, kept] * (1 + 1e-9)).all()


def test_one_run_alone_and_among_others():
    rng = np.random.default_rng(3)
    forms, variances, limits = setting(rng, 7, (3, 4))
    open_, order = np.ones(limits.shape, dtype=bool), np.argsort(-limits, axis=-1)
    centre = find_shared_arm(forms)
    together = solve_cheapest(centre, forms, variances, limits, order, open_, False)
    for run in np.ndindex(3, 4):
        alone = solve_cheapest(centre, forms, variances[run], limits[run], order[run], open_[run], False)
        assert np.array_equal(alone.pulls, together.pulls[run])
        assert alone.number == together.number[run]


def test_limits_that_cost_nothing_or_cannot_be_kept():
    forms = Claims.against_control(4, 0).forms
    limits, open_, each = np.array([np.inf, 1.0, 0.0]), np.ones(3, dtype=bool), np.ones(4)
    found = solve_cheapest(find_shared_arm(forms), forms, each, limits, np.arange(3), open_, False)
    assert found.number == 2
    assert found.pulls == pytest.approx([2.0, 0.0, 2.0, 0.0])
    assert solve_cheapest(find_shared_arm(forms), forms, each, limits, np.arange(3), open_, True).number == 0
    assert (
        solve_cheapest(find_shared_arm(forms), forms, each, np.full(3, np.inf), np.arange(3), open_, False).number == 0
    )


@pytest.mark.parametrize("question", [Claims.pairs(3), Claims.above(3, 0.0), Claims.against_control(4, [0, 1])])
def test_forms_without_a_centre(question):
    assert find_shared_arm(question.forms) is None
