"""The planner is calibrated: it says what scripted studies do through ask and tell, and what they do from here."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import scripted_studies as scripted
from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Capped,
    Claims,
    Gaussian,
    GaussianArms,
    Normal,
    Problem,
    TopK,
    Wager,
    create_study,
    plan,
)
from roundwise.arrays import tree_map
from roundwise.ingest import Columns
from roundwise.model.problem import advance, begin
from roundwise.planning import first_line, outlook_line, replan
from roundwise.planning.forecast import LeadPrior, ResultsSoFar, allowed_world, simulate_ahead
from roundwise.policies import Designed
from roundwise.simulation.environments import draw_batch

FALSE_ALARM = 1e-5
RATES = (0.6, 0.45, 0.35)
WORDS = {"arms": ("x", "y", "z"), "noise": Binary(), "max_round_size": 150, "budget": 450}


def told(path, rates, asked, rng):
    """A file with what came back for a batch of 0/1 results."""
    scripted.told(path, Binary(), rates, asked, rng)


DOSES = ("placebo", "low", "high")
FORECASTS = {
    "limits": (BestArm(), WORDS | {"means": RATES}),
    "missing": (BestArm(), WORDS | {"means": RATES, "max_round_size": None, "budget": 600, "missing": "10%"}),
    "claims": (
        Claims.against_control(DOSES, "placebo"),
        {"arms": DOSES, "noise": Binary(), "means": (0.3, 0.4, 0.55), "split": "2:1:1", "round_size": 40, "budget": 240}
        | {"missing": "8%"},
    ),
    "rows": (BestArm(), WORDS | {"noise": Normal(), "means": (0.6, 0.1, 0.0), "max_round_size": None}),
}


def forecast_agrees(folder, name, number):
    """The forecast says what a fresh simulation does, and what so many studies do that are created as it recommends."""
    question, words = FORECASTS[name]
    found = plan(question, runs=2000, **words)
    wish, row = found.request, found.rows[0]
    real = np.array(scripted.studies(folder, wish, row.expected.means, number))
    fresh = simulate_ahead(wish.problem, wish.acting, wish.world(row.expected.means), runs=2000, seed=5)
    shown = fresh.shown if row.claims else fresh.decided[:, None]
    forecast = [each.power for each in row.claims] or [row.within_budget]
    ended = real[:, 3:] if row.claims else real[:, :1]
    for j, chance in enumerate(forecast):
        lower, upper = stats.binom.ppf([FALSE_ALARM, 1 - FALSE_ALARM], number, chance)
        assert lower <= ended[:, j].sum() <= upper
        error = math.sqrt(2 * chance * (1 - chance) / 2000)
        assert abs(shown[:, j].mean() - chance) <= stats.norm.isf(FALSE_ALARM) * error + 1e-9
    for ours, said in ((real[:, 1], fresh.samples), (real[:, 2], fresh.rounds)):
        error = math.hypot(np.std(ours) / math.sqrt(number), np.std(said) / math.sqrt(2000))
        assert abs(np.mean(ours) - np.mean(said)) <= stats.norm.isf(FALSE_ALARM) * error + 1e-9


@pytest.mark.long
def test_scripted_studies(tmp_path):
    forecast_agrees(tmp_path, "missing", 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORECASTS)
def test_a_thousand_scripted_studies(name, tmp_path):
    """Numbers of one run are in docs/planning.md."""
    forecast_agrees(tmp_path, name, 1000)


def worlds(noise, rng, number, arms):
    """Truths of which the planner knows nothing."""
    if isinstance(noise, Binary):
        return BernoulliArms(1 / (1 + np.exp(-(-0.4 + 0.5 * rng.standard_normal(arms)))))
    return GaussianArms(0.4 * rng.standard_normal(arms))


def covered(noise, number, runs, seed=1, arms=4):
    """How many studies end within the 19-in-20 of a forecast after two rounds; and whether the next was the last."""
    problem, policy = Problem(BestArm(), arms, 0.05, noise), Wager()
    within, chances, last = 0, [], []
    for i in range(number):
        rng = np.random.default_rng((seed, i))
        truth = worlds(noise, rng, number, arms)
        trial, world = begin(problem, policy, (1,)), truth.initial_state(rng, 1)
        scatter, freedom = np.zeros(arms), np.zeros(arms)
        for _ in range(2):
            batch, world = draw_batch(problem, truth, rng, world, trial.plan, 64)  # about as often as a study
            if batch.scatter is not None:
                scatter, freedom = scatter + batch.scatter[0], freedom + np.maximum(batch.counts[0] - 1, 0)
            trial = advance(problem, policy, trial, batch)
        if trial.done[0]:
            continue
        data = ResultsSoFar(
            counts=trial.record.counts[0],
            totals=trial.record.totals[0],
            scatter=scatter if freedom.any() else None,
            freedom=freedom if freedom.any() else None,
        )
        start = tree_map(lambda array: array[0], trial)
        ends = simulate_ahead(
            problem, policy, allowed_world(noise, data, i), runs=runs, seed=i, start=start, most_rounds=40
        )
        rounds = 0
        before = trial.record.samples[0]
        while not trial.done[0] and rounds < 40:
            batch, world = draw_batch(problem, truth, rng, world, trial.plan, 64)  # about as often as a study
            trial, rounds = advance(problem, policy, trial, batch), rounds + 1
        needed = trial.record.samples[0] - before if trial.done[0] else np.inf
        within += needed <= np.quantile(ends.samples, 0.95, method="higher")
        chances.append((ends.rounds == 1).mean())
        last.append(rounds == 1 and trial.done[0])
    return within, np.array(chances), np.array(last)


def calibrated(noise, number, runs):
    within, chances, last = covered(noise, number, runs)
    studies = len(chances)
    assert studies > number / 2
    lower = stats.binom.ppf(FALSE_ALARM, studies, 0.95 - 1.0 / runs)
    assert within >= lower
    spread = math.sqrt((chances * (1 - chances)).sum()) + 0.5
    assert abs(last.sum() - chances.sum()) <= stats.norm.isf(FALSE_ALARM) * spread


@pytest.mark.long
@pytest.mark.parametrize("noise", [Binary(), Gaussian(), Normal()], ids=lambda each: each.name)
def test_from_here_nineteen_in_twenty_cover(noise):
    calibrated(noise, 25, 80)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Binary(), Gaussian(), Normal()], ids=lambda each: each.name)
def test_from_here_in_many_studies(noise):
    calibrated(noise, 400, 200)


def draw_truths(question, rng, number, lead):
    """Means of four arms as the forecast of a designed study supposes them to be."""
    prior, scale = LeadPrior.of(question, 4, lead), 0.3 if question.level is None else 1.5 * lead
    apart = lead * np.abs(1.5 * rng.standard_normal((number, 1)))
    if prior.patterns is None:
        patterns = rng.choice([-1.0, 1.0], (number, 4))
    else:
        patterns = prior.patterns[rng.integers(0, len(prior.patterns), number)]
    between = scale * np.abs(rng.standard_cauchy((number, 1)))
    apart = np.where(rng.integers(0, 2, (number, 1)), apart * patterns, between * rng.standard_normal((number, 4)))
    return (question.level or 0.0) + apart


def forecast_designs(question, number, runs, looks=1, lead=0.25):
    """The chance of an answer that is forecast after some looks of many designed studies, and whether there was one."""
    rng, noise = np.random.default_rng(3), Gaussian()
    problem, policy = Problem(question, 4, 0.05, noise), Designed(budget=1000, lead=lead)
    truths, prior, found = draw_truths(question, rng, number, lead), LeadPrior.of(question, 4, lead), []
    world = GaussianArms(lambda rng, runs: truths)
    trial, state = begin(problem, policy, (number,)), world.initial_state(rng, number)
    for _ in range(looks):
        batch, state = draw_batch(problem, world, rng, state, trial.plan)
        trial = advance(problem, policy, trial, batch)
    for i in np.flatnonzero(~trial.done):
        start = tree_map(lambda array, i=i: array[i], trial)
        data = ResultsSoFar(counts=trial.record.counts[i], totals=trial.record.totals[i])
        worlds = (allowed_world(noise, data, i, prior), runs), (GaussianArms(truths[i]), 1)
        ends = [simulate_ahead(problem, policy, each, runs=size, seed=int(i), start=start) for each, size in worlds]
        found.append([each.decided.mean() for each in ends])
    return np.array(found).T


def chances_come_true(question, number, runs):
    chances, answered = forecast_designs(question, number, runs)
    for low, high in pairwise((0.0, 0.3, 0.7, 1.01)):
        here = (chances >= low) & (chances < high)
        expected = chances[here]
        spread = math.sqrt((expected * (1 - expected) * (1 + 1 / runs)).sum()) + 1.0
        assert abs(answered[here].sum() - expected.sum()) <= stats.norm.isf(FALSE_ALARM) * spread


DESIGNS = [BestArm(), TopK(2), Above(0.0), AnyAbove(0.0)]


@pytest.mark.long
@pytest.mark.parametrize("question", DESIGNS, ids=lambda each: each.name)
def test_chances_of_designed_studies(question):
    chances_come_true(question, 50, 40)


@pytest.mark.slow
@pytest.mark.parametrize("question", DESIGNS, ids=lambda each: each.name)
def test_chances_of_many_designed_studies(question):
    chances_come_true(question, 1000, 100)


class TestARunningStudy:
    @pytest.fixture
    def study(self, tmp_path):
        words = WORDS | {"budget": 5000, "max_round_size": None}
        with create_study("s", question=BestArm(), storage=f"sqlite:///{tmp_path}/s.db", seed=1, **words) as study:
            yield study

    def told_a_round(self, study, tmp_path, rates=RATES):
        told(tmp_path / "batch.csv", rates, study.ask(), np.random.default_rng(1))
        study.tell(tmp_path / "batch.csv")

    def test_from_the_first_round_to_the_last(self, study, tmp_path):
        assert outlook_line(study.state) is None  # nothing to go by
        little = dataclasses.replace(study.state.spec, budget=2000)
        assert "there is an answer within the budget with probability" in first_line(little)
        plenty = dataclasses.replace(study.state.spec, budget=None)
        assert " results in " in first_line(plenty)
        open_ = dataclasses.replace(plenty, noise=Normal(), unit="ms")  # neither a lead nor a deviation in ms is known
        assert first_line(open_).startswith("if the lead is 0.5 standard deviations of a result, about")
        assert first_line(dataclasses.replace(open_, noise=Capped(9000.0))) is None
        self.told_a_round(study, tmp_path)
        found = replan(study.state, runs=200)
        assert found.results == study.state.trial.record.samples
        assert found.rounds == 1
        assert 1 <= found.between[0] <= found.between[1]
        assert found.samples.typical <= found.samples.p95 <= 5000 - found.results
        assert 0 <= found.next_is_last <= found.within_budget <= 1
        assert outlook_line(study.state).startswith("about ")
        assert replan(study.state, runs=200) == found
        assert found.plain()["more_rounds"]["typical"] == found.more_rounds.typical

    def test_a_round_that_is_outstanding(self, study, tmp_path):
        self.told_a_round(study, tmp_path)
        before = replan(study.state, runs=300)
        study.ask()
        assert replan(study.state, runs=300) == before  # asking alone changes nothing
        half = tmp_path / "half.csv"
        half.write_text("arm,count,successes\nx,20,20\n")
        study.tell(half)
        after = replan(study.state, runs=300)
        assert after.results == before.results
        assert after != before

    @pytest.mark.long
    @pytest.mark.parametrize("item", ["item", None])
    @pytest.mark.parametrize(
        "question", [BestArm(), Claims.against_control(["x", "y"], "x")], ids=["best arm", "claims"]
    )
    def test_a_round_that_is_outstanding_with_values_of_its_own(self, tmp_path, question, item):
        """What came has other values than the world that is forecast."""
        where, rng = f"sqlite:///{tmp_path}/s.db", np.random.default_rng(1)
        words = {"arms": ["x", "y"], "noise": Bounded(0, 1), "columns": Columns(item=item)}
        with create_study("s", question=question, storage=where, seed=1, **words) as study:
            for number, rows in enumerate((int(study.ask().pulls[0]), 7)):  # a round, and a part of the next
                lines = [f"{arm},{rng.random():.3f},{number}-{i}" for arm in "xy" for i in range(rows)]
                (tmp_path / "rows.csv").write_text("\n".join(["arm,outcome,item", *lines]))
                study.tell(tmp_path / "rows.csv")
                study.ask()
            found = replan(study.state, runs=50)
            assert found.rounds == 1
            assert outlook_line(study.state) is not None

    def test_when_it_is_over(self, study, tmp_path):
        while study.ask() is not None:
            self.told_a_round(study, tmp_path, (0.95, 0.05, 0.05))
        found = replan(study.state)
        assert found.ended == "it is decided"
        assert found.samples.p95 == 0
        assert outlook_line(study.state) is None

    def test_when_it_was_ended(self, study, tmp_path):
        study.end("the money is gone")
        assert "the money is gone" in replan(study.state).words

    def test_when_the_budget_is_used_up(self, tmp_path):
        """A designed study that ends undecided says what an extension would bring."""
        words = WORDS | {"budget": 300, "max_round_size": None}
        with create_study("u", question=BestArm(), storage=f"sqlite:///{tmp_path}/u.db", seed=1, **words) as study:
            rng = np.random.default_rng(3)
            while (asked := study.ask()) is not None:
                told(tmp_path / "batch.csv", (0.5, 0.5, 0.2), asked, rng)
                study.tell(tmp_path / "batch.csv")
            found = replan(study.state, runs=100)
            assert found.ended == "the budget of 300 results is used up"
            assert found.extension is not None
            assert found.extension[0] == 450
            assert 0 <= found.extension[1] < 0.5
            assert outlook_line(study.state) is not None
            none = dataclasses.replace(found, extension=(450, 0.0)).line
            assert "would hardly bring an answer, because the last round staked" in none
            waits = dataclasses.replace(found, extension=(450, 0.0), waits=("b", 52_000.0)).line
            assert waits.endswith("because nothing is concluded about b before it has about 52\xa0000 results")
            other = dataclasses.replace(found, extension=(450, 0.4)).line
            assert other == "with a budget of 450 in place of 300 there would be an answer with probability 40 %"
