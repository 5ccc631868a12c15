"""How far arms are ahead on a list, and between what their means lie."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from roundwise import Above, BestArm, Binary, Bounded, Claims
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem
from roundwise.rules.finite.bounds import fixed_ends
from roundwise.rules.finite.rule import ListRule
from roundwise.study import create_study


def bounds_after(problem, rows, size):
    """The bounds after these rows of a list, and the state of the rule."""
    rule = ListRule(size)
    batch = Batch((~np.isnan(rows)).sum(axis=0) * 1.0, np.nansum(rows, axis=0), rows=rows)
    kept = rule.fold(problem, rule.start(problem, ()), BatchPlan(batch.counts, np.asarray(True)), batch)
    return rule.bounds(problem, None, [], kept), kept


def plain_end(y, size, low, goal, grid):
    """The largest number of a grid that was ruled out, of the values so far: the specification, line by line."""
    best = -math.inf
    for b in grid:
        wealth, total, squares, most = [1.0] * 6, 0.0, 0.0, 0.0
        for n, value in enumerate(y):
            mean, variance = (size * b - total) / (size - n), (0.5 + squares) / (n + 2)
            for k, lead in enumerate((0.015, 0.03, 0.06, 0.12, 0.25, 0.5)):
                edge = lead * size / (size - n)
                bet = min(edge / (variance + edge**2), 0.5 / max(mean - low, 1e-6))
                wealth[k] *= 1 + bet * (value - mean)
            most = max(most, sum(wealth) / 6)
            total, squares = total + value, squares + value**2
        if most >= math.exp(goal):
            best = b
    return best


def test_the_bound_of_a_difference_is_the_end_of_what_is_ruled_out():
    rng = np.random.default_rng(3)
    y = rng.choice([-1.0, 0.0, 1.0], 60, p=[0.1, 0.4, 0.5])
    there = np.ones((60, 1), dtype=bool)
    found = fixed_ends(y[:, None], there, there, 150, (-1.0, 1.0), math.log(20), False)[0]
    assert found == pytest.approx(plain_end(y, 150, -1.0, math.log(20), np.arange(0.0, 0.4, 0.001)), abs=0.001)
    assert (y.sum() - 90) / 150 < found < y.mean()


def test_bounds_are_beyond_the_mean_of_the_list_in_at_most_delta_of_the_orders():
    """800 orders of 60 values: how often a lower bound is, at any of the first 45 places, above the mean."""
    values, delta, rng = np.repeat([1.0, 0.5, 0.0, -1.0], [20, 10, 20, 10]), 0.2, np.random.default_rng(1)
    y = rng.permuted(np.tile(values[:, None], 800), axis=0)
    there = np.tile((np.arange(60) < 45)[:, None], 800)
    wrong = fixed_ends(y, there, there, 60, (-1.0, 1.0), -math.log(delta), False) > values.mean() + 1e-9
    assert 0.02 < wrong.mean() <= delta + 3 * math.sqrt(delta * (1 - delta) / 800)


def test_leads_are_positive_just_for_arms_that_are_out_and_exact_at_the_end():
    rng = np.random.default_rng(6)
    table = (rng.random((120, 4)) < [0.9, 0.5, 0.8, 0.3]).astype(float)
    problem, means = Problem(BestArm(), 4, noise=Binary()), table.mean(axis=0)
    before = np.zeros(4)
    for n in (30, 60, 90):
        bounds, kept = bounds_after(problem, table[:n], 120)
        margins = bounds.margins()
        np.testing.assert_array_equal(margins > 0, kept.wealth.rejected)
        assert (margins <= means.max() - means + 1e-9).all()
        assert (margins >= before - 1e-9).all()  # it is the same order: bounds only rise
        gaps = bounds.gap_to_leader(0, margins)
        assert (gaps.most >= means[0] - means - 1e-9).all()
        before = margins
    assert (before > 0.05).sum() >= 2
    bounds, _ = bounds_after(problem, table, 120)
    np.testing.assert_allclose(bounds.margins(), means.max() - means, atol=1e-9)
    np.testing.assert_allclose(bounds.gap_to_leader(0, before).most, means[0] - means, atol=1e-6)
    np.testing.assert_allclose(bounds.means(), [means, means], atol=1e-6)


@pytest.mark.parametrize("lower", [False, True])
def test_differences_from_a_control_and_sides_of_levels(lower):
    rng = np.random.default_rng(7)
    table = rng.random((100, 3)) ** np.array([0.3, 1.0, 1.0])
    problem = Problem(Claims.against_control(3, 1, sides="two", lower_is_better=lower), 3, noise=Bounded(0, 1))
    bounds, kept = bounds_after(problem, table[:60], 100)
    lower_end, upper_end = bounds.against(1)
    true = table.mean(axis=0) - table[:, 1].mean()
    assert (lower_end - 1e-9 <= true).all()
    assert (true <= upper_end + 1e-9).all()
    margins, shown = bounds.margins(), kept.wealth.shown.ravel()
    np.testing.assert_array_equal(margins > 0, shown)
    assert margins[shown].max() == pytest.approx(max(lower_end[0], -upper_end[0]), abs=0.05)
    problem = Problem(Above(0.6, lower_is_better=lower), 3, noise=Bounded(0, 1))
    bounds, kept = bounds_after(problem, table[:60], 100)
    assert (bounds.margins() > 0).tolist() == kept.wealth.shown.any(axis=0).tolist() == [True, False, False]


def test_the_report_says_by_how_much_an_arm_leads(tmp_path, monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 11)
    rng, arms = np.random.default_rng(3), ["a", "b", "c"]
    study = create_study(
        "evals", question=BestArm(), arms=arms, noise=Binary(), list=120, storage=f"sqlite:///{tmp_path / 's.db'}"
    )
    rates = dict(zip(arms, (0.9, 0.5, 0.4), strict=True))
    rows = pd.DataFrame([(str(i), arm, int(rng.random() < rates[arm])) for i in range(120) for arm in arms])
    rows.columns = ["item", "arm", "outcome"]
    while (asked := study.ask()) is not None:
        wanted = {(arm, item) for arm, items in asked.items.items() for item in items}
        report = study.tell(rows[[each in wanted for each in zip(rows.arm, rows["item"], strict=True)]])
    report = study.report()
    assert "ahead of b by at least" in report.headline
    truth = rows.groupby("arm").outcome.mean()
    for arm in report.arm_rows[1:]:
        assert 0 < arm.gap_to_best_lower <= truth["a"] - truth[arm.name] <= arm.gap_to_leader_upper
