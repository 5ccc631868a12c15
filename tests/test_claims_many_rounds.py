"""Bounds of claims in studies of many rounds: they go on, lose little, hold, and take no more room."""

import math

import numpy as np
import pytest

from roundwise import Binary, Claims, ConditionalPower, Gaussian, Normal, Poisson, Problem
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, begin
from roundwise.rules.eprocess import claim_bounds
from roundwise.rules.eprocess.claim_bounds import FINE
from roundwise.rules.eprocess.claims import ClosedTestingRule
from studies import same_when_read_again, studies, sums

RULE = ClosedTestingRule()
ARMS = ("p", "x", "y")
N = 20  # of each arm, in a round
MEANS = np.array([0.3, 0.33, 0.36])


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as made:
        yield made


def asked(noise, odds=False):
    scale = {"scale": "odds-ratio", "margin": 1.2} if odds else {}
    return Problem(Claims.against_control(ARMS, "p", **scale), 3, delta=0.05, noise=noise)


def results(noise, rng, means=MEANS):
    n = np.full(3, float(N))
    if isinstance(noise, Binary):
        totals = rng.binomial(N, means).astype(float)
        return Batch(n, totals, scatter=totals * (1 - totals / N))
    if isinstance(noise, Poisson):
        return Batch(n, rng.poisson(N * means).astype(float))
    rows = rng.normal(means[:, None], 1.0, (3, N))
    return Batch(n, rows.sum(axis=1), scatter=((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))


def folded(problem, rounds, budget, seed=1, means=MEANS):
    """What is kept after each round, of a study planned for so many."""
    rng, pulls = np.random.default_rng(seed), np.full(3, float(N))
    kept = RULE.start(problem, ())
    for r in range(rounds):
        left = None if budget is None else np.asarray(3.0 * N * (budget - r - 1))
        plan = BatchPlan(pulls, np.asarray(True), left=left, last=None if budget is None else np.asarray(False))
        kept = RULE.fold(problem, kept, plan, results(problem.noise, rng, means))
        yield kept


def ends(problem, kept):
    """Lower and upper bounds of every claim."""
    trial = begin(problem, ConditionalPower())._replace(kept=kept)
    found = RULE.claims(problem, trial, ARMS)
    return np.array([[math.nan if v is None else v for v in (each.lower, each.upper)] for each in found])


class TestTheyGoOn:
    @pytest.mark.long
    @pytest.mark.parametrize("budget", [60, None])
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary(), Normal(), Poisson()], ids=lambda n: n.name)
    def test_nearly_as_if_all_rounds_were_kept(self, noise, budget, monkeypatch):
        problem, rounds = asked(noise), 40
        course = list(folded(problem, rounds, budget))
        few, many = ends(problem, course[11]), ends(problem, course[-1])
        monkeypatch.setattr(claim_bounds, "MOST_STEPS", 10_000)
        *_, whole = folded(problem, rounds, budget)
        assert len(course[-1].steps) == 12 < len(whole.steps) == rounds
        best, width = ends(problem, whole), lambda each: each[:, 1] - each[:, 0]
        assert (width(many) < 0.75 * width(few)).all()  # they go on
        assert (width(many) < (1.05 if budget else 1.2) * width(best)).all()
        if budget:  # the same bets, so no end is beyond
            assert (many[:, 0] <= best[:, 0] + 1e-9).all()
            assert (many[:, 1] >= best[:, 1] - 1e-9).all()

    @pytest.mark.long
    def test_odds_ratios_too(self, monkeypatch):
        problem, rounds = asked(Binary(), odds=True), 30
        course = list(folded(problem, rounds, 40, means=np.array([0.3, 0.3, 0.33])))
        few, many = ends(problem, course[11])[:, 0], ends(problem, course[-1])[:, 0]
        monkeypatch.setattr(claim_bounds, "MOST_STEPS", 10_000)
        *_, whole = folded(problem, rounds, 40, means=np.array([0.3, 0.3, 0.33]))
        best = ends(problem, whole)[:, 0]
        assert (many > few).all()
        assert (many <= best + 1e-9).all()
        assert (many > best - 0.1 * (best - few) - 0.05).all()

    def test_normal_results_by_hand(self):
        """Of one drift the money is exp(A - B v): the end is that of a straight line, at the best time."""
        problem, budget, rounds = asked(Gaussian(1.0)), 60, 40
        rng = np.random.default_rng(1)
        bar = math.log(2 / 0.05)  # two claims of equal weight
        drift = math.sqrt(2 * bar) * math.sqrt(2 / (N * budget))  # of a difference after all rounds
        error = math.sqrt(2 / N)
        size, a, b, best = drift / error, 0.0, 0.0, -math.inf
        for _ in range(rounds):
            means = results(problem.noise, rng).totals / N
            z = (means[1] - means[0]) / error
            a, b = a + size * z - size**2 / 2, b + size / error
            best = max(best, (a - bar) / b)
        *_, kept = folded(problem, rounds, budget)
        found = kept.tail.track
        gap = (found.high - found.low)[0] / (FINE - 1)
        assert best - 3 * gap < found.ends[0] <= best
        assert gap < 0.1 * math.sqrt(2 / (N * rounds))

    @pytest.mark.long
    def test_claims_that_join(self, make):
        """What was added among the first rounds goes on, too; what is added later has no bounds, and takes none."""
        study = make(question=Claims.against_control(ARMS, "p"), arms=ARMS, budget=6000, round_size=60, split="equal")
        rng = np.random.default_rng(2)

        def told():
            asked = study.ask()
            n = dict(zip(asked.arms, asked.pulls.astype(int).tolist(), strict=True))
            study.tell(sums(**{arm: (each, int(rng.binomial(each, 0.4))) for arm, each in n.items()}), new=True)

        for k in range(24):
            if k in (4, 13):
                study.add(f"new{k}", "an idea")
            told()
            if k == 12:
                early = {each.compares: each for each in study.status().claim_rows}
        late = {each.compares: each for each in study.status().claim_rows}
        for arm in ("x", "y", "new4"):
            assert late[arm].lower > early[arm].lower
            assert late[arm].lower < late[arm].estimate
        assert late["new13"].lower is None
        same_when_read_again(study)


class TestTheyHold:
    @pytest.mark.slow
    @pytest.mark.parametrize("budget", [40, None])
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary()], ids=lambda n: n.name)
    def test_at_all_times_together(self, noise, budget):
        problem = Problem(Claims.against_control(ARMS, "p"), 3, delta=0.2, noise=noise)
        equal, runs, wrong = np.full(3, 0.4), 300, 0
        for seed in range(runs):
            *_, kept = folded(problem, 40, budget, seed, equal)
            wrong += bool((kept.tail.track.ends[:2] > 0).any())
        assert wrong <= 0.2 * runs + 3 * math.sqrt(0.16 * runs)

    @pytest.mark.long
    def test_more_rounds_take_no_more_room(self, make):
        study = make(question=Claims.against_control(ARMS, "p"), arms=ARMS, budget=6000, round_size=60, split="equal")
        sizes = []
        for _ in range(30):
            study.ask()
            study.tell(sums(p=(20, 6), x=(20, 7), y=(20, 8)), new=True)
            sizes.append(len(study.entries()[-1].text))
        assert max(sizes[14:]) < 1.1 * min(sizes[14:])
        same_when_read_again(study)
