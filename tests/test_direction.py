"""Lower is better: the mirror image of a problem has the same decisions, and the words say which side is meant."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundwise import (
    Above,
    AnyAbove,
    BestArm,
    Bounded,
    Claims,
    ConditionalPower,
    InputError,
    Largest,
    Linear,
    MinimumBelow,
    Normal,
    Statements,
    TopK,
    Wager,
    simulate,
)
from roundwise.environments import BernoulliArms, GaussianArms, Replay
from roundwise.model.batch import Batch, ValueTable
from roundwise.policies import POLICIES
from roundwise.questions import QUESTIONS
from roundwise.simulation.environments import Environment

ARMS = 4
FEATURES = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.2, 0.9]]
FORMS = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])


def asked(centre, low, high):
    """Questions about means between `low` and `high`, each with its mirror image: y becomes centre - y."""
    level = low + (high - low) * 7 / 16
    step = (high - low) / 8
    lower = {"lower_is_better": True}
    offsets = np.array([step, 0.0, 0.0])
    return [
        (BestArm(), BestArm(**lower)),
        (BestArm(step), BestArm(step, **lower)),
        (TopK(2), TopK(2, **lower)),
        (TopK(2, step), TopK(2, step, **lower)),
        (Above(level), Above(centre - level, **lower)),
        (Above(level, step), Above(centre - level, step, **lower)),
        (AnyAbove(level), AnyAbove(centre - level, **lower)),
        (AnyAbove(level, step), MinimumBelow(centre - level, step)),
        (Statements.against_control(ARMS, 1, step), Statements.against_control(ARMS, 1, step, **lower)),
        (
            Largest(FORMS, offsets, tolerance=step),
            Largest(FORMS, -offsets - centre * FORMS.sum(axis=1), tolerance=step, **lower),
        ),
        (
            Claims.against_control(ARMS, 1, step, futility=2 * step),
            Claims.against_control(ARMS, 1, step, futility=2 * step, **lower),
        ),
        (Claims.above(ARMS, level, sides="two"), Claims.above(ARMS, centre - level, sides="two", **lower)),
        (Claims.pairs(ARMS), Claims.pairs(ARMS, **lower)),
    ]


# --- questions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(asked(0.0, -1.0, 1.0))))
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_mirror_image_has_the_same_answer_evidence_and_complexity(number, seed):
    rng = np.random.default_rng(seed)
    question, mirror = asked(0.0, -1.0, 1.0)[number]
    assert mirror.lower_is_better != question.lower_is_better
    means, counts = np.round(rng.normal(0.0, 0.7, (5, ARMS)), 2), rng.integers(1, 50, (5, ARMS)).astype(float)
    sigmas, radius = rng.uniform(0.5, 2.0, ARMS), rng.choice([0.0, 0.02])
    same = np.testing.assert_array_equal
    near = np.testing.assert_allclose
    same(mirror.answer(-means), question.answer(means))
    same(mirror.verdict(counts, -means), question.verdict(counts, means))
    same(mirror.count_right_answers(-means), question.count_right_answers(means))
    same(mirror.correct(mirror.answer(means), -means), question.correct(question.answer(-means), means))
    near(mirror.evidence(counts, -means, 1.3), question.evidence(counts, means, 1.3), rtol=1e-12)
    near(mirror.floor(-means, radius, 1.3), question.floor(means, radius, 1.3), rtol=1e-12)
    near(mirror.floor_with_sigmas(-means, radius, sigmas), question.floor_with_sigmas(means, radius, sigmas))
    near(mirror.complexities(-means), question.complexities(means), rtol=1e-6)
    for found, wanted in (
        (mirror.complexity(-means, radius, 1.3), question.complexity(means, radius, 1.3)),
        (mirror.complexity_with_sigmas(-means, radius, sigmas), question.complexity_with_sigmas(means, radius, sigmas)),
    ):
        near(found.value, wanted.value, rtol=1e-6)
        near(found.weights, wanted.weights, atol=1e-3)
    if question.pieces(ARMS) is not None:
        answer = question.answer(means[0])
        forms, mirrored = question.halfspaces(answer, ARMS), mirror.halfspaces(answer, ARMS)
        near(mirrored.dense(ARMS), -forms.dense(ARMS))
        near(mirrored.offsets, forms.offsets, atol=1e-15)
    ladder = question.means_with_lead if question.control is not None or question.level is not None else None
    if ladder is not None:
        near(mirror.means_with_lead(np.zeros(ARMS), 0.1), -ladder(np.zeros(ARMS), 0.1))
    for constant in (False, True):
        border, mirrored = question.border_point(means[0], constant), mirror.border_point(-means[0], constant)
        assert (border is None) == (mirrored is None)
        if border is not None:
            near(np.abs(mirrored + means[0]).max(), np.abs(border - means[0]).max(), atol=1e-8)  # one of the nearest


def test_odds_and_ratios_are_of_the_control_over_the_arm():
    rates = np.array([0.5, 0.2, 0.4])
    ratio = Claims.against_control(3, 0, 2.0, scale="ratio", lower_is_better=True)
    assert ratio.answer(rates).tolist() == [True, False]  # .2 is below a half of .5, .4 is not
    odds = Claims.against_control(["c", "x", "y"], 0, 3.0, scale="odds-ratio", lower_is_better=True)
    assert odds.answer(rates).tolist() == [True, False]  # odds 1, .25 and .67
    assert odds.names == ("x is below c by an odds ratio above 3", "y is below c by an odds ratio above 3")
    assert ratio.claim_texts("cxy") == ("x is less than 0.5 times c", "y is less than 0.5 times c")
    higher = Claims.against_control(3, 0, 3.0, scale="odds-ratio")
    np.testing.assert_array_equal(odds.answer(1 - rates), higher.answer(rates))


def test_an_arm_that_joins_is_below_the_control_too():
    wider = Claims.against_control("abc", "b", 0.1, lower_is_better=True).with_arm("abcd")
    assert wider.forms[-1].tolist() == [0.0, 1.0, 0.0, -1.0]
    assert wider.claim_texts("abcd")[-1] == "d is below b by more than 0.1"
    assert wider.labels("abcd") == ["a", "c", "d"]


def test_where_a_direction_has_no_meaning_it_is_refused():
    with pytest.raises(InputError, match="signs of their coefficients"):
        Statements([[1.0, 1.0]], [0.0], lower_is_better=True)
    with pytest.raises(TypeError):
        MinimumBelow(0.5, lower_is_better=True)


def test_every_question_says_its_direction():
    names = ["a", "b", "c", "d"]
    for question, mirror in asked(0.0, -1.0, 1.0):
        words = mirror.question_text(names)
        assert any(each in words for each in ("lowest", "below", "smallest")), words
        assert (
            "lower" in str(mirror.cli_options(names))
            or mirror.cli_options(names) is None
            or not (isinstance(mirror, AnyAbove | BestArm | TopK | Above | Statements))
        )
        assert words != question.question_text(names)
    assert {type(each).name for pair in asked(0.0, -1.0, 1.0) for each in pair} | {"linear"} == set(QUESTIONS)


# --- simulated ---------------------------------------------------------------------------------------------


def mirrored(batch, centre):
    """The same batch of results centre - y."""
    if batch is None:
        return None
    table = batch.table
    if table is not None:
        table = ValueTable(centre - table.values[..., ::-1], table.counts[..., ::-1])
    found = batch._replace(totals=centre * batch.counts - batch.totals, table=table)
    if isinstance(batch, Batch):
        found = found._replace(parts=mirrored(batch.parts, centre))
    return found._replace(pairs=mirrored(batch.pairs, 0.0))


@dataclass(frozen=True, eq=False)
class Mirror(Environment):
    """An environment seen in a mirror, from the same random numbers."""

    within: Environment
    centre: float

    @property
    def arms(self):
        return self.within.arms

    @property
    def noise(self):
        return self.within.noise

    def initial_state(self, rng, runs):
        state = self.within.initial_state(rng, runs)
        return state._replace(means=self.centre - state.means)

    def pull(self, rng, state, pulls, needs="sums"):
        batch, after = self.within.pull(rng, state._replace(means=self.centre - state.means), pulls, needs)
        return mirrored(batch, self.centre), after._replace(means=state.means)

    def pull_parts(self, rng, state, *args, **kwargs):
        batch, after = self.within.pull_parts(rng, state._replace(means=self.centre - state.means), *args, **kwargs)
        return mirrored(batch, self.centre), after._replace(means=state.means)


WORLDS = {
    "normal": (GaussianArms([1.0, 0.4, 0.2, 0.0], sigma=0.8), None, 0.0, 0.0, 1.0),
    "spread not known": (GaussianArms([1.0, 0.4, 0.2, 0.0], sigma=0.8), Normal(), 0.0, 0.0, 1.0),
    "0/1": (BernoulliArms([0.75, 0.5, 0.25, 0.25]), None, 1.0, 0.25, 0.75),
    "a range": (
        Replay(
            tuple("abcd"),
            np.array([-1.0, -0.5, 0.0, 0.5, 1.0]),
            np.array([[0, 1, 2, 4, 8], [1, 2, 3, 3, 2], [2, 2, 2, 2, 2], [4, 2, 1, 0, 0]]),
        ),
        Bounded(-1.0, 1.0),
        0.0,
        -0.5,
        0.5,
    ),
}


def decisions(question, environment, policy, noise, runs=30):
    budget = 4000 if question.separate_claims else None
    (found,) = simulate(question, environment, [policy], runs=runs, noise=noise, seed=5, budget=budget, delta=0.1)
    assert found.decided.any() or budget is not None
    return [found.samples.tolist(), found.batches.tolist(), np.asarray(found.answer).tolist(), found.correct.tolist()]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("number", range(len(asked(0.0, -1.0, 1.0))))
def test_the_mirror_image_is_decided_alike(world, number):
    environment, noise, centre, low, high = WORLDS[world]
    question, mirror = asked(centre, low, high)[number]
    policy = ConditionalPower() if question.separate_claims else Wager()
    found = decisions(mirror, Mirror(environment, centre), policy, noise)
    assert found == decisions(question, environment, policy, noise)


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"wager", "conditional-power"}))
def test_every_policy_plays_the_mirror_image_alike(name):
    policy, environment = POLICIES[name](), GaussianArms([1.0, 0.4, 0.2, 0.0], sigma=0.8)
    number = {"karpov": 2, "jin-2019": 1}.get(name, 0)
    question, mirror = asked(0.0, 0.0, 1.0)[number]
    found = decisions(mirror, Mirror(environment, 0.0), policy, None, 10)
    assert found == decisions(question, environment, policy, None, 10)


@pytest.mark.parametrize("policy", ["wager", "rage", "track-and-stop"])
def test_features_in_the_mirror(policy):
    means = np.array(FEATURES) @ [1.0, 0.5]
    environment = GaussianArms(means, sigma=0.8)
    for question, mirror in asked(0.0, 0.6, 0.9)[:1] + asked(0.0, 0.6, 0.9)[4:5]:
        both = Linear(mirror, FEATURES), Linear(question, FEATURES)
        found = decisions(both[0], Mirror(environment, 0.0), POLICIES[policy](), None, 10)
        assert found == decisions(both[1], environment, POLICIES[policy](), None, 10)
