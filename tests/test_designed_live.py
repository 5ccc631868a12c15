"""Designed studies from their first round to their last: what may change on the way, and the record of it."""

import html
import json
import re

import numpy as np
import pytest

from roundwise import Above, AnyAbove, BestArm, Designed, Gaussian, InputError, Problem, TopK, Wager
from roundwise.model.problem import begin
from roundwise.questions import Statements
from studies import rates, same_when_read_again, studies, sums
from test_web_pages import browsing, post

EVEN = {"a": 0.4, "b": 0.4, "c": 0.4, "d": 0.4}


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as make:
        yield make


def gains(study):
    return study.state.trial.kept.wealth.gains.tolist()


# --- another design on the way


def test_a_running_study_becomes_a_designed_one_and_back(make):
    study = make()
    rates(study, **EVEN)
    rates(study, **EVEN)
    before = gains(study)
    said = study.effect("redesign", budget=4000, lead="10%")
    assert "the chance of an answer is about" in said
    report = study.redesign(4000, "10%")
    assert gains(study) == before  # what was won stays
    assert study.state.spec.policy.name == "designed"
    assert "redesigned" in [each.code for each in report.notes]
    assert report.guarantee.status == "kept"
    same_when_read_again(study)
    rates(study, **EVEN)
    assert study.state.trial.plan.looks == 3.0  # of five, counted from here
    between = gains(study)
    assert "without a budget" in study.effect("redesign")
    study.redesign()
    assert study.state.spec.policy == Wager()
    assert gains(study) == between
    rates(study, **EVEN)
    study.redesign(9000, 0.05, looks=2)
    rates(study, **EVEN)
    designs = [each.design["policy"]["name"] for each in study.state.rounds]
    assert designs == ["wager", "wager", "designed", "wager", "designed"]
    same_when_read_again(study)


def test_each_round_is_bet_on_by_the_design_set_before_its_results(make):
    """Also where all rounds are counted anew, because a file was corrected."""
    study = make(arms=("a", "b"))
    rates(study, a=0.42, b=0.4)
    study.redesign(2000, 0.1)
    rates(study, a=0.42, b=0.4)
    study.ask()
    study.redesign()  # the round is open, and has no results: it is bet on as without a budget
    assert study.state.open_round.design["policy"]["name"] == "wager"
    rates(study, a=0.42, b=0.4)
    study.redesign(3000, 0.05)
    before, digest = gains(study), study.state.rounds[0].files[0].digest
    total = study.state.rounds[0].files[0].counts.tolist()
    same = {"arm": ["a", "b"], "count": total, "successes": [round(total[0] * 0.42), round(total[1] * 0.4)]}
    report = study.amend(digest[:12], same, "typed anew", new=True)
    np.testing.assert_allclose(gains(study), before, rtol=1e-12)
    assert report.guarantee.status == "conditional"
    same_when_read_again(study)


def test_a_design_keeps_the_settings_of_its_policy(make):
    study = make(policy=Designed(budget=900, lead=0.1, extension_value=0.0), arms=("a", "b"))
    assert (study.state.spec.budget, study.state.spec.lead) == (900, 0.1)
    study.redesign(1200)
    assert study.state.spec.policy == Designed(budget=1200, extension_value=0.0)
    own = Wager(batch_price=500.0)
    other = make("own", policy=own)
    rates(other, **EVEN)
    other.redesign(900, 0.1)
    rates(other, **EVEN)
    other.redesign()
    assert other.state.spec.policy == own
    same_when_read_again(other)


def test_designs_that_are_refused(make):
    study = make(budget=600, lead=0.2, arms=("a", "b"))
    with pytest.raises(InputError, match="need a budget"):
        study.redesign(lead=0.1)
    with pytest.raises(InputError, match="this design already"):
        study.redesign(600, 0.2)
    rates(study, a=0.4, b=0.4)
    with pytest.raises(InputError, match="120 results are counted"):
        study.redesign(100)
    study.ask()
    study.tell({"arm": ["a"], "outcome": [1]})
    with pytest.raises(InputError, match="must be set before those are seen"):
        study.redesign(900)
    for name, question, why in (
        ("stated", Statements.against_control(3, 0), "There is no design for 'statements'"),
        ("near", BestArm(tolerance=0.05), "There is no design for 'best-arm' with a tolerance"),
        ("above", Above(0.3), "cannot be continued by 'designed' where the question is 'above'"),
    ):
        other = make(name, question)
        rates(other, **EVEN)
        with pytest.raises(InputError, match=why):
            other.redesign(900, 0.1)
    capped = make("capped", policy=Wager(), budget=300)  # a budget that nothing is designed for
    with pytest.raises(InputError, match="is not designed for a budget"):
        capped.redesign()
    listed = make("listed", list=[f"q{i}" for i in range(80)])
    with pytest.raises(InputError, match="no design for a study of a list"):
        listed.redesign(100, 0.2)
    dead = make("dead", policy=Designed(budget=100, lead=0.3, looks=1, extension_value=0.0), arms=("a", "b"))
    rates(dead, a=0.4, b=0.4)
    with pytest.raises(InputError, match="used up a level"):
        dead.redesign()
    with pytest.raises(InputError, match="can no longer be decided"):
        dead.redesign(900)


def test_a_study_about_any_arm_beyond_a_level_is_designed_on_its_way(make):
    study = make(question=AnyAbove(0.6))
    rates(study, **EVEN)
    study.redesign(2000, 0.1)
    assert study.state.spec.policy.name == "designed"
    rates(study, **EVEN)
    same_when_read_again(study)


def test_on_every_surface(tmp_path, make, roundwise):
    study = make()
    rates(study, **EVEN)
    said = study.effect("redesign", budget=3000, lead="10%")
    storage = f"sqlite:///{tmp_path}/studies.db"
    with browsing(storage) as web:
        assert "/studies/s/change/redesign" in web.get("/studies/s").text
        asked = {"what": "redesign", "budget": 3000, "lead": 0.1}
        assert web.get("/api/v1/studies/s/effect", params=asked).json()["effect"] == said
        form = {"budget": "3000", "lead": "10%", "looks": ""}
        assert said in html.unescape(post(web, "/studies/s/change/redesign/effect", form).text)
        post(web, "/studies/s/change/redesign", {**form, "agreed": said})
        assert study.state.spec.lead == 0.1
        assert web.post("/api/v1/studies/s/redesign", json={"budget": 4000, "lead": "5%"}).status_code == 200
        assert web.post("/api/v1/studies/s/redesign", json={"lead": 0.1}).status_code == 422
    assert study.state.spec.lead == 0.05
    code, out, err = roundwise("redesign", "s", "--yes", "--storage", storage)
    assert code == 0, err
    assert "without a budget" in out
    assert study.state.spec.budget is None
    assert roundwise("redesign", "s", "--budget", "5000", "--looks", "3", "--yes", "--storage", storage)[0] == 0
    assert study.state.spec.policy == Designed(budget=5000, looks=4)
    assert roundwise("redesign", "s", "--budget", "5000", "--lead", "10%-of-30%", "--yes", "--storage", storage)[0] == 0
    assert study.state.spec.lead == 0.03
    same_when_read_again(study)
    code, out, err = roundwise(
        *("simulate", "--question", "best-arm", "--binary", "--means", "0.4,0.3", "--budget", "900"),
        *("--lead", "30%-of-30%", "--looks", "3", "--runs", "20", "--json"),
    )
    assert code == 0, err
    assert json.loads(out)[0]["policy"] == "designed"
    assert json.loads(out)[0]["batches"]["max"] <= 3


# --- what a report says


def test_a_budget_that_is_used_up(make):
    study = make(budget=900, lead=0.15)
    report = rates(study, a=0.4, b=0.39, c=0.2)
    (note,) = [each for each in report.notes if each.code == "levels"]
    assert [words for words, _ in note.fields["levels"]] == ["b is not the best", "a is not the best"]
    assert note.fields["rounds"] == 4
    assert "At most 4 more rounds" in str(note)
    while study.ask() is not None:
        report = rates(study, a=0.4, b=0.39, c=0.2)
    ended = "Undecided within the budget of 900 results. a (39.9 %) or b (38.7 %) is the best (95 %); c is out"
    assert report.headline == ended
    assert "levels" in [each.code for each in report.notes]
    assert "levels" not in [each.code for each in rates_to_the_end(make("clear", budget=900, lead=0.15)).notes]


def rates_to_the_end(study):
    while study.ask() is not None:
        report = rates(study, a=0.6, b=0.3, c=0.2)
    return report


@pytest.mark.parametrize(
    ("arms", "budget", "power"), [(2, 2055, 0.715), (3, 3740, 0.648), (4, 9536, 0.896), (10, 17_244, 0.6)]
)
def test_the_chance_that_an_extension_names(arms, budget, power):
    """That of a study which has all before it, beside 800 simulations of normal results with one arm ahead by 0.1."""
    problem, policy = Problem(BestArm(), arms, 0.05, Gaussian(1.0)), Designed(budget=budget, lead=0.1)
    said = policy.stopping.effect_of_budget(problem, begin(problem, policy), budget, [f"arm {i}" for i in range(arms)])
    chance = float(re.search(r"is about (\d+) %", said)[1]) / 100
    assert abs(chance - power) <= 0.04


# --- whatever may change on the way


@pytest.mark.parametrize(
    ("question", "settings"),
    [
        (BestArm(), {"lead": 0.1}),
        pytest.param(BestArm(), {}, marks=pytest.mark.long),
        pytest.param(BestArm(lower_is_better=True), {"lead": 0.1, "round_size": 150}, marks=pytest.mark.long),
        pytest.param(BestArm(), {"lead": 0.1, "split": "2:1:1"}, marks=pytest.mark.long),
        pytest.param(BestArm(), {"lead": 0.1, "max_round_size": 120, "min_per_arm": 10}, marks=pytest.mark.long),
        (Above(0.3), {"lead": 0.1, "split": "equal", "round_size": 150}),
        pytest.param(AnyAbove(0.42), {"lead": 0.1, "looks": 3}, marks=pytest.mark.long),
        (TopK(2), {"lead": 0.1}),
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else each.name,
)
def test_rounds_that_come_otherwise_and_plans_that_change(make, question, settings):
    study = make(question=question, budget=900, **settings)

    def told(short=0, more=0):
        asked = study.ask()
        n = [max(int(each) - short + more, 1) for each in asked.outstanding]
        drawn = {arm: (k, round(0.4 * k)) for arm, k in zip(asked.arms, n, strict=True)}
        return study.tell(sums(**drawn), new=True)

    told(more=7)  # more results than asked for
    assert told(short=9).rounds == 1  # fewer: the round stays open,
    with pytest.raises(InputError, match="must be set before"):
        study.extend(2000)
    report = study.close_round("the week is over")  # until somebody says that the rest will not come
    assert [each.code for each in report.guarantee.conditions] == ["short_rounds"]
    study.ask()
    study.extend(700)  # a round that is asked for and has no results is bet on with the new budget
    assert study.state.open_round.design["budget"] == 700
    told()
    if question.name == "best-arm":
        study.add("d", "a new idea")
        told()
        study.drop("b", "it looks worst")
        told()
        study.redesign()
        told()
    while study.ask() is not None and study.state.number < 9:
        told()
    if study.state.over is not None:
        used = int(study.state.record.samples)
        study.extend(used + 200)
        told()
    report = study.report()
    assert {each.code for each in report.guarantee.conditions} <= {"short_rounds", "seed_chosen"}
    assert not report.guarantee.reasons
    same_when_read_again(study)
