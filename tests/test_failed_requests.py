"""Requests on a list that fail: asked for again, given up for good, or a result that was fixed at creation."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from roundwise import Above, BestArm, Binary, Bounded, Claims, Reading, TopK, create_study, load_study
from roundwise.errors import InputError
from roundwise.formats.requests import request_id
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, advance, begin
from roundwise.policies import Lockstep
from roundwise.rules.finite.bets import log_wealth
from roundwise.rules.finite.rule import ListRule
from roundwise.study.audit import verify_study

ARMS = ["a", "b", "c"]
FAILED = np.inf


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path}/studies.db"


def create(storage, size=120, name="evals", **settings):
    settings = {"question": BestArm(), "arms": ARMS, "noise": Binary(), "storage": storage} | settings
    return create_study(name, list=[f"q{i}" for i in range(size)], **settings)


def answered(study, value=lambda arm, item: int(arm == "a" or hash_of(item) < 0.6)):
    """What the open round asks for."""
    rows = [(arm, item, value(arm, item)) for arm, items in study.ask().items.items() for item in items]
    return pd.DataFrame(rows, columns=["arm", "item", "outcome"]).astype({"outcome": object})


def hash_of(item):
    return int(item[1:]) * 0.618 % 1


def test_the_wealth_against_a_best_arm_is_at_most_one_whatever_fails(monkeypatch):
    """By enumeration of all orders: an entry that is given up has the value that speaks against every statement."""
    monkeypatch.setattr("roundwise.rules.finite.best_arm.EARLY", 1)
    problem, rule = Problem(BestArm(), 2, delta=1e-12, noise=Bounded(0, 1)), ListRule(5)
    tied = np.array([[1, 0], [0.5, 1], [0, 0.5], [0, 0], [1, 1.0]])
    for gone in ([(0, 1)], [(1, 0)], [(1, 0), (4, 1)], [(0, 0), (2, 0)]):
        table = tied.copy()
        for entry in gone:
            table[entry] = FAILED
        for place in (2, 3, 4):
            found = []
            for order in itertools.permutations(range(5)):
                rows = np.where(np.arange(5)[:, None] < place, table[list(order)], np.nan)
                batch = Batch(np.ones(2), np.ones(2), rows=rows)
                kept = rule.fold(problem, rule.start(problem, ()), BatchPlan(np.ones(2), np.asarray(True)), batch)
                found.append(np.exp(log_wealth(kept.wealth.log_wealth)))
            assert (np.mean(found, axis=0) <= 1 + 1e-9).all()
            assert (np.mean(found, axis=0) < 0.999).any()


@pytest.mark.parametrize(
    ("question", "sure"),
    [
        (BestArm(), lambda low, high: (left := high >= low.max()).sum() == 1 or (low == high)[left].all()),
        (TopK(2), lambda low, high: max(np.minimum(low[i], low[j]) - high[3 - i - j] for i, j in PAIRS) >= 0),
        (Above(0.5), lambda low, high: all(each > 3 or other <= 3 for each, other in zip(low, high, strict=True))),
        (Claims.against_control(3, 0, sides="two"), lambda low, high: True),
    ],
)
def test_an_answer_at_the_end_of_a_list_is_right_whatever_failed_requests_would_have_given(question, sure):
    """Where they could give another answer the study ends undecided; the bets are off, so arithmetic alone decides."""
    problem, policy = Problem(question, 3, delta=1e-12, noise=Binary()), Lockstep(size=6)
    rng, ends = np.random.default_rng(1), set()
    for _ in range(60):
        table = (rng.random((6, 3)) < rng.random(3)).astype(float)
        gone = rng.random((6, 3)) < 0.1
        rows = np.where(gone, FAILED, table)
        trial = begin(problem, policy)
        batch = Batch((~gone).sum(axis=0) * 1.0, np.where(gone, 0, table).sum(axis=0), rows=rows)
        trial = advance(problem, policy, trial, batch)
        low, high = (np.where(gone, end, table).sum(axis=0) for end in (0, 1))
        assert bool(trial.done) == bool(sure(low, high))
        assert bool(policy.stopping.broken(problem, trial)) is not bool(trial.done)
        ends.add(bool(trial.done))
        if not trial.done:
            continue
        answer = policy.stopping.answer(problem, trial)
        for values in itertools.product((0.0, 1.0), repeat=int(gone.sum())):
            whole = table.copy()
            whole[gone] = values
            if question.separate_claims:  # what is shown is true; what is not shown may be
                lead = (whole[:, 1:] - whole[:, :1]).sum(axis=0)
                assert (lead[answer[:2]] > 0).all()
                assert (lead[answer[2:]] <= 0).all()
            elif question.name == "top-k":  # of equal arms any may be named
                assert whole[:, answer].sum(axis=0).min() >= whole[:, ~answer].sum(axis=0).max()
            else:
                assert question.correct(answer, whole.mean(axis=0))
    assert ends == ({True} if question.separate_claims else {True, False})


PAIRS = [(0, 1), (0, 2), (1, 2)]


def test_requests_that_are_given_up_are_not_asked_for_again(storage):
    study = create(storage)
    now = answered(study)
    now.loc[3, "outcome"] = None
    lost = now.loc[3]
    read, report = study.preview(now, failed=True)
    assert read[0].missing.sum() == 1
    assert not report.remaining
    report = study.tell(now, failed=True)
    assert not report.remaining
    assert any("1 failed request given up (a 1; the outcome is empty)" in str(each) for each in report.notes)
    assert "given up does not depend on results at later places" in str(report.guarantee)
    assert lost["item"] not in study.ask().items.get(lost["arm"], [])
    # a result that comes after all is too late
    late = answered(study)
    report = study.tell(pd.concat([late, pd.DataFrame([lost.to_dict() | {"outcome": 1}])]))
    assert any("an outcome where none was recorded" in str(each) for each in report.notes)
    while study.ask() is not None:
        study.tell(answered(study))
    report = study.report()
    assert report.answer == "a"
    assert report.guarantee.status == "conditional"
    assert verify_study("evals", storage).sound
    with load_study("evals", storage) as again:
        assert again.report().plain() == report.plain()


def test_a_study_whose_list_is_used_up_may_be_open_because_of_what_failed(storage):
    study = create(storage, size=12, arms=["a", "b"])
    rows = answered(study, lambda arm, item: int(item[1:]) % 2)
    rows.loc[rows.index[(rows.arm == "b") & (rows["item"] == "q3")], "outcome"] = None
    report = study.tell(rows, failed=True)
    assert report.status == "undecided"
    assert report.answer is None
    assert report.headline.startswith("Undecided (the list is used up, and requests that failed leave the answer open)")
    assert study.ask() is None
    assert verify_study("evals", storage).sound
    again = create(storage, size=12, arms=["a", "b"], name="again")
    again.ask()
    report = again.tell(rows)
    assert report.remaining == {"b": 1}
    assert any("asked for again (b 1). If they keep failing" in str(each) for each in report.notes)


def test_what_a_failed_request_is_may_be_fixed_at_creation(storage):
    study = create(storage, reading=Reading(failed_is=0))
    now = answered(study)
    now.loc[3, "outcome"] = None
    report = study.tell(now)
    assert not report.remaining
    assert report.guarantee.kept
    assert "A request that failed counts as 0." in report.assumptions
    assert any("1 failed request counted as 0 (a 1)." in str(each) for each in report.notes)
    assert study.state.trial.kept.results[: len(now) // 3].min() == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"reading": Reading(empty="zero")}, "is asked for again.*failed_is"),
        ({"reading": Reading(failed_is=0.5)}, "cannot count as 0.5"),
        ({"reading": Reading(failed_is=2)}, "cannot count as 2"),
    ],
)
def test_what_a_failed_request_cannot_be(storage, settings, said):
    with pytest.raises(InputError, match=said):
        create(storage, **settings)


def test_options_of_tell_that_do_not_fit(storage):
    study = create(storage)
    for words in ({"missing": "lost"}, {"empty": "zero"}):
        with pytest.raises(InputError, match="asked for again.*failed=True"):
            study.tell(answered(study), **words)
    with pytest.raises(InputError, match="has no list"):
        create_study("x", question=BestArm(), arms=ARMS, noise=Binary(), reading=Reading(failed_is=0), storage=storage)
    other = create_study("y", question=BestArm(), arms=ARMS, noise=Binary(), storage=storage)
    other.ask()
    with pytest.raises(InputError, match="given up on a list"):
        other.tell(pd.DataFrame({"arm": ["a"], "outcome": [None]}), failed=True)


def test_the_error_file_of_a_batch(roundwise, tmp_path):
    """A file of errors alone is told back: asked for again, or given up."""
    assert roundwise("new", "evals", "-q", "best-arm", "--arms", "a,b", "--binary", "--list-size", "200")[0] == 0
    roundwise("ask", "evals")
    errors = [
        {"custom_id": request_id(arm, "17"), "response": None, "error": {"code": "batch_expired", "message": "late"}}
        for arm in "ab"
    ]
    (tmp_path / "errors.jsonl").write_text("".join(json.dumps(each) + "\n" for each in errors))
    code, _, said = roundwise("tell", "evals", "errors.jsonl")
    assert code == 2
    assert "errors.jsonl: no row has an outcome (a 1, b 1): they are asked for again." in " ".join(said.split())
    code, said, _ = roundwise("tell", "evals", "errors.jsonl", "--failed")
    assert code == 0
    assert "2 failed requests given up (a 1, b 1; late)" in " ".join(said.split())
