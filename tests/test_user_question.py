"""A question of a user's own, as one class and nothing else: it is planned for, decided, reported and bounded."""

from dataclasses import dataclass

import numpy as np
import pytest

from roundwise import PET, BestArm, Gaussian, GaussianArms, Problem, Statements, TopK, Wager, simulate
from roundwise.calibration.live import InMemoryStudy, NullStore
from roundwise.questions import Complexity, HalfspaceQuestion, Halfspaces, pairs
from roundwise.questions.base import describe_halfspaces
from roundwise.rules.eprocess.candidates import CandidateEProcess
from roundwise.rules.eprocess.rule import eprocess_for
from roundwise.study.spec import StudySpec
from roundwise.study.state import State
from roundwise.study.study import Study
from roundwise.theory.bounds import centre, hardest_corner, overview, scaling_error
from test_study import World


@dataclass(frozen=True)
class Podium(HalfspaceQuestion):
    """Which arm is first, and which second? The answer is their two indices."""

    name = "podium"

    def answer(self, means):
        return np.argsort(-np.asarray(means), axis=-1, kind="stable")[..., :2]

    def halfspaces(self, answer, arms):
        """The first exceeds the second, which exceeds all others."""
        first, second = answer[..., :1], answer[..., 1:]
        others = np.arange(arms - 1)
        others = others + (others >= first)
        return pairs(np.where(others == second, first, second), others)

    def answer_text(self, answer, names):
        return f"{names[int(answer[0])]} is first and {names[int(answer[1])]} second"


MEANS = [0.1, 1.5, 0.2, 0.8]


class InMemory(InMemoryStudy):
    """A study whose settings were never written down."""

    def __init__(self, settings):
        Study.__init__(self, "podium", NullStore())
        self._now = State("podium", settings, "today")


def test_it_is_simulated_with_bets_and_with_the_papers_rule():
    wager, pet = simulate(Podium(), GaussianArms(MEANS), [Wager(), PET()], runs=60, delta=0.1)
    for runs in (wager, pet):
        assert runs.decided.all()
        assert runs.correct.mean() > 0.9
        assert (runs.answer[runs.correct] == [1, 3]).all()
    assert wager.samples.mean() < pet.samples.mean()


def test_its_ledger_is_that_of_candidates():
    ledger = eprocess_for(Problem(Podium(), 4))
    assert isinstance(ledger, CandidateEProcess)
    assert ledger.shifts  # it compares arms


def test_its_complexity():
    """With two arms it is best arm; with more, never easier than best arm or the top two."""
    means = np.array(MEANS)
    found = Podium().complexity(means)
    assert isinstance(found, Complexity)
    assert found.value >= max(each.complexity(means).value for each in (BestArm(), TopK(2)))
    same = Statements(Podium().halfspaces(Podium().answer(means), 4).dense(4), np.zeros(3)).complexity(means)
    np.testing.assert_allclose(found.value, same.value, rtol=1e-9)
    np.testing.assert_allclose(Podium().complexity(means[:2]).value, BestArm().complexity(means[:2]).value, rtol=1e-8)


def test_its_bounds():
    """All follow from its half-spaces: the centre, the lower bound on batches, and what PET is promised to pay."""
    middle = centre(Podium(), MEANS)
    assert scaling_error(Podium(), MEANS, middle) < 1e-7
    assert hardest_corner(Podium(), MEANS, 0.01) is None  # the second arm is below one and above others
    found = overview(Problem(Podium(), 4), [0.001, 1.501, 0.0, 1.5], gamma=20.0)
    assert found.vacuous is None
    assert 1.5 < found.expected_batches < found.upper.batches
    assert found.sample_lower < found.upper.samples


@pytest.mark.long
@pytest.mark.parametrize("policy", [Wager(first_pulls=10, growth=1.0), PET()], ids=["wager", "pet"])
def test_it_has_a_live_study_and_a_report(policy):
    study = InMemory(
        StudySpec(question=Podium(), arms=("a", "b", "c", "d"), noise=Gaussian(1.0), delta=0.1, policy=policy, seed=1)
    )
    world = World(Gaussian(1.0), MEANS, seed=4)
    assert "first" not in study.report().headline
    while (asked := study.ask()) is not None:
        study.tell(world(asked.pulls))
        report = study.report()
        if isinstance(policy, Wager):
            assert len(report.claim_rows) == 3
            assert [claim.shown for claim in report.claim_rows] == [claim.margins > 0 for claim in report.claim_rows]
        assert all(arm.lower <= arm.mean <= arm.upper for arm in report.arm_rows)
    assert (report.status, report.answer, report.headline) == ("decided", ["b", "d"], "b is first and d second")
    assert report.guarantee.status == "kept"
    if isinstance(policy, Wager):
        assert [claim.claim for claim in report.claim_rows] == ["d beats a", "d beats c", "b beats d"]
    assert "b is first and d second" in report.html()


def test_forms_that_compare_nothing_have_words():
    pieces = Halfspaces(np.array([[2, 0], [1, 0]]), np.array([[-1.0, 0.5], [1.0, 0.0]]), np.array([0.0, -0.25]), False)
    assert describe_halfspaces(pieces, ("x", "y", "z")) == ["-1 z +0.5 x exceeds 0", "+1 y exceeds -0.25"]
