"""Earlier data teach claims who is fed, and are no evidence (docs/why-the-guarantee-holds.md, Proposition 24)."""

import numpy as np
import pytest

from roundwise import (
    Binary,
    Claims,
    Columns,
    ConditionalPower,
    DataError,
    Gaussian,
    Normal,
    Problem,
    Rounds,
    create_study,
    load_study,
    verify_study,
)
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin, budget_before
from roundwise.noise import PairedBinary

ARMS = ("p", "x", "y")
QUESTION = Claims.against_control(ARMS, "p")
PAST = {"arm": list(ARMS), "count": [400, 400, 400], "successes": [160, 100, 220]}  # x harms, y helps


def place(folder):
    return f"sqlite:///{folder / 's.db'}"


@pytest.fixture
def make(tmp_path):
    def made(name, **more):
        words = {"noise": Binary(), "budget": 600, "round_size": 120, "question": QUESTION, **more}
        return create_study(name, arms=ARMS, delta=0.025, seed=1, storage=place(tmp_path), **words)

    return made


def told(study, rates=(0.4, 0.3, 0.55)):
    """One round, as sums."""
    asked = dict(study.ask().table)
    rows = [(arm, n, round(rates[ARMS.index(arm)] * n)) for arm, n in asked.items() if n]
    names, counts, successes = map(list, zip(*rows, strict=True))
    study.tell({"arm": names, "count": counts, "successes": successes}, new=True)
    return asked


class TestStudies:
    def test_the_split_is_taught_and_the_purses_are_full(self, make):
        plain, taught = make("plain"), make("taught")
        assert taught.import_past(PAST).guarantee.status == "kept"
        kept = taught.state.trial.kept
        assert (kept.gains.tolist(), kept.shown.any(), kept.past.counts.tolist()) == ([0, 0], False, [0, 0, 0])
        assert kept.seen.counts.tolist() == [400] * 3
        assert [row.log_evidence for row in taught.report().claim_rows] == [0, 0]
        first, other = told(plain), told(taught)
        assert first == {"p": 50, "x": 35, "y": 35}
        assert other == {"p": 60, "y": 60}  # x was worse before
        assert "1 200 earlier results" in taught.report().text().replace("\N{NO-BREAK SPACE}", " ")

    @pytest.mark.parametrize("margin", [0.0, 0.05])  # bets on a margin are sized by the past
    def test_bets_towards_a_budget_and_sizes_are_those_of_the_results(self, make, margin):
        question = Claims.against_control(ARMS, "p", margin)
        plain, taught = (make(name, split=(1, 1, 1), question=question) for name in ("plain", "taught"))
        taught.import_past(PAST)
        for _ in range(2):
            assert told(plain) == told(taught)
            one, other = plain.report().claim_rows, taught.report().claim_rows
            for name in ("log_evidence", "log_threshold", "shown", "estimate", "lower", "upper"):
                assert [getattr(row, name) for row in one] == [getattr(row, name) for row in other], name
            assert other[1].shown or other[1].power > one[1].power

    @pytest.mark.parametrize("budget", [600, None])
    def test_the_record_is_sound_and_read_again(self, make, tmp_path, budget):
        study = make("s", budget=budget)
        study.import_past(PAST)
        told(study)
        study.note("on")
        told(study)
        with load_study("s", storage=place(tmp_path)) as again:
            assert again.report().plain() == study.report().plain()
        assert verify_study("s", storage=place(tmp_path)).sound

    def test_without_a_budget_bets_know_it(self, make):
        plain, taught = (make(name, budget=None) for name in ("plain", "taught"))
        taught.import_past(PAST)
        for each in (plain, taught):
            told(each)
        one, other = (each.state.trial.kept.gains for each in (plain, taught))
        assert other[1] > one[1]  # bolder where the past was right

    def test_an_arm_that_joins_was_not_taught(self, make):
        study = make("s")
        study.import_past(PAST)
        told(study)
        study.add("z", why="new")
        kept = study.state.trial.kept
        assert kept.seen.counts.tolist() == [460, 400, 460, 0]
        assert study.ask().pulls[3] > 0

    def test_its_rows_are_not_told_again(self, make):
        rows = {"user": list(range(60)), "arm": list(ARMS) * 20, "outcome": [0, 1, 1, 1, 0, 0] * 10}
        study = make("s", columns=Columns(id="user"))
        study.import_past(rows)
        study.ask()
        with pytest.raises(DataError, match="imported as earlier data|brings nothing new"):
            study.tell(rows)

    def test_with_items_that_arms_share(self, make):
        rng = np.random.default_rng(1)
        study = make("s", noise=PairedBinary(), columns=Columns(item="q"))

        def table(first, items):
            values = rng.random((items, 3)) < [0.4, 0.2, 0.6]
            return {
                "q": [f"q{first + i}" for i in range(items) for _ in ARMS],
                "arm": list(ARMS) * items,
                "outcome": values.astype(int).reshape(-1).tolist(),
            }

        study.import_past(table(0, 200))
        assert study.state.trial.kept.gains.tolist() == [0, 0]
        asked = dict(study.ask().table)
        assert asked.get("x", 0) == 0
        assert asked["y"] == asked["p"] > 0


def run(problem, policy, past, runs, rounds, rng, means):
    """Which lines are shown after some rounds of results with these means, after a past that taught."""
    rule, trial = policy.stopping, begin(problem, policy, (runs,))
    trial = trial._replace(kept=rule.warm_start(problem, trial.kept, past, budget_before(trial.plan)))
    for _ in range(rounds):
        counts = trial.plan.pulls
        if isinstance(problem.noise, Binary):
            totals = rng.binomial(counts.astype(int), means).astype(float)
        else:
            totals = counts * means + np.sqrt(counts) * rng.standard_normal(counts.shape)
        scatter = None
        if problem.noise.needs == "squares":
            scatter = np.where(counts > 1, rng.chisquare(np.maximum(counts - 1, 1)), 0.0)
        trial = advance(problem, policy, trial, Batch(counts, totals, scatter))
    return trial.kept.shown


@pytest.mark.parametrize("budget", [1200, None], ids=["budget", "open"])
@pytest.mark.parametrize("noise", [Binary(), Gaussian(1.0), Normal()], ids=lambda each: each.name)
def test_the_error_is_that_promised_whatever_the_past_says(noise, budget):
    """All arms are alike; the past says that both others are far better, or (as it did) by chance."""
    runs, delta, arms, rng = 1500, 0.1, 3, np.random.default_rng(7)
    problem = Problem(Claims.against_control(arms, 0), arms, delta, noise)
    policy = ConditionalPower() if budget is None else Rounds(ConditionalPower(), budget=budget, round_size=200)
    counts = np.full((runs, arms), 200.0)
    for gap in (0.0, 0.2):
        means = np.array([0.4, 0.4 + gap, 0.4 + gap])
        past = Batch(counts, np.round(counts * means), counts - 1.0)
        shown = run(problem, policy, past, runs, 6, rng, 0.4)
        wrong = shown.any(axis=-1).mean()
        assert wrong <= delta + 3 * np.sqrt(delta * (1 - delta) / runs), wrong
    assert run(problem, policy, past, runs, 1, rng, np.array([0.2, 0.8, 0.8])).any()  # something can be shown
