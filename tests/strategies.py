"""Examples of every question, and what each question means, written from its definition and not from the code.

A question cuts the space of means into cells, one for each answer. `reference_answer` names the cell of a point
in plain Python; `other_cells` lists the closed cells of all other answers as polyhedra; `halfspaces` lists the
pieces of docs/paper.md, for the questions that have them, also for many arms.
"""

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from roundwise.questions import Above, AnyAbove, BestArm, BestGroup, Largest, MinimumBelow, Statements, TopK
from roundwise.questions.base import finite
from roundwise.questions.levels import LevelQuestion
from roundwise.solvers import divergence

LEVEL = 0.25
law = settings(deadline=None, derandomize=True, max_examples=60)


@dataclass(frozen=True)
class Kind:
    """One way to ask a question of so many arms."""

    label: str
    make: Callable  # (arms, rng) -> question
    fewest: int = 2
    most: int = 50  # arms that a test of many cases can afford
    solved: bool = False  # whether T* comes from the iterative solver (weights then are right to about 1e-4)


def _dense(arms, rng):
    return rng.normal(size=(4, arms))


def _groups(arms, rng):
    """Averages of overlapping groups of arms."""
    forms = np.eye(arms) + np.roll(np.eye(arms), 1, axis=1) * 0.7
    return forms[: max(2, arms - 1)]


KINDS = [
    Kind("best-arm", lambda arms, rng: BestArm()),
    Kind("top-1", lambda arms, rng: TopK(1), solved=True),
    Kind("top-2", lambda arms, rng: TopK(2), fewest=3, solved=True),
    Kind("top-half", lambda arms, rng: TopK(arms // 2), most=20, solved=True),
    Kind("all-but-one", lambda arms, rng: TopK(arms - 1), solved=True),
    Kind("above", lambda arms, rng: Above(LEVEL)),
    Kind("minimum-below", lambda arms, rng: MinimumBelow(LEVEL)),
    Kind("minimum-not-below", lambda arms, rng: MinimumBelow(-9.0)),
    Kind("any-above", lambda arms, rng: AnyAbove(LEVEL)),
    Kind("none-above", lambda arms, rng: AnyAbove(9.0)),
    Kind("dense-statements", lambda arms, rng: Statements(_dense(arms, rng), rng.normal(size=4)), solved=True),
    Kind("against-control", lambda arms, rng: Statements.against_control(arms, arms // 2, 0.1), solved=True),
    Kind("ranking", lambda arms, rng: Statements.ranking(arms), most=8, solved=True),
    Kind("largest-arm", lambda arms, rng: Largest(np.eye(arms), rng.normal(size=arms) / 3), most=20, solved=True),
    Kind("largest-dense", lambda arms, rng: Largest(_dense(arms, rng), rng.normal(size=4)), solved=True),
    Kind("largest-group", lambda arms, rng: Largest(_groups(arms, rng)), most=20, solved=True),
]
KINDS.append(Kind("best-group", lambda arms, rng: BestGroup(("a", "b", *rng.choice(list("abc"), arms - 2)))))
BY_LABEL = {kind.label: kind for kind in KINDS}
HALF_SPACES = [kind for kind in KINDS if kind.label not in ("minimum-below", "any-above", "best-group")]


def example(kind, arms, seed):
    """A question, means and counts; reproducible."""
    rng = np.random.default_rng([seed, arms])
    question = kind.make(arms, rng)
    means = rng.normal(size=arms) + rng.choice([0.0, 0.0, 2.0, -2.0])
    return question, means, np.ceil(10.0 ** rng.uniform(0, 4, arms)), rng


@st.composite
def examples(draw, most=50):
    """(kind, question, means, counts, rng) for any kind of question and number of arms."""
    kind = draw(st.sampled_from(KINDS))
    arms = draw(st.integers(kind.fewest, min(most, kind.most)))
    return kind, *example(kind, arms, draw(st.integers(0, 10**6)))


# --- changes of a question that change its quantities in a known way ---------------------------------------


def permuted(question, order):
    """The question to ask of means[order]."""
    if isinstance(question, Statements):
        return Statements(question.forms[:, order], question.levels)
    if isinstance(question, Largest):
        return Largest(question.forms[:, order], question.offsets)
    if isinstance(question, BestGroup):
        return BestGroup(tuple(question.groups[i] for i in order))
    return question


def permuted_answer(question, answer, order):
    """What the answer becomes when the arms are put in another order."""
    if isinstance(question, BestArm):
        return list(order).index(int(answer))
    if isinstance(question, TopK | Above):
        return np.asarray(answer)[order]
    if isinstance(question, BestGroup):
        return permuted(question, order).names.index(question.names[int(answer)])
    return answer


def scaled(question, factor):
    """The question to ask of factor * means: its levels are in the same units."""
    if isinstance(question, Statements):
        return Statements(question.forms, question.levels * factor)
    if isinstance(question, Largest):
        return Largest(question.forms, question.offsets * factor)
    if isinstance(question, Above | MinimumBelow | AnyAbove):
        return type(question)(question.level * factor)
    return question


# --- what a question means ---------------------------------------------------------------------------------


def reference_answer(question, point):
    """The answer at one point, in plain Python."""
    point = [float(x) for x in point]
    if isinstance(question, BestArm):
        return point.index(max(point))
    if isinstance(question, BestGroup):
        return question.names.index(question.groups[point.index(max(point))])
    if isinstance(question, TopK):
        ranked = sorted(range(len(point)), key=lambda i: (-point[i], i))
        return tuple(i in ranked[: question.k] for i in range(len(point)))
    if isinstance(question, Above):
        return tuple(x > question.level for x in point)
    if isinstance(question, MinimumBelow):
        return any(x < question.level for x in point)
    if isinstance(question, AnyAbove):
        return any(x > question.level for x in point)
    sides = [sum(a * x for a, x in zip(form, point, strict=True)) for form in question.forms.tolist()]
    if isinstance(question, Statements):
        return tuple(side > level for side, level in zip(sides, question.levels.tolist(), strict=True))
    scores = [side + offset for side, offset in zip(sides, question.offsets.tolist(), strict=True)]
    return scores.index(max(scores))


def as_reference(answer):
    """An answer of the library in the form of `reference_answer`."""
    answer = np.asarray(answer)
    return tuple(answer.tolist()) if answer.ndim else answer.item()


def other_cells(question, means):
    """The closed cells {x: G x >= h} of every answer but the one at `means`, as a list of (G, h). For few arms."""
    arms = len(means)
    one = np.eye(arms)
    here = reference_answer(question, means)
    if isinstance(question, BestArm):  # b is at least as large as every other arm
        return [
            (np.array([one[b] - one[c] for c in range(arms) if c != b]), np.zeros(arms - 1))
            for b in range(arms)
            if b != here
        ]
    if isinstance(question, BestGroup):  # b, an arm of another group, is at least as large as every other arm
        return [
            (np.array([one[b] - one[c] for c in range(arms) if c != b]), np.zeros(arms - 1))
            for b in range(arms)
            if question.names.index(question.groups[b]) != here
        ]
    if isinstance(question, TopK):  # every arm of another set is at least as large as every arm outside it
        found = []
        for chosen in itertools.combinations(range(arms), question.k):
            if tuple(i in chosen for i in range(arms)) != here:
                outside = [j for j in range(arms) if j not in chosen]
                rows = np.array([one[i] - one[j] for i in chosen for j in outside])
                found.append((rows, np.zeros(len(rows))))
        return found
    if isinstance(question, Above):
        return [
            (np.diag(signs), np.array(signs) * question.level)
            for signs in itertools.product([1.0, -1.0], repeat=arms)
            if tuple(s > 0 for s in signs) != here
        ]
    if isinstance(question, MinimumBelow | AnyAbove):
        sign = 1.0 if isinstance(question, MinimumBelow) else -1.0
        if here:  # nobody is beyond the level
            return [(sign * one, np.full(arms, sign * question.level))]
        return [(-sign * one[i : i + 1], np.array([-sign * question.level])) for i in range(arms)]
    if isinstance(question, Statements):
        return [
            (np.array(signs)[:, None] * question.forms, np.array(signs) * question.levels)
            for signs in itertools.product([1.0, -1.0], repeat=len(question.forms))
            if tuple(s > 0 for s in signs) != here
        ]
    m = len(question.forms)
    return [
        (
            np.array([question.forms[b] - question.forms[c] for c in range(m) if c != b]),
            np.array([question.offsets[c] - question.offsets[b] for c in range(m) if c != b]),
        )
        for b in range(m)
        if b != here
    ]


def halfspaces(question, means):
    """Normals a (m, K) and distances b - a.mu (m) of half-spaces whose union is the alternative; None if it is not."""
    arms = len(means)
    one = np.eye(arms)
    here = reference_answer(question, means)
    if isinstance(question, BestArm):
        normals = np.array([one[b] - one[here] for b in range(arms) if b != here])
        return normals, -normals @ means
    if isinstance(question, TopK):
        normals = np.array([one[b] - one[a] for a in range(arms) if here[a] for b in range(arms) if not here[b]])
        return normals, -normals @ means
    if isinstance(question, Above):
        return one, np.abs(means - question.level)
    if isinstance(question, BestGroup):
        return None
    if isinstance(question, MinimumBelow | AnyAbove):
        return None if here else (one, np.abs(means - question.level))
    if isinstance(question, Statements):
        return question.forms, np.abs(question.forms @ means - question.levels)
    normals = np.array([form - question.forms[here] for j, form in enumerate(question.forms) if j != here])
    scores = question.forms @ means + question.offsets
    return normals, scores[here] - np.delete(scores, here)


def projection(counts, means, normals, levels):
    """The x with normals @ x >= levels that is cheapest in sum_i N_i (mu_i - x_i)^2 / 2, and that cost.

    Least distance programming by SciPy's non-negative least squares (Lawson and Hanson 1974, chapter 23). None and
    infinity if there is no such x.
    """
    root = np.sqrt(counts)
    rows, need = normals / root, levels - normals @ means
    size = np.linalg.norm(rows, axis=1)
    rows, need = rows / size[:, None], need / size
    unit = np.abs(need).max() or 1.0
    system = np.vstack([rows.T, need / unit])
    target = np.append(np.zeros(len(means)), 1.0)
    multipliers, _ = nnls(system, target)
    rest = target - system @ multipliers
    if np.linalg.norm(rest) < 1e-7:
        return None, np.inf
    step = -rest[:-1] / rest[-1] * unit
    assert (rows @ step >= need - 1e-7 * unit).all()
    return means + step / root, float(step @ step / 2)


def cheapest_alternative(question, counts, means):
    """The projection on the nearest of all other cells, and its cost (sigma = 1)."""
    found = [projection(counts, means, *cell) for cell in other_cells(question, means)]
    return min(found, key=lambda pair: pair[1])


def convex_complexity(normals, distances):
    """Bounds below and above T* = min over the simplex of max_j 2 sum_i a_ji^2 / w_i / distance_j^2 (sigma = 1).

    cvxpy and Clarabel find weights w and multipliers z. Their optimum is only good to 1e-3 on some instances, so the
    bounds are made from w and z by hand: w gives the maximum above, z >= 0 gives the least over the simplex of
    sum_ij z_j Q_ji / w_i / sum_j z_j, which is (sum_i sqrt((Q'z)_i))^2 / sum_j z_j (Cauchy-Schwarz).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cvxpy, at import and of inaccurate solutions
        import cvxpy as cp

        unit = np.abs(distances).min()
        used = (normals != 0).any(axis=0)
        rows = 2 * normals[:, used] ** 2 / (distances[:, None] / unit) ** 2
        v = cp.Variable(int(used.sum()))
        limits = rows @ v <= 1
        cp.Problem(cp.Minimize(cp.sum(cp.inv_pos(v))), [limits]).solve(solver=cp.CLARABEL)
    w, z = 1 / v.value / (1 / v.value).sum(), np.maximum(limits.dual_value, 0.0)
    return np.sqrt(z @ rows).sum() ** 2 / z.sum() / unit**2, (rows / w).sum(axis=1).max() / unit**2


def assert_optimal(value, normals, distances, factor=1.0):
    """The value lies between the bounds of an independent solver (times a factor), and these are close."""
    low, high = convex_complexity(normals, distances)
    assert high <= low * (1 + 1e-3)
    assert low * factor * (1 - 1e-9) <= value <= high * factor * (1 + 2e-9)


def bisection(means):
    """T* and w* of best arm, sigma = 1, by docs/baselines.md: the root of sum_a (2y/(gap_a^2 - 2y))^2 = 1."""
    best = int(np.argmax(means))
    squares = np.delete(np.max(means) - means, best) ** 2
    low, high = 0.0, squares.min() / 2
    for _ in range(200):
        y = (low + high) / 2
        with np.errstate(divide="ignore"):
            low, high = (low, y) if ((2 * y / (squares - 2 * y)) ** 2).sum() > 1 else (y, high)
    shares = 2 * low / (squares - 2 * low)
    first = 1 / (1 + shares.sum())
    return 1 / (low * first), np.insert(shares * first, best, first)


def family_evidence(question, counts, means, family):
    """min over wrong answers of sum_i N_i KL(mu_i, lambda_i); where several are right, the largest over them."""
    with np.errstate(all="ignore"):
        values, pulls = np.broadcast_arrays(family.clip_means(finite(means)), np.asarray(counts, dtype=float))
        if isinstance(question, LevelQuestion):
            costs = question.level_costs(values, family)
            if isinstance(question, Above):
                return (pulls * costs.max(axis=0)).min(axis=-1)
            yes, no = costs if isinstance(question, AnyAbove) else costs[::-1]
            return np.maximum((pulls * yes).sum(axis=-1), (pulls * no).min(axis=-1))
        answers, right = question.right_answers(values)
        found = []
        for answer, there in zip(answers, right, strict=True):
            sides = divergence.build_sides(question.halfspaces(answer, values.shape[-1]), values, family)
            found.append(np.where(there, divergence.halfspace_costs(sides, pulls, family)[0].min(axis=-1), 0.0))
        return np.max(found, axis=0)
