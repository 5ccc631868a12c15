"""What became of the guarantee follows from everything that happened, and stands above the headline unless kept."""

import copy
import html
import json

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Columns,
    Gaussian,
    Problem,
    Statements,
    TopK,
    TrackAndStop,
    create_study,
)
from roundwise.messages import Condition, Danger, Guarantee, Reason
from roundwise.policies import OptBBAI, TriBBAI
from roundwise.report import build_report
from roundwise.rules.eprocess.candidates import CandidateWealth
from roundwise.rules.eprocess.cells import AboveWealth as Sets
from roundwise.rules.eprocess.rule import eprocess_for
from roundwise.study.audit import audit_entries
from roundwise.study.guarantee import standing
from roundwise.thresholds import KaufmannKoolenSum, LogLogHeuristic
from test_study import ARMS, World, finished

AB = ("a", "b")


def emptied(state):
    return standing(state).all_rejected


@pytest.fixture
def study(tmp_path):
    made = []

    def make(**changes):
        given = {"question": BestArm(), "arms": AB, "noise": Binary(), "seed": 3, **changes}
        made.append(create_study("s", **given, storage=f"sqlite:///{tmp_path}/{len(made)}.db"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def sums(a, b):
    return {"arm": list(AB), "count": [a[0], b[0]], "successes": [a[1], b[1]]}


def settled(live, why="the server was down"):
    live.ask()
    return live.tell(sums((30, 10), (20, 15)), round_over=why)


class TestWhatHappened:
    def test_nothing_that_matters(self, study):
        live = study(arms=ARMS, noise=Gaussian(1.0), seed=None)
        report = finished(live, World(Gaussian(1.0), (0.0, 1.0, 0.2, 0.1)))
        assert report.status == "decided"
        assert report.guarantee.status == "kept"

    @pytest.mark.long
    def test_a_seed_that_was_chosen(self, study):
        """Only where the order of rows decides how they are partitioned: not of sums, nor of 0 and 1."""
        given = {"noise": Gaussian(1.0)}
        rows = {"arm": AB * 30, "outcome": np.random.default_rng(1).normal(size=60)}
        for live, told, expected in (
            (study(**given), rows, ("seed_chosen",)),
            (study(**given, seed=None), rows, ()),
            (study(**given), {"arm": AB, "count": [30, 30], "total": [3.0, 2.0]}, ()),
            (study(), rows | {"outcome": [0, 1, 1] * 20}, ()),
        ):
            live.ask()
            assert live.tell(told).guarantee.codes == expected
            assert live.report().guarantee.codes == expected
            assert audit_entries(live.entries()).differences == ()

    @pytest.mark.parametrize("why", ["the server was down", "amended"])
    def test_a_batch_settled_short(self, study, why):
        """Also if the user's word for it is one that the record once used for something else."""
        report = settled(study(), why)
        (short,) = report.guarantee.conditions
        assert short == Condition("short_rounds", rounds=[{"round": 1, "missing": 10, "asked": 60, "why": why}], more=0)
        assert any(f"round 1 (10 of 60 results missing: {why})" in each for each in report.warnings)

    def test_a_batch_settled_with_everything_there(self, study):
        live = study()
        live.ask()
        assert live.tell(sums((30, 10), (30, 15)), round_over="that is all").guarantee.status == "kept"

    def test_results_beyond_what_was_asked_in_one_call(self, study):
        """Their number was decided before any result of the round was told."""
        live = study()
        live.ask()
        live.tell(sums((90, 40), (10, 5)), sums((0, 0), (20, 9)))
        live.ask()
        live.tell(sums((200, 90), (0, 0)))
        left = int(live.state.open_round.outstanding[1])
        assert live.tell(sums((0, 0), (left, left // 2))).guarantee.status == "kept"

    @pytest.mark.parametrize("by_number", [False, True])
    def test_results_beyond_what_was_asked_after_a_look(self, study, by_number):
        live = study(**({"round_size": 60} if by_number else {}))
        live.ask()
        live.tell(sums((30, 10), (29, 20)))
        if not by_number:
            live.tell(sums((100, 40), (0, 0)))
        report = live.tell(sums((0, 0), (30, 20)))
        came, added = (89, 29) if by_number else (189, 129)
        assert report.guarantee == Guarantee((Condition("surplus", added=added, rounds=[1], returned=came, asked=60),))
        assert live.report().plain()["guarantee"] == report.guarantee.plain()
        assert str(report.guarantee) in " ".join(report.text().split("\n"))
        assert str(report.guarantee) in html.unescape(live.report().html())
        assert audit_entries(live.entries()).differences == ()

    def test_the_papers_rule_does_not_mind_a_look(self, study):
        live = study(policy=PET())
        asked = [int(each) for each in live.ask().pulls]
        live.tell(sums((asked[0] + 5, 10), (asked[1] - 1, 9)))
        live.tell(sums((70, 40), (0, 0)))
        assert live.tell(sums((0, 0), (1, 1))).guarantee.status == "kept"

    def test_amendments_and_a_settled_batch_together(self, study):
        live = study()
        settled(live)
        first = live.state.rounds[0].files[0].digest
        report = live.amend(first, sums((30, 11), (20, 15)), "miscounted")
        assert report.guarantee.codes == ("short_rounds", "amended")
        second = live.state.rounds[0].files[0].digest
        withdrawn = live.amend(second, None, "not ours").guarantee.conditions[-1]
        assert withdrawn == Condition("amended", withdrawn=True, name="data frame", round=1, why="not ours")

    def test_a_complete_batch_that_was_amended_is_not_called_settled(self, study):
        live = study()
        live.ask()
        live.tell(sums((30, 10), (30, 15)))
        report = live.amend(live.state.rounds[0].files[0].digest, None, "not ours")
        asked = live.state.rounds[0]
        assert (asked.closed_early, asked.amended, asked.complete) == (None, True, True)
        assert "short_rounds" not in report.guarantee.codes

    def test_batches_that_do_not_agree(self, study):
        live = study(question=Above(0.5))
        live.ask()
        live.tell(sums((30, 16), (30, 15)))
        pulls = live.ask().pulls
        report = live.tell(sums((int(pulls[0]), int(pulls[0] // 12)), (int(pulls[1]), int(pulls[1] // 2))))
        assert report.guarantee.codes == ("rounds_differ",)

    def test_a_rule_without_a_proof(self, study):
        live = study(noise=Gaussian(1.0), policy=TrackAndStop(stopping=GLR(LogLogHeuristic())))
        assert live.report().guarantee.codes == ("unproved_threshold",)
        live = study(policy=TrackAndStop(stopping=GLR(KaufmannKoolenSum())))
        assert live.report().guarantee.codes == ("normal_only",)

    def test_rules_of_their_own(self, study):
        found = [study(policy=each).report().guarantee for each in (OptBBAI(), OptBBAI(c=2.0), TriBBAI())]
        assert [each.status for each in found] == ["conditional", "void", "void"]

    def test_everything_that_voids_it_is_named_and_nothing_else(self, study):
        live = study(policy=TriBBAI())
        live.ask()
        report = live.tell({"arm": ["a"], "count": [1], "successes": [1]}, round_over="enough")
        assert [each.code for each in report.guarantee.reasons] == ["rule"]
        assert "missing" not in str(report.guarantee)


def with_won(state, won):
    other = copy.copy(state)
    trial = state.trial._replace(kept=state.trial.kept._replace(wealth=won))
    other.put(state.spec, trial, state.summary)
    return other


class TestEverythingRuledOut:
    def test_best_arm(self, study):
        state = study().state
        lost = state.trial.kept.wealth
        assert not emptied(state)
        assert not emptied(with_won(state, lost._replace(rejected=np.array([True, False]))))
        report = build_report(with_won(state, lost._replace(rejected=np.array([True, True]))), intervals=False)
        assert report.guarantee.codes == ("all_rejected",)
        assert [each.code for each in report.dangers] == ["all_rejected"]

    def test_any_above(self, study):
        state = study(question=AnyAbove(0.5)).state
        won = state.trial.kept.wealth
        every = np.array([True, True])
        assert not emptied(with_won(state, won._replace(arms_rejected=every)))
        assert not emptied(with_won(state, won._replace(none_rejected=np.array(True))))
        both = with_won(state, won._replace(arms_rejected=every, none_rejected=np.array(True)))
        report = build_report(both, intervals=False)
        assert report.guarantee.codes == ("all_rejected",)

    def test_above(self, study):
        """The set that lost least has lost: at delta 0.05 that is ln 20 = 3.0."""
        state = study(question=Above(0.5)).state
        for least, expected in ((1.4, False), (1.6, True)):
            won = Sets(np.array([least, 9.0]), np.array([9.0, least]), np.array([True, True]))
            assert emptied(with_won(state, won)) == expected

    def test_candidates(self):
        problem = Problem(TopK(1), arms=3)
        answers = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        both, one = np.ones((2, 2), dtype=bool), np.array([[True, True], [True, False]])
        assert eprocess_for(problem).all_rejected(
            problem, CandidateWealth(answers, np.zeros((2, 2)), both, np.zeros(()))
        )
        assert not eprocess_for(problem).all_rejected(
            problem, CandidateWealth(answers, np.zeros((2, 2)), one, np.zeros(()))
        )

    def test_candidates_that_may_both_be_right(self):
        problem = Problem(BestArm(0.3), arms=3)
        both = np.ones((2, 2), dtype=bool)
        assert not eprocess_for(problem).all_rejected(
            problem, CandidateWealth(np.array([[0.0], [1.0]]), np.zeros((2, 2)), both, np.zeros(()))
        )

    def test_statements(self, study):
        control = Statements.against_control(3, 2, 0.1)
        problem, both = Problem(control, arms=3), np.ones((2, 2), dtype=bool)
        assert eprocess_for(problem).all_rejected(
            problem, CandidateWealth(np.array([[1.0, 1.0], [1.0, 0.0]]), np.zeros((2, 2)), both, np.zeros(()))
        )
        state = study(question=control, arms=("a", "b", "c"), noise=Gaussian(1.0)).state
        assert not emptied(state)


class TestWhereItStands:
    @pytest.fixture
    def report(self, study):
        return settled(study())

    def test_above_the_headline_of_every_report(self, report):
        stands = f"The guarantee is {report.guarantee}."
        assert report.text().startswith(f"{stands}\nDanger: {report.dangers[0]}\n")
        assert report.text().splitlines()[2].startswith("Not decided yet. ")
        markdown, page = report.markdown(), html.unescape(report.html())
        for form, headline in ((markdown, "**Not decided"), (page, '<div class="box headline open"><p><b>Not decided')):
            assert -1 < form.index(stands) < form.index(headline)
        assert json.loads(report.json())["guarantee"] == report.guarantee.plain()

    def test_not_where_it_was_kept(self, study):
        report = study().report()
        assert "The guarantee is" not in report.text() + report.markdown() + report.html()
        assert report.text().startswith("Not decided yet. ")

    def test_the_sentence(self, study, report):
        assert report.sentence.endswith(f", provided that {report.guarantee.provided}.")
        assert "at most 5 %, under the conditions above" in report.text()
        void = study(policy=TriBBAI()).report()
        assert "at most 5 %" not in void.text() + void.markdown() + void.html()
        assert "an error probability of 5 % was aimed at, but is not guaranteed" in void.sentence
        kept = study().report()
        assert kept.sentence.endswith("is at most 5 % at any number of rounds, assuming that results are 0 or 1.")

    def test_words(self):
        assert str(Guarantee()) == "kept"
        both = Guarantee.of([Condition("rule", text="x is y"), Reason("rule", text="u"), Reason("rule", text="v")])
        assert str(both) == "void because u; and because v"
        assert both.plain() == {
            "status": "void",
            "conditions": [{"code": "rule", "message": "x is y", "text": "x is y"}],
            "reasons": [{"code": "rule", "message": each, "text": each} for each in "uv"],
            "approximations": [],
            "shapes": [],
        }
        assert str(Guarantee.of([], ["normal"])) == "kept if results are normal"
        assert str(Guarantee.of([Condition("rule", text="x is y")], ["normal"])).startswith("conditional on")


def test_arms_that_were_tried_on_the_same_items(tmp_path):
    """Their results may depend on each other, and no bet of today allows for that: it is said, for good."""
    with create_study(
        "s", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=f"sqlite:///{tmp_path}/x.db", seed=1
    ) as live:
        pulls = live.ask().pulls.astype(int)
        items = np.concatenate([np.arange(each) for each in pulls])
        rows = {"arm": np.repeat(["a", "b"], pulls), "outcome": (items % 7 == 0) * 1, "item": items}
        live.tell(rows, columns=Columns(item="item"))
        assert "shared_items" in live.report().guarantee.codes
        live.ask()
        assert "shared_items" in live.report().guarantee.codes
    with create_study(
        "t", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=f"sqlite:///{tmp_path}/x.db", seed=1
    ) as live:
        rows["item"] = np.arange(len(items))  # an item each
        live.ask()
        live.tell(rows, columns=Columns(item="item"))
        assert "shared_items" not in live.report().guarantee.codes


def test_surplus_is_stated_per_arm_without_totals_of_the_round():
    """8 beyond the request for their arms, in a round of 90 of which 68 came: totals would contradict that."""
    for message in (Condition, Danger):
        text = str(message("surplus", added=8, rounds=[1], returned=68, asked=90))
        assert "8 results beyond the request for their arms (round 1)" in text
        assert "68" not in text
        assert "90" not in text
