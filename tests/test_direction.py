"""Lower is better: the mirror image of a problem has the same decisions, and the words say which side is meant."""

import re
from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from products import diagonals
from roundwise import (
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    Claims,
    ConditionalPower,
    Designed,
    Gaussian,
    InputError,
    Largest,
    Linear,
    MinimumBelow,
    Normal,
    Poisson,
    Problem,
    Statements,
    TopK,
    Wager,
    create_study,
    load_study,
    simulate,
)
from roundwise.environments import BernoulliArms, GaussianArms, PoissonArms, Replay
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.problem import BatchPlan, advance, begin
from roundwise.model.spec import to_spec
from roundwise.policies import POLICIES
from roundwise.questions import QUESTIONS
from roundwise.report.model import Units
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.simulation.environments import Environment
from roundwise.web.forms import Form

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


def test_a_designed_look_of_an_odd_size_is_split_the_same_way_in_both_directions():
    odd, policy = 0, Designed(budget=1001, lead=0.5)
    for lead in (0.02, 0.05, 0.1, 0.15, 0.2, 0.25):
        pulls = []
        for sign in (1.0, -1.0):
            problem = Problem(BestArm(lower_is_better=sign < 0), 2, 0.05, Gaussian(1.0))
            trial = begin(problem, policy)
            first = trial.plan.pulls
            trial = advance(problem, policy, trial, Batch(first, sign * first * [2.0, 2.0 + lead]))
            pulls.append(trial.plan.pulls.tolist())
        assert pulls[0] == pulls[1]
        odd += pulls[0][0] != pulls[0][1]
    assert odd  # otherwise nothing was tested


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
    directed = {name for name, kind in QUESTIONS.items() if "lower_is_better" in {each.name for each in fields(kind)}}
    mirrored = {type(each).name for pair in asked(0.0, -1.0, 1.0) for each in pair}
    assert directed - {"best-group"} <= mirrored, "add a pair of each that is missing to `asked`"


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


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("number", range(len(asked(0.0, -1.0, 1.0))))
def test_the_mirror_image_is_decided_alike(world, number):
    environment, noise, centre, low, high = WORLDS[world]
    question, mirror = asked(centre, low, high)[number]
    policy = ConditionalPower() if question.separate_claims else Wager()
    found = decisions(mirror, Mirror(environment, centre), policy, noise)
    samples, *rest = decisions(question, environment, policy, noise)
    assert found[1:] == rest
    np.testing.assert_allclose(found[0], samples, rtol=0.01)  # 1 - 0.7 is not 0.3: a batch may be rounded otherwise


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"wager", "conditional-power"}))
def test_every_policy_plays_the_mirror_image_alike(name):
    policy = POLICIES[name](**({"budget": 4000} if name == "designed" else {}))
    environment = GaussianArms([1.0, 0.4, 0.2, 0.0], sigma=0.8)
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


# --- counts, which have no mirror image --------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(2.0, 2.0), (2.0, 2.5)])
def test_a_bet_on_counts_has_mean_one_at_most(rates):
    """Of the arm with the lowest rate, over all numbers of events in a second batch: an exact sum."""
    problem = Problem(BestArm(lower_is_better=True), 2, 0.05, Poisson())
    rule, pulls = EProcessRule(), np.full((70, 70, 2), 5.0)
    events = np.stack(np.meshgrid(np.arange(70.0), np.arange(70.0), indexing="ij"), axis=-1)
    chances = np.prod([poisson.pmf(events[..., i], 5 * rate) for i, rate in enumerate(rates)], axis=0)
    first = Batch(np.full(pulls.shape, 4.0), np.broadcast_to([11.0, 7.0], pulls.shape).copy())
    plan = BatchPlan(pulls, np.ones((70, 70), dtype=np.bool_))
    before = rule.fold(problem, rule.start(problem, (70, 70)), plan, first)
    after = rule.fold(problem, before, plan, Batch(pulls, events))
    factor = np.exp(after.wealth.gains[..., 0] - before.wealth.gains[..., 0])  # against "arm 0 has the lowest rate"
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    mean = float((chances * factor).sum())
    assert mean <= 1 + 1e-9
    assert factor.std() > 0.1  # something is bet
    if rates[0] == rates[1]:
        assert mean > 0.99


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "rates"),
    [
        (BestArm(lower_is_better=True), [2.0, 2.0 + 1e-6]),
        (BestArm(lower_is_better=True), [0.5, 0.5 + 1e-6, 0.5 + 1e-6]),
        (TopK(2, lower_is_better=True), [1.0, 2.0, 2.0 + 1e-6, 2.0 + 1e-6]),
        (Above(2.0, lower_is_better=True), [2.0 - 1e-6, 2.0 + 1e-6]),
        (Statements.against_control(3, 0, lower_is_better=True), [2.0, 2.0 + 1e-6, 2.0 + 1e-6]),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_error_with_counts(question, rates):
    """Ties: of 3000 runs at delta = 10 % more than 350 wrong ones have a probability of 1e-3 or less."""
    (found,) = simulate(question, PoissonArms(rates), [Wager()], runs=3000, delta=0.1, seed=2, max_samples=4000)
    assert (found.decided & ~found.correct).sum() <= 350
    (clear,) = simulate(question, PoissonArms([1.0, *[4.0] * (len(rates) - 1)]), [Wager()], runs=20, max_samples=1e5)
    assert clear.correct.all() or question.number_sought == 2


# --- studies -----------------------------------------------------------------------------------------------


def told(study, draws, centre):
    """Every round that is asked for, from the same rows or from their mirror image; what was asked and decided."""
    asked, rng = [], np.random.default_rng(7)
    while (round_ := study.ask()) is not None and len(asked) < 12:
        asked.append(round_.pulls.tolist())
        arms = [arm for arm, pulls in zip(round_.arms, round_.pulls, strict=True) for _ in range(int(pulls))]
        values = [draws[arm](rng) for arm in arms]
        values = values if centre is None else [centre - each for each in values]
        study.tell({"arm": arms, "outcome": values})
    return asked, study.report()


ROWS = {
    "normal": (Gaussian(0.5), 0.0, lambda mean: lambda rng: round(rng.normal(mean, 0.5), 3)),
    "spread not known": (Normal(), 0.0, lambda mean: lambda rng: round(rng.normal(mean, 0.5), 3)),
    "0/1": (Binary(), 1.0, lambda mean: lambda rng: float(rng.random() < 0.2 + 0.6 * mean)),
    "a range": (
        Bounded(-1.0, 1.0),
        0.0,
        lambda mean: lambda rng: float(rng.integers(-8, 9) / 20 + mean / 2),
    ),  # points of the table
}


@pytest.mark.long
@pytest.mark.parametrize(("rows", "number"), diagonals(ROWS, [0, 2, 4, 6, 8, 10], 3))
def test_a_study_of_mirrored_rows_goes_the_same_way(tmp_path, rows, number):
    noise, centre, law = ROWS[rows]
    names, means = ["a", "b", "c", "d"], [0.1, 0.9, 0.5, 0.2]
    question, mirror = asked(centre, *((0.2, 0.8) if rows == "0/1" else (0.0, 0.5)))[number]
    found = []
    for name, each, about in (("up", question, None), ("down", mirror, centre)):
        url = f"sqlite:///{tmp_path}/{name}.db"
        limits = {"budget": 2000} if each.separate_claims else {}
        with create_study("s", question=each, arms=names, noise=noise, storage=url, seed=3, **limits) as study:
            found.append(told(study, dict(zip(names, map(law, means), strict=True)), about))
    (rounds, up), (mirrored_rounds, down) = found
    assert down.status == up.status
    if rows == "0/1":  # parts of sums of 0/1 results are drawn anew, so their mirror image is another draw
        assert up.answer == down.answer or question.names
        return
    assert mirrored_rounds == rounds
    assert [each.name for each in down.ranked] == [each.name for each in up.ranked]
    assert up.answer == down.answer or question.names  # statements and claims are named by their words
    for one, other in zip(up.arm_rows, down.arm_rows, strict=True):
        assert other.mean == pytest.approx(centre - one.mean)
        assert other.place == one.place
        for low, high in (("lower", "upper"), ("difference_lower", "difference_upper")):
            ends, mirrored_ends = (getattr(one, low), getattr(one, high)), (getattr(other, high), getattr(other, low))
            about = centre if low == "lower" else 0.0
            assert all(
                (a is None and b is None) or b == pytest.approx(about - a, abs=1e-6)
                for a, b in zip(ends, mirrored_ends, strict=True)
            )
        for gap in ("gap_to_best_lower", "gap_to_leader_lower", "gap_to_leader_upper"):
            assert getattr(other, gap) == pytest.approx(getattr(one, gap), abs=1e-6)
    for one, other in zip(up.claim_rows, down.claim_rows, strict=True):
        assert (other.shown, other.shown_at, other.below) == (one.shown, one.shown_at, one.below) or number in (4, 6)
        if number in (8, 10):
            assert other.lower == pytest.approx(one.lower, abs=1e-6)
            assert other.estimate == pytest.approx(one.estimate)


class TestReports:
    TIMES = {"O2": 30.0, "O3": 28.1, "LTO": 27.1}

    def study(self, tmp_path, question, **more):
        rng = np.random.default_rng(1)
        arms = [arm for arm in self.TIMES for _ in range(30)]
        more = {"noise": Gaussian(1.0), "unit": "s", "seed": 3} | more
        url = f"sqlite:///{tmp_path}/s.db"
        with create_study("s", question=question, arms=list(self.TIMES), storage=url, **more) as study:
            study.ask()
            study.tell({"arm": arms, "outcome": [self.TIMES[arm] + rng.normal() for arm in arms]})
            return study.report()

    def test_the_fastest(self, tmp_path):
        report = self.study(tmp_path, BestArm(lower_is_better=True))
        assert report.question_text == "Which of 3 arms has the lowest mean?"
        assert re.fullmatch(r"LTO is fastest: 27.\d s, at least 0.\d s \(\d.* %\) below O3", report.headline)
        assert [each.name for each in report.ranked] == ["LTO", "O3", "O2"]
        assert report.ranked[1].lift > 0
        assert "lift over the leader" in report.text()

    def test_below_a_control(self, tmp_path):
        question = Claims.against_control(list(self.TIMES), "O2", 0.5, lower_is_better=True)
        report = self.study(tmp_path, question, budget=90, round_size=90)
        assert report.question_text == "Which of 2 arms are below O2 by more than 0.5 s, each by itself?"
        assert re.fullmatch(
            r"Shown: O3 \(-\d.\d s, at least \d.\d s below\) and LTO \(-\d.\d s, at least \d.\d s below\)",
            report.headline,
        )
        arm = report.arm_rows[2]
        assert arm.difference_lower < arm.difference < arm.difference_upper < -0.5
        assert arm.lift_lower < arm.lift < arm.lift_upper < 0

    def test_below_a_level(self, tmp_path):
        report = self.study(tmp_path, Above(29.0, lower_is_better=True))
        assert re.fullmatch(r"Below 29 s: LTO \(27.\d s\) and O3 \(28.\d s\); above: O2 \(\d+.\d s\)", report.headline)

    def test_an_arm_leaves_and_another_joins(self, tmp_path):
        url = f"sqlite:///{tmp_path}/s.db"
        rng = np.random.default_rng(4)
        question = BestArm(lower_is_better=True)
        with create_study("s", question=question, arms=list("abc"), noise=Gaussian(1.0), storage=url, seed=1) as study:
            draws = {arm: lambda rng, at=at: rng.normal(at) for at, arm in enumerate("abcd")}
            rows = study.ask()
            arms = [arm for arm, n in zip(rows.arms, rows.pulls, strict=True) for _ in range(int(n))]
            study.tell({"arm": arms, "outcome": [draws[arm](rng) for arm in arms]})
            if study.report().status != "decided":
                study.drop_arm("c", why="it is slow")
                study.add_arm("d", why="a new one")
                _, report = told(study, draws, None)
                assert report.answer == "a"

    def test_a_time_is_fastest_a_price_cheapest(self):
        assert Units(False, unit="ms").lowest == "is fastest"
        assert Units(False, unit="$").lowest == "is cheapest"
        assert Units(False, unit="kg").lowest == "has the lowest mean"
        assert Units(True).lowest == "has the lowest rate"
        assert Units(False, 2, "$").value(-3.5) == "-$3.50"
        assert Units(False, 1, "kg").gap(3.5) == "3.5 kg"


def test_the_page_asks_for_the_direction():
    form = Form(question="best-arm", arms="a\nb", direction="lower", unit="s", noise="normal")
    assert form.asked() == BestArm(lower_is_better=True)
    assert form.spec().unit == "s"
    assert Form(question="claims", arms="a\nb", direction="lower").asked().lower_is_better


@pytest.mark.parametrize(
    "question",
    [
        BestArm(0.5, lower_is_better=True),
        TopK(2, lower_is_better=True),
        Above(0.5, lower_is_better=True),
        AnyAbove(0.5, lower_is_better=True),
        MinimumBelow(0.5),
        Claims.against_control(list("abcd"), "b", 0.1, lower_is_better=True),
        Claims.against_control(list("abcd"), "b", 1.5, scale="ratio", lower_is_better=True),
        Claims.against_control(list("abcd"), "b", 1.5, scale="odds-ratio", sides="two", lower_is_better=True),
        Statements.against_control(list("abcd"), "b", 0.1, lower_is_better=True),
    ],
    ids=lambda each: each.name,
)
def test_the_options_that_ask_it_on_the_command_line(roundwise, tmp_path, question):
    words = [*("new", "s", "-q", question.name), *question.cli_options("abcd"), "--arms", "a,b,c,d", "--binary"]
    url = f"sqlite:///{tmp_path}/s.db"
    roundwise(*words, "--storage", url)
    with load_study("s", storage=url) as study:
        assert to_spec(study.state.spec.question) == to_spec(question)
