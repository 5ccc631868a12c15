"""Classes of a user's own that return what they must not are refused before they are used, with one sentence."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    BatchPlan,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    GaussianArms,
    InputError,
    Normal,
    RoundRobin,
    SubGaussian,
    TopK,
    Wager,
    create_study,
    simulate,
)
from roundwise.contract import check_question
from roundwise.environments import ArmState, Environment
from roundwise.model.batch import Batch
from roundwise.model.problem import Problem
from roundwise.planning import plan
from roundwise.policies import Policy
from roundwise.policies.base import everywhere
from roundwise.questions import Pieces
from roundwise.thresholds import Lemma32
from test_user_classes import RECIPES, here, roundwise  # noqa: F401 - fixtures

WORLD = GaussianArms([1.0, 0.5, 0.0])


def run(question=None, policy=None, world=WORLD, **words):
    return simulate(question or BestArm(), world, [policy or RoundRobin()], runs=2, max_samples=1e5, **words)


def refused(message, **words):
    with pytest.raises(InputError, match=message) as found:
        run(**words)
    assert "cannot be used: " in str(found.value)
    assert str(found.value).endswith("Correct its class (docs/own.md shows one).")


# --- thresholds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NaNAtZero(Lemma32):
    """t ln t / t, as it is easily written."""

    name = "nan-at-zero"

    def value(self, problem, counts):
        samples = counts.sum(axis=-1)
        with np.errstate(all="ignore"):
            return samples / samples * super().value(problem, counts)


@dataclass(frozen=True)
class Falling(Lemma32):
    name = "falling"

    def value(self, problem, counts):
        return 100.0 / (1.0 + counts.sum(axis=-1)) + 8.0


@dataclass(frozen=True)
class Negative(Lemma32):
    name = "negative"

    def value(self, problem, counts):
        return np.log(counts.sum(axis=-1) + 0.5)


@dataclass(frozen=True)
class LowAt(Lemma32):
    name = "low-at"

    def at(self, problem, samples):
        return super().at(problem, samples) / 2


@dataclass(frozen=True)
class OneNumber(Lemma32):
    name = "one-number"

    def value(self, problem, counts):
        return 20.0


@dataclass(frozen=True)
class Doubtful(Lemma32):
    name = "doubtful"

    def doubt(self, problem):
        return "not sure"


BAD_THRESHOLDS = {
    NaNAtZero: "'nan-at-zero' cannot be used: `value` is nan with 0 results of an arm, but must be a number above 0",
    Falling: "`value` falls from 108 with 0 results of an arm to .* it must never fall as results are added",
    Negative: "`value` is -0.69.* with 0 results of an arm, but must be a number above 0",
    LowAt: "`at` is .* for .* samples, but `value` can be .*, but `at` must be the largest",
    OneNumber: r"`value` returns an array of shape \(\), but for arrays with runs before the arms it must be \(10,\)",
    Doubtful: "`doubt` returns 'not sure', but it must return None, a `Reason` or a `Condition`",
}


@pytest.mark.parametrize("threshold", BAD_THRESHOLDS, ids=lambda each: each.name)
def test_thresholds(threshold, tmp_path):
    refused(BAD_THRESHOLDS[threshold], policy=PET(stopping=GLR(threshold())))
    with pytest.raises(InputError, match=BAD_THRESHOLDS[threshold]):
        create_study(
            "s",
            question=BestArm(),
            arms=["a", "b"],
            noise=Gaussian(1.0),
            policy=RoundRobin(stopping=GLR(threshold())),
            storage=f"sqlite:///{tmp_path}/s.db",
        )
    assert not (tmp_path / "s.db").exists()


def test_a_threshold_that_is_no_number_later_is_said_and_does_not_run_on():
    @dataclass(frozen=True)
    class Odd(Lemma32):
        name = "odd"

        def value(self, problem, counts):
            found = super().value(problem, counts)
            return np.where(counts.sum(axis=-1) % 2 == 1, np.nan, found)

    problem = Problem(BestArm(), 2)
    with pytest.raises(InputError, match="'odd'"):
        simulate(BestArm(), GaussianArms([9.0, 0.0]), [Turns(stopping=GLR(Odd()))], runs=2, max_samples=1e4)
    assert np.isfinite(Odd().value(problem, np.zeros(2)))


# --- questions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Minus(BestArm):
    """Its answer is recorded as -1 if the last arm is the best."""

    name = "minus"

    def answer_to_json(self, answer):
        return -1 if int(answer) == 2 else int(answer)


@dataclass(frozen=True)
class AsText(BestArm):
    name = "as-text"

    def answer_to_json(self, answer):
        return str(answer)


@dataclass(frozen=True)
class Wrong(BestArm):
    name = "wrong"

    def correct(self, answer, means):
        return answer == np.argmin(means, axis=-1)


@dataclass(frozen=True)
class Mixed(BestArm):
    name = "mixed"

    def answer(self, means):
        return np.full(np.shape(means)[:-1], np.argmax(np.asarray(means).reshape(-1)) % np.shape(means)[-1])


@dataclass(frozen=True)
class NoEvidence(BestArm):
    name = "no-evidence"

    def evidence(self, counts, means, sigma=1.0):
        return np.full(np.shape(means)[:-1], np.nan)


@dataclass(frozen=True)
class FewPieces(TopK):
    name = "few-pieces"

    def pieces(self, arms):
        return Pieces(number=1, support=2)


@dataclass(frozen=True)
class NarrowPieces(TopK):
    name = "narrow-pieces"

    def pieces(self, arms):
        return Pieces(number=99, support=1)


@dataclass(frozen=True)
class HalfPieces(TopK):
    """It forgets most of what must be shown."""

    name = "half-pieces"

    def halfspaces(self, answer, arms):
        found = super().halfspaces(answer, arms)
        return found._replace(arms=found.arms[..., :1, :], offsets=found.offsets[..., :1], grid=0)


BAD_QUESTIONS = {
    Minus: "'minus' cannot be used: `answer_to_json` of an answer is -1, but it must be true or false, an index from",
    AsText: "`answer_to_json` of an answer is '0'",
    Wrong: "`correct` says that 0, its own answer at the means .* is wrong",
    Mixed: "`answer` of several runs at once is not that of each run alone",
    NoEvidence: "`evidence` is nan with 10 results per arm",
    FewPieces: "`pieces` declares 1 half-spaces for 3 arms, but wrong answers can come about in at least 2 ways",
    NarrowPieces: "`pieces` declares 1 arms for each half-space, but one of the answer .* is about 2",
    HalfPieces: "the `halfspaces` of the answer .* hold at the means .*, but there `correct` calls it wrong",
}


@pytest.mark.parametrize("question", BAD_QUESTIONS, ids=lambda each: each.name)
def test_questions(question, tmp_path):
    asked = question(1) if issubclass(question, TopK) else question()
    refused(BAD_QUESTIONS[question], question=asked)
    with pytest.raises(InputError, match=BAD_QUESTIONS[question]):
        create_study(
            "s", question=asked, arms=["a", "b", "c"], noise=Gaussian(1.0), storage=f"sqlite:///{tmp_path}/s.db"
        )
    with pytest.raises(InputError, match=BAD_QUESTIONS[question]):
        plan(asked, arms=3, noise=Binary(), means="10%,40%,80%", runs=2)


def podium(number):
    """The question of the documentation, with another number of pieces."""
    text = RECIPES["my_question.py"]
    assert text.count("number=2 * arms - 3") == 1
    names = {"__name__": "podium"}
    exec(text.replace("number=2 * arms - 3", f"number={number}"), names)
    return names["Podium"]()


@pytest.mark.parametrize("arms", [2, 3, 4, 7, 12])
def test_the_pieces_of_the_podium_are_two_arms_minus_three_and_no_fewer(arms):
    problem = Problem(podium("2 * arms - 3"), arms)
    check_question(problem.question, problem)
    if arms > 2:
        with pytest.raises(
            InputError, match=rf"declares {2 * arms - 4} half-spaces for {arms} arms, but .*{2 * arms - 3} ways"
        ):
            check_question(podium("2 * arms - 4"), problem)


# --- noise models ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bold(Bounded):
    """It bets as if the deviation were a third of what it may be."""

    name = "bold"

    def part_bets(self, data):
        return SubGaussian(self.sigma / 3).part_bets(data)


@dataclass(frozen=True)
class NoSigma(Bounded):
    name = "no-sigma"
    sigma = float("nan")


@dataclass(frozen=True)
class NoVariance(Bounded):
    name = "no-variance"

    def variance(self, past):
        return 0 * super().variance(past)


@dataclass(frozen=True)
class NoNumber(Bounded):
    name = "no-number"

    def budget_bet(self, *given):
        return super().budget_bet(*given) * np.nan


@dataclass(frozen=True)
class Eager(Bounded):
    name = "eager"

    def budget_bet(self, known, batch, pieces, need, rho, eta):
        return super().budget_bet(known, batch, pieces, np.maximum(need, 1.0), rho, eta)


BAD_NOISES = {
    Bold: r"the mean of the bet .* is .* for results that are 0 or 1, but under its null the mean .* at most 1",
    NoSigma: "`sigma` is nan, but it must be a number above 0",
    NoVariance: "`variance` is 0 after 40 results per arm, but it must be a number above 0",
    NoNumber: "`budget_bet` returns NaN, but bets must be log e-values",
    Eager: "`budget_bet` bets where `need` is 0, but it must return 0 there",
}


@pytest.mark.parametrize("noise", BAD_NOISES, ids=lambda each: each.name)
def test_noise_models(noise, tmp_path):
    refused(BAD_NOISES[noise], world=BernoulliArms([0.5, 0.4]), noise=noise(0.0, 1.0), policy=Wager())
    with pytest.raises(InputError, match=BAD_NOISES[noise]):
        create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=noise(0.0, 1.0), storage=f"sqlite:///{tmp_path}/s.db"
        )


# --- policies --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turns(Policy):
    """What is pulled first, and next; it checks nothing."""

    start: float = 5.0
    later: float = 5.0
    stopping: GLR = field(default_factory=GLR)
    name = "turns"

    def check(self, problem):
        pass

    def first(self, problem, runs):
        pulls = everywhere(runs, problem.arms, self.start)
        pulls[..., 0] += 1.0
        return BatchPlan(pulls, np.ones(runs, dtype=bool))

    def next(self, problem, trial):
        return BatchPlan(np.full(trial.record.counts.shape, self.later), trial.plan.may_stop)


@dataclass(frozen=True)
class OneRow(Turns):
    name = "one-row"

    def first(self, problem, runs):
        return super().first(problem, ())


BAD_POLICIES = [
    (Turns(2.5), r"it plans the pulls \[.*2.5.*\], but they must be whole numbers of at least 0"),
    (Turns(-3.0), "it plans the pulls .*-3.0"),
    (Turns(float("nan")), "it plans the pulls .*nan"),
    (Turns(5.0, 1.5), "it plans the pulls .*1.5"),
    (
        OneRow(),
        r"`pulls` returns an array of shape \(3,\), but for arrays with runs before the arms it must be \(3, 3\)",
    ),
]


@pytest.mark.parametrize(("policy", "message"), BAD_POLICIES)
def test_policies(policy, message):
    refused(message, policy=policy)


def test_the_rule_of_a_policy_that_checks_nothing_is_checked():
    with pytest.raises(InputError, match="has no sigma|sigma"):
        run(policy=Turns(), world=replace(WORLD), noise=Normal())
    assert run(policy=Turns())[0].decided.all()


def test_what_is_missing_is_said():
    @dataclass(frozen=True)
    class Empty:
        stopping: GLR = field(default_factory=GLR)
        name = "empty"

    with pytest.raises(InputError, match=r"derive the class from roundwise.Policy"):
        run(policy=Empty())
    with pytest.raises(InputError, match=r"Derive the class 'Empty' from roundwise.environments.Environment"):
        run(world=type("Empty", (), {"arms": 2, "noise": Gaussian()})())


# --- worlds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coins(Environment):
    """0/1 results, with a mistake."""

    mistake: str = ""
    arms = 2
    sigma = 0.5
    noise = Binary()

    @property
    def names(self):
        return ("a", "b", "c") if self.mistake == "names" else ("a", "b")

    def initial_state(self, rng, runs):
        return ArmState(np.full((1 if self.mistake == "runs" else runs, 2), [0.7, 0.3]))

    def pull(self, rng, world, pulls, needs="sums"):
        counts = pulls + 1 if self.mistake == "more" else pulls
        totals = rng.binomial(pulls.astype(int), np.broadcast_to(world.means, pulls.shape)).astype(float)
        totals = {"beyond": totals + 9, "fraction": totals / 2 + 0.25, "nan": totals * np.nan}.get(self.mistake, totals)
        return Batch(counts, totals), world


BAD_WORLDS = {
    "names": "environment 'Coins' cannot be used: `names` has 3 names for 2 arms",
    "runs": r"`initial_state` has means of shape \(1, 2\) for 2 runs",
    "more": "`pull` returns 6 results of an arm, but only 5 were asked for",
    "beyond": "`pull` returns results that its own `noise` says are impossible, but they must lie between 0 and 1",
    "fraction": "`pull` returns results that its own `noise` says are impossible",
    "nan": "`pull` returns totals",
}


@pytest.mark.parametrize("mistake", BAD_WORLDS)
def test_worlds(mistake):
    refused(BAD_WORLDS[mistake], world=Coins(mistake))
    if mistake == "names":
        refused("`pull` returns no `scatter`", world=Coins(), noise=Normal(), policy=Wager())


# --- from the command line -------------------------------------------------------------------------------------------

BAD = """
from dataclasses import dataclass
from roundwise import BestArm
from roundwise.thresholds import Lemma32

@dataclass(frozen=True)
class Falling(Lemma32):
    name = "falling"
    def value(self, problem, counts):
        return 100.0 / (1.0 + counts.sum(axis=-1)) + 8.0

@dataclass(frozen=True)
class Minus(BestArm):
    name = "minus"
    def answer_to_json(self, answer):
        return -1
"""


def test_the_command_line_says_the_same(roundwise, here):  # noqa: F811
    (here / "bad").with_suffix(".py").write_text(BAD)
    world = ("--means", "1,0.5", "--runs", "2")
    commands = {
        "`value` falls from 108 with 0 results of an arm to": [
            ("simulate", "-q", "best-arm", *world, "--policy", "pet:threshold=bad:Falling"),
            ("new", "s", "-q", "best-arm", "--arms", "a,b", "--sigma", "1", "--policy", "pet:threshold=bad:Falling"),
        ],
        "`answer_to_json` of an answer is -1": [
            ("simulate", "-q", "bad:Minus", *world, "--policy", "wager"),
            ("new", "s", "-q", "bad:Minus", "--arms", "a,b", "--sigma", "1"),
        ],
    }
    for message, calls in commands.items():
        for words in calls:
            code, _, err = roundwise("--own", "bad", *words)
            assert code == 2
            assert message in err
            assert "Correct its class" in err
            assert "Traceback" not in err
