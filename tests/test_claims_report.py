"""What a report of claims says is true: a forecast for each line, arms that left, what was changed, its words."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from roundwise import Binary, Claims, ConditionalPower, Gaussian, LargeSample, Normal, Problem, Rounds
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.planning import Outlook, Quantiles
from roundwise.report.charts import draw_evidence, thresholds_by_round
from roundwise.report.model import EvidenceHistory
from roundwise.report.text import as_rows, claim_table
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.study.audit import audit_entries
from studies import rates, studies, sums

RULE = ClosedTestingRule()
DOSES = ("placebo", "25mg", "75mg", "300mg")


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as made:
        yield made


def doses(make, name="s", arms=DOSES, told=None, **more):
    """A study of doses after one round: 25mg is worse than placebo, the others are better."""
    words = {"budget": 800, "round_size": 200, **more}
    settings = {key: words.pop(key) for key in ("budget", "round_size") if words[key] is not None or words.pop(key)}
    study = make(name, question=Claims.against_control(arms, "placebo", **words), arms=arms, **settings)
    if told is None:
        study.ask()
        study.tell(sums(placebo=(80, 25), **{"25mg": (40, 9), "75mg": (40, 21), "300mg": (40, 32)}))
    return study


def lines(report):
    return {each.claim: each for each in report.claim_rows}


class TestForecasts:
    def test_a_claim_and_its_opposite_have_chances_of_their_own(self, make):
        found = lines(doses(make, futility=0.1).report())
        worse = found["25mg beats placebo"], found["25mg does not beat placebo by 0.1 or more"]
        assert worse[0].estimate < 0
        assert worse[0].power < 0.05
        assert worse[1].power > 0.8
        better = found["300mg beats placebo"], found["300mg does not beat placebo by 0.1 or more"]
        assert better[0].power > 0.9
        assert better[1].power < 0.01

    def test_of_levels_too(self, make):
        study = make(question=Claims.above(DOSES, 0.4, sides="two"), arms=DOSES, budget=3000, round_size=400)
        found = lines(rates(study, **dict(zip(DOSES, (0.3, 0.3, 0.5, 0.5), strict=True))))
        assert found["placebo is above 0.4"].power < 0.05
        assert found["placebo is not above 0.4"].power > 0.9
        assert found["300mg is above 0.4"].power > 0.9

    @pytest.mark.parametrize("noise", [Binary(), Gaussian(1.0), Normal()], ids=lambda each: each.name)
    def test_the_better_side_has_the_chance_that_plans_are_made_with(self, noise):
        problem = Problem(Claims.against_control(4, 0, 0.1, futility=0.3), 4, 0.05, noise)
        policy = Rounds(ConditionalPower(), budget=600, round_size=100)
        trial, rng, seen = begin(problem, policy), np.random.default_rng(3), 0
        while not trial.done:
            pulls = trial.plan.pulls
            totals = rng.binomial(pulls.astype(int), [0.3, 0.3, 0.5, 0.8]).astype(float)
            trial = advance(problem, policy, trial, Batch(pulls, totals, pulls / 4))
            if not trial.done:
                by_line = RULE.forecast(problem, trial).reshape(2, 3)
                np.testing.assert_allclose(by_line.max(axis=0), trial.kept.chances, atol=1e-12)
                seen += bool((by_line.min(axis=0) < by_line.max(axis=0)).any())
        assert seen

    def test_the_number_itself(self):
        """Phi((theta sqrt(I) - y)/sqrt(1 + error^2 I)), written out for one claim of a normal mean above a level."""
        problem = Problem(Claims(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.2, 9.0])), 2, 0.05, Gaussian(1.0))
        policy = Rounds(ConditionalPower(), budget=80, round_size=20)
        trial = advance(problem, policy, begin(problem, policy), Batch(np.full(2, 10.0), np.array([6.0, 0.0])))
        first, second = RULE.claims(problem, trial, "ab")
        assert second.chance == 0  # it is hopeless, so all that is left is for the first
        need = math.log(2 / 0.05) - trial.kept.gains[0]
        y, error, information = stats.norm.isf(math.exp(-need)), math.sqrt(1 / 10), 60.0
        away = ((0.6 - 0.2) * math.sqrt(information) - y) / math.sqrt(1 + error**2 * information)
        assert first.chance == pytest.approx(stats.norm.cdf(away), abs=1e-9)

    def test_what_is_settled_has_no_forecast_for_its_other_side(self, make):
        study = doses(make, sides="two", budget=2000, round_size=500, told="not yet")
        rates(study, **dict(zip(DOSES, (0.2, 0.2, 0.4, 0.9), strict=True)))
        found = lines(study.report())
        assert (found["300mg beats placebo"].shown, found["300mg beats placebo"].power) == (True, 1.0)
        assert found["300mg does not beat placebo"].power is None
        stands = {row[0]: row[3] for row in as_rows(claim_table(study.report()))}
        assert stands["300mg beats placebo"] == "shown in round 1"
        assert stands["300mg does not beat placebo"] == "other side shown"  # no result is asked for it
        assert stands["25mg beats placebo"] == stands["25mg does not beat placebo"] == "open"

    def test_nothing_is_forecast_when_nothing_is_left(self, make):
        """Also where more came back than was asked for, so that the budget is used before it was said to be."""
        study = doses(make, budget=200, round_size=100, told="not yet")
        study.ask()
        study.tell(sums(placebo=(80, 25), **{"25mg": (40, 9), "75mg": (40, 21), "300mg": (40, 20)}))
        assert study.state.trial.record.samples == 200
        assert {each.power for each in study.report().claim_rows if not each.shown} == {0.0}

    def test_a_larger_budget_is_in_it(self, make):
        study = doses(make, budget=400)
        before = lines(study.report())["75mg beats placebo"].power
        assert lines(study.extend(4000))["75mg beats placebo"].power > before

    def test_many_rounds_are_not_said_twice(self):
        spread = Quantiles(typical=1.0, p95=1.0)
        words = {"study": "s", "results": 1, "rounds": 1, "budget": None, "ended": None, "runs": 9}
        words |= {"samples": spread, "more_rounds": spread, "next_is_last": 0.1, "within_budget": None}
        line = Outlook(**words, between=(6.0, math.inf)).line
        assert line == "about 6 more rounds, or many more"
        assert Outlook(**words, between=(1.0, 1.0)).line == "about 1 more round"
        assert Outlook(**words, between=(1.0, 3.0)).line == "about 1 to 3 more rounds"


class TestArmsThatLeave:
    def test_it_is_given_up_and_nothing_is_expected_of_it(self, make):
        study = doses(make, futility=0.1)
        report = study.drop("25mg", "toxic")
        assert report.headline == "Not decided yet. Shown: nothing. Open: 75mg and 300mg. Given up: 25mg"
        for each in report.claim_rows:
            assert ("25mg" in each.claim) == each.given_up
            assert not each.given_up or each.power == 0
        assert re.search(r"25mg beats placebo .* given up ", report.text())
        asked = dict(study.ask().table)
        assert set(asked) == {"placebo", "75mg", "300mg"}
        assert asked["placebo"] == round(200 * math.sqrt(2) / (2 + math.sqrt(2)))  # as two are fed
        rates(study, placebo=0.3, **{"75mg": 0.5, "300mg": 0.8})
        assert "25mg" not in dict(study.ask().table)
        assert audit_entries(study.entries()).differences == ()

    def test_a_study_in_which_only_it_is_open_ends(self, make):
        study = make(
            question=Claims.against_control(("p", "x", "y"), "p"), arms=("p", "x", "y"), budget=1000, round_size=250
        )
        report = rates(study, p=0.2, x=0.3, y=0.9)
        assert [each.shown for each in report.claim_rows] == [False, True]
        report = study.drop("x", "toxic")
        assert (report.status, study.ask()) == ("decided", None)
        assert any("only claims about arms that were left out are open" in str(each) for each in report.notes)

    @pytest.mark.parametrize("budget", [None, 1000], ids=["no budget", "budget"])
    @pytest.mark.parametrize("asked", [False, True], ids=["between rounds", "in an open round"])
    def test_results_are_for_what_is_still_open(self, make, budget, asked):
        """A claim that was fed is dropped: others are fed in its place, and never the control alone."""
        arms = ("p", "x", "y", "z")
        study = make(question=Claims.against_control(arms, "p"), arms=arms, budget=budget, round_size=250)
        rates(study, p=0.4, x=0.42, y=0.58, z=0.3)
        assert not asked or "y" in dict(study.ask().table)
        study.drop("y", "toxic")
        wanted = dict(study.ask().table)
        assert "y" not in wanted
        assert {"p", "x"} <= set(wanted)
        assert study.state.trial.plan.pulls[1] > 0 == study.state.trial.plan.pulls[2]
        assert audit_entries(study.entries()).differences == ()

    def test_an_open_round_does_not_ask_for_it_any_more(self, make):
        study = doses(make, futility=0.1)
        assert "25mg" in dict(study.ask().table)
        study.drop("25mg", "toxic")
        assert set(dict(study.ask().table)) == {"placebo", "75mg", "300mg"}
        rates(study, placebo=0.3, **{"75mg": 0.5, "300mg": 0.8})
        assert study.report().rounds == 2
        assert audit_entries(study.entries()).differences == ()


class TestWhatHappenedIsSaid:
    def test_once_in_every_form(self, make):
        study = doses(make)
        study.drop("25mg", "it was toxic")
        study.add("450mg", "the sponsor asked")
        study.extend(900)
        study.note("a nurse was ill")
        happened = ["it was toxic", "the sponsor asked", "a nurse was ill"]
        report = study.report()
        for form in (report.text().replace("\N{NO-BREAK SPACE}", " "), report.markdown(), report.html()):
            for each in happened:
                assert form.count(each) == 1
        assert all(any(each in str(note) for note in study.status().notes) for each in happened)

    def test_of_other_questions_too(self, make):
        study = make(budget=500)
        rates(study, a=0.2, b=0.5, c=0.6)
        study.drop("a", "broken")
        study.note("looked at it")
        notes = map(str, study.status().notes)
        said = "".join(notes)
        assert "broken" in said
        assert "looked at it" in said


class TestAfterTheDecision:
    def test_what_stands_is_said_to_stand(self, make):
        study = make(question=Claims.against_control(("p", "x"), "p"), arms=("p", "x"), budget=400, round_size=200)
        while study.ask() is not None:
            rates(study, p=0.3, x=0.9)
        before = study.report()
        study.tell(sums(p=(30, 30), x=(20, 0)))
        after = study.report()
        assert after.claim_rows == before.claim_rows
        assert [each.lift for each in after.arm_rows] == [each.lift for each in before.arm_rows]
        assert after.arm_rows[0].mean > before.arm_rows[0].mean
        assert any(each.code == "after_decision" and each.fields["claims"] for each in after.notes)


class TestWords:
    def test_odds_ratios_are_odds_ratios(self, make):
        question = Claims.against_control(("p", "x", "y"), "p", 1.2, scale="odds-ratio")
        report = rates(make(question=question, arms=("p", "x", "y"), budget=3000, round_size=1000), p=0.3, x=0.3, y=0.5)
        y = report.claim_rows[1]
        assert y.estimate == pytest.approx((0.5 / 0.5) / (0.3 / 0.7), rel=0.03)
        assert 1 < y.lower < y.estimate
        assert y.scale == report.plain()["claims"][1]["scale"] == "odds ratio"
        assert re.search(r"odds ratio 2\.\d+, at least 1\.\d+ ", report.text())
        assert "88" not in report.claims["estimate"].astype(str)[1]

    def test_ratios_are_ratios(self, make):
        question = Claims.against_control(("p", "x", "y"), "p", 1.1, scale="ratio")
        study = make(question=question, arms=("p", "x", "y"), budget=3000, round_size=1000)
        report = rates(study, p=0.3, x=0.3, y=0.5)
        x, y = report.claim_rows
        means = {arm.name: arm.mean for arm in report.arm_rows}
        assert (x.estimate, y.estimate) == pytest.approx((means["x"] / means["p"], means["y"] / means["p"]))
        assert [row["scale"] for row in report.plain()["claims"]] == ["ratio", "ratio"]
        assert (x.lower, x.upper, y.upper) == (None, None, None)
        state = study.state
        form = RULE.claims(state.spec.problem, state.trial, state.spec.arms)[1]
        assert form.lower > 0
        assert 1.1 < y.lower == 1.1 + form.lower < y.estimate  # a rate is at most 1
        assert re.search(r"ratio 1\.6\d*, shown to exceed 1\.1, at least 1\.1\d+ ", report.text())
        assert re.search(r"ratio (1|0\.9|1\.0)\d*, not shown to exceed 1\.1 ", report.text())
        assert "as ratios" in report.markdown()
        assert doses(make, "plain").report().claim_rows[0].scale is None

    def test_ratios_of_what_may_be_negative_are_not(self, make):
        question = Claims.against_control(("p", "y"), "p", 1.1, scale="ratio")
        study = make(question=question, arms=("p", "y"), noise=Gaussian(), budget=300, round_size=100)
        study.ask()
        report = study.tell({"arm": ["p", "y"], "count": [50, 50], "total": [-50.0, 50.0]})
        assert report.claim_rows[0].scale == "y - 1.1 p"
        assert report.claim_rows[0].estimate == pytest.approx(2.1)

    def test_sides_of_odds(self, make):
        question = Claims.against_control(("p", "x", "y"), "p", 1.0, scale="odds-ratio", sides="two")
        report = rates(make(question=question, arms=("p", "x", "y"), budget=3000, round_size=1000), p=0.3, x=0.3, y=0.5)
        assert report.headline.endswith("Shown: y beats p. Open: x")
        assert [each.claim for each in report.claim_rows][2:] == ["x does not beat p", "y does not beat p"]
        futile = Claims.against_control(("p", "x"), "p", 1.2, scale="odds-ratio", futility=1.5)
        assert futile.names[1] == "x does not beat p by an odds ratio of 1.5 or more"


class TestTheChart:
    def test_the_bar_is_that_of_each_round(self, make):
        """Drawn as it is now, what passes it had seemed to be shown long before it was."""
        study = doses(make)
        found = study.report()
        assert all(len(each.log_threshold) == len(each.rounds) == 1 for each in found.courses)
        assert [each.log_threshold[-1] for each in found.courses] == [each.log_threshold for each in found.claim_rows]
        high, low = math.log(80), math.log(40)
        open_, shown = (
            EvidenceHistory("75mg beats placebo", (1, 2, 3), (1.0, 4.0, 4.1), (high, high, low), True, 3),
            EvidenceHistory("300mg beats placebo", (1, 2, 3), (2.0, 5.0, 5.0), (high, low, low), True, 2),
        )
        assert thresholds_by_round([open_, shown]) == {1: high, 2: high, 3: low}  # in the end all are shown
        chart = draw_evidence(replace(found, courses=(open_, shown)))
        levels = [
            float(each) for each in re.findall(r'class="line threshold" points="[0-9.]+,([0-9.]+) [0-9.]+,\1"', chart)
        ]
        assert len(levels) == 3
        assert levels[0] == levels[1] < levels[2]  # down is more
        assert "The dashed line is the highest bar of what was open, 80 : 1 in the first round and 40 : 1 now" in chart

    def test_a_course_begins_anew_when_all_is_counted_anew(self, make):
        """What was won in rounds before a correction is not what would have been won after it."""
        study = doses(make, budget=1600)
        study.ask()
        study.tell(sums(placebo=(80, 26), **{"25mg": (40, 10), "75mg": (40, 22), "300mg": (40, 32)}))
        assert {each.rounds for each in study.report().courses} == {(1, 2)}
        first = study.state.rounds[0].files[0].digest
        study.amend(first, sums(placebo=(80, 24), **{"25mg": (40, 9), "75mg": (40, 21), "300mg": (40, 30)}), "a slip")
        assert {each.rounds for each in study.report().courses} == {(2,)}

    def test_an_undecided_study_is_not_decided_by_a_rule(self, make):
        study = make(
            "t", question=Claims.against_control(DOSES, "placebo"), arms=DOSES, round_size=200, split="2:1:1:1"
        )
        assert "decided by" not in study.report().sentence
        assert "judged by the rule of conditional-power" in study.report().sentence


def test_bounds_that_say_nothing_and_forecasts_of_what_is_not_bet_on(make):
    """Six wells an arm: bounds of hundreds of deviations are left out, and large-sample forecasts wait for its gate."""
    rng, wells = np.random.default_rng(3), np.repeat(["DMSO", "a", "b"], 6)
    for noise in (Normal(), LargeSample()):
        words = {"noise": noise, "budget": 180, "round_size": 18, "split": "equal"}
        study = make(
            noise.name, question=Claims.against_control(["DMSO", "a", "b"], "DMSO"), arms=["DMSO", "a", "b"], **words
        )
        study.ask()
        cells = rng.normal(440, 60, 18) + 200 * (wells == "a")
        report = study.tell({"arm": wells, "outcome": cells}, new=True)
        assert "e+0" not in report.text()
        assert "to ?" not in report.text()
        if noise == LargeSample():
            assert [each.power for each in report.claim_rows] == [0.0, 0.0]
        else:
            assert report.claim_rows[0].power > 0.3
