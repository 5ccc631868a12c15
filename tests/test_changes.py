"""What else may change in a study under way: budgets, earlier data, later results, its end; and its rounds."""

import json

import pytest

from changing import ARMS, rates, same_when_read_again, studies, sums
from roundwise import (
    BestArm,
    Binary,
    Gaussian,
    InputError,
    TopK,
    Wager,
    load_study,
)
from roundwise.policies import PET
from roundwise.questions import Claims
from roundwise.studies.keeping import verified
from roundwise.studies.settings import Settings
from roundwise.studies.store import UnknownStudy


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as made:
        yield made


class TestAfterTheDecision:
    def test_results_are_recorded_and_the_verdict_stands(self, make):
        study = make(arms=("a", "b"))
        while rates(study, a=0.2, b=0.9).status != "decided":
            pass
        before = study.report()
        report = study.tell(sums(a=(100, 80), b=(10, 9)))
        assert (report.status, report.answer) == (before.status, before.answer) == ("decided", "b")
        assert study.state.record.counts.sum() == study.state.trial.record.counts.sum() + 110
        assert any("110 results came after the decision" in each for each in study.report().warnings)
        assert f" results, {before.results} in {before.rounds} round" in study.status().text()
        assert " and 110 after the decision" in study.report().markdown()
        assert [each.kind for each in study.entries()][-2:] == ["decided", "later"]
        with pytest.raises(InputError, match="was already recorded after the decision"):
            study.tell(sums(a=(100, 80), b=(10, 9)))
        with pytest.raises(InputError, match="can no longer be corrected"):
            study.amend(study.state.asked[0].files[0].digest, None, "x")
        assert study.ask() is None
        assert verified(study.entries()).differences == ()


class TestBudgets:
    def test_a_study_goes_on_with_a_larger_one(self, make):
        study = make(budget=100)
        while study.ask() is not None:
            rates(study, a=0.5, b=0.5, c=0.5)
        assert "budget of 100 results is used up" in study.state.over
        assert study.effect("extend", budget=300).startswith("This keeps the guarantee")
        assert study.extend(300).guarantee == "kept"
        assert study.state.over is None
        while study.ask() is not None:
            rates(study, a=0.5, b=0.5, c=0.5)
        assert study.state.trial.record.samples == 300
        assert verified(study.entries()).differences == ()

    def test_what_is_left_of_claims_is_said_before_results(self, make):
        names = ("placebo", "low", "high")
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=120, round=60)
        assert study.state.trial.plan.left == 60
        study.ask()
        study.tell(sums(placebo=(10, 3)))
        with pytest.raises(InputError, match="must be said before"):
            study.extend(600)
        study.tell(sums(low=(20, 8), high=(30, 12)))
        assert study.state.trial.plan.last
        study.extend(600)
        assert (study.state.trial.plan.left, bool(study.state.trial.plan.last)) == (480, False)

    def test_what_cannot_be(self, make):
        study = make()
        with pytest.raises(InputError, match="has no budget to extend"):
            study.extend(10)
        study = make("b", budget=200)
        rates(study, a=0.5, b=0.5, c=0.5)
        with pytest.raises(InputError, match="The budget would be 50, but 90 results are counted"):
            study.extend(50)


class TestThePast:
    def test_it_teaches_and_is_no_evidence(self, make):
        study, plain = make(), make("plain")
        assert study.import_past(sums(a=(500, 100), b=(500, 400), c=(500, 250))).guarantee == "kept"
        state = study.state
        assert state.trial.record.samples == 0
        assert state.trial.kept.won.gains.tolist() == [0.0, 0.0, 0.0]
        assert state.trial.kept.choice.leader == 1
        for each in (study, plain):
            rates(each, a=0.3, b=0.7, c=0.5)
        taught, untaught = (each.state.trial.kept.won.gains for each in (study, plain))
        assert (
            taught[[0, 2]] > untaught[[0, 2]]
        ).all()  # a batch that came as sums is bet on, now that there is a past
        same_when_read_again(study)

    def test_it_comes_first(self, make):
        study = make()
        study.import_past(sums(a=(5, 1), b=(5, 4)))
        with pytest.raises(InputError, match="was imported already"):
            study.import_past(sums(a=(5, 1), b=(5, 4)))
        study.ask()
        study.tell(sums(a=(5, 1)))
        with pytest.raises(InputError, match="has results: earlier data may teach only"):
            study.import_past(sums(a=(7, 1)))
        with pytest.raises(InputError, match="teach nothing to the policy pet, .*`policy=Wager"):
            make("p", policy=PET(), noise=Gaussian()).import_past({"arm": ["a"], "count": [3], "total": [1.0]})


class TestClosingAndRemoving:
    def test_a_study_is_reopened(self, make):
        study = make()
        rates(study, a=0.5, b=0.5, c=0.5)
        for call in (lambda: study.reopen("x"), lambda: study.effect("reopen")):
            with pytest.raises(InputError, match="is not closed"):
                call()
        study.end("no money")
        assert study.ask() is None
        assert study.reopen("money came").guarantee == "kept"
        assert study.ask().number == 2
        assert [each.kind for each in study.entries()][-3:] == ["closed", "reopened", "asked"]

    def test_what_is_not_counted_is_said(self, make):
        study = make()
        study.ask()
        study.tell(sums(a=(10, 5), b=(3, 1)))
        waiting = study.state.waiting
        assert (waiting.batch, waiting.results, waiting.counts.tolist()) == (1, 13, [10, 3, 0])
        assert waiting.means.tolist() == [0.5, 1 / 3, 0.0]
        assert "The 13 results told of round 1 are not counted." in study.effect("end")

    def test_a_study_without_results_is_removed(self, make):
        study = make()
        study.ask()
        study.note("a mistake")
        study.remove()
        with pytest.raises(UnknownStudy):
            study.state  # noqa: B018
        again = make(question=TopK(1))
        rates(again, a=0.5, b=0.5, c=0.5)
        for call in (again.remove, lambda: again.effect("remove")):  # before anybody is asked
            with pytest.raises(InputError, match="has results, and a record with results is never erased"):
                call()

    def test_notes_are_kept(self, make):
        study = make()
        study.note("started on a Monday")
        rates(study, a=0.5, b=0.5, c=0.5)
        study.note("the server was slow")
        assert [each["text"] for each in study.state.remarks] == ["started on a Monday", "the server was slow"]
        with pytest.raises(InputError, match="The note is empty"):
            study.note(" ")


class TestRounds:
    def test_a_round_is_complete_when_its_number_is_there(self, make):
        study = make(round=60, split="2:1:1", budget=300)
        asked = study.ask()
        assert (asked.pulls.tolist(), asked.by_number) == ([30, 15, 15], True)
        report = study.tell(sums(a=(40, 20), b=(10, 5)))
        assert study.state.outstanding.outstanding.sum() == 10
        report = study.tell(sums(c=(15, 5)))  # 65 of 60
        assert (report.rounds, report.still_to_come, report.guarantee) == (1, {}, "kept")
        assert not any("never came" in each for each in report.warnings)
        assert study.ask().number == 2
        same_when_read_again(study)

    def test_a_split_follows_the_arms(self, make):
        study = make(round=60, split="3:2:1")
        rates(study, a=0.5, b=0.5, c=0.5)
        study.add("d")
        assert study.state.settings.split == (3.0, 2.0, 1.0, 1.0)
        study.drop("b", "sold out")
        assert study.state.settings.split == (3.0, 1.0, 1.0)
        assert study.ask().pulls.sum() == 60
        same_when_read_again(study)

    def test_a_round_that_is_over_early(self, make):
        study = make(round=60)
        study.ask()
        study.tell(sums(a=(30, 15), b=(10, 5)))
        report = study.close_round("the week is over")
        assert any("20 of 60 results never came (the week is over)" in each for each in report.warnings)
        assert report.guarantee.startswith("conditional on the assumption that what is missing of round 1")

    def test_splits_that_are_none(self, make):
        for split, words in (("2:1", "has 2 shares, but there are 3 arms"), ("a:b:c", "must be 'equal' or shares")):
            with pytest.raises(InputError, match=words):
                make(split=split)
        with pytest.raises(InputError, match="goes with a policy that may look"):
            make(policy=PET(), noise=Gaussian(), round=100)

    def test_settings_survive_json(self):
        settings = Settings(BestArm(), ARMS, Binary(), 0.05, Wager(), 1, 900, 90, (2.0, 1.0, 1.0))
        assert Settings.from_payload(json.loads(json.dumps(settings.payload()))) == settings


class TestRequests:
    def test_the_same_request_twice_records_once(self, make):
        study = make()
        study.ask()
        study.tell(sums(a=(30, 15), b=(30, 9)), key="request 1")
        seq = study.state.seq
        study.tell(sums(a=(30, 15), b=(30, 9)), key="request 1")
        assert study.state.seq == seq
        study.tell(sums(c=(30, 15)), key="request 2")
        seq = study.state.seq
        with load_study("s", str(study.store.address.url)) as other:
            other.tell(sums(c=(30, 15)), key="request 2")
        assert study.state.seq == seq

    def test_a_preview_records_nothing(self, make):
        study = make()
        study.ask()
        seq = study.state.seq
        results, report = study.preview(sums(a=(30, 15), b=(30, 9), c=(30, 4)))
        assert (len(results), report.rounds, study.state.seq) == (1, 1, seq)
        assert study.tell(sums(a=(30, 15), b=(30, 9), c=(30, 4))).plain() == report.plain()
