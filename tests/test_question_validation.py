"""What a question says: its words, its pieces, and one sentence for every mistake."""

import numpy as np
import pytest

from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.noise import Binary, Bounded, Gaussian, SubGaussian
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Statements, TopK
from strategies import (
    HALF_SPACES,
    example,
    halfspaces,
)

# --- names, words, pieces ----------------------------------------------------------------------------------


def test_words_and_plain_answers():
    names = ["red", "green", "blue"]
    means = [1.0, 0.2, 0.9]
    cases = [
        (BestArm(), "best-arm", "red is the best arm", 0),
        (TopK(2), "top-k", "the top 2: red, blue", [0, 2]),
        (Above(0.5), "above", "above 0.5: red, blue", [0, 2]),
        (Above(5), "above", "above 5: none", []),
        (MinimumBelow(0.5), "minimum-below", "the smallest mean is below 0.5", True),
        (MinimumBelow(0.1), "minimum-below", "the smallest mean is not below 0.1", False),
        (AnyAbove(0.5), "any-above", "some mean is above 0.5", True),
        (AnyAbove(5), "any-above", "no mean is above 5", False),
        (
            Statements.against_control(3, 1, 0.75),
            "statements",
            "statements that hold: 0 beats 1 by more than 0.75",
            [0],
        ),
        (Statements.ranking(3), "statements", "statements that hold: 0 above 1, 0 above 2", [0, 1]),
        (Statements([[0, 1, 0]], [5.0], ("much green",)), "statements", "statements that hold: none", []),
    ]
    for question, name, words, plain in cases:
        answer = question.answer(means)
        assert question.name == name
        assert question.answer_text(answer, names) == words
        assert question.answer_to_json(answer) == plain
    pair = Largest([[1, 1, 0], [0, 1, 1]], names=("first two", "last two"))
    assert "first two" in pair.answer_text(pair.answer(means), names)
    assert pair.answer_to_json(pair.answer(means)) == 0
    assert (
        Largest([[1, 1, 0], [0, 1, 1]], [0.0, 9.0]).answer_to_json(
            Largest([[1, 1, 0], [0, 1, 1]], [0.0, 9.0]).answer(means)
        )
        == 1
    )


@pytest.mark.parametrize("kind", HALF_SPACES, ids=lambda kind: kind.label)
def test_pieces_bound_the_half_spaces(kind):
    if kind.label in ("minimum-not-below", "none-above"):
        assert kind.make(4, None).pieces(4) is None
        return
    for seed in range(5):
        question, means, _, _ = example(kind, 5, seed)
        normals, _ = halfspaces(question, means)
        number, support = question.pieces(5)
        assert number >= len(normals)
        assert support >= np.count_nonzero(normals, axis=1).max()
    counted = {"best-arm": (4, 2), "top-2": (6, 2), "above": (5, 1), "ranking": (10, 2), "against-control": (4, 2)}
    assert question.pieces(5) == counted.get(kind.label, question.pieces(5))


# --- errors ------------------------------------------------------------------------------------------------

SQUARE = np.eye(3)
MISTAKES = [
    (lambda: SubGaussian(0), "sigma"),
    (lambda: SubGaussian(-1.5), "sigma"),
    (lambda: Gaussian(float("nan")), "sigma"),
    (lambda: Gaussian(float("inf")), "sigma"),
    (lambda: Bounded(1, 1), "range"),
    (lambda: Bounded(2, 1), "range"),
    (lambda: Bounded(0, float("inf")), "range"),
    (lambda: Bounded(float("nan"), 1), "range"),
    (
        lambda: Problem(BestArm(), 3, delta=5),
        "delta",
    ),
    (lambda: Problem(BestArm(), 3, delta=0), "delta"),
    (
        lambda: Problem(BestArm(), 3, delta=1),
        "delta",
    ),
    (lambda: Problem(BestArm(), 3, delta=-0.1), "delta"),
    (lambda: Problem(BestArm(), 3, delta=100), "delta"),
    (lambda: Problem(BestArm(), 3, delta=float("nan")), "delta"),
    (lambda: Problem(BestArm(), 1), "arms"),
    (lambda: Problem(Above(0), 0), "arms"),
    (lambda: Problem(MinimumBelow(0), 1), "arms"),
    (lambda: Problem(AnyAbove(0), 1), "arms"),
    (lambda: Problem(TopK(1), 1), "arms"),
    (lambda: Problem(TopK(3), 3), "arms"),
    (lambda: Problem(TopK(7), 3), "arms"),
    (
        lambda: Problem(Statements(SQUARE, [0, 0, 0]), 4),
        "coefficients",
    ),
    (lambda: Problem(Largest(SQUARE), 2), "coefficients"),
    (lambda: TopK(0), "k"),
    (lambda: TopK(-2), "k"),
    (lambda: TopK(1.5), "k"),
    (lambda: Above(float("nan")), "level"),
    (lambda: MinimumBelow(float("inf")), "level"),
    (lambda: AnyAbove(float("-inf")), "level"),
    (
        lambda: Statements(SQUARE, [0, 0]),
        "level",
    ),
    (lambda: Statements(SQUARE, [0, 0, np.nan]), "levels"),
    (
        lambda: Statements([[1, 0], [0, 0]], [0, 0], ("fair", "idle")),
        "'idle'",
    ),
    (
        lambda: Statements([[1, 0], [0, 0]], [0, 0]),
        "'statement 1'",
    ),
    (lambda: Statements([[1, 0], [1]], [0, 0]), "arm"),
    (
        lambda: Statements([], []),
        "arms",
    ),
    (
        lambda: Statements([[1], [1]], [0, 0]),
        "arms",
    ),
    (
        lambda: Statements([1, 0], [0]),
        "arms",
    ),
    (lambda: Statements([[1, np.inf]], [0]), "coefficients"),
    (lambda: Statements(SQUARE, [0] * 3, ("a",)), "names"),
    (
        lambda: Statements(SQUARE, [0] * 3).complexity([1.0, 2.0]),
        "coefficients",
    ),
    (lambda: Largest([[1, 0]]), "'largest'"),
    (lambda: Largest(SQUARE, [0, 0]), "offset"),
    (lambda: Largest(SQUARE, [0, 0, np.inf]), "offset"),
    (
        lambda: Largest([[1, 0], [0, 1], [1, 0]], names=("a", "b", "c")),
        "'c'",
    ),
    (lambda: Largest([[1, 0], [1]]), "arm"),
    (lambda: Largest([[1, np.nan], [0, 1]]), "coefficients"),
    (lambda: Largest(SQUARE, names=("a", "b")), "names"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_refused(mistake, message):
    with pytest.raises(InputError, match=message):
        mistake()


ASKED = [BestArm(), TopK(1), Above(0.5), MinimumBelow(0.5), AnyAbove(0.5), Statements(SQUARE, [0] * 3), Largest(SQUARE)]


@pytest.mark.parametrize("question", ASKED, ids=lambda question: question.name)
def test_means_that_cannot_be_used(question):
    calls = [question.answer, question.complexity, question.floor, lambda m: question.evidence(np.ones(np.shape(m)), m)]
    for call in calls:
        for bad in (np.nan, np.inf, -np.inf):
            with pytest.raises(InputError, match="means"):
                call([0.0, bad, 1.0])
            with pytest.raises(InputError, match="means"):
                call([[0.0, 0.5, 1.0], [0.0, bad, 1.0]])
        for bad in ([1.0], 1.0, []):
            with pytest.raises(InputError, match="arms"):
                call(bad)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: TopK(float("nan")),
        lambda: TopK(float("inf")),
        lambda: Statements.against_control(3, control=5),
    ],
    ids=["k is NaN", "k is infinite", "no such control"],
)
def test_mistakes_that_should_be_input_errors(mistake):
    with pytest.raises(InputError):
        mistake()


def test_a_whole_number_may_be_a_float():
    assert TopK(2.0).answer([0.2, 1.0, 0.9]).tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_any_above_of_whole_numbers(dtype):
    assert AnyAbove(0.5).answer(np.array([0, 1], dtype=dtype))


def test_top_k_of_too_few_means():
    for call in (TopK(3).answer, TopK(3).complexity, TopK(3).floor, lambda m: TopK(3).evidence([1, 1, 1], m)):
        with pytest.raises(InputError, match="k"):
            call([1.0, 2.0, 3.0])


def test_noise():
    assert SubGaussian(2).sigma == 2
    assert Gaussian().sigma == 1
    assert Bounded(-1, 3).sigma == 2  # Hoeffding's lemma: half the range
    assert Binary().sigma == Bounded(0, 1).sigma == 0.5
    assert Problem(BestArm(), 2).sigma == 1
    assert Problem(BestArm(), 2, noise=Binary()).sigma == 0.5


@pytest.mark.parametrize("question", [BestArm(), BestArm(0.1), TopK(1), Above(0.4), MinimumBelow(0.1), AnyAbove(1.2)])
def test_runs_are_broadcast(question):
    """A radius for each run, counts for each run, means for each run: whatever has fewer axes is repeated."""
    means, counts = np.array([1.0, 0.5, 0.2]), np.array([[10.0, 20.0, 30.0], [1.0, 2.0, 3.0]])
    for radius in ([0.0, 0.0], [0.0, 0.01], [0.0]):
        found = question.complexity(means, radius)
        assert found.weights.shape == (len(radius), 3)
        for one, each in zip(found.value, radius, strict=True):
            assert one == question.complexity(means, each).value
    np.testing.assert_array_equal(question.evidence(counts, means), [question.evidence(n, means) for n in counts])
    several = np.stack([means, means[::-1]])
    np.testing.assert_array_equal(
        question.evidence(counts[0], several), [question.evidence(counts[0], each) for each in several]
    )
