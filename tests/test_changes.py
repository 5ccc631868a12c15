"""What may change in a study under way, and what becomes of its guarantee."""

import json

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
    create_study,
    load_study,
)
from roundwise.betting import best_arm
from roundwise.policies import PET
from roundwise.questions import Claims
from roundwise.studies.change import Change, changed
from roundwise.studies.replay import replayed
from roundwise.studies.settings import Settings
from roundwise.studies.store import UnknownStudy
from roundwise.studies.verify import verified

ARMS = ("a", "b", "c")


@pytest.fixture
def make(tmp_path):
    url = f"sqlite:///{tmp_path}/studies.db"
    made = []

    def make(name="s", question=None, arms=ARMS, noise=None, **more):
        study = create_study(
            name, question=question or BestArm(), arms=arms, noise=noise or Binary(), storage=url, seed=1, **more
        )
        made.append(study)
        return study

    yield make
    for each in made:
        each.close()


def sums(**arms):
    return {"arm": list(arms), "count": [n for n, _ in arms.values()], "successes": [k for _, k in arms.values()]}


def rates(study, **wanted):
    """Tell the batch that is asked for, with these rates."""
    asked = study.ask()
    n = {arm: int(each) for arm, each in zip(asked.arms, asked.pulls, strict=True) if each}
    return study.tell(sums(**{arm: (each, round(each * wanted[arm])) for arm, each in n.items()}), again=True)


def same_when_read_again(study):
    """The state from the checkpoint is that of the whole log, and an audit finds nothing."""
    recent, whole = study.state, replayed(study.entries())
    assert recent.settings.payload() == whole.settings.payload()
    assert recent.trial.plan.pulls.tolist() == whole.trial.plan.pulls.tolist()
    assert repr(recent.trial.kept) == repr(whole.trial.kept)
    assert verified(study.entries()).differences == ()


class TestDropping:
    def test_the_best_arm_of_those_that_stay(self, make):
        study = make()
        rates(study, a=0.5, b=0.6, c=0.3)
        before = study.state.trial.kept.won
        assert "cut to what was won against c" in study.effect("drop", arm="c", why="sold out")
        report = study.drop("c", "sold out")
        won = study.state.trial.kept.won
        np.testing.assert_array_equal(won.gains, np.minimum(before.gains[:2], before.gains[2]))
        assert study.state.settings.arms == ("a", "b")
        assert report.guarantee == "kept"
        same_when_read_again(study)
        for _ in range(20):
            report = rates(study, a=0.2, b=0.8)
            if report.status == "decided":
                break
        assert study.state.decided["words"] == "b is the best arm"
        same_when_read_again(study)

    def test_what_was_ruled_out_comes_back_unless_the_dropped_arm_was_ruled_out_too(self):
        settings = Settings(BestArm(), ("a", "b", "c", "d"), Gaussian(1.0), 0.05, Wager(), 1)
        goal = settings.problem.goal
        won = best_arm.Won(np.array([goal + 1, 0.5, goal + 2, -1.0]), np.array([True, False, True, False]))
        from roundwise.trial import begin

        start = begin(settings.problem, settings.policy)
        trial = start._replace(kept=start.kept._replace(won=won))
        for arm, gains, lost in (
            ("a", [0.5, goal + 1, -1.0], [False, True, False]),
            ("b", [0.5, 0.5, -1.0], [False, False, False]),
            ("d", [-1.0, -1.0, -1.0], [False, False, False]),
        ):
            _, after = changed(settings, trial, Change("dropped", arm, "", False, 0), [])
            assert after.kept.won.gains.tolist() == gains
            assert after.kept.won.lost.tolist() == lost

    def test_above_a_level_what_was_lost_stays_lost(self, make):
        """Every set of the arms that stay has what it had with the better side of the arm that left."""
        study = make(question=Above(0.5))
        rates(study, a=0.7, b=0.4, c=0.55)
        rates(study, a=0.7, b=0.4, c=0.45)
        before = study.state.trial.kept.won
        study.drop("c", "too dear")
        after = study.state.trial.kept.won
        lost = min(before.above[2], before.below[2])
        for inside in ((0, 0), (0, 1), (1, 0), (1, 1)):
            old = sum(before.below[i] if side else before.above[i] for i, side in enumerate(inside)) + lost
            new = sum(after.below[i] if side else after.above[i] for i, side in enumerate(inside))
            assert new == pytest.approx(old, abs=1e-12)
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
                arms = len(each.state.settings.arms)
                each.tell({key: values[:arms] for key, values in told.items()}, round_over="enough")
        report = study.drop("c", "the supplier closed", unrelated=True)
        assert "that c was left out for a reason that has nothing to do with any result" in report.guarantee
        assert study.state.trial.kept.won.gains.any()
        assert study.state.trial.kept.won.gains.tolist() == other.state.trial.kept.won.gains.tolist()
        assert study.state.trial.plan.pulls.tolist() == other.state.trial.plan.pulls.tolist()
        same_when_read_again(study)

    def test_of_claims_an_arm_is_no_longer_asked_for(self, make):
        names = ("placebo", "low", "high")
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=600, round=60)
        rates(study, placebo=0.3, low=0.4, high=0.6)
        gains = study.state.trial.kept.gains.tolist()
        assert "its claims stay open as they are" in study.effect("drop", arm="low", why="x")
        assert study.drop("low", "side effects").guarantee == "kept"
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
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=600, round=60)
        rates(study, placebo=0.3, low=0.4, high=0.6)
        gains = study.state.trial.kept.gains
        assert "starts with the least that any open claim has" in study.effect("add", arm="middle", why="x")
        assert study.add("middle", "it looks promising").guarantee == "kept"
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
            assert "left out for a reason" in study.drop("c", "sold out", unrelated=True).guarantee
            assert "d was added for a reason" in study.add("d", unrelated=True).guarantee
            same_when_read_again(study)

    def test_what_cannot_be_dropped(self, make):
        study = make(question=Statements.against_control(3, 0))
        with pytest.raises(InputError, match="fixed, because it speaks of them"):
            study.drop("c", "x")
        study = make("two", arms=("a", "b"))
        with pytest.raises(InputError, match="at least two arms"):
            study.drop("b", "x")
        with pytest.raises(InputError, match="There is no arm 'z': there are a, b"):
            study.drop("z", "x")
        with pytest.raises(InputError, match="The reason is empty"):
            study.drop("b", " ")
        study = make("three")
        study.ask()
        study.tell(sums(a=(10, 5)))
        with pytest.raises(InputError, match="Round 1 is open and has results"):
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
        before = study.state.trial.kept.won
        report = study.add("d", "a new idea")
        won = study.state.trial.kept.won
        assert won.gains.tolist() == [*before.gains, before.gains.min()]
        assert won.lost.tolist() == [*before.lost, False]
        assert (report.guarantee, study.ask().pulls[3] > 0) == ("kept", True)
        same_when_read_again(study)
        for _ in range(30):
            report = rates(study, a=0.3, b=0.5, c=0.1, d=0.9)
            if report.status == "decided":
                break
        assert study.state.decided["words"] == "d is the best arm"

    def test_above_a_level_it_starts_with_nothing(self, make):
        study = make(question=Above(0.5))
        rates(study, a=0.7, b=0.4, c=0.55)
        study.add("d")
        won = study.state.trial.kept.won
        assert (won.above[3], won.below[3], won.settled[3]) == (0.0, 0.0, False)
        same_when_read_again(study)

    def test_what_cannot_be_added(self, make):
        study = make()
        with pytest.raises(InputError, match="There is an arm 'a' already"):
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
        digest = state.asked[0].files[0].digest
        assert [each.arms for each in state.asked] == [("a", "b", "c"), ("a", "b", "c", "d"), ("b", "c", "d")]
        counts = state.trial.record.counts
        report = study.amend(digest, sums(a=(30, 15), b=(30, 20), c=(29, 9)), "miscounted")
        assert "the correction of" in report.guarantee
        after = study.state
        assert after.settings.arms == ("b", "c", "d")
        assert after.trial.record.counts.tolist() == [counts[0], counts[1] - 1, counts[2]]
        same_when_read_again(study)


def test_the_guarantee_of_the_best_arm_when_arms_leave_and_join_because_of_results():
    """An adversary drops the arm that looks worst or adds one whenever that hurts the best; errors stay below delta.

    The best arm of those in the question must not be ruled out; all arms are alike, so each is a best one and the
    study must not rule out a given one, here the first that is in it.
    """
    rng = np.random.default_rng(5)
    wrong, runs, delta = 0, 300, 0.2
    policy = Wager(first_pulls=20)
    from roundwise.state import Batch
    from roundwise.trial import advance, begin

    for _ in range(runs):
        settings = Settings(BestArm(), ("a", "b", "c"), Gaussian(1.0), delta, policy, 1)
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
            gains = trial.kept.won.gains[1:]
            if r in (1, 3) and len(settings.arms) > 2:
                arm = settings.arms[1 + int(gains.argmax())]
                settings, trial = changed(settings, trial, Change("dropped", arm, "", False, r + 1), seen)
            elif r in (2, 4):
                settings, trial = changed(settings, trial, Change("added", f"new {r}", "", False, r + 1), seen)
        wrong += bool(trial.kept.won.lost[0])
    assert wrong <= runs * delta + 3 * np.sqrt(runs * delta * (1 - delta))


class TestAfterTheDecision:
    def test_results_are_recorded_and_the_verdict_stands(self, make):
        study = make(arms=("a", "b"))
        while rates(study, a=0.2, b=0.9).status != "decided":
            pass
        before = study.report()
        report = study.tell(sums(a=(100, 80), b=(10, 9)))
        assert (report.status, report.answer) == (before.status, before.answer) == ("decided", "b")
        assert study.state.record.counts.sum() == study.state.trial.record.counts.sum() + 110
        assert any("110 results came after the decision" in each for each in study.report().warnings)
        assert [each.kind for each in study.entries()][-2:] == ["decided", "later"]
        with pytest.raises(InputError, match="was already recorded after the decision"):
            study.tell(sums(a=(100, 80), b=(10, 9)))
        with pytest.raises(InputError, match="can no longer be corrected"):
            study.amend(study.state.asked[0].files[0].digest, None, "x")
        assert study.ask() is None
        assert verified(study.entries()).differences == ()


class TestBudgets:
    def test_a_study_goes_on_with_a_larger_one(self, make):
        study = make(budget=100)
        while study.ask() is not None:
            rates(study, a=0.5, b=0.5, c=0.5)
        assert "budget of 100 results is used up" in study.state.over
        assert study.effect("extend", budget=300).startswith("This keeps the guarantee")
        assert study.extend(300).guarantee == "kept"
        assert study.state.over is None
        while study.ask() is not None:
            rates(study, a=0.5, b=0.5, c=0.5)
        assert study.state.trial.record.samples == 300
        assert verified(study.entries()).differences == ()

    def test_what_is_left_of_claims_is_said_before_results(self, make):
        names = ("placebo", "low", "high")
        study = make(question=Claims.against_control(names, control="placebo"), arms=names, budget=120, round=60)
        assert study.state.trial.plan.left == 60
        study.ask()
        study.tell(sums(placebo=(10, 3)))
        with pytest.raises(InputError, match="must be said before"):
            study.extend(600)
        study.tell(sums(low=(20, 8), high=(30, 12)))
        assert study.state.trial.plan.last
        study.extend(600)
        assert (study.state.trial.plan.left, bool(study.state.trial.plan.last)) == (480, False)

    def test_what_cannot_be(self, make):
        study = make()
        with pytest.raises(InputError, match="has no budget to extend"):
            study.extend(10)
        study = make("b", budget=200)
        rates(study, a=0.5, b=0.5, c=0.5)
        with pytest.raises(InputError, match="The budget would be 50, but 90 results are counted"):
            study.extend(50)


class TestThePast:
    def test_it_teaches_and_is_no_evidence(self, make):
        study, plain = make(), make("plain")
        assert study.import_past(sums(a=(500, 100), b=(500, 400), c=(500, 250))).guarantee == "kept"
        state = study.state
        assert state.trial.record.samples == 0
        assert state.trial.kept.won.gains.tolist() == [0.0, 0.0, 0.0]
        assert state.trial.kept.choice.leader == 1
        for each in (study, plain):
            rates(each, a=0.3, b=0.7, c=0.5)
        taught, untaught = (each.state.trial.kept.won.gains for each in (study, plain))
        assert (
            taught[[0, 2]] > untaught[[0, 2]]
        ).all()  # a batch that came as sums is bet on, now that there is a past
        same_when_read_again(study)

    def test_it_comes_first(self, make):
        study = make()
        study.import_past(sums(a=(5, 1), b=(5, 4)))
        with pytest.raises(InputError, match="was imported already"):
            study.import_past(sums(a=(5, 1), b=(5, 4)))
        study.ask()
        study.tell(sums(a=(5, 1)))
        with pytest.raises(InputError, match="has results: earlier data may teach only"):
            study.import_past(sums(a=(7, 1)))
        with pytest.raises(InputError, match="teach nothing to --policy pet"):
            make("p", policy=PET(), noise=Gaussian()).import_past({"arm": ["a"], "count": [3], "total": [1.0]})


class TestClosingAndRemoving:
    def test_a_study_is_reopened(self, make):
        study = make()
        rates(study, a=0.5, b=0.5, c=0.5)
        with pytest.raises(InputError, match="is not closed"):
            study.reopen("x")
        study.end("no money")
        assert study.ask() is None
        assert study.reopen("money came").guarantee == "kept"
        assert study.ask().number == 2
        assert [each.kind for each in study.entries()][-3:] == ["closed", "reopened", "asked"]

    def test_what_is_not_counted_is_said(self, make):
        study = make()
        study.ask()
        study.tell(sums(a=(10, 5), b=(3, 1)))
        waiting = study.state.waiting
        assert (waiting.batch, waiting.results, waiting.counts.tolist()) == (1, 13, [10, 3, 0])
        assert waiting.means.tolist() == [0.5, 1 / 3, 0.0]
        assert "The 13 results told of round 1 are not counted." in study.effect("end")

    def test_a_study_without_results_is_removed(self, make):
        study = make()
        study.ask()
        study.note("a mistake")
        study.remove()
        with pytest.raises(UnknownStudy):
            study.state  # noqa: B018
        again = make(question=TopK(1))
        rates(again, a=0.5, b=0.5, c=0.5)
        with pytest.raises(InputError, match="has results, and a record with results is never erased"):
            again.remove()

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
        study = make(round=60, split="2:1:1", budget=300)
        asked = study.ask()
        assert (asked.pulls.tolist(), asked.by_number) == ([30, 15, 15], True)
        report = study.tell(sums(a=(40, 20), b=(10, 5)))
        assert study.state.outstanding.outstanding.sum() == 10
        report = study.tell(sums(c=(15, 5)))  # 65 of 60
        assert (report.rounds, report.still_to_come, report.guarantee) == (1, {}, "kept")
        assert not any("never came" in each for each in report.warnings)
        assert study.ask().number == 2
        same_when_read_again(study)

    def test_a_split_follows_the_arms(self, make):
        study = make(round=60, split="3:2:1")
        rates(study, a=0.5, b=0.5, c=0.5)
        study.add("d")
        assert study.state.settings.split == (3.0, 2.0, 1.0, 1.0)
        study.drop("b", "sold out")
        assert study.state.settings.split == (3.0, 1.0, 1.0)
        assert study.ask().pulls.sum() == 60
        same_when_read_again(study)

    def test_a_round_that_is_over_early(self, make):
        study = make(round=60)
        study.ask()
        study.tell(sums(a=(30, 15), b=(10, 5)))
        report = study.close_round("the week is over")
        assert any("20 of 60 results never came (the week is over)" in each for each in report.warnings)
        assert report.guarantee.startswith("conditional on the assumption that what is missing of round 1")

    def test_splits_that_are_none(self, make):
        for split, words in (("2:1", "has 2 shares, but there are 3 arms"), ("a:b:c", "must be 'equal' or shares")):
            with pytest.raises(InputError, match=words):
                make(split=split)
        with pytest.raises(InputError, match="goes with a policy that may look"):
            make(policy=PET(), noise=Gaussian(), round=100)

    def test_settings_survive_json(self):
        settings = Settings(BestArm(), ARMS, Binary(), 0.05, Wager(), 1, 900, 90, (2.0, 1.0, 1.0))
        assert Settings.from_payload(json.loads(json.dumps(settings.payload()))) == settings


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
        assert study.tell(sums(a=(30, 15), b=(30, 9), c=(30, 4))).plain() == report.plain()
