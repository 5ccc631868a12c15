"""Rules of their own: they decide only on batches that came back as planned, and promise only what is proved."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from roundwise import (
    GLR,
    BatchPlan,
    BestArm,
    GaussianArms,
    InputError,
    Normal,
    Problem,
    RoundwiseError,
    TopK,
    Wager,
    create_study,
    simulate,
)
from roundwise.messages import Condition, Reason
from roundwise.model.batch import Batch
from roundwise.model.problem import Declaration
from roundwise.policies import OptBBAI, Policy, SequentialHalving, TriBBAI
from roundwise.policies.base import Limited, everywhere, undeclared
from roundwise.rules import Declared
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.store import open_store
from roundwise.study import replay
from roundwise.study.audit import audit_entries
from test_study import World, rechained

ARMS = ("a", "b", "c")
RULES = [OptBBAI(c=0.05), TriBBAI(), Limited(OptBBAI(c=0.05), max_batch=60)]


class TestTrial:
    problem = Problem(BestArm(), arms=3, delta=0.1)

    def played(self, policy, change, batches=400):
        """Trials of three runs; `change(number, counts)` makes of what is planned what comes back."""
        from roundwise.model.problem import advance, begin

        trial = begin(self.problem, policy, (3,))
        for number in range(batches):
            counts = change(number, trial.plan.pulls.copy())
            trial = advance(self.problem, policy, trial, Batch(counts, counts * [1.0, 0.0, 0.0]))
            if trial.done.all() or trial.plan.declared.made.all():
                return trial
        raise AssertionError("nothing was declared")

    @pytest.mark.parametrize("policy", RULES, ids=lambda each: each.name)
    def test_as_planned_it_stops(self, policy):
        trial = self.played(policy, lambda number, counts: counts)
        assert trial.done.all()
        assert not policy.stopping.broken(self.problem, trial).any()

    @pytest.mark.parametrize("policy", RULES, ids=lambda each: each.name)
    @pytest.mark.parametrize("number", [0, 1])
    @pytest.mark.parametrize("by", [-1.0, 1.0])
    def test_a_run_with_one_result_less_or_more_never_stops(self, policy, number, by):
        def change(now, counts):
            if now == number:
                counts[1, 2] = max(counts[1, 2] + by, 0.0)
            return counts

        trial = self.played(policy, change)
        assert trial.done.tolist() == [True, False, True]
        assert policy.stopping.broken(self.problem, trial).tolist() == [False, True, False]
        assert policy.stopping.stops(self.problem, trial).tolist() == [True, False, True]

    def test_only_declared_rules_need_exact_batches(self):
        assert Declared().exact_batches
        assert not GLR().exact_batches
        assert not EProcessRule().exact_batches


UNION = Declared(proof="Hoeffding's inequality and a union over arms and rounds")
ONE_BEST = BestArm()


@dataclass(frozen=True)
class Elimination(Policy):
    """Top-k: arms that are surely in or surely out are pulled no more; with a union over arms and rounds.

    After round r an arm that is still open has n r results, and its mean is within sigma sqrt(2 ln(2 / e) / n r) of the
    true one, e = delta / (K r (r + 1)), but for a probability of e: delta in all.
    """

    n: int = 50
    stopping: Declared = UNION
    name = "elimination"

    def check(self, problem):
        assert isinstance(problem.question, TopK)

    def first(self, problem, runs):
        return BatchPlan(
            everywhere(runs, problem.arms, self.n), np.ones(runs, bool), declared=undeclared(problem, runs)
        )

    def next(self, problem, trial):
        means, rounds = trial.record.means, trial.record.counts / self.n
        share = problem.delta / (problem.arms * rounds * (rounds + 1))
        radius = problem.sigma * np.sqrt(2 * np.log(2 / share) / trial.record.counts)
        below = ((means - radius)[..., :, None] > (means + radius)[..., None, :]).sum(axis=-1)
        above = ((means - radius)[..., None, :] > (means + radius)[..., :, None]).sum(axis=-1)
        k = problem.question.k
        inside, outside = below >= problem.arms - k, above >= k
        declared = Declaration(inside.sum(axis=-1) == k, inside)
        return BatchPlan(np.where(inside | outside, 0.0, self.n), trial.plan.may_stop, declared=declared)


class TestAnyAnswer:
    """What is declared is an answer of the question: here a mask over the arms."""

    MEANS = (1.0, 0.9, 0.2, 0.1, -0.5)

    @pytest.mark.parametrize("policy", [Elimination(), Limited(Elimination(), max_batch=70)], ids=["whole", "limited"])
    def test_simulated(self, policy):
        (runs,) = simulate(TopK(2), GaussianArms(self.MEANS), [policy], runs=40, delta=0.1)
        assert runs.decided.all()
        assert runs.correct.mean() > 0.9
        assert runs.answer.shape == (40, 5)
        assert len(np.unique(runs.samples)) > 5  # runs end one by one
        assert runs.doubt is None

    @pytest.mark.long
    def test_live(self, live):
        found = live(Elimination(), means=self.MEANS[:3], question=TopK(1))
        report = found.go(most=500)
        assert (report.status, report.guarantee.status) == ("decided", "kept")
        assert report.answer in (["a"], ["b"])

    def test_it_is_in_every_plan(self):
        @dataclass(frozen=True)
        class Forgetful(Elimination):
            def first(self, problem, runs):
                return super().first(problem, runs)._replace(declared=None)

        with pytest.raises(RoundwiseError, match="Declaration"):
            simulate(TopK(2), GaussianArms(self.MEANS), [Forgetful()], runs=3)


class Lossy(GaussianArms):
    """Loses every tenth result."""

    def pull(self, rng, world, pulls, needs="sums"):
        batch, world = super().pull(rng, world, np.floor(pulls * 0.9), needs)
        return batch, world


@pytest.mark.parametrize("policy", [OptBBAI(c=0.05), TriBBAI()], ids=lambda each: each.name)
def test_a_simulation_whose_batches_are_short_ends_undecided(policy):
    """It would go on for ever, were it not ended, and decided on what was short before."""
    (runs,) = simulate(BestArm(), Lossy([1.0, 0.0, 0.0]), [policy], runs=20)
    assert not runs.decided.any()
    assert (runs.batches <= 3).all()
    (other,) = simulate(BestArm(), Lossy([1.0, 0.0, 0.0]), [Wager()], runs=20)
    assert other.decided.all()


class TestDoubt:
    problem = Problem(BestArm(), arms=3)

    def test_no_proof_no_guarantee(self):
        doubt = Declared().doubt(self.problem)
        assert doubt == Reason("unproved_rule")
        assert Declared(proof="Theorem 1 of a paper").doubt(self.problem) is None
        assert Declared("not this", proof="Theorem 1").doubt(self.problem) == Reason("rule", text="not this")
        conditional = Declared(proof="Theorem 1", condition="it is as I remember it").doubt(self.problem)
        assert conditional == Condition("rule", text="it is as I remember it")

    @pytest.mark.parametrize("c", [32.0, 33.0, 128.0])
    def test_opt_bbai_is_conditional_at_best(self, c):
        doubt = OptBBAI(c=c).stopping.doubt(self.problem)
        assert not isinstance(doubt, Reason)

    @pytest.mark.parametrize("c", [0.05, 4.0, 31.9])
    def test_opt_bbai_with_a_smaller_constant(self, c):
        doubt = OptBBAI(c=c).stopping.doubt(self.problem)
        assert isinstance(doubt, Reason)
        assert f"c = {c:g}" in str(doubt)

    def test_tri_bbai(self):
        assert isinstance(TriBBAI().stopping.doubt(self.problem), Reason)

    def test_simulations_say_so(self):
        (runs,) = simulate(BestArm(), GaussianArms([1.0, 0.0]), [OptBBAI()], runs=5)
        assert runs.doubt.startswith("conditional on ")


class Live(NamedTuple):
    study: object
    world: World

    def go(self, most=50):
        """Ask and tell, as asked, until nothing more is asked for."""
        report = self.study.report()
        for _ in range(most):
            if (asked := self.study.ask()) is None:
                return report
            report = self.study.tell(self.world(asked.outstanding))
        raise AssertionError("it did not end")


@pytest.fixture
def live(tmp_path):
    made = []

    def make(policy, means=(0.02, 0.0, 0.0), seed=0, question=ONE_BEST, **options):
        url = f"sqlite:///{tmp_path}/{len(made)}.db"
        arms = GaussianArms(means)
        words = {"noise": arms.noise} | options
        study = create_study("s", question=question, arms=ARMS, policy=policy, storage=url, **words)
        made.append(study)
        return Live(study, World(arms.noise, means, seed, names=ARMS, form="sums"))

    yield make
    for study in made:
        study.close()


class TestStudies:
    @pytest.mark.long
    @pytest.mark.parametrize("policy", [OptBBAI(), OptBBAI(c=1.0), TriBBAI()], ids=lambda each: each.name)
    def test_a_batch_that_the_budget_would_cut_is_not_asked_for(self, live, policy):
        """With a budget of 40 and a gap of 0.02, 35 of 100 studies were wrong, when the last batch was cut."""
        for seed in range(20):
            study, _ = found = live(policy, seed=seed, budget=11)
            report = found.go()
            assert (report.status, report.answer) == ("undecided", None)
            assert report.results < 11
            assert "the budget of 11 results does not cover the next round of " in report.headline
            assert f"and the rule of {policy.name} needs every round just as it was planned" in report.headline
            assert "Nothing has been ruled out" in report.headline
            assert "a new study with `policy=Wager()` takes rounds of any size" in report.next
            assert study.ask() is None
            seq = study.state.seq
            with pytest.raises(InputError, match="budget"):
                study.tell({"arm": ["a"], "count": [1], "total": [1.0]})
            assert study.state.seq == seq

    def test_a_round_that_would_cost_too_much_is_not_asked_for(self, live):
        study, _ = live(TriBBAI(), prices=(1, 2, 3), max_cost=7)
        found = "the maximum cost of 7 does not cover the next round of "
        assert found in study.report().headline
        assert study.ask() is None

    def test_where_no_sigma_is_known_means_are_not_bounded(self, live):
        """A study of such a policy was created and asked, but no report of a counted round could be made."""
        study, _ = live(SequentialHalving(budget=60), noise=Normal())
        asked = study.ask()
        counts = asked.pulls.astype(int).tolist()
        told = {"arm": asked.arms, "count": counts, "total": [3.0, 2.0, 1.0], "squares": [9.0, 8.0, 7.0]}
        study.tell(told)
        report = study.report()
        assert {(each.lower, each.upper) for each in report.arm_rows} == {(None, None)}
        assert [each.mean for each in report.arm_rows] == pytest.approx([0.3, 0.2, 0.1])

    def test_a_budget_that_covers_it(self, live):
        report = live(OptBBAI(c=0.05), means=(3.0, 0.0, 0.0), budget=100_000).go()
        assert (report.status, report.answer) == ("decided", "a")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"count": [2, 1], "settle": "c is down"}, "round 1 brought less than was planned"),
            ({"count": [2, 2, 3]}, "round 1 brought more than was planned"),
            ({"count": [2, 3, 1], "settle": "c is down"}, "round 1 brought other results than was planned"),
        ],
    )
    def test_a_batch_that_is_not_as_asked_ends_the_study(self, live, change, words):
        study, _ = live(OptBBAI(c=0.05), means=(3.0, 0.0, 0.0))
        assert study.ask().pulls.tolist() == [2, 2, 2]
        counts = change["count"]
        told = {"arm": list(ARMS[: len(counts)]), "count": counts, "total": [6.0, 0.0, 0.0][: len(counts)]}
        report = study.tell(told, round_over=change.get("settle"))
        assert report.status == "undecided"
        assert f"Undecided ({words}, and the rule of opt-bbai needs every round just as" in report.headline
        assert study.ask() is None
        with pytest.raises(InputError, match=f"is over, undecided: {words}"):
            study.tell({"arm": ["a"], "count": [1], "total": [1.0]})

    def test_an_amendment_may_mend_it(self, live):
        found = study, _ = live(OptBBAI(c=0.05), means=(3.0, 0.0, 0.0))
        study.ask()
        study.tell({"arm": list(ARMS), "count": [2, 2, 3], "total": [6.0, 0.0, 0.0]})
        assert study.ask() is None
        digest = study.state.rounds[0].files[0].digest
        study.amend(digest, {"arm": list(ARMS), "count": [2, 2, 2], "total": [6.0, 0.0, 0.0]}, "a line twice")
        assert found.go().answer == "a"

    def test_wager_is_not_touched(self, live):
        report = live(Wager(), budget=100).go()
        assert "Undecided within the budget of 100 results" in report.headline
        assert report.results == 100

    def test_a_verdict_that_does_not_follow(self, live, tmp_path):
        """It is read as it was recorded, and called void."""
        study, world = live(OptBBAI(), budget=40)
        for _ in range(2):
            study.tell(world(study.ask().pulls))
        state = study.state
        cut = state.planned
        assert (study.ask(), cut.sum()) == (None, 40 - state.trial.record.samples)
        totals = [0.0, 9.0, 0.0]
        results = {**study.store.read("s")[2].payload["results"], "digest": "x", "counts": cut.tolist()}
        entries = [(e.kind, e.payload) for e in study.store.read("s")]
        entries += [
            ("asked", {"round": 3, "pulls": [int(n) for n in cut], "planned": None, "by_number": False}),
            ("told", {"round": 3, "results": {**results, "totals": totals}}),
            ("decided", {"answer": 1, "answer_text": "b is the best arm", "batches": 3, "samples": 40}),
        ]
        with open_store(f"sqlite:///{tmp_path}/old.db") as store:
            store.create("s", entries[0][1])
            store.append("s", entries[1:], expected=0)
            log = store.read("s")
        old = replay(log)
        assert (old.trial.done, old.decided["answer"]) == (False, 1)
        from roundwise.report import build_report

        report = build_report(old, intervals=False)
        assert (report.status, report.answer) == ("decided", "b")
        assert report.guarantee.reasons == (Reason("answer_not_reproduced"),)
        assert "at most 5 %" not in report.text() + report.markdown() + report.html()

        def lies(seq, kind, payload):
            if kind == "decided":
                payload["answer"] = 0

        found = [each.words for each in audit_entries(rechained(log, lies)).differences]
        assert "the answer was recorded as 0, this version finds none" in found
