"""Columns that are known of a whole list: control variates, and arms that need no more results."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from roundwise import Above, BestArm, Binary, Bounded, Claims
from roundwise.errors import DataError, InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem
from roundwise.rules.finite.bets import log_wealth
from roundwise.rules.finite.known import KnownColumns
from roundwise.rules.finite.rule import ListRule
from roundwise.study import create_study
from roundwise.study.audit import verify_study


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
        found.append(np.exp(log_wealth(folded(problem, rows, known, 4).wealth.log_wealth)))
    assert np.mean(found, axis=0) == pytest.approx(np.ones_like(found[0]), abs=1e-9)
    without = np.exp(log_wealth(folded(problem, rows, None, 4).wealth.log_wealth))
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
        found.append(folded(problem, rows, KnownColumns.of(each, (1,)), 30).wealth.log_wealth)
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
        gains.append((log_wealth(with_it.wealth.log_wealth) - log_wealth(without.wealth.log_wealth)).max())
    assert np.mean(gains) > 1.0


def test_a_known_arm_that_is_far_behind_saves_a_quarter_of_the_results():
    """Two arms correlated as models of a benchmark are (.4), 20 points apart."""
    rng, places = np.random.default_rng(7), []
    for _ in range(30):
        hard = rng.random(300)
        luck = np.where(rng.random((300, 2)) < 0.75, hard[:, None], rng.random((300, 2)))
        table = (luck < [0.7, 0.5]).astype(float)
        known = KnownColumns.of(table[:, [1, 1]], (1,))
        problem = Problem(BestArm(), 2, noise=Binary())
        both = [folded(problem, table, each, 299).items for each in (known, None)]
        places.append([float(each) for each in both])
    with_it, without = np.mean(places, axis=0)
    assert with_it < 0.75 * without


def test_known_arms_are_out_at_once_if_another_known_one_is_ahead():
    rng = np.random.default_rng(2)
    table = (rng.random((50, 3)) < [0.5, 0.9, 0.2]).astype(float)
    known = KnownColumns.of(np.column_stack([table[:, 1:], table[:, 1]]), (1, 2))
    problem = Problem(BestArm(), 3, noise=Binary())
    assert ListRule(50, known=known).start(problem, ()).wealth.rejected.tolist() == [False, False, True]
    levels = Problem(Above(0.5), 3, noise=Binary())
    assert ListRule(50, known=known).start(levels, ()).wealth.shown.T.tolist() == [
        [False, False],
        [True, False],
        [False, True],
    ]
    # an arm that cannot catch up any more is out for certain, long before the list is used up
    kept = folded(Problem(BestArm(), 3, delta=1e-12, noise=Binary()), np.where([1, 0, 0], 0.0, table), known, 10)
    assert kept.wealth.certain.tolist() == [True, False, True]


# --- studies

ARMS = ["old", "new", "other"]


@pytest.fixture
def _one_order(monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 11)


def drawn(size=150, rates=(0.5, 0.8, 0.45)):
    rng = np.random.default_rng(5)
    hard = rng.random(size)
    table = {arm: (hard + rng.normal(0, 0.2, size) < rate).astype(int) for arm, rate in zip(ARMS, rates, strict=True)}
    return pd.DataFrame({"item": [f"q{i}" for i in range(size)], **table, "score": hard.round(3)})


def run_study(study, table):
    rows = table.melt("item", ARMS, "arm", "outcome")
    while (asked := study.ask()) is not None:
        assert "old" not in asked.items
        wanted = {(arm, item) for arm, items in asked.items.items() for item in items}
        study.tell(rows[[each in wanted for each in zip(rows.arm, rows["item"], strict=True)]])
    return study.report()


@pytest.mark.usefixtures("_one_order")
@pytest.mark.parametrize("lower", [False, True])
def test_a_study_with_an_arm_that_was_run_before(tmp_path, lower):
    table = drawn(rates=(0.5, 0.2, 0.5) if lower else (0.5, 0.8, 0.45))
    known = {name: table[name].tolist() for name in ("old", "score")}
    study = create_study(
        "evals",
        question=BestArm(lower_is_better=lower),
        arms=ARMS,
        noise=Binary(),
        list={"items": table["item"].tolist(), "known": known},
        storage=(storage := f"sqlite:///{tmp_path / 's.db'}"),
    )
    report = run_study(study, table)
    assert report.answer == "new"
    assert report.list_results == 300  # of the two that are run
    assert report.results < 300
    old = report.arm_rows[0]
    assert (old.results, old.mean) == (150, pytest.approx(table.old.mean()))
    assert old.lower == pytest.approx(old.upper)
    with pytest.raises(DataError, match="'old' are known"):
        study.tell(pd.DataFrame({"item": ["q0"], "arm": ["old"], "outcome": [1]}))
    assert verify_study("evals", storage).sound


@pytest.mark.usefixtures("_one_order")
@pytest.mark.parametrize(("leaves", "whole"), [("other", 150), ("old", 300)], ids=["one that is run", "the known one"])
def test_an_arm_leaves_beside_a_known_one(tmp_path, leaves, whole):
    """The rest is the study that it would have been without the arm; a known column stays as a score."""
    table, rest = drawn(rates=(0.5, 0.65, 0.45)), [arm for arm in ARMS if arm != leaves]
    known, question, found = {name: table[name].tolist() for name in ("old", "score")}, BestArm(), []
    for arms in (ARMS, rest):
        storage = f"sqlite:///{tmp_path / str(len(arms))}.db"
        items = {"items": table["item"].tolist(), "known": known}
        study = create_study("evals", question=question, arms=arms, noise=Binary(), list=items, storage=storage)
        asked = {arm: items[:20] for arm, items in study.ask().items.items()}
        rows = table.melt("item", ARMS, "arm", "outcome")
        wanted = {(arm, item) for arm, items in asked.items() for item in items}
        study.tell(rows[[each in wanted for each in zip(rows.arm, rows["item"], strict=True)]], round_over="a stop")
        if leaves in arms:
            study.drop(leaves, "its license ended", unrelated=True)
        report = study.report()
        assert report.list_results == whole
        found.append([(row.name, row.results, row.mean, row.lower, row.upper) for row in report.arm_rows[:3]])
        assert verify_study("evals", storage).sound
    assert {row[0]: row for row in found[0]}["new"] == {row[0]: row for row in found[1]}["new"]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"score": [1.0]}, "a number for each of the 3 items"),
        ({"old": [0, 1, 2]}, "between 0 and 1"),
        ({arm: [0, 1, 1] for arm in ARMS}, "nothing to ask"),
    ],
)
def test_known_columns_that_are_none(tmp_path, known, said):
    with pytest.raises(InputError, match=said):
        create_study(
            "evals",
            question=BestArm(),
            arms=ARMS,
            noise=Binary(),
            list={"size": 3, "known": known},
            storage=f"sqlite:///{tmp_path / 's.db'}",
        )


def test_known_columns_on_the_command_line(roundwise, tmp_path):
    drawn(40)[["item"]].to_csv(tmp_path / "items.csv", index=False)
    drawn(40)[["item", "old", "score"]].to_csv(tmp_path / "known.csv", index=False)
    new = "new", "evals", "--question", "best-arm", "--arms", ",".join(ARMS), "--binary", "--list", "items.csv"
    roundwise(*new, "--known", "known.csv")
    asked = roundwise("ask", "evals", "--as", "ids")[1]
    assert ",new\n" in asked
    assert ",old\n" not in asked
