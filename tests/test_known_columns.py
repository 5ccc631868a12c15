"""Columns that are known of a whole list: control variates, and arms that need no more results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from roundwise import Above, BestArm, Binary, Bounded, Claims
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem
from roundwise.rules.finite.bets import log_wealth
from roundwise.rules.finite.known import KnownColumns
from roundwise.rules.finite.rule import ListRule


def folded(problem, table, known, places):
    """The state of the rule after the first places of a table in its order, with known columns."""
    rule = ListRule(len(table), known=known)
    rows = np.where(np.arange(len(table))[:, None] < places, table, np.nan)
    batch = Batch((~np.isnan(rows)).sum(axis=0) * 1.0, np.nansum(rows, axis=0), rows=rows)
    return rule.fold(problem, rule.start(problem, ()), BatchPlan(batch.counts, np.asarray(True)), batch)


@pytest.mark.parametrize(
    ("question", "known_arms"),
    [
        (BestArm(), (1,)),
        (Claims.against_control(2, 1, sides="two"), (1,)),
        (Claims.against_control(2, 0, sides="two"), (1,)),
        (Above(0.5), ()),
    ],
    ids=["best arm", "claims", "of the control", "level"],
)
def test_the_wealth_is_one_on_average_over_all_orders(question, known_arms, monkeypatch):
    """By enumeration: both arms have a mean of 1/2, and the bets use a column that is correlated with them."""
    monkeypatch.setattr("roundwise.rules.finite.best_arm.EARLY", 1)
    problem = Problem(question, 2, delta=1e-12, noise=Bounded(0, 1))
    table = np.array([[1, 0.5], [1, 1], [0.5, 1], [0, 0], [0, 0]])
    score = np.array([0.9, 1.0, 0.7, 0.0, 0.2])
    columns = np.column_stack([table[:, list(known_arms)], score])
    found = []
    for order in itertools.permutations(range(5)):
        rows, known = table[list(order)], KnownColumns.of(columns[list(order)], known_arms)
        found.append(np.exp(log_wealth(folded(problem, rows, known, 4).purses.wealth)))
    assert np.mean(found, axis=0) == pytest.approx(np.ones_like(found[0]), abs=1e-9)
    without = np.exp(log_wealth(folded(problem, rows, None, 4).purses.wealth))
    assert not np.allclose(found[-1], without)


def test_what_is_known_of_later_items_does_not_change_the_bets():
    rng = np.random.default_rng(1)
    table = (rng.random((60, 2)) < 0.6).astype(float)
    columns = np.column_stack([table[:, 1], rng.random(60)])
    later = columns.copy()
    later[30:] = later[30:][::-1]  # the same items in another order
    problem = Problem(BestArm(), 2, delta=1e-9, noise=Binary())
    found = []
    for each in (columns, later):
        rows = np.column_stack([table[:, 0], each[:, 0]])
        found.append(folded(problem, rows, KnownColumns.of(each, (1,)), 30).purses.wealth)
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.parametrize("question", [BestArm(), Above(0.5)], ids=["best arm", "level"])
def test_it_takes_fewer_results_where_the_column_explains_them(question):
    """Results of the new arm agree with the known ones on most items."""
    rng, gains = np.random.default_rng(4), []
    for _ in range(6):
        hard = rng.random(400)
        table = np.column_stack([hard + rng.normal(0, 0.15, 400) < 0.6, hard + rng.normal(0, 0.15, 400) < 0.54])
        arms = (1,) if question.name == "best-arm" else ()
        known = KnownColumns.of(np.column_stack([table[:, list(arms)], 1 - hard]), arms)
        problem = Problem(question, 2, delta=1e-12, noise=Binary())
        with_it, without = (folded(problem, table.astype(float), each, 200) for each in (known, None))
        gains.append((log_wealth(with_it.purses.wealth) - log_wealth(without.purses.wealth)).max())
    assert np.mean(gains) > 1.0


def test_known_arms_are_out_at_once_if_another_known_one_is_ahead():
    rng = np.random.default_rng(2)
    table = (rng.random((50, 3)) < [0.5, 0.9, 0.2]).astype(float)
    known = KnownColumns.of(np.column_stack([table[:, 1:], table[:, 1]]), (1, 2))
    problem = Problem(BestArm(), 3, noise=Binary())
    assert ListRule(50, known=known).start(problem, ()).purses.rejected.tolist() == [False, False, True]
    levels = Problem(Above(0.5), 3, noise=Binary())
    assert ListRule(50, known=known).start(levels, ()).purses.shown.T.tolist() == [
        [False, False],
        [True, False],
        [False, True],
    ]
    # an arm that cannot catch up any more is out for certain, long before the list is used up
    kept = folded(Problem(BestArm(), 3, delta=1e-12, noise=Binary()), np.where([1, 0, 0], 0.0, table), known, 10)
    assert kept.purses.certain.tolist() == [True, False, True]
