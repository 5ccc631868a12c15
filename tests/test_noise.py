"""A noise model in one file: all that a user's own one needs, in simulations, bounds, results and checks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from expectations import disagreement
from roundwise import (
    PET,
    Above,
    BestArm,
    Bounded,
    DataError,
    InputError,
    MinimumBelow,
    Problem,
    Statements,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.environments import Replay
from roundwise.ingest import read_results
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.spec import from_spec, to_spec
from roundwise.noise import Noise, Outcome
from test_intervals import studied


@dataclass(frozen=True)
class Marks(Noise):
    """Whole marks from 0 to `most`, with the bets that half the range as sigma allows."""

    most: float
    name: ClassVar[str] = "marks"
    merges_arms: ClassVar[bool] = True

    @property
    def sigma(self):
        return self.most / 2

    @property
    def outcome(self):
        return Outcome(0.0, self.most, whole=True)

    @property
    def words(self):
        return f"Results are marks from 0 to {self.most:g}."


@dataclass(frozen=True)
class TrueMarks(Marks):
    """The same, where it is known what it follows from."""

    def doubt(self, true):
        return Bounded(0.0, self.most).doubt(true)


WORLD = Replay(("a", "b", "c"), np.arange(5.0), np.array([[1, 1, 2, 3, 5], [3, 2, 2, 1, 1], [5, 3, 2, 1, 1]]))
ASKED = [BestArm(), BestArm(0.5), TopK(1), Above(2.0), MinimumBelow(2.0), Statements([[1, 0, 1], [1, -1, 0]], [3, 0.5])]


@pytest.mark.parametrize("question", ASKED, ids=lambda question: question.name)
def test_a_model_of_ones_own_in_simulations(question):
    """It is what its bets are: the same numbers as with the built-in model it takes them from."""
    policies = [Wager(), PET()]
    own, built_in = (
        simulate(question, WORLD, policies, runs=50, noise=noise, seed=3)
        for noise in (TrueMarks(4.0), SubGaussian(2.0))
    )
    for one, other in zip(own, built_in, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        np.testing.assert_array_equal(one.answer, other.answer)
        assert (one.doubt, one.bound_for) == (other.doubt, other.bound_for)
    assert own[0].doubt is None
    assert own[0].decided.all()


def test_what_may_be_assumed():
    assert Marks(4.0).doubt(Marks(4.0)) is None
    assert Marks(4.0).doubt(WORLD.noise) == Reason("wrong_noise_model")
    assert TrueMarks(4.0).doubt(WORLD.noise) is None
    assert TrueMarks(3.0).doubt(WORLD.noise) == Reason("out_of_range")
    assert SubGaussian(2.0).doubt(Marks(4.0)) is Bounded(0.0, 5.0).doubt(Marks(4.0)) is None
    assert to_spec(Marks(4.0)) == {"name": "test_noise:Marks", "most": 4.0}
    assert from_spec("noise", to_spec(Marks(4.0))) == Marks(4.0)


def test_the_range_of_its_means_is_known():
    with pytest.raises(InputError, match="means"):
        Problem(Above(5.0), 3, 0.1, Marks(4.0))
    problem, policy = Problem(BestArm(), 3, 0.1, Marks(4.0)), Wager(first_pulls=8)
    trial, batches = studied(problem, WORLD, policy, 1, most=1)
    lower, upper = policy.stopping.bounds(problem, trial.record, batches).means()
    assert ((lower >= 0) & (lower < upper) & (upper <= 4)).all()
    assert (lower == 0).any()


def test_do_its_batches_agree():
    counts = np.full(3, 400.0)
    near, far = Batch(counts, counts * [2.0, 1.0, 1.0]), Batch(counts, counts * [2.0, 1.0, 3.0])
    problem = Problem(BestArm(), 3, 0.1, Marks(4.0))
    assert disagreement(problem, [near, near, near], True).chance == pytest.approx(1.0)
    found = disagreement(problem, [near, near, far], True)
    assert found.chance < 1e-3
    assert (found.arm, found.batch) == (2, 3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("arm,outcome\na,3\na,5\n", "line 3"),
        ("arm,outcome\na,3\na,1.5\n", "line 3"),
        ("arm,count,total\na,5,21\n", "number"),
        ("arm,count,total\na,5,1.5\n", "number"),
    ],
)
def test_results_that_cannot_be(lines, message, tmp_path):
    (tmp_path / "results.csv").write_text(lines)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path / "results.csv", "abc", Marks(4.0))


def test_results_of_a_range_with_one_end(tmp_path):
    @dataclass(frozen=True)
    class Waits(Marks):
        outcome = Outcome(low=0.0)

    path = tmp_path / "results.csv"
    for lines, message in (
        ("arm,outcome\na,-1\n", "arm"),
        ("arm,count,total\na,0,0\na,5,-1\n", "results"),
    ):
        path.write_text(lines)
        with pytest.raises(DataError, match=message):
            read_results(path, "abc", Waits(4.0))
    path.write_text("arm,count,total\na,0,0\na,5,1.5\n")
    assert read_results(path, "abc", Waits(4.0)).totals.tolist() == [1.5, 0, 0]
