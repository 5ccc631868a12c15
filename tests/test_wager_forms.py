"""Forms of any shape, with every noise model: who is bet on how, alone or among others, and that errors are kept.

`kept` is an exact binomial test that fails where the promise holds with probability at most 1e-5; seeds are fixed.
"""

import numpy as np
import pytest

from roundwise import (
    Binary,
    Bounded,
    EqualVariances,
    Gaussian,
    Largest,
    Normal,
    Poisson,
    Problem,
    Statements,
    SubGaussian,
    Wager,
    simulate,
)
from roundwise.arrays import tree_map
from roundwise.environments import PoissonArms
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.noise import gaussian
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.solvers.halfspaces import Halfspaces
from test_wager import binary, bounded, kept, normal, play, poisson, same

DELTA = 0.05
OFFSETS = Largest([[0, 0], [1, 0], [0, 1]], offsets=[0, -1.5, -0.5])  # candidates of one arm, and of two
SUMS = Largest([[1, 1, 0, 0], [0, 0, 1, 1]])
OVERLAPPING = Largest([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]])  # pairs for the first candidate, more for the others
MIXED = Statements([[1, -1, 0, 0], [0, 0, 2, 0], [1, 1, -1, -1], [0, 1, 0, -3]], [0.1, 0.2, 0.3, -1.0])
WORLDS = {
    "sub-Gaussian": (SubGaussian(1.0), normal),
    "exactly Gaussian": (Gaussian(1.0), normal),
    "unknown variance": (Normal(), normal),
    "rates": (Binary(), binary),
    "bounded": (Bounded(0.0, 1.0), lambda means: bounded(len(means))),
    "counts": (Poisson(), poisson),
}


def rejections(wrong):
    """Whether, for any candidate, a piece lost that is true of the world; `wrong` says which pieces of an answer are.

    One piece for each answer is looked at, so its probability is at most delta.
    """

    def event(trial):
        won = trial.kept.wealth
        here = np.apply_along_axis(wrong, -1, won.answers)
        lost = np.take_along_axis(won.rejected, np.maximum(here, 0)[..., None], axis=-1)[..., 0]
        return (lost & (here >= 0)).any(axis=-1)

    return event


class TestCounts:
    """Every form of Poisson rates has a bet, whichever candidate it comes from."""

    def test_scores_with_offsets(self):
        """A hole that was: 1862 of these 2000 were wrong, because a pair was taken for a single arm."""
        (runs,) = simulate(OFFSETS, PoissonArms([4, 3.01]), [Wager()], runs=2000, delta=DELTA, max_batches=16)
        assert kept(int((runs.decided & ~runs.correct).sum()), 2000, DELTA)
        assert (runs.decided & runs.correct).sum() > 1000

    @pytest.mark.long
    @pytest.mark.parametrize("means", [[4.0, 3.0], [1.5, 0.5], [0.2, 0.5], [1.5, 0.1]])
    def test_scores_at_a_tie(self, means):
        """Scores that tie: candidate by candidate, the piece against another of the largest is a true null."""
        scores = OFFSETS.forms @ means + OFFSETS.offsets
        best = np.flatnonzero(scores > scores.max() - 1e-12)
        assert len(best) > 1

        def wrong(answer):
            if answer[0] < 0:
                return -1
            rival = next(j for j in best if j != answer[0])
            return rival - (rival > answer[0])

        problem = Problem(OFFSETS, 2, DELTA, Poisson())
        ended = play(problem, Wager(first_pulls=10), poisson(np.array(means)), 2000, 10, 1, rejections(wrong))
        assert kept(int(ended.happened.sum()), 2000, DELTA)

    def test_sums_of_arms(self):
        """A gap of 2 was never decided; a tie must not be."""
        (runs,) = simulate(SUMS, PoissonArms([3, 3, 2, 2]), [Wager()], runs=200, delta=DELTA, max_batches=30)
        assert runs.correct.all()
        problem = Problem(SUMS, 4, DELTA, Poisson())
        tie = play(problem, Wager(first_pulls=10), poisson(np.array([0.5, 2.5, 2.0, 1.0])), 2000, 10, 1)
        assert kept(int(tie.done.sum()), 2000, DELTA)

    @pytest.mark.long
    def test_forms_of_every_shape_in_one_question(self):
        """At equality of all statements nothing is decided; off it, everything, and rightly."""
        question = Statements([[1, -1, 0], [0, 0, 2], [1, 1, -1], [0, 1, -2]], [0.5, 1.0, 1.5, -0.25])
        problem, policy = Problem(question, 3, DELTA, Poisson()), Wager(first_pulls=10)
        edge = play(problem, policy, poisson(np.array([1.25, 0.75, 0.5])), 2000, 8, 1, rejections(lambda answer: 2))
        assert kept(int(edge.happened.sum()), 2000, DELTA)
        away = play(problem, policy, poisson(np.array([2.5, 0.5, 1.0])), 100, 20, 1)
        assert away.done.all()
        assert (away.answer == [True, True, True, False]).all()

    def test_what_the_range_of_rates_makes_certain_is_shown(self):
        """A score that cannot be largest, and a rate above 0: no level lies there, but the bet on forms does."""
        question = Largest([[0, 0], [1, 0], [-1, 0]], offsets=[-1.0, 0.0, 0.5])
        ended = play(Problem(question, 2, DELTA, Poisson()), Wager(), poisson(np.array([2.0, 1.0])), 50, 20, 1)
        assert ended.done.all()
        assert (ended.answer == 1).all()

    def test_a_form_needs_no_rows_of_the_arms_that_do_not_count(self):
        problem = Problem(Statements([[1, 1, 0], [1, 0, 0]], [1.0, 1.0]), 3, DELTA, Poisson())
        rule, some = EProcessRule(), Batch(np.array([40.0, 40.0, 0.0]), np.array([80.0, 60.0, 0.0]))
        kept_after = rule.fold(problem, rule.start(problem, ()), Wager().first(problem, ()), some)
        kept_after = rule.fold(problem, kept_after, Wager().first(problem, ()), some)
        assert kept_after.wealth.rejected[0].all()


class TestOneNormal:
    """A statement about one arm has that arm's own deviation, as `Above` has."""

    DEVIATIONS = np.r_[3.0, np.full(9, 0.1)]

    @pytest.mark.long
    @pytest.mark.parametrize("first", [8, 30])
    def test_levels_and_unequal_deviations(self, first):
        """A hole that was: pooled with nine others, the arm of deviation 3 looked thirty times as precise."""
        problem = Problem(Statements(np.eye(10), np.zeros(10)), 10, DELTA, EqualVariances())
        means = np.r_[0.0, np.full(9, 0.05)]
        world = normal(means, sigma=self.DEVIATIONS)
        true = rejections(lambda answer: 0)  # the first arm is on its level
        ended = play(problem, Wager(first_pulls=first), world, 2000, 8, 1, true)
        assert kept(int(ended.happened.sum()), 2000, DELTA)

    @pytest.mark.long
    def test_pooled_deviations_would_be_caught(self, monkeypatch):
        """The negative control: the same world with the deviation that forms of several arms have."""

        def pooled(self, form, value, leverage):
            run = form.places[0][0] % self.data.counts.shape[-1]
            scatter, freedom = (each.sum(axis=1).take(run, axis=1) for each in self._within)
            return gaussian.student_factor(value, leverage * scatter / freedom, freedom)

        monkeypatch.setattr(gaussian._PooledPartBets, "forms", pooled)
        with pytest.raises(AssertionError):
            self.test_levels_and_unequal_deviations(30)

    def test_it_ends(self):
        problem = Problem(Statements(np.eye(3), np.zeros(3)), 3, DELTA, EqualVariances())
        means = np.array([1.0, 0.1, -0.1])
        ended = play(problem, Wager(), normal(means, sigma=np.array([3.0, 0.1, 0.1])), 100, 30, 1)
        assert ended.done.all()
        assert (ended.answer == [True, True, False]).mean() > 0.9


class TestAlone:
    """A run's bets are the same alone as among others, whatever candidates those have."""

    @pytest.mark.long
    @pytest.mark.parametrize("question", [OVERLAPPING, MIXED, SUMS], ids=["overlapping", "mixed", "sums"])
    @pytest.mark.parametrize("name", WORLDS)
    def test_a_run_among_others(self, name, question):
        noise, world_of = WORLDS[name]
        problem, policy = Problem(question, 4, DELTA, noise), Wager(first_pulls=9)
        world = world_of(np.array([0.4, 0.42, 0.38, 0.41]))
        rng, runs = np.random.default_rng(3), 12
        together = begin(problem, policy, (runs,))
        alone = [begin(problem, policy) for _ in range(runs)]
        for r in range(3):
            batch = world(rng, together.plan, r)
            together = advance(problem, policy, together, batch)
            alone = [
                advance(problem, policy, trial, tree_map(lambda array, i=i: array[i], batch))
                for i, trial in enumerate(alone)
            ]
        if question is OVERLAPPING:
            assert len(np.unique(together.kept.alternative.answer)) > 1
        for i, trial in enumerate(alone):
            many = trial.kept.wealth.gains.shape[0]
            won = tree_map(lambda array, i=i: array[i], together.kept.wealth)
            same(tree_map(lambda array, many=many: array[:many] if array.ndim else array, won), trial.kept.wealth)
            same(tree_map(lambda array, i=i: array[i], together.plan.pulls), trial.plan.pulls)


def test_every_candidate_of_every_question_has_its_forms_packed_alike():
    """The layout of half-spaces depends on the question alone, and says what the question says."""
    for question in (OFFSETS, SUMS, OVERLAPPING, MIXED, Largest(np.eye(3)), Statements.ranking(4)):
        size = question.forms.shape[1]
        rng = np.random.default_rng(1)
        means = rng.normal(0, 1, (200, size))
        packed = [question.halfspaces(question.answer(each), size) for each in means]
        assert len({pieces.arms.shape for pieces in packed}) == 1
        for each, pieces in zip(means, packed, strict=True):
            assert isinstance(pieces, Halfspaces)
            values = (pieces.coefficients * each[pieces.arms]).sum(axis=-1) - pieces.offsets
            assert (values > 0).all()  # the answer is right where its own forms exceed their offsets
