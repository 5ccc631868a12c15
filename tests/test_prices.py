"""Prices of results: what is asked for where arms cost different amounts, and what reports say of money."""

from __future__ import annotations

import json

import numpy as np
import pytest

from roundwise import BestArm, Binary, Columns, DataError, GaussianArms, InputError, Wager
from roundwise.formats.requests import request_id
from roundwise.model.problem import Problem, begin
from roundwise.questions.best_arm import solve_star
from roundwise.questions.lower_bounds import cost_lower_bound
from roundwise.simulation.run import RunSettings, compute_blocks, join_runs, split_into_blocks
from roundwise.study import create_study
from roundwise.study.audit import verify_study


def test_the_star_costs_least():
    """Independent check: no allocation that meets the constraints is cheaper, nor the stated condition missed."""
    rng = np.random.default_rng(1)
    costs, prices = rng.uniform(0.01, 0.2, 6), tuple(rng.uniform(0.1, 10, 6))
    leads = np.arange(6) == 2
    pulls = solve_star(costs, leads, prices)
    others = ~leads
    np.testing.assert_allclose(1 / pulls[2] + 1 / pulls[others], costs[others], rtol=1e-9)
    c = np.array(prices)
    assert (c * pulls**2)[others].sum() == pytest.approx(c[2] * pulls[2] ** 2, rel=1e-6)
    for y in np.linspace(0.01, 0.99, 50) * costs[others].min():
        other = np.where(leads, 1 / y, 1 / (costs - y))
        assert c @ other >= c @ pulls - 1e-6
    np.testing.assert_allclose(solve_star(costs, leads, (1.0,) * 6), solve_star(costs, leads), rtol=1e-6)


def test_the_lower_bound_on_cost():
    """Two arms: 2 sigma^2/gap^2 (sqrt c1 + sqrt c2)^2 kl(delta, 1 - delta)."""
    least = 0.9 * np.log(19)
    for gap, prices in ((1.0, (1.0, 1.0)), (0.3, (2.0, 50.0))):
        wanted = 2 / gap**2 * np.sqrt(prices).sum() ** 2 * least
        assert float(cost_lower_bound(BestArm(), [gap, 0.0], 0.05, prices)) == pytest.approx(wanted, rel=1e-6)


def test_complexity_says_what_no_method_undercuts(roundwise):
    words = "complexity", "--question", "best-arm", "--means", "0.3,0", "--prices", "4,1"
    found = json.loads(roundwise(*words, "--json")[1])
    assert found["cost_lower_bound"] == pytest.approx(2 / 0.3**2 * 9 * 0.9 * np.log(19), rel=1e-6)
    assert found["cost_weights"] == pytest.approx([2 / 3, 1 / 3], rel=1e-4)
    assert "none spends less than 530 on average" in roundwise(*words)[1]
    assert "one --sigma" in roundwise(*words, "--binary")[2]
    for command in ("complexity", "bounds"):  # both ended in a traceback
        assert "Prices are positive" in roundwise(command, *words[1:-1], "4,0")[2]


def mean_cost(means, prices, known, runs=150):
    environment = GaussianArms(means)
    problem = Problem(BestArm(), len(means), 0.05, environment.noise, prices=tuple(prices) if known else ())
    setting = RunSettings(problem, environment, "wager", Wager(), runs, 1, True, np.inf, np.inf, None)
    found = join_runs([block for _, block in compute_blocks(split_into_blocks(setting), 1, 1, None)])
    assert found.correct.mean() >= 0.9
    return float((found.counts @ np.array(prices)).mean())


@pytest.mark.parametrize(
    ("means", "prices", "most"), [([0.5, 0.0], [50.0, 1.0], 0.8), ([0.5, 0.2, 0, 0], [50.0, 1, 1, 1], 0.75)]
)
def test_dear_arms_are_asked_for_less_often(means, prices, most):
    assert mean_cost(means, prices, True) < most * mean_cost(means, prices, False)


def test_the_first_batch_costs_the_same():
    problem = Problem(BestArm(), 2, 0.05, Binary(), prices=(1.0, 4.0))
    pulls = begin(problem, Wager()).plan.pulls
    assert pulls[0] / pulls[1] == pytest.approx(2.0, rel=0.1)
    assert pulls @ [0.4, 1.6] == pytest.approx(60, abs=3)


def test_a_study_says_what_was_spent(tmp_path):
    storage = f"sqlite:///{tmp_path / 'studies.db'}"
    study = create_study("e", question=BestArm(), arms=["a", "b"], noise=Binary(), prices="a=1,b=50", storage=storage)
    asked = study.ask()
    report = study.tell({"arm": ["a", "b"], "count": asked.pulls.astype(int).tolist(), "successes": [0, 0]})
    assert report.cost == asked.pulls @ [1, 50]
    assert "at a price of" in report.text()
    with pytest.raises(InputError, match="price"):
        create_study("f", question=BestArm(), arms=["a", "b"], noise=Binary(), prices="a=1", storage=storage)


def test_a_study_stays_within_what_it_may_cost(tmp_path):
    """Two equal arms: the last round is cut to the money that is left, and the study ends undecided."""
    rng = np.random.default_rng(2)
    storage, settings = f"sqlite:///{tmp_path / 's.db'}", {"question": BestArm(), "arms": ["a", "b"]}
    settings |= {"noise": Binary(), "prices": "a=1,b=4"}
    study = create_study("e", **settings, max_cost=1000, storage=storage)
    while (asked := study.ask()) is not None:
        pulls = asked.pulls.astype(int)
        assert (pulls > 0).all()
        study.tell({"arm": ["a", "b"], "count": pulls.tolist(), "successes": rng.binomial(pulls, 0.5).tolist()})
    report = study.report()
    assert report.status == "undecided"
    assert 950 < report.cost <= 1000
    assert "another round would cost more than 1000 in all" in report.headline
    assert report.max_cost == 1000
    assert verify_study("e", storage).sound
    for wrong in ({"prices": None}, {"budget": 500}):
        with pytest.raises(InputError, match="in place of a budget"):
            create_study("f", **settings | {"max_cost": 9} | wrong, storage=storage)


def told_costs(storage, **settings):
    """A study whose second round was planned, after 100 results of each arm that cost 1 and 25."""
    study = create_study("evals", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=storage, **settings)
    study.ask()
    rows = [(arm, k % 2, cost) for arm, cost in (("a", 1), ("b", 25)) for k in range(100)]
    study.tell(dict(zip(("arm", "outcome", "paid"), zip(*rows, strict=True), strict=True)))
    return study, study.ask().pulls


def test_prices_are_learnt_from_what_results_cost(tmp_path):
    """Two equal arms get pulls in proportion to c^-1/2, as with prices that are known; bets do not change."""
    learnt, pulls = told_costs(f"sqlite:///{tmp_path}/1.db", columns=Columns(cost="paid"), seed=3)
    plain, others = told_costs(f"sqlite:///{tmp_path}/2.db", seed=3)
    assert pulls[0] / pulls[1] == pytest.approx(5, rel=0.02)
    assert others[0] == others[1]
    assert learnt.report().cost == 2600
    assert "at a price of 2 600 in 1 round" in " ".join(learnt.report().text().split())
    assert [each.log_evidence for each in learnt.report().claim_rows] == [
        each.log_evidence for each in plain.report().claim_rows
    ]
    assert plain.report().cost is None
    assert verify_study("evals", f"sqlite:///{tmp_path}/1.db").sound


def test_costs_of_a_list_and_their_unit(tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    study = create_study("evals", question=BestArm(), arms=["a", "b"], noise=Binary(), list=100, storage=storage)
    asked = study.ask().items
    for arm, tokens in (("a", 100), ("b", 300)):
        lines = [
            {
                "custom_id": request_id(arm, item),
                "response": {"status_code": 200, "body": {"score": int(arm == "a"), "usage": {"total_tokens": tokens}}},
            }
            for item in asked[arm]
        ]
        (tmp_path / f"{arm}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    columns = Columns(outcome="response.body.score")
    report = study.tell(tmp_path / "a.jsonl", columns=columns)
    assert report.cost is None  # what b costs is not known
    report = study.tell(tmp_path / "b.jsonl", columns=columns)
    assert (report.cost, report.list_cost, report.cost_unit) == (8000, 40_000, "tokens")
    assert "at a price of 8 000 tokens (20 % of the whole list)" in " ".join(study.report().text().split())
    assert study.report().plain()["cost_unit"] == "tokens"


def test_results_that_cost_nothing(tmp_path):
    """Promptfoo writes a cost of 0 for local and cached models."""
    study = create_study(
        "evals", question=BestArm(), arms=["a", "b"], noise=Binary(), list=20, storage=f"sqlite:///{tmp_path}/s.db"
    )
    asked = study.ask().items
    rows = [(arm, item, int(arm == "a"), 0) for arm, items in asked.items() for item in items]
    report = study.tell(dict(zip(("arm", "item", "outcome", "cost"), zip(*rows, strict=True), strict=True)),
                        columns=Columns(cost="cost"))  # fmt: skip
    assert (report.answer, report.cost, report.list_cost) == ("a", 0, 0)
    assert "at a price of 0 in 1 round" in " ".join(report.text().split())


def test_a_cost_is_a_number(tmp_path):
    study = create_study(
        "evals", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=f"sqlite:///{tmp_path}/studies.db"
    )
    study.ask()
    with pytest.raises(DataError, match="the paid '-3' cannot be one"):
        study.tell({"arm": ["a"], "outcome": [1], "paid": ["-3"]}, columns=Columns(cost="paid"))
