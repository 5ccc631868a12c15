"""The base classes of questions: what follows from half-spaces is what the closed forms say; what a class must have."""

from dataclasses import dataclass

import numpy as np
import pytest

from roundwise import Above, BestArm, InputError, Largest, Problem, Question, Statements, TopK
from roundwise.model.spec import check_class
from roundwise.questions import HalfspaceQuestion, pairs
from roundwise.solvers.halfspaces import BinaryFamily, PoissonFamily

CLOSED = [
    BestArm(),
    BestArm(0.2),
    TopK(2),
    TopK(2, 0.2),
    Above(0.5),
    Above(0.5, 0.1),
    Statements.against_control(4, 1, 0.05),
    Statements.ranking(4, 0.1),
    Largest([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], tolerance=0.1),
]
every_question = pytest.mark.parametrize("question", CLOSED, ids=lambda each: f"{each.name} {each.tolerance}")
SIGMAS = np.array([1.0, 0.5, 2.0, 0.7])


def instances(seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, (6, 4)), rng.integers(1, 50, (6, 4)).astype(float)


@every_question
def test_half_spaces_give_what_the_closed_forms_give(question):
    means, counts = instances(1)
    np.testing.assert_allclose(
        HalfspaceQuestion.evidence(question, counts, means, 1.3), question.evidence(counts, means, 1.3), rtol=1e-9
    )
    for radius in (0.0, 0.01):
        alike = np.full(4, 2.0)
        one = HalfspaceQuestion.complexity_with_sigmas(question, means, radius, alike)
        other = question.complexity(means, radius, 2.0)
        np.testing.assert_allclose(one.value, other.value, rtol=1e-6)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-3)
        assert (HalfspaceQuestion.floor_with_sigmas(question, means, radius, alike) <= other.value * (1 + 1e-9)).all()
        one, other = (
            each.complexity_with_sigmas(*given, means, radius, SIGMAS)
            for each, given in ((HalfspaceQuestion, (question,)), (question, ()))
        )
        np.testing.assert_allclose(one.value, other.value, rtol=1e-6)
    for family in (BinaryFamily(), PoissonFamily()):
        one, other = (
            HalfspaceQuestion.family_complexity(question, means, family),
            question.family_complexity(means, family),
        )
        np.testing.assert_allclose(one.value, other.value, rtol=1e-5)


@every_question
def test_an_answer_is_right_just_where_its_half_spaces_hold(question):
    means, counts = instances(2)
    said = question.verdict(counts, means)
    np.testing.assert_array_equal(HalfspaceQuestion.correct(question, said, means), question.correct(said, means))
    others = question.answer(means[::-1])
    np.testing.assert_array_equal(HalfspaceQuestion.correct(question, others, means), question.correct(others, means))


@every_question
def test_the_verdict_has_the_most_evidence(question):
    means, counts = instances(3)
    chosen, generic = question.verdict(counts, means), HalfspaceQuestion.verdict(question, counts, means)
    np.testing.assert_array_equal(chosen, generic)


@dataclass(frozen=True)
class Beats(HalfspaceQuestion):
    """Which of the first two arms is better, by more than a level? An own question with a required field."""

    level: float
    name = "beats"

    def answer(self, means):
        return np.asarray(means)[..., 0] - np.asarray(means)[..., 1] > self.level

    def halfspaces(self, answer, arms):
        first = np.where(answer, 0, 1)[..., None]
        return pairs(first, 1 - first)._replace(offsets=np.where(answer, self.level, -self.level)[..., None])


def test_a_required_field_takes_no_default_from_the_base_class():
    with pytest.raises(TypeError, match="level"):
        Beats()
    question = Beats(0.25)
    assert (question.level, question.tolerance, question.names) == (0.25, 0.0, ())
    assert question.complexity([1.0, 0.25, 9.0]).value == pytest.approx(8 / 0.5**2)
    assert question.answer_text(question.answer([1.0, 0.0]), ["a", "b"]) == "yes"
    assert question.answer_to_json(question.answer([1.0, 0.0])) is True


def test_what_is_no_question_is_refused_in_one_sentence():
    class Duck:
        name = "duck"

    with pytest.raises(InputError, match=r"^A 'Duck' is not a question: derive its class from roundwise\.Question\.$"):
        Problem(Duck(), 3)
    with pytest.raises(InputError, match=r"derive the class from roundwise\.Question"):
        check_class("question", Duck)


def test_what_a_question_lacks_is_said():
    class Half(Question):
        pass

    with pytest.raises(InputError, match="'Half' is not a question: .* `name`, `answer`, `complexity`, `evidence`"):
        check_class("question", Half)
    with pytest.raises(TypeError, match="abstract"):
        Half()
