"""Plans of studies of a finite list, and forecasts of those under way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from roundwise import BestArm, Binary, Bounded, Claims, InputError, plan
from roundwise.planning.forecast import outlook_line, replan
from roundwise.planning.scenarios import ExchangeableItems, ExchangeableList, RestOfList
from roundwise.study import create_study

ARMS = ["a", "b", "c"]


@pytest.mark.parametrize("noise", [Binary(), Bounded(0, 1)], ids=["0/1", "graded"])
def test_planned_lists_have_just_these_means_and_ties(noise):
    world = ExchangeableList(ExchangeableItems(noise, np.array([[0.7, 0.6, 0.6]]), 0.4), 200)
    lists = world.initial_state(np.random.default_rng(1), 40)
    np.testing.assert_allclose(lists.means, np.broadcast_to([0.7, 0.6, 0.6], (40, 3)), atol=0.005)
    np.testing.assert_allclose(lists.means[:, 1], lists.means[:, 2], rtol=0, atol=1e-12)
    alike = [np.corrcoef(each[:, 1], each[:, 2])[0, 1] for each in lists.table]
    assert np.mean(alike) == pytest.approx(0.4, abs=0.03)
    batch, after = world.pull(np.random.default_rng(2), lists, np.tile([30.0, 30.0, 10.0], (40, 1)))
    assert batch.counts[0].tolist() == [30, 30, 10]
    np.testing.assert_array_equal(batch.rows[:, :30, 0], lists.table[:, :30, 0])
    batch, _ = world.pull(np.random.default_rng(2), after, np.tile([5.0, 5.0, 25.0], (40, 1)))
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(batch.rows[0, :, 2])), np.arange(10, 35))


def test_a_plan_of_a_list_ends_with_it_where_all_arms_tie():
    found = plan(BestArm(), arms=3, noise=Binary(), list=80, baseline=0.5, leads=[0, 0.2], runs=40)
    alike = next(row for row in found.rows if row.expected.lead == 0)
    assert alike.samples.p95 == 240
    assert alike.ends
    assert found.row.samples.typical < 240
    assert "The whole list is 240 results" in found.words
    assert "never" not in found.text()


def test_claims_about_a_list_are_planned_to_its_end():
    """One claim is true and shown early; the other is false, and only the end of the list settles it."""
    question = Claims.against_control(3, 0)
    found = plan(question, arms=3, noise=Binary(), list=60, means=[0.3, 0.9, 0.3], runs=30)
    assert found.row.samples.typical >= 140
    assert found.row.at_least_one == 1.0


def told_study(tmp_path, rates, size=150):
    rng = np.random.default_rng(3)
    rows = [(f"{i}", arm, int(rng.random() < rate)) for i in range(size) for arm, rate in zip(ARMS, rates, strict=True)]
    study = create_study(
        "evals", question=BestArm(), arms=ARMS, noise=Binary(), list=size, storage=f"sqlite:///{tmp_path / 's.db'}"
    )
    return study, pd.DataFrame(rows, columns=["item", "arm", "outcome"])


def due(study, rows):
    asked = study.ask()
    wanted = {(arm, item) for arm, items in asked.items.items() for item in items}
    return rows[[(arm, item) in wanted for arm, item in zip(rows.arm, rows["item"], strict=True)]]


@pytest.fixture
def _one_order(monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 11)


@pytest.mark.usefixtures("_one_order")
def test_what_a_study_of_a_list_will_still_take(tmp_path):
    study, rows = told_study(tmp_path, (0.62, 0.5, 0.5))
    assert outlook_line(study.state) is None  # nothing to go by
    study.tell(due(study, rows))
    ahead = replan(study.state, runs=40)
    assert ahead.list_results_left == 450 - 60
    assert 0 < ahead.samples.typical <= ahead.samples.p95 <= ahead.list_results_left
    assert "of the 390 results that are left of the list" in ahead.line
    assert "items left are taken to be like those seen" in ahead.text()
    part = due(study, rows).iloc[:-3]
    study.tell(part)  # the rest of the round is asked for first
    later = replan(study.state, runs=40)
    assert later.list_results_left == ahead.list_results_left - len(part)
    assert later.samples.typical >= 3


@pytest.mark.usefixtures("_one_order")
def test_arms_that_were_alike_on_every_item_take_the_whole_list(tmp_path):
    study, rows = told_study(tmp_path, (0.5, 0.5, 0.5))
    rows["outcome"] = [int(int(item) % 2 == 0) for item in rows["item"]]
    study.tell(due(study, rows))
    ahead = replan(study.state, runs=20)
    assert ahead.samples.typical == ahead.list_results_left


def test_the_rest_of_a_list_is_like_what_was_seen():
    told = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, np.nan]])
    rest = RestOfList(Binary(), told, 2000).initial_state(np.random.default_rng(1), 300)
    np.testing.assert_array_equal(rest.table[:, :3], np.broadcast_to(told[:3], (300, 3, 2)))
    np.testing.assert_array_equal(rest.given[0, :5], [[1, 1], [1, 1], [1, 1], [1, 0], [0, 0]])
    # a flat Dirichlet law over four rows: the mean is that of the rows, the variance p (1 - p)/(n + 1)
    assert rest.means[:, 0].mean() == pytest.approx(0.75, abs=0.03)
    assert rest.means[:, 0].var() == pytest.approx(0.75 * 0.25 / 5, rel=0.3)


@pytest.mark.usefixtures("_one_order")
def test_a_study_of_a_list_stays_within_what_it_may_cost(tmp_path):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        [(str(i), arm, int(rng.random() < 0.5)) for i in range(150) for arm in ARMS], columns=["item", "arm", "outcome"]
    )
    settings = {"question": BestArm(), "arms": ARMS, "noise": Binary(), "list": 150, "prices": "a=1,b=2,c=10"}
    storage = f"sqlite:///{tmp_path / 's.db'}"
    study = create_study("evals", **settings, max_cost=600, storage=storage)
    while (asked := study.ask()) is not None:
        wanted = {(arm, item) for arm, items in asked.items.items() for item in items}
        study.tell(rows[[each in wanted for each in zip(rows.arm, rows["item"], strict=True)]])
    report = study.report()
    assert report.status == "undecided"
    assert 600 - 13 < report.cost <= 600
    assert "another item would cost more than 600 in all" in report.headline
    assert "of at most 600" in " ".join(report.text().split())
    for wrong, said in (
        ({"max_cost": 12}, "one item costs more"),
        ({"max_cost": 50, "prices": None}, "in place of a budget"),
    ):
        with pytest.raises(InputError, match=said):
            create_study("other", **settings | wrong, storage=storage)


def test_a_plan_of_a_list_has_its_cost():
    found = plan(BestArm(), arms=2, noise=Binary(), list=40, prices=[1, 9], means=[0.5, 0.5], runs=10)
    assert found.row.cost.typical == 400
