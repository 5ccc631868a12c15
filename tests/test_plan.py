"""Plans: what is expected, what lies ahead against simulations of its own, costs, the choice of settings, words."""

import dataclasses
import json
import math
import sys
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest

import roundwise
from products import diagonals
from roundwise import (
    PET,
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    Claims,
    DataError,
    Gaussian,
    InputError,
    Largest,
    MinimumBelow,
    Normal,
    Poisson,
    Statements,
    SubGaussian,
    TopK,
    Wager,
)
from roundwise.model.spec import parse_quantity
from roundwise.planning.fixed_designs import fixed_design
from roundwise.planning.render import row_table
from roundwise.planning.request import Costs, build_ladder, one_for_each
from roundwise.planning.tradeoff import policy_words
from roundwise.render import html as html_renderer

SIGMAS = 4.5  # of two means that ought to be the same: a false alarm in 150 000
NAMES = ("control", "short", "big", "guest")


def agree(one, other):
    """Whether two samples may have the same mean."""
    error = math.hypot(np.std(one) / math.sqrt(len(one)), np.std(other) / math.sqrt(len(other)))
    return abs(np.mean(one) - np.mean(other)) <= SIGMAS * error + 1e-12


@cache
def plan_once(question, words):
    return roundwise.plan(question, **dict(words))


def planned(question=None, **words):
    """A plan; tests that ask for the same one share it."""
    words = {"arms": NAMES, "noise": Binary(), "baseline": "30%", "runs": 100} | words
    fixed = ((key, tuple(value) if isinstance(value, list) else value) for key, value in words.items())
    return plan_once(BestArm() if question is None else question, tuple(fixed))


EASY = {"arms": ["a", "b", "c"], "leads": "10%,20%"}


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "number"),
        [("3%", 0.03), ("30 %", 0.3), ("0.5 points", 0.005), ("1 point", 0.01), ("1e-3", 0.001), ("20 000", 2e4)],
    )
    def test_as_people_write_them(self, text, number):
        assert parse_quantity(text) == number

    @pytest.mark.parametrize("text", ["", "many", "%", "3%%", "nan", "inf", "1,5"])
    def test_others_are_refused(self, text):
        with pytest.raises(InputError, match="number"):
            parse_quantity(text)

    def test_one_for_each(self):
        assert one_for_each(2, NAMES, "price") == (2, 2, 2, 2)
        assert one_for_each("1,2,3,4", NAMES, "price") == (1, 2, 3, 4)
        assert one_for_each("guest=4,big=3,short=2,control=1", NAMES, "price") == (1, 2, 3, 4)
        with pytest.raises(InputError, match="numbers"):
            one_for_each([1, 2], NAMES, "price")
        with pytest.raises(InputError, match=r"'gast'.*'guest'"):
            one_for_each("gast=4", NAMES, "price")
        with pytest.raises(InputError, match="'short'"):
            one_for_each({"control": 1}, NAMES, "price")


class TestExpected:
    @pytest.mark.parametrize(
        ("baseline", "leads"),
        [(0.3, [0.01, 0.02, 0.05, 0]), (0.03, [0.005, 0.01, 0.02, 0]), (0.5, [0.01, 0.02, 0.05, 0])],
    )
    def test_a_ladder_of_round_numbers(self, baseline, leads):
        rows = build_ladder(BestArm(), NAMES, Binary(), baseline, None)
        assert [row.lead for row in rows] == leads
        assert all(row.means == pytest.approx([baseline + row.lead, baseline, baseline, baseline]) for row in rows)

    @pytest.mark.long
    def test_a_difference_that_matters_is_on_it(self):
        rows = build_ladder(BestArm(0.03), NAMES, Binary(), 0.3, None)
        assert [row.lead for row in rows] == [0.01, 0.02, 0.03, 0.05, 0]
        assert planned(BestArm(0.03), runs=40).row.expected.lead == 0.03

    @pytest.mark.parametrize(
        ("question", "means"),
        [
            (TopK(2), [0.4, 0.4, 0.3, 0.3]),
            (Above(0.3), [0.4, 0.4, 0.2, 0.2]),
            (AnyAbove(0.3), [0.4, 0.2, 0.2, 0.2]),
            (MinimumBelow(0.3), [0.2, 0.4, 0.4, 0.4]),
            (Statements.against_control(4, 1), [0.3, 0.3, 0.35, 0.4]),
        ],
        ids=lambda each: getattr(each, "name", ""),
    )
    def test_what_is_sought_is_ahead(self, question, means):
        (row,) = build_ladder(question, NAMES, Binary(), 0.3, [0.1])
        assert row.means == pytest.approx(means)

    def test_control(self):
        assert Statements.against_control(4, 2, 0.1).reference_arm == 2
        assert Statements.ranking(4).reference_arm is None
        assert Largest([[1, 0], [0, 1]]).reference_arm is None
        assert BestArm().reference_arm is None

    @pytest.mark.long
    def test_means_and_scenarios(self, tmp_path):
        file = tmp_path / "worlds.csv"
        file.write_text("name,control,short,big,guest\nas last year,30%,31%,0.32,33 %\nworse,20%,20%,20%,30%\n")
        found = planned(baseline=None, scenario=file, runs=40)
        assert [row.expected.label for row in found.rows] == ["as last year", "worse"]
        assert found.rows[0].expected.means == (0.3, 0.31, 0.32, 0.33)
        assert planned(baseline=None, scenario=file, target="worse", runs=40).row is not None
        assert planned(baseline=None, means="30%,31%,32%,40%", runs=40).rows[0].expected.means == (0.3, 0.31, 0.32, 0.4)

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            ({"baseline": None}, "to expect"),
            ({"baseline": 1.2}, "must lie between 0 and 1"),
            ({"means": [0.1] * 4}, "Give one of baseline"),
            ({"baseline": None, "means": [0.1] * 3}, "3 means, but 4 arms"),
            ({"baseline": None, "means": [0.1, 0.2, 0.3, 1.3]}, "lie between 0 and 1"),
            ({"baseline": None, "means": [0.1] * 4, "leads": "1%"}, "Leads need a baseline"),
            ({"leads": "-1%"}, "must be positive"),
            ({"leads": "80%"}, "leave their range"),
            ({"target": "3%"}, "row"),
            ({"missing": "100%"}, "must be a share"),
            ({"power": 1}, "between 0 and 1"),
            ({"budget": 3}, "4 arms need 4"),
            ({"sample_cost": -1}, "at least 0"),
            ({"delta": "5"}, "For 5 % write 0.05"),
        ],
    )
    def test_what_cannot_be_is_refused(self, words, sentence):
        with pytest.raises(InputError, match=sentence):
            planned(**words)

    def test_a_question_without_a_ladder(self):
        with pytest.raises(InputError, match="has no ladder"):
            planned(Largest([[1, 1, 0, 0], [0, 0, 1, 1]]))

    def test_a_table_with_a_mistake(self, tmp_path):
        file = tmp_path / "worlds.csv"
        file.write_text("name,control,short,big,guest\nx,30%,much,30%,30%\n")
        with pytest.raises(DataError, match=r"worlds.csv, line 2: `short` is 'much'"):
            planned(baseline=None, scenario=file)


class TestLead:
    """The smallest lead that matters, which a study is designed for; not the true leads of the rows."""

    WORDS = {"arms": ["a", "b"], "baseline": "20%", "runs": 400}

    def test_rows_are_multiples_of_it(self):
        rows = planned(lead="2 points", budget=15_000, quick=True, **self.WORDS).rows
        assert [row.expected.lead for row in rows] == [0, 0.01, 0.015, 0.02, 0.03, 0.04]

    def test_it_is_among_the_leads_and_the_target(self):
        found = planned(lead=0.02, leads="1%,5%", budget=15_000, quick=True, **self.WORDS)
        assert [row.expected.lead for row in found.rows] == [0.01, 0.02, 0.05]
        assert found.row.expected.lead == 0.02
        assert "--lead 0.02" in found.command
        assert "--policy" not in found.command

    def test_relative_to_the_baseline(self):
        leads = planned(leads="10% of baseline,0.1", target="10%-of-baseline", quick=True, **self.WORDS)
        assert (leads.target, [row.expected.relative_lead for row in leads.rows]) == (0, pytest.approx([0.1, 0.5]))
        assert [line[0] for line in row_table(leads)[1:]] == ["+2 points (10 %)", "+10 points (50 %)"]
        found = planned(lead="10%-of-baseline", budget=15_000, quick=True, **self.WORDS)
        assert found.request.lead == found.request.policy.lead == 0.02
        with pytest.raises(InputError, match="no baseline"):
            planned(lead="10% of baseline", budget=900, means=[0.1, 0.2], **self.WORDS | {"baseline": None})

    def test_budgets_for_a_power(self):
        """One comparison: a group-sequential test needs a little more than a fixed one, 14 000 for 90 %."""
        found = planned(lead="2%", **self.WORDS)
        assert [each.power for each in found.budgets] == [0.8, 0.9, 0.95]
        for each in found.budgets:
            fixed = fixed_design(found.request.problem, (0.22, 0.2), power=each.power)
            assert 1.0 < each.budget / fixed.samples < 1.15
        assert found.request.budget == found.budgets[1].budget
        assert abs(found.row.within_budget - 0.9) < SIGMAS * math.sqrt(0.09 / 400)
        assert f"--budget {found.request.budget} --lead 0.02" in found.command

    def test_a_budget_alone(self):
        """The number of looks is not said, and the plan says what a study does that is told the lead of the row."""
        found = planned(budget=4000, leads="5%", **self.WORDS)
        words = [each.words for each in found.front]
        assert "looks as they come" in words
        (told,) = [each for each in found.front if each.designed_for is not None]
        assert told.words == "5 looks, designed for a lead of 5 points"
        assert (told.recommended, told.request.lead) == (False, 0.05)
        assert "A study that is designed for that lead (`lead`) has an answer in" in " ".join(found.text().split())
        assert "(looks), small ones for 15 % of the budget and 4 more if none is decisive," in found.protocol
        assert "at most 0.05 (one-sided, for either arm)" in found.protocol

    def test_looks_of_a_limited_size(self):
        found = planned(budget=4000, lead="5%", max_round_size=500, **self.WORDS)
        assert "(looks), 8 of them if none is decisive," in found.protocol
        assert max(rounds for rounds, _ in found.row.rounds_distribution) <= 8

    def test_the_planners_examples(self):
        """Two arms, 20 000: at least 90 % with at most 14 000 on average; three, 40 000: 92 % with 30 000."""
        for arms, budget, power, mean in ((2, 20_000, 0.9, 14_000), (3, 40_000, 0.918, 30_000)):
            row = planned(arms=arms, lead="2%", leads="2%", budget=budget, runs=2000).row
            assert row.within_budget > power - SIGMAS * math.sqrt(0.09 / 2000)
            assert row.mean_samples < mean + SIGMAS * 6000 / math.sqrt(2000)
            assert row.samples.p95 <= budget


class TestCosts:
    @pytest.mark.long
    def test_they_scale(self):
        one = planned(sample_cost=2, round_cost=300, round_days=2, **EASY)
        other = planned(sample_cost=6, round_cost=900, round_days=4, **EASY)
        for row, again in zip(one.rows, other.rows, strict=True):
            assert row.samples == again.samples
            assert row.cost.typical * 3 == again.cost.typical
            assert row.days.p95 * 2 == again.days.p95
        assert [each.words for each in one.front] == [each.words for each in other.front]

    def test_arms_have_prices_of_their_own(self):
        counts, rounds = np.array([[10.0, 20.0], [1.0, 0.0]]), np.array([2.0, 1.0])
        assert Costs(sample=(1.0, 50.0), round=7.0).of(counts, rounds).tolist() == [10 + 1000 + 14, 8]

    @pytest.mark.long
    def test_dear_rounds_are_few(self):
        rounds = [
            planned(sample_cost=1, round_cost=price, runs=40).recommended.mean_rounds for price in (1, 3000, 10**6)
        ]
        assert rounds == sorted(rounds, reverse=True)
        assert rounds[0] > rounds[2] + 1

    def test_the_recommended_costs_least(self):
        found = planned(sample_cost=1, round_cost=2000, **EASY)
        least = min(each.mean_cost for each in found.front)
        assert found.recommended.mean_cost <= 1.02 * least
        assert found.request == found.recommended.request

    @pytest.mark.long
    def test_the_front(self):
        found = planned(leads="10%").front
        best = [each for each in found if each.front]
        assert len(best) >= 3
        assert [each.mean_rounds for each in best] == sorted((each.mean_rounds for each in best), reverse=True)
        assert sum(each.recommended for each in found) == 1

    @pytest.mark.long
    def test_a_round_that_is_fixed_stays(self):
        found = planned(round_size=300, leads="10%")
        assert found.request.round_size == 300
        assert found.recommended.words == "rounds of 300"
        assert len(found.front) > 1
        assert "--round-size 300" in found.command

    def test_a_policy_of_ones_own_stays(self):
        found = planned(policy=Wager(batch_price=500), leads="20%", runs=40)
        assert [each.words for each in found.front] == ["wager:batch_price=500"]
        assert policy_words(PET(guess=4)) == "pet:guess=4"


class TestPlan:
    @pytest.mark.long
    def test_the_same_seed_the_same_plan(self):
        one = planned(budget=5000, **EASY).json()
        plan_once.cache_clear()
        assert planned(budget=5000, **EASY).json() == one
        assert planned(budget=5000, seed=2, **EASY).json() != one

    @pytest.mark.long
    def test_it_is_refined(self):
        seen = []
        found = planned(runs=300, **EASY, progress=lambda plan, done: seen.append((plan.rows[0].runs, done)))
        assert seen[0][0] == 40
        assert [done for _, done in seen] == sorted(done for _, done in seen)
        assert found.rows[0].runs == 300

    @pytest.mark.long
    def test_json(self):
        found = json.loads(planned(budget=5000, round_days=1, sample_cost=1).json())
        assert {"rows", "recommended", "fixed_design", "lower_bound", "words", "protocol", "command"} <= found.keys()
        for row in found["rows"]:
            assert {"lead", "samples", "rounds", "cost", "within_budget", "claims"} <= row.keys()
            assert {"typical", "p95"} <= row["samples"].keys()
            assert {"typical", "p95"} <= row["rounds"].keys()
        assert found["rows"][-1]["within_budget"] < 0.05  # nothing to find: the budget is used
        assert found["rows"][-1]["samples"]["typical"] == 5000

    @pytest.mark.long
    def test_harder_takes_more(self):
        rows = planned(budget=4000).rows[:3]
        means = [row.mean_samples for row in rows]
        chances = [row.within_budget for row in rows]
        assert means == sorted(means, reverse=True)
        assert chances == sorted(chances)
        assert all(row.mean_samples <= row.samples.p95 <= 4000 for row in rows)
        free = planned(runs=40).rows[:3]
        assert all(row.lower_bound < row.samples.typical <= row.samples.p95 for row in free)

    @pytest.mark.long
    def test_what_else_could_be_asked(self):
        found = planned(budget=8000, target="2%")
        kinds = {each.kind for each in found.alternatives}
        assert {"tolerance", "fewer arms", "budget"} <= kinds
        for each in found.alternatives:
            assert each.within_budget > found.row.within_budget
            assert each.words in found.text().replace("\n", " ")
        assert not planned(leads="10%", budget=20_000).alternatives

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("question", "kinds"),
        [
            (TopK(2), {"tolerance", "budget"}),  # with half the arms the same two are as hard to tell from the rest
            (Above(0.3), {"tolerance", "fewer arms", "budget"}),
            (AnyAbove(0.3), {"tolerance", "fewer arms", "budget"}),
            (MinimumBelow(0.3), {"tolerance", "budget"}),  # with half the arms the low one is as hard to find
            (Statements.against_control(4), set()),  # an arm like the control is on its level for ever
        ],
        ids=lambda each: getattr(each, "name", ""),
    )
    def test_what_else_of_other_questions(self, question, kinds):
        found = planned(question, leads="2%", budget=8000, runs=40)
        assert {each.kind for each in found.alternatives} >= kinds
        for each in found.alternatives:
            assert each.within_budget > found.row.within_budget
            assert each.words in found.text().replace("\n", " ")
        closer = [each for each in found.alternatives if each.kind == "tolerance"]
        assert {each.value for each in closer} <= {0.02, 0.04}
        assert all("give or take" in each.words for each in closer)

    @pytest.mark.long
    def test_another_number_of_the_best(self):
        found = planned(TopK(2), baseline=None, means="50%,40%,39.5%,30%", budget=2000, runs=40)
        assert [each.value for each in found.alternatives if each.kind == "top-k"] == [1]

    @pytest.mark.long
    def test_top_k_instead(self):
        found = planned(baseline=None, means="50%,49.5%,30%,30%", budget=3000)
        assert [each.value for each in found.alternatives if each.kind == "top-k"] == [2]

    @pytest.mark.long
    def test_claims(self):
        """The power of each, of one, of all; what is false; and the control gets more."""
        names = ["placebo", "low", "high"]
        found = planned(
            Claims.against_control(names, "placebo"), arms=names, leads="15%,30%", budget=400, runs=400, sample_cost=1
        )
        low, high = found.rows
        assert [each.claim for each in high.claims] == ["low beats placebo", "high beats placebo"]
        assert [each.true for each in high.claims] == [False, True]
        assert high.within_budget == high.at_least_one == high.all_true == high.claims[1].power > 0.9
        assert low.at_least_one < high.at_least_one
        assert high.any_false == high.claims[0].power <= 0.05 + SIGMAS * math.sqrt(0.05 * 0.95 / 400)
        assert high.samples.p95 <= 400
        assert high.fixed.method == "one look, Dunnett"
        assert "at least one true claim is shown" in found.words
        assert "closed test" in found.protocol
        assert found.request.policy.name == "conditional-power"

    def test_the_target_of_scenarios_is_not_the_null(self, tmp_path):
        file, names = tmp_path / "worlds.csv", ["placebo", "low", "high"]
        file.write_text("name,placebo,low,high\nnull,30%,30%,30%\nhigh alone,30%,30%,50%\n")
        words = {"arms": names, "baseline": None, "scenario": file, "budget": 300, "quick": True}
        found = planned(Claims.against_control(names, "placebo"), **words)
        assert found.row.expected.label == "high alone"
        assert "probability 0 %" not in found.protocol

    @pytest.mark.long
    def test_power_of_statements(self):
        found = planned(
            Statements.against_control(3), arms=["p", "a", "b"], baseline=None, means="30%,20%,50%", budget=3000
        )
        (row,) = found.rows
        assert [each.true for each in row.claims] == [False, True]
        assert row.claims[1].power > 0.9
        assert row.at_least_one == row.all_true == row.claims[1].power
        assert row.any_false == row.claims[0].power <= 0.05

    def test_it_fits_a_terminal(self):
        lines = planned(leads="2%,10%").text().splitlines()
        assert max(len(line) for line in lines if not line.startswith("Create it: ")) <= 80
        assert " ".join(lines[3].split()).startswith("if it is ahead by results")

    @pytest.mark.long
    def test_page_and_figure(self):
        found = planned(budget=5000, **EASY)
        page = found.html()
        assert page.startswith("<!doctype html>")
        assert page.count('role="img"') == 4
        assert "style=" not in found._repr_html_()
        assert found.html() == page
        figure = found.figure()
        assert found.figure() == figure
        texts = {each.text for each in ElementTree.fromstring(figure).iter() if each.tag.endswith("text")}
        assert {"Results until the answer", "Chance of an answer within 5\N{NO-BREAK SPACE}000"} <= texts

    def test_a_notebook_shows_text_without_jinja(self, monkeypatch):
        found = planned(leads="20%")
        monkeypatch.setitem(sys.modules, "jinja2", None)
        html_renderer._environment.cache_clear()
        assert found._repr_html_() is None
        with pytest.raises(InputError, match="need Jinja2"):
            found.html()
        assert found.figure().startswith("<svg")
        html_renderer._environment.cache_clear()

    @pytest.mark.long
    def test_names_in_a_page_are_text(self):
        found = planned(arms=["<b>", "a&b", "c", "d"], leads="20%", runs=40)
        assert "&lt;b&gt;" in found._repr_html_()
        assert "<b>," not in found._repr_html_()


NOISES = [Binary(), Bounded(0, 1), Gaussian(0.4), SubGaussian(0.4), Poisson(), Normal()]
QUESTIONS = [
    BestArm(),
    BestArm(0.1),
    TopK(2),
    Above(0.4),
    AnyAbove(0.4),
    MinimumBelow(0.4),
    Statements.against_control(4),
    Statements.ranking(4),
    Largest([[1, 1, 0, 0], [0, 0, 1, 1]]),
    Claims.against_control(4),
]


@pytest.mark.long
@pytest.mark.parametrize(("question", "noise"), diagonals(QUESTIONS, NOISES, 4))
def test_every_question_with_every_model(question, noise):
    found = planned(
        question,
        noise=noise,
        baseline=None,
        means=[0.15, 0.55, 0.65, 0.9],
        budget=4000,
        deviation=0.3,
        missing="5%",
        sample_cost=1,
        runs=60,
    )
    (row,) = found.rows
    assert row.samples.typical < math.inf
    assert row.cost.typical == row.samples.typical
    assert row.within_budget > 0.3
    assert row.wrong <= 0.05 + SIGMAS * math.sqrt(0.05 * 0.95 / 60)
    assert found.text()
    assert found._repr_html_()
    again = dataclasses.replace(found, target=0)
    assert again.protocol == found.protocol
