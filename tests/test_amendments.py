"""What else may change in a study under way: budgets, earlier data, later results, its end; and its rounds."""

import json
import math

import numpy as np
import pytest

from roundwise import (
    BestArm,
    Binary,
    ConditionalPower,
    DataError,
    Gaussian,
    InputError,
    TopK,
    Wager,
    list_studies,
    load_study,
    plan,
)
from roundwise.errors import UnknownStudyError
from roundwise.ingest import Columns
from roundwise.messages import Note, count
from roundwise.model.batch import Batch
from roundwise.model.problem import advance
from roundwise.policies import PET
from roundwise.questions import Claims
from roundwise.study import fold as counting
from roundwise.study.audit import audit_entries
from roundwise.study.spec import StudySpec
from roundwise.study.state import replay
from studies import ARMS, rates, same_when_read_again, studies, sums

DOSES = ("placebo", "low", "high")
CLAIMS = {"question": Claims.against_control(DOSES, control="placebo"), "arms": DOSES}


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as made:
        yield made


class TestAfterTheDecision:
    def test_results_are_recorded_and_the_verdict_stands(self, make, tmp_path):
        study = make(arms=("a", "b"))
        while rates(study, a=0.2, b=0.9).status != "decided":
            pass
        before = study.report()
        more = tmp_path / "more.csv"
        more.write_text("arm,count,successes\na,100,80\nb,10,9\n")
        report = study.tell(more)
        assert (report.status, report.answer) == (before.status, before.answer) == ("decided", "b")
        assert study.state.record.counts.sum() == study.state.trial.record.counts.sum() + 110
        assert any(each.code == "after_decision" for each in study.report().notes)
        assert f" results, {before.results} in {before.rounds} round" in study.status().text()
        assert " and 110 after the decision" in study.report().markdown()
        assert [each.kind for each in study.entries()][-2:] == ["decided", "told_late"]
        with pytest.raises(InputError, match="is already recorded after the decision"):
            study.tell(more)
        with pytest.raises(InputError, match="can no longer be corrected"):
            study.amend(study.state.rounds[0].files[0].digest, None, "x")
        assert study.ask() is None
        assert audit_entries(study.entries()).differences == ()


class TestBudgets:
    def test_a_study_goes_on_with_a_larger_one(self, make):
        study = make(budget=100)
        while study.ask() is not None:
            rates(study, a=0.5, b=0.5, c=0.5)
        assert "budget of 100 results is used up" in study.state.over
        assert study.effect("extend", budget=300).startswith("This keeps the guarantee")
        assert study.extend(300).guarantee.status == "kept"
        assert study.state.over is None
        while study.ask() is not None:
            rates(study, a=0.5, b=0.5, c=0.5)
        assert study.state.trial.record.samples == 300
        assert audit_entries(study.entries()).differences == ()

    def test_what_is_left_of_claims_is_said_before_results(self, make):
        names = ("placebo", "low", "high")
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=120, round_size=60)
        assert study.state.trial.plan.left == 60
        study.ask()
        study.tell(sums(placebo=(10, 3)))
        with pytest.raises(InputError, match="must be set before"):
            study.extend(600)
        study.tell(sums(low=(20, 8), high=(30, 12)))
        assert study.state.trial.plan.last
        study.extend(600)
        assert (study.state.trial.plan.left, bool(study.state.trial.plan.last)) == (480, False)

    def test_a_round_that_is_asked_for_is_the_last_only_by_what_it_asks_for(self, make):
        """The budget grows from 90 to 120 while the last 40 of 90 are asked for: 30 are left after them."""
        study = make(**CLAIMS, budget=90, round_size=50)
        study.ask()
        study.tell(sums(placebo=(20, 6), low=(15, 5), high=(15, 8)))
        assert study.ask().pulls.sum() == 40
        assert bool(study.state.trial.plan.last)
        study.extend(120)
        plan = study.state.trial.plan
        assert (plan.pulls.sum(), plan.left, bool(plan.last)) == (40, 30, False)
        report = study.tell(sums(placebo=(20, 6), high=(20, 9)))
        assert report.status == "undecided"
        assert np.isfinite(study.state.trial.kept.gains).all()  # nothing was bet that cannot be undone
        assert study.ask().pulls.sum() == 30
        assert audit_entries(study.entries()).differences == ()

    def test_counted_anew_each_round_has_the_budget_that_was_said_before_it(self, make):
        study = make(**CLAIMS, budget=90, round_size=50)
        study.ask()
        study.tell(sums(placebo=(20, 6), low=(15, 5), high=(15, 8)))
        study.extend(200)
        study.ask()
        study.tell(sums(placebo=(25, 6), high=(25, 9)))
        before = study.state.trial
        second = study.state.rounds[1].files[0].digest
        study.amend(second, sums(placebo=(25, 6), high=(25, 10)), "a typing error")
        study.amend(study.state.rounds[1].files[0].digest, sums(placebo=(25, 6), high=(25, 9)), "it was none")
        after = study.state
        assert after.spec.budget == 200
        assert after.trial.kept.gains == pytest.approx(before.kept.gains, rel=1e-12)
        assert (after.trial.plan.left, bool(after.trial.plan.last)) == (before.plan.left, bool(before.plan.last))
        assert audit_entries(study.entries()).differences == ()

    @pytest.mark.long
    @pytest.mark.parametrize("cash", [0.0, 0.02])
    def test_claims_go_on_after_the_end_with_what_is_left(self, make, cash):
        study = make(**CLAIMS, budget=90, round_size=50, policy=ConditionalPower(reserve=cash))
        study.ask()
        study.tell(sums(placebo=(20, 6), low=(15, 5), high=(15, 8)))
        study.ask()
        before = study.state.trial.kept.gains
        study.tell(sums(placebo=(14, 4), low=(13, 4), high=(13, 6)))
        kept = study.state.trial.kept
        assert study.state.decided is not None
        assert "the budget is used" in study.status().text()
        if not cash:
            assert np.isneginf(kept.gains).all()
            with pytest.raises(InputError, match="left nothing to what it did not show"):
                study.extend(2000)
            return
        assert kept.gains == pytest.approx(before + math.log(0.02))
        said = study.effect("extend", budget=2000)
        assert said.startswith("This keeps the guarantee: what was shown stays shown, and open claims continue with")
        assert f"at most {0.02 * math.exp(before.max()):.2g} : 1" in said
        assert study.extend(2000).status == "undecided"
        assert study.state.decided is None
        assert study.state.trial.kept.gains == pytest.approx(kept.gains)
        while (asked := study.ask()) is not None:
            study.tell(
                sums(**{arm: (n, round(n * (0.2 if arm == "placebo" else 0.7))) for arm, n in asked.table}), new=True
            )
        assert any(row["shown"] for row in study.report().plain()["claims"])
        assert [each.kind for each in study.entries()].count("decided") == 2
        assert audit_entries(study.entries()).differences == ()
        with pytest.raises(InputError, match="decided"):
            study.extend(9000)

    def test_a_budget_that_came_all_at_once_is_used_and_nothing_is_forecast(self, make):
        study = make(**CLAIMS, budget=100, round_size=50)
        study.ask()
        report = study.tell(sums(placebo=(40, 12), low=(30, 10), high=(30, 14)))
        assert "the budget is used" in report.text()
        assert [row["power"] for row in report.plain()["claims"]] == [0, 0]
        assert study.ask() is None
        study.extend(300)  # no bet was the last: everything that was won is there
        assert study.ask().pulls.sum() == 50

    def test_no_extension_after_results_that_came_after_the_end(self, make):
        study = make(**CLAIMS, budget=100, round_size=50, policy=ConditionalPower(reserve=0.02))
        study.ask()
        study.tell(sums(placebo=(40, 12), low=(30, 10), high=(30, 14)))
        study.tell(sums(placebo=(4, 1)))
        with pytest.raises(InputError, match="ended"):
            study.extend(300)

    @pytest.mark.long
    @pytest.mark.parametrize("cash", [0.0, 0.3])
    def test_whoever_extends_whenever_nothing_is_shown_keeps_the_error(self, cash):
        """Three times the budget is doubled after its end; 20 % of the studies may be wrong."""
        wrong, runs = 0, 300
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            settings = StudySpec(
                question=Claims.against_control(3, 0),
                arms=("a", "b", "c"),
                noise=Gaussian(1.0),
                delta=0.2,
                policy=ConditionalPower(reserve=cash),
                seed=0,
                budget=100,
                round_size=50,
            )
            trial = counting.start_trial(settings)
            for budget in (200, 400, 800, 800):
                while not trial.done:
                    pulls = trial.plan.pulls
                    batch = Batch(pulls, np.sqrt(pulls) * rng.standard_normal(3))
                    trial = advance(settings.problem, settings.acting, trial, batch)
                if not trial.kept.shown.any():
                    settings, trial = counting.redesign(settings, trial, settings.design | {"budget": budget})
            wrong += bool(trial.kept.shown.any())
        assert wrong <= 0.2 * runs + 3 * math.sqrt(0.16 * runs)
        assert wrong > 0.05 * runs  # the test can fail

    def test_what_cannot_be(self, make):
        study = make()
        with pytest.raises(InputError, match="budget"):
            study.extend(10)
        study = make("b", budget=200)
        rates(study, a=0.5, b=0.5, c=0.5)
        with pytest.raises(InputError, match="budget"):
            study.extend(50)


class TestThePast:
    def test_it_teaches_and_is_no_evidence(self, make):
        study, plain = make(), make("plain")
        assert study.import_past(sums(a=(500, 100), b=(500, 400), c=(500, 250))).guarantee.status == "kept"
        state = study.state
        assert state.trial.record.samples == 0
        assert state.trial.kept.wealth.gains.tolist() == [0.0, 0.0, 0.0]
        assert state.trial.kept.alternative.leader == 1
        for each in (study, plain):
            rates(each, a=0.3, b=0.7, c=0.5)
        taught, untaught = (each.state.trial.kept.wealth.gains for each in (study, plain))
        assert (
            taught[[0, 2]] > untaught[[0, 2]]
        ).all()  # a batch that came as sums is bet on, now that there is a past
        same_when_read_again(study)

    def test_it_cannot_be_told_again_as_results(self, make):
        rows = {"arm": ["a", "b", "c"] * 20, "outcome": [0, 1, 1, 1, 0, 0] * 10}
        study = make()
        study.import_past(rows)
        study.ask()
        for again in (False, True):
            with pytest.raises(DataError, match="imported"):
                study.tell(rows, new=again)
        assert study.tell({name: cells[:45] for name, cells in rows.items()}).results == 0  # other results wait

    def test_no_id_of_it_counts(self, make):
        rows = {"user": list(range(60)), "arm": ["a", "b", "c"] * 20, "outcome": [0, 1, 1, 1, 0, 0] * 10}
        study = make(columns=Columns(id="user"))
        study.import_past(rows)
        study.ask()
        for again in (False, True):
            with pytest.raises(DataError, match=r"imported as earlier data|brings nothing new"):
                study.tell({name: cells[::-1] for name, cells in rows.items()}, new=again)
        more = {"user": [5, 99, 98], "arm": ["c", "a", "b"], "outcome": [0, 1, 0]}
        study.tell(more)
        assert study.state.partial_round.results == 2

    def test_nor_after_rounds_of_which_nothing_came(self, make, tmp_path):
        """Each of them is a checkpoint, made without a look at any file."""
        study, past = make(), tmp_path / "past.csv"
        past.write_text("arm,count,successes\na,30,12\nb,30,9\nc,30,17\n")
        study.import_past(past)
        rates(study, a=0.3, b=0.4, c=0.5)
        for _ in range(2):
            study.ask()
            study.close_round("nobody came")
        study.ask()
        with pytest.raises(DataError, match="imported"):
            study.tell(past)

    @pytest.mark.parametrize("change", ["drop", "add"])
    def test_what_taught_before_a_change_of_arms_teaches_after_it(self, make, change):
        study, arms = (
            make(question=TopK(2), arms=("a", "b", "c", "d")),
            {"a": 0.2, "b": 0.3, "c": 0.5, "d": 0.6, "e": 0.4},
        )
        first = sums(**{arm: (40, round(40 * rate)) for arm, rate in arms.items() if arm != "e"})
        study.import_past(first)
        if change == "drop":
            study.drop("a", "sold out", unrelated=True)
        else:
            study.add("e", "new", unrelated=True)
        if change == "add":
            with pytest.raises(InputError, match="was imported already"):
                study.import_past(first)
        study.import_past(sums(b=(30, 9), c=(30, 17), d=(30, 20)))
        rates(study, **arms)
        assert len(study.state.past) == 2
        same_when_read_again(study)

    def test_it_comes_first(self, make):
        study = make()
        study.import_past(sums(a=(5, 1), b=(5, 4)))
        with pytest.raises(InputError, match="was imported already"):
            study.import_past(sums(a=(5, 1), b=(5, 4)))
        study.ask()
        study.tell(sums(a=(5, 1)))
        with pytest.raises(InputError, match="results"):
            study.import_past(sums(a=(7, 1)))
        with pytest.raises(InputError, match="policy"):
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
        assert study.reopen("money came").guarantee.status == "kept"
        assert study.ask().number == 2
        assert [each.kind for each in study.entries()][-3:] == ["closed", "reopened", "asked"]

    def test_what_is_not_counted_is_said(self, make):
        study = make()
        study.ask()
        study.tell(sums(a=(10, 5), b=(3, 1)))
        waiting = study.state.partial_round
        assert (waiting.number, waiting.results, waiting.counts.tolist()) == (1, 13, [10, 3, 0])
        assert "The 13 results told of round 1 are not counted." in study.effect("end")

    def test_a_study_without_results_is_removed(self, make):
        study = make()
        study.ask()
        study.note("a mistake")
        study.remove()
        with pytest.raises(UnknownStudyError):
            study.state  # noqa: B018
        again = make(question=TopK(1))
        rates(again, a=0.5, b=0.5, c=0.5)
        for call in (again.remove, lambda: again.effect("remove")):  # before anybody is asked
            with pytest.raises(InputError, match="results"):
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
        study = make(round_size=60, split="2:1:1", budget=300)
        asked = study.ask()
        assert (asked.pulls.tolist(), asked.by_number) == ([30, 15, 15], True)
        report = study.tell(sums(a=(40, 20), b=(10, 5)))
        assert study.state.open_round.outstanding.sum() == 10
        report = study.tell(sums(c=(15, 5)))  # 65 of 60
        assert (report.rounds, report.remaining) == (1, {})
        (surplus,) = [each for each in report.guarantee.conditions if each.code == "surplus"]
        assert (surplus.fields["rounds"], surplus.fields["returned"], surplus.fields["asked"]) == ([1], 65, 60)
        assert not any("never came" in each for each in report.warnings)
        assert study.ask().number == 2
        same_when_read_again(study)

    def test_a_split_follows_the_arms(self, make):
        study = make(round_size=60, split="3:2:1")
        rates(study, a=0.5, b=0.5, c=0.5)
        study.add("d")
        assert study.state.spec.split == (3.0, 2.0, 1.0, 1.0)
        study.drop("b", "sold out")
        assert study.state.spec.split == (3.0, 1.0, 1.0)
        assert study.ask().pulls.sum() == 60
        same_when_read_again(study)

    def test_a_round_that_is_over_early(self, make):
        study = make(round_size=60)
        study.ask()
        study.tell(sums(a=(30, 15), b=(10, 5)))
        report = study.close_round("the week is over")
        assert report.guarantee.codes[0] == "short_rounds"

    @pytest.mark.parametrize("budget", [None, 3000])
    @pytest.mark.parametrize("withdrawn", [False, True])
    def test_a_first_round_of_which_nothing_came_is_planned_again(self, make, budget, withdrawn):
        """Also of claims without a budget, whose rounds grow with what came."""
        study = make(**CLAIMS, budget=budget)
        study.add("top")
        first = study.ask().pulls.tolist()
        if withdrawn:
            rates(study, placebo=0.2, low=0.3, high=0.4, top=0.5)
            study.amend(study.state.rounds[0].files[0].digest, None, "another trial's file")
        else:
            study.close_round("nobody came")
        again = study.ask()
        assert (again.number, again.pulls.tolist()) == (2, first)
        rates(study, placebo=0.2, low=0.3, high=0.4, top=0.5)
        same_when_read_again(study)

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            ({"round_size": 400, "max_round_size": 100}, "max_round_size"),
            (CLAIMS | {"budget": 3000, "max_round_size": 100}, "round"),
            ({"round_size": 21, "split": "5:1:1", "min_per_arm": 10}, "min_per_arm"),
        ],
    )
    def test_limits_that_a_fixed_round_would_break(self, make, words, found):
        with pytest.raises(InputError, match=found):
            make(**words)
        with pytest.raises(InputError, match=found):
            plan(**({"question": BestArm(), "arms": ARMS, "noise": Binary(), "baseline": "30%", "runs": 10} | words))

    def test_limits_that_it_keeps(self, make):
        assert make(round_size=90, max_round_size=90, min_per_arm=30).ask().pulls.tolist() == [30, 30, 30]

    def test_splits_that_are_none(self, make):
        for split, words in (("2:1", "arms"), ("a:b:c", "'equal'")):
            with pytest.raises(InputError, match=words):
                make(split=split)
        with pytest.raises(InputError, match="policy"):
            make(policy=PET(), noise=Gaussian(), round_size=100)

    def test_settings_survive_json(self):
        settings = StudySpec(
            question=BestArm(),
            arms=ARMS,
            noise=Binary(),
            delta=0.05,
            policy=Wager(),
            seed=1,
            budget=900,
            round_size=90,
            split=(2.0, 1.0, 1.0),
        )
        assert StudySpec.from_json(json.loads(json.dumps(settings.to_json()))) == settings


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
        told = study.tell(sums(a=(30, 15), b=(30, 9), c=(30, 4))).plain()
        assert told | {"digest": ""} == report.plain() | {"digest": ""}


def _after_the_decision(study, came):
    """So many results came after the decision: in the note, the extent, the files and the rounds; read anew, too."""
    found = study.report()
    assert [each.fields["results"] for each in found.notes if each.code == "after_decision"] == [came]
    assert f"{count(came)} after the decision" in found.text()
    assert (found.late, found.plain()["after_decision"]) == (came, came)
    assert sum(each.results for each in found.files if each.round is None) >= came  # also of arms that left
    assert "still open" not in found.markdown()
    assert list(study.status().notes) == [each for each in found.notes if each.code != "widened"]
    assert (study.status().results, study.status().late) == (found.results, found.late)
    assert replay(study.entries()).record.counts.tolist() == study.state.record.counts.tolist()
    assert study.ask() is None
    assert audit_entries(study.entries()).differences == ()


class TestWhatIsSaid:
    def test_a_claim_that_lost_all_is_null_in_json(self, make):
        """A whole budget that comes at once is one bet; JSON has no minus infinity."""
        study = make(question=Claims.above(ARMS, 0.4), budget=60, round_size=60, split="2:1:2")
        study.ask()
        report = study.tell(sums(a=(24, 18), b=(12, 0), c=(24, 17)))
        assert -math.inf in [each.log_evidence for each in report.claim_rows]
        assert None in [each["log_evidence"] for each in json.loads(report.json())["claims"]]

    def test_a_closed_study_waits_for_nothing(self, make, tmp_path):
        study = make()
        study.ask()
        study.tell(sums(a=(4, 1), b=(2, 1)))
        study.end("no money")
        found = study.report()
        text = found.text()
        assert "wait for the rest" not in text
        assert "do not count yet" not in text
        assert "Still to come" not in text
        assert (found.pending, found.plain()["remaining"]) == (0, {})
        assert Note("incomplete_round", round=1, results=6) in found.notes
        listed = list_studies(f"sqlite:///{tmp_path}/studies.db")[0]
        assert (listed["waiting_since"], listed["pending"], listed["state"]) == (None, 0, "closed")

    def test_results_of_rounds_after_the_one_that_decides_now(self, make):
        study = make()
        rates(study, a=0.1, b=0.9, c=0.85)
        rates(study, a=0.1, b=0.88, c=0.86)
        before = study.report()
        assert before.status == "undecided"
        study.drop("c", "the supplier went bankrupt", unrelated=True)
        found = study.report()
        assert found.status == "decided"
        assert found.rounds < before.rounds
        came = int(study.state.rounds[1].counts[:2].sum())
        _after_the_decision(study, came)
        assert found.results == int(sum(each.counts[:2].sum() for each in study.state.rounds))
        assert any(each.code == "arm_dropped" and each.fields["removed"] for each in found.notes)

    def test_a_correction_that_decides_earlier_loses_nothing(self, make):
        """Rounds after the one that decides now, one of them open: in means, bounds and notes."""
        study = make(arms=("a", "b"), round_size=200, split="equal", columns=Columns(id="user"))

        def told(first, wins, number=100):
            rows = [(f"{arm}{first + i}", arm, int(i < won)) for arm, won in wins.items() for i in range(number)]
            users, arms, outcomes = map(list, zip(*rows, strict=True))
            return {"user": users, "arm": arms, "outcome": outcomes}

        for k, wins in enumerate(({"a": 40, "b": 45}, {"a": 41, "b": 46}, {"a": 20, "b": 25})):
            study.ask()
            study.tell(told(100 * k, wins, 100 if k < 2 else 50))
        assert study.report().pending == 100
        first = study.state.rounds[0].files[0].digest
        study.amend(first, told(0, {"a": 10, "b": 75}), "the wrong file")
        found = study.report()
        assert (found.status, found.rounds, found.results, found.pending, found.remaining) == (
            "decided", 1, 500, 0, {}
        )  # fmt: skip
        _after_the_decision(study, 300)
        assert [each.results for each in found.arm_rows] == [250, 250]
        assert found.arm_rows[1].mean == (75 + 46 + 25) / 250
        alone = make("alone", arms=("a", "b"), round_size=200, split="equal", columns=Columns(id="user"))
        alone.ask()
        alone.tell(told(0, {"a": 10, "b": 75}))
        narrow, wide = (each.arm_rows[1] for each in (found, alone.report()))
        assert narrow.upper < wide.upper  # the bounds have seen them
        assert found.answer == alone.report().answer
        assert [each.shown_at for each in found.claim_rows if each.shown] == [1]
        study.tell(told(500, {"a": 5, "b": 7}, 10))
        assert study.status().results == 520
        assert study.report().plain()["after_decision"] == 320
        same_when_read_again(study)

    def test_what_decided_too_early_by_a_correction_counts_again_after_another(self, make):
        study = make()
        rates(study, a=0.4, b=0.45, c=0.2)
        rates(study, a=0.4, b=0.45, c=0.2)
        before = study.report()
        asked = study.state.rounds[0]
        n = dict(zip(asked.arms, asked.pulls.astype(int).tolist(), strict=True))
        wrong = sums(**{arm: (each, each if arm == "b" else 0) for arm, each in n.items()})
        study.amend(asked.files[0].digest, wrong, "typing error")
        assert study.report().status == "decided"
        _after_the_decision(study, int(study.state.rounds[1].counts.sum()))
        right = sums(
            **{arm: (each, round(each * p)) for (arm, each), p in zip(n.items(), (0.4, 0.45, 0.2), strict=True)}
        )
        study.amend(study.state.rounds[0].files[0].digest, right, "no, it was right", new=True)
        after = study.report()
        assert (after.status, after.results, after.rounds) == (before.status, before.results, before.rounds)
        assert after.late == 0
        assert [each.mean for each in after.arm_rows] == [each.mean for each in before.arm_rows]
        same_when_read_again(study)

    def test_no_larger_budget_where_results_came_after_the_end(self, make):
        """A correction ends the study after its first round: what came then was bet on by nobody."""
        study = make(**CLAIMS, budget=900, round_size=300)
        for _ in range(2):
            study.ask()
            study.tell(sums(placebo=(100, 30), low=(100, 33), high=(100, 40)), new=True)
        first = study.state.rounds[0].files[0].digest
        study.amend(first, sums(placebo=(100, 5), low=(100, 90), high=(100, 95)), "typing error")
        assert study.report().status == "decided"
        _after_the_decision(study, 300)
        with pytest.raises(InputError, match="finally decided|after 's' ended"):
            study.extend(1200)

    def test_earlier_data_are_in_the_report(self, make):
        study = make()
        study.import_past(sums(a=(500, 100), b=(500, 400), c=(500, 250)))
        assert Note("earlier_data", results=1500, name="data frame") in study.report().notes
        rates(study, a=0.3, b=0.6, c=0.5)
        assert any(each.code == "earlier_data" for each in study.status().notes)

    def test_a_contradiction_that_was_put_right_is_not_said_again(self, make):
        study = make(columns=Columns(id="user"))
        study.ask()
        arms = ["a", "b", "c"]
        study.tell({"user": [1, 2, 3], "arm": arms, "outcome": [0, 1, 1]})
        first = study.state.rounds[0].files[0].digest
        study.tell({"user": [1, 2, 3, 4], "arm": [*arms, "a"], "outcome": [1, 0, 1, 0]})
        assert [each.fields["kinds"] for each in study.report().notes if each.code == "contradicts"] == [{"outcome": 2}]
        study.amend(first, {"user": [1, 2, 3], "arm": arms, "outcome": [1, 0, 1]}, "they were not final")
        assert not any(each.code == "contradicts" for each in study.report().notes)
        assert study.state.contradicted == 0

    def test_ids_say_what_is_new_after_a_withdrawal_not_the_file(self, make):
        study = make(columns=Columns(id="user"))
        study.ask()
        study.tell({"user": [1, 2, 3], "arm": ["a", "b", "c"], "outcome": [0, 1, 1]})
        grown = {"user": [1, 2, 3, 4], "arm": ["a", "b", "c", "a"], "outcome": [0, 1, 1, 0]}
        study.tell(grown)
        with pytest.raises(DataError, match="brings nothing new"):
            study.tell(grown)
        study.amend(study.state.rounds[0].files[0].digest, None, "of another day")
        assert study.state.partial_round.results == 1
        study.tell(grown)
        assert study.state.partial_round.results == 4

    def test_no_arm_without_a_share(self, make):
        with pytest.raises(InputError, match="arm"):
            make(split="2:0:1", round_size=60)

    def test_dangers_stand_above_the_headline_on_a_terminal(self, make):
        study = make(arms=("a", "b"), round_size=400, split="equal")
        study.ask()
        report = study.tell(sums(a=(300, 150), b=(100, 51)))
        assert report.dangers[0].code == "sample_ratio_mismatch"
        text = report.text().replace("\N{NO-BREAK SPACE}", " ")
        assert 0 <= text.index("Danger: Sample-ratio mismatch") < text.index("Not decided yet")

    def test_after_the_end_of_claims_only_means_move(self, make):
        study = make(**CLAIMS, budget=100, round_size=50)
        study.ask()
        study.tell(sums(placebo=(40, 12), low=(30, 10), high=(30, 14)))
        before = study.report().claim_rows
        report = study.tell(sums(placebo=(40, 2), high=(30, 14)))
        assert [(each.estimate, each.lower) for each in report.claim_rows] == [
            (each.estimate, each.lower) for each in before
        ]
        assert any(each.code == "after_decision" and each.fields["claims"] for each in report.notes)

    def test_what_is_no_object_or_no_change_is_said(self, make):
        with pytest.raises(InputError, match=r"question.*'best-arm'"):
            make(question="best-arm")
        with pytest.raises(InputError, match=r"noise.*'binary'"):
            make(noise="binary")
        with pytest.raises(InputError, match="nothing"):
            make().effect("nothing")
        with pytest.raises(InputError, match="two arms called 'p'"):
            Claims.against_control(["p", "p", "q"], "q")
