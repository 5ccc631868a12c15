"""Bounds of claims when arms join, and after a first round: they go on, agree with what is shown, and hold."""

import itertools
import math

import numpy as np
import pytest

from roundwise import Binary, Claims, ConditionalPower, Gaussian, Normal, Poisson, Problem, Rounds
from roundwise.model.batch import Batch, stack_parts
from roundwise.model.problem import Record, advance, begin, budget_before
from roundwise.rules.eprocess.claims import ClosedTestingRule, with_claims
from roundwise.study.audit import audit_entries
from studies import rates, studies, sums

RULE = ClosedTestingRule()
DOSES = ("placebo", "25mg", "75mg", "300mg")


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as made:
        yield made


def doses(make, name="s", budget=800, round_size=200):
    """A study of doses after one round."""
    study = make(
        name, question=Claims.against_control(DOSES, "placebo"), arms=DOSES, budget=budget, round_size=round_size
    )
    study.ask()
    study.tell(sums(placebo=(80, 25), **{"25mg": (40, 9), "75mg": (40, 21), "300mg": (40, 32)}))
    if study.state.open_round is not None:
        study.close_round("enough")
    return study


class TestArmsThatJoin:
    def test_bounds_stay_when_an_arm_joins(self, make):
        study = doses(make)
        before = study.report()
        after = study.add("450mg", "asked for")
        for old, new in zip(before.claim_rows, after.claim_rows, strict=False):
            assert (new.lower, new.upper) == (pytest.approx(old.lower, abs=1e-9), pytest.approx(old.upper, abs=1e-9))
        assert (after.claim_rows[-1].lower, after.claim_rows[-1].upper) == (None, None)
        assert after.claim_rows[-1].power is not None

    @pytest.mark.long
    @pytest.mark.parametrize("budget", [800, None], ids=["budget", "no budget"])
    def test_they_never_widen_and_the_new_arm_gets_its_own(self, make, budget):
        study = doses(make, budget=budget)
        study.add("450mg", "asked for")
        widths = [study.report()]
        for _ in range(2):
            rates(study, placebo=0.3, **{"25mg": 0.3, "75mg": 0.5, "300mg": 0.8, "450mg": 0.8})
            widths.append(study.report())
        for earlier, later in itertools.pairwise(widths):
            for old, new in zip(earlier.claim_rows, later.claim_rows, strict=True):
                assert old.lower is None or new.lower >= old.lower - 1e-9
                assert old.upper is None or new.upper <= old.upper + 1e-9
        assert -0.5 < widths[-1].claim_rows[3].lower < widths[-1].claim_rows[3].upper < 1
        assert any(each.code == "joint_bounds" and each.fields["times"] == 3 for each in widths[-1].notes)
        assert audit_entries(study.entries()).differences == ()

    def test_bounds_of_the_first_claims_are_those_of_a_study_of_them_alone(self, make):
        """Same results, no other arm: the bars and drifts of claims there were do not change because one joins."""
        joined, alone = doses(make, "joined", round_size=400), doses(make, "alone", round_size=400)
        joined.add("450mg", "asked for")
        told = {"placebo": (150, 45), "25mg": (90, 27), "75mg": (80, 40), "300mg": (80, 64)}
        for study, more in ((joined, {"450mg": (60, 30)}), (alone, {})):
            study.ask()
            study.tell(sums(**told, **more), new=True)
        found = [each.report().claim_rows[:3] for each in (joined, alone)]
        steps = [study.state.trial.kept.steps[-1].counts[:4].tolist() for study in (joined, alone)]
        assert steps[0] == steps[1]
        for one, other in zip(*found, strict=True):
            if not (one.shown or other.shown):
                assert one.upper == pytest.approx(other.upper, abs=1e-9)

    @pytest.mark.long
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary()], ids=lambda each: each.name)
    def test_they_hold(self, noise):
        """All lower bounds of all rounds, and all upper ones, with an arm that joins because of what was seen."""
        wrong, runs, delta = np.zeros(2), 40, 0.1
        for seed in range(runs):
            wrong += np.any(list(_grown(noise, seed, delta)), axis=0)
        assert (wrong / runs <= 3 * delta).all()

    @pytest.mark.long
    def test_a_bound_passes_the_margin_just_where_the_claim_is_shown(self):
        seen = set()
        for seed in range(8):
            for claim in _joined(Gaussian(1.0), seed, 0.2)[-1]:
                seen.add(claim.shown)
                assert claim.lower is None or (claim.lower >= 0) == claim.shown or claim.lower == 0
        assert seen == {True, False}


def _joined(noise, seed, delta, effect=(0.0, 0.0, 0.4, 0.3)):
    """The claims after each of four rounds, of which the last two have an arm that joined."""
    rng, means = np.random.default_rng(seed), 0.4 + np.array(effect)
    few, many = (Problem(Claims.against_control(k, 0), k, delta, noise) for k in (3, 4))
    policy = Rounds(ConditionalPower(), budget=400, round_size=100)
    trial, problem, found = begin(few, policy), few, []
    for number in range(4):
        if number == 2:
            kept = with_claims(RULE, few, trial.kept, many, left=budget_before(trial.plan))
            counts, totals = (np.append(each, 0.0) for each in trial.record[:2])
            start = begin(many, policy)
            trial = start._replace(record=Record(counts, totals, trial.record.batches), kept=kept)
            trial = trial._replace(
                plan=policy.next(many, trial._replace(plan=start.plan._replace(left=np.array(200.0))))
            )
            problem = many
        pulls = trial.plan.pulls
        if not pulls.any() or trial.done:
            break
        if noise.outcome.rates:
            totals = rng.binomial(pulls.astype(int), means[: len(pulls)]).astype(float)
        else:
            totals = pulls * means[: len(pulls)] + np.sqrt(pulls) * rng.standard_normal(len(pulls))
        trial = advance(problem, policy, trial, Batch(pulls, totals))
        found.append(RULE.claims(problem, trial, "pabc"[: len(pulls)]))
    return found


def _grown(noise, seed, delta):
    effect = (0.0, 0.0, 0.4, 0.3)
    for claims in _joined(noise, seed, delta, effect):
        sizes = list(zip(claims, effect[1:], strict=False))
        yield (
            any(each.lower is not None and each.lower > true + 1e-9 for each, true in sizes),
            any(each.upper is not None and each.upper < true - 1e-9 for each, true in sizes),
        )


class TestTheFirstRound:
    def test_means_and_differences_have_bounds_without_a_budget(self, make):
        study = make(question=Claims.against_control(("p", "x", "y"), "p"), arms=("p", "x", "y"), round_size=3000)
        rates(study, p=0.34, x=0.4, y=0.5)
        report = study.report()
        for arm, rate in zip(report.arm_rows, (0.34, 0.4, 0.5), strict=True):
            assert rate - 0.07 < arm.lower < rate < arm.upper < rate + 0.07
        for claim in report.claim_rows:
            assert claim.estimate - 0.1 < claim.lower < claim.estimate < claim.upper < claim.estimate + 0.1

    def test_they_have_them_with_a_budget(self, make):
        for arm in doses(make).report().arm_rows:
            assert arm.mean - 0.3 < arm.lower < arm.mean < arm.upper < arm.mean + 0.3

    def test_counts_too(self, make):
        arms = ("p", "x", "y")
        study = make(
            question=Claims.against_control(arms, "p"), arms=arms, noise=Poisson(), budget=3000, round_size=1000
        )
        asked = study.ask()
        totals = [int(n * rate) for n, rate in zip(asked.pulls, (1.0, 1.1, 3.0), strict=True)]
        report = study.tell({"arm": list(arms), "count": [int(n) for n in asked.pulls], "total": totals})
        for claim in study.report().claim_rows:
            assert claim.estimate - 1 < claim.lower < claim.estimate < claim.upper < claim.estimate + 1
        assert "e-" not in report.text()

    def test_the_bound_of_a_mean_is_where_the_bets_say(self):
        """Bets written out: parts in their order, a guess of one result in the middle before them, 30 drifts."""
        counts, ones = (
            np.array([[40.0, 30.0, 20.0, 10.0]] * 2),
            np.array([[14.0, 9.0, 8.0, 3.0], [20.0, 15.0, 9.0, 4.0]]),
        )
        parts = stack_parts([Batch(counts[:, p], ones[:, p]) for p in range(4)])
        batch = Batch(counts.sum(axis=1), ones.sum(axis=1), parts=parts)
        problem = Problem(Claims.against_control(2, 0), 2, 0.05, Binary())
        found = RULE.bounds(problem, Record(batch.counts, batch.totals, np.array(1.0)), [batch]).means()
        bar = math.log(2 / 0.05)
        place = np.arange(30)
        weights = (1 + place / 5) ** -2.0
        drifts = 1.2 * math.sqrt(2 * bar) * np.exp(-0.4 * place)

        def won(arm, mean):
            money, best, n, s = weights / weights.sum(), 0.0, 1.0, 0.5
            for p in range(4):
                noise = (s * (1 - s / n) + 0.25) / (n + 1)  # with one result more of the largest variance
                drift = drifts * math.sqrt(noise / 100)
                size = np.minimum(drift / (noise + drift**2), 0.95 / mean)
                k, m = ones[arm, p], counts[arm, p]
                money = money * (1 + size * (1 - mean)) ** k * (1 - size * mean) ** (m - k)
                best, n, s = max(best, money.sum()), n + m, s + k
            return math.log(best)

        for arm in range(2):
            assert won(arm, found.lower[arm]) == pytest.approx(bar, abs=1e-6)

    def test_a_round_that_is_bet_on_is_not_said_to_teach_only(self, make):
        arms = ("p", "x", "y")
        told = {"arm": list(arms), "count": [40, 40, 40], "total": [0.0, 10.0, 60.0], "squares": [40.0, 45.0, 130.0]}
        found = {}
        for name, budget in (("with", 300), ("without", None)):
            study = make(
                name, question=Claims.against_control(arms, "p"), arms=arms, noise=Normal(), budget=budget,
                round_size=120,
            )  # fmt: skip
            study.ask()
            found[name] = study.tell(told)
        assert found["with"].claim_rows[1].shown
        assert not any(each.code == "teaches_only" for each in found["with"].notes)
        assert any(each.code == "teaches_only" for each in found["without"].notes)
