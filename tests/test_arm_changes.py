"""Arms that leave and join a study under way, and what becomes of its guarantee."""

import numpy as np
import pytest

from roundwise import (
    Above,
    BestArm,
    Binary,
    Gaussian,
    InputError,
    Statements,
    SubGaussian,
    TopK,
    Wager,
)
from roundwise.messages import Condition
from roundwise.policies import PET, TrackAndStop
from roundwise.questions import Claims
from roundwise.rules.eprocess import cells
from roundwise.study.amendments import Change, apply_change
from roundwise.study.spec import StudySpec
from studies import rates, same_when_read_again, studies, sums


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as made:
        yield made


class TestDropping:
    def test_the_best_arm_of_those_that_stay(self, make):
        study = make()
        rates(study, a=0.5, b=0.6, c=0.3)
        before = study.state.trial.kept.wealth
        assert "cut to what was won against c" in study.effect("drop", arm="c", why="sold out")
        report = study.drop("c", "sold out")
        won = study.state.trial.kept.wealth
        np.testing.assert_array_equal(won.gains, np.minimum(before.gains[:2], before.gains[2]))
        assert study.state.spec.arms == ("a", "b")
        assert report.guarantee.status == "kept"
        same_when_read_again(study)
        for _ in range(20):
            report = rates(study, a=0.2, b=0.8)
            if report.status == "decided":
                break
        assert study.state.decided["answer_text"] == "b is the best arm"
        same_when_read_again(study)

    def test_what_was_ruled_out_comes_back_unless_the_dropped_arm_was_ruled_out_too(self):
        settings = StudySpec(
            question=BestArm(), arms=("a", "b", "c", "d"), noise=Gaussian(1.0), delta=0.05, policy=Wager(), seed=1
        )
        goal = settings.problem.goal
        won = cells.BestArmWealth(np.array([goal + 1, 0.5, goal + 2, -1.0]), np.array([True, False, True, False]))
        from roundwise.model.problem import begin

        start = begin(settings.problem, settings.policy)
        trial = start._replace(kept=start.kept._replace(wealth=won))
        for arm, gains, lost in (
            ("a", [0.5, goal + 1, -1.0], [False, True, False]),
            ("b", [0.5, 0.5, -1.0], [False, False, False]),
            ("d", [-1.0, -1.0, -1.0], [False, False, False]),
        ):
            _, after = apply_change(settings, trial, Change("dropped", arm, "", False, 0), [])
            assert after.kept.wealth.gains.tolist() == gains
            assert after.kept.wealth.rejected.tolist() == lost

    def test_above_a_level_what_was_lost_stays_lost(self, make):
        """Every set of the arms that stay has what it had with the better side of the arm that left, and no more."""
        study = make(question=Above(0.5))
        rates(study, a=0.7, b=0.4, c=0.55)
        rates(study, a=0.7, b=0.4, c=0.45)
        before = study.state.trial.kept.wealth
        study.drop("c", "too dear")
        after = study.state.trial.kept.wealth
        assert (after.above.tolist(), after.below.tolist()) == (before.above[:2].tolist(), before.below[:2].tolist())
        assert after.log_departed == min(before.above[2], before.below[2]) < 0
        assert after.settled.tolist() == before.settled[:2].tolist()
        same_when_read_again(study)

    def test_for_a_reason_that_has_nothing_to_do_with_results(self, make):
        """As if it had never been there, under a condition."""
        noise = SubGaussian(0.5)  # of whose sums no parts can be drawn
        study, other = make(noise=noise), make("other", arms=("a", "b"), noise=noise)
        for a, b in ((12.0, 20.0), (13.5, 19.0)):
            for each in (study, other):
                each.ask()
                told = {"arm": ["a", "b", "c"], "count": [30] * 3, "total": [a, b, 9.0]}
                arms = len(each.state.spec.arms)
                each.tell({key: values[:arms] for key, values in told.items()}, round_over="enough")
        report = study.drop("c", "the supplier closed", unrelated=True)
        assert Condition("arm_dropped", arm="c") in report.guarantee.conditions
        assert study.state.trial.kept.wealth.gains.any()
        assert study.state.trial.kept.wealth.gains.tolist() == other.state.trial.kept.wealth.gains.tolist()
        assert study.state.trial.plan.pulls.tolist() == other.state.trial.plan.pulls.tolist()
        same_when_read_again(study)

    def test_of_claims_an_arm_is_no_longer_asked_for(self, make):
        names = ("placebo", "low", "high")
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=600, round_size=60)
        rates(study, placebo=0.3, low=0.4, high=0.6)
        gains = study.state.trial.kept.gains.tolist()
        assert "its claims stay open as they are" in study.effect("drop", arm="low", why="x")
        assert study.drop("low", "side effects").guarantee.status == "kept"
        assert study.state.trial.kept.gains.tolist() == gains
        asked = study.ask()
        assert (asked.pulls.sum(), asked.pulls[1]) == (60, 0)
        with pytest.raises(InputError, match="Every claim compares with placebo"):
            study.drop("placebo", "why not")
        with pytest.raises(InputError, match="low is left out already"):
            study.drop("low", "again")
        same_when_read_again(study)

    def test_a_claim_joins_with_the_smallest_purse(self, make):
        names = ("placebo", "low", "high")
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=600, round_size=60)
        rates(study, placebo=0.3, low=0.4, high=0.6)
        gains = study.state.trial.kept.gains
        assert "starts with the least that any open claim has" in study.effect("add", arm="middle", why="x")
        assert study.add("middle", "it looks promising").guarantee.status == "kept"
        kept = study.state.trial.kept
        assert kept.gains.tolist() == [*gains.tolist(), min(0.0, float(gains.min()))]
        asked = study.ask()
        assert asked.arms == (*names, "middle")
        assert asked.pulls[3] > 0
        rates(study, placebo=0.3, low=0.4, high=0.6, middle=0.6)
        assert study.state.trial.kept.gains.shape == (3,)
        same_when_read_again(study)

    @pytest.mark.parametrize(
        ("question", "policy", "noise"),
        [(TopK(1), Wager(), Binary()), (BestArm(tolerance=0.1), Wager(), Binary()), (BestArm(), PET(), Gaussian())],
        ids=["top-k", "tolerance", "pet"],
    )
    def test_where_no_rule_is_proved(self, make, question, policy, noise):
        study = make(question=question, policy=policy, noise=noise)
        seq = study.state.seq
        for call in (lambda: study.drop("c", "it looks bad"), lambda: study.add("d", "it looks good")):
            with pytest.raises(InputError, match="No rule is proved by which|are fixed: its rule is proved"):
                call()
        assert study.state.seq == seq
        if isinstance(policy, Wager):
            study.ask()
            study.tell(sums(a=(30, 12), b=(30, 20), c=(30, 9)))
            assert "arm_dropped" in study.drop("c", "sold out", unrelated=True).guarantee.codes
            assert Condition("arm_added", arm="d") in study.add("d", unrelated=True).guarantee.conditions
            same_when_read_again(study)

    def test_what_cannot_be_dropped(self, make):
        study = make(question=Statements.against_control(3, 0))
        with pytest.raises(InputError, match="fixed"):
            study.drop("c", "x")
        study = make("two", arms=("a", "b"))
        with pytest.raises(InputError, match="at least two arms"):
            study.drop("b", "x")
        with pytest.raises(InputError, match="'z'"):
            study.drop("z", "x")
        with pytest.raises(InputError, match="The reason is empty"):
            study.drop("b", " ")
        study = make("three")
        study.ask()
        study.tell(sums(a=(10, 5)))
        with pytest.raises(InputError, match="Round"):
            study.drop("b", "x")

    def test_a_batch_that_was_asked_for_and_not_begun_goes_on_without_it(self, make):
        study = make()
        study.ask()
        study.drop("c", "sold out")
        asked = study.ask()
        assert (asked.number, asked.table) == (1, [("a", 30), ("b", 30)])
        study.tell(sums(a=(30, 10), b=(30, 12)))
        assert study.ask().number == 2
        same_when_read_again(study)


class TestAdding:
    def test_the_best_arm_starts_with_the_least_evidence_against_it(self, make):
        study = make()
        rates(study, a=0.5, b=0.7, c=0.1)
        before = study.state.trial.kept.wealth
        report = study.add("d", "a new idea")
        won = study.state.trial.kept.wealth
        assert won.gains.tolist() == [*before.gains, before.gains.min()]
        assert won.rejected.tolist() == [*before.rejected, False]
        assert (report.guarantee.status, study.ask().pulls[3] > 0) == ("kept", True)
        same_when_read_again(study)
        for _ in range(30):
            report = rates(study, a=0.3, b=0.5, c=0.1, d=0.9)
            if report.status == "decided":
                break
        assert study.state.decided["answer_text"] == "d is the best arm"

    def test_above_a_level_it_starts_with_nothing(self, make):
        study = make(question=Above(0.5))
        rates(study, a=0.7, b=0.4, c=0.55)
        study.add("d")
        won = study.state.trial.kept.wealth
        assert (won.above[3], won.below[3], won.settled[3]) == (0.0, 0.0, False)
        same_when_read_again(study)

    def test_what_cannot_be_added(self, make):
        study = make()
        with pytest.raises(InputError, match="arm"):
            study.add("a")
        with pytest.raises(InputError, match="no name"):
            study.add(" ")

    def test_corrections_afterwards_count_every_change_at_its_place(self, make):
        study = make()
        rates(study, a=0.5, b=0.7, c=0.3)
        study.add("d")
        rates(study, a=0.5, b=0.7, c=0.3, d=0.6)
        study.drop("a", "sold out")
        rates(study, b=0.7, c=0.3, d=0.6)
        state = study.state
        digest = state.rounds[0].files[0].digest
        assert [each.arms for each in state.rounds] == [("a", "b", "c"), ("a", "b", "c", "d"), ("b", "c", "d")]
        counts = state.trial.record.counts
        report = study.amend(digest, sums(a=(30, 15), b=(30, 20), c=(29, 9)), "miscounted")
        assert "amended" in report.guarantee.codes
        after = study.state
        assert after.spec.arms == ("b", "c", "d")
        assert after.trial.record.counts.tolist() == [counts[0], counts[1] - 1, counts[2]]
        same_when_read_again(study)


@pytest.mark.long
def test_the_guarantee_of_the_best_arm_when_arms_leave_and_join_because_of_results():
    """An adversary drops the arm that looks worst or adds one whenever that hurts the best; errors stay below delta.

    The best arm of those in the question must not be ruled out; all arms are alike, so each is a best one and the
    study must not rule out a given one, here the first that is in it.
    """
    rng = np.random.default_rng(5)
    wrong, runs, delta = 0, 300, 0.2
    policy = Wager(first_pulls=20)
    from roundwise.model.batch import Batch
    from roundwise.model.problem import advance, begin

    for _ in range(runs):
        settings = StudySpec(
            question=BestArm(), arms=("a", "b", "c"), noise=Gaussian(1.0), delta=delta, policy=policy, seed=1
        )
        trial, seen = begin(settings.problem, policy), []
        for r in range(8):
            if trial.done:
                break
            pulls = trial.plan.pulls
            batch = Batch(pulls, rng.normal(0.0, 1.0, pulls.size) * np.sqrt(pulls))
            trial = advance(settings.problem, policy, trial, batch)
            seen.append((settings.arms, batch))
            if trial.done:
                break
            gains = trial.kept.wealth.gains[1:]
            if r in (1, 3) and len(settings.arms) > 2:
                arm = settings.arms[1 + int(gains.argmax())]
                settings, trial = apply_change(settings, trial, Change("dropped", arm, "", False, r + 1), seen)
            elif r in (2, 4):
                settings, trial = apply_change(settings, trial, Change("added", f"new {r}", "", False, r + 1), seen)
        wrong += bool(trial.kept.wealth.rejected[0])
    assert wrong <= runs * delta + 3 * np.sqrt(runs * delta * (1 - delta))


@pytest.mark.parametrize("change", [lambda study: study.add("d"), lambda study: study.drop("c", "dear")])
def test_claims_by_a_rule_that_was_not_made_for_them_keep_their_arms(make, change):
    study = make(question=Claims.against_control(("a", "b", "c"), control="a"), policy=TrackAndStop())
    rates(study, a=0.2, b=0.3, c=0.4)
    with pytest.raises(InputError, match="policy track-and-stop are fixed"):
        change(study)
    same_when_read_again(study)
