"""Contracts of user-defined classes, checked on small examples before use.

A wrong return value would otherwise show late (a run that never stops, an answer that cannot be recorded) or not at
all (a guarantee that does not hold). Built-in classes pass the same checks in the tests.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from roundwise.arrays import Array, Bools, Floats
from roundwise.errors import InputError
from roundwise.messages import Doubt
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past
from roundwise.model.problem import BatchPlan, Problem, Record, begin
from roundwise.model.spec import check_class
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.questions import Above, BestArm, Question
from roundwise.questions.base import Answer
from roundwise.rules import GLR, Threshold
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.solvers.halfspaces import Halfspaces, pairs

_MOST_ARMS = 30  # of questions whose half-spaces are checked: their number may grow with the square of it
_CROSSED = 40  # instances whose answers are checked at every other
_COUNTS = (0.0, 1.0, 2.0, 10.0, 1e2, 1e3, 1e4, 1e6, 1e9, 1e12)  # results of an arm
_ROWS = 3  # results of an arm in the batches that bets are checked with
_EXACT = 1e-9


def check_classes(problem: Problem, policy: Policy) -> None:
    """Raise an InputError where a user-defined class violates its contract."""
    if is_user_defined(policy):
        check_class("policy", type(policy))
    inner = policy.inner
    if is_user_defined(problem.question):
        check_class("question", type(problem.question))
        check_question(problem.question, problem)
    if is_user_defined(problem.noise):
        check_class("noise", type(problem.noise))
        check_noise(problem.noise)
    rule = inner.stopping
    if isinstance(rule, GLR) and is_user_defined(rule.threshold):
        check_class("threshold", type(rule.threshold))
        check_threshold(rule.threshold, problem)
    if is_user_defined(inner):
        check_class("policy", type(inner))
        rule.check(problem)
        check_policy(inner, problem)


def is_user_defined(thing: object) -> bool:
    """Whether its class is defined outside this package."""
    return type(thing).__module__.partition(".")[0] != "roundwise"


def refuse(what: str, found: str, required: str) -> NoReturn:
    """Raise the InputError of all these checks."""
    raise InputError(f"The {what} cannot be used: {found}, but {required}. Correct its class (docs/own.md shows one).")


def _show(value: object) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_shape(what: str, name: str, value: object, shape: tuple[int, ...]) -> Array:
    found = np.asarray(value)
    if found.shape != shape:
        refuse(
            what,
            f"`{name}` returns an array of shape {found.shape}",
            f"for arrays with runs before the arms it must be {shape}",
        )
    return found


# --- thresholds


def check_threshold(threshold: Threshold, problem: Problem) -> None:
    """Check that a threshold is positive, never decreases with more results, and is bounded by `at`."""
    what = f"threshold '{threshold.name}'"
    rows = np.repeat(np.array(_COUNTS)[:, None], problem.arms, axis=1)
    uneven = rows.copy()
    uneven[:, 1:] = np.minimum(uneven[:, 1:], 10.0)
    for counts in (rows, uneven):
        with np.errstate(all="ignore"):
            values = _check_shape(what, "value", threshold.value(problem, counts), (len(counts),)).astype(np.float64)
        for number, value in zip(_COUNTS, values, strict=True):
            if not (value > 0 and math.isfinite(value)):
                refuse(what, f"`value` is {value:g} with {number:g} results of an arm", "must be a number above 0")
        falls = np.flatnonzero(np.diff(values) < -_EXACT * values[:-1])
        if falls.size:
            i = int(falls[0])
            found = f"`value` falls from {values[i]:g} with {_COUNTS[i]:g} results of an arm to {values[i + 1]:g}"
            refuse(what, f"{found} with {_COUNTS[i + 1]:g}", "it must never fall as results are added")
        for value, each in zip(values[1:], counts[1:], strict=True):  # every arm has some
            samples = float(each.sum())
            most = float(threshold.at(problem, samples))
            if not most >= value * (1.0 - _EXACT):
                found = f"`at` is {most:g} for {samples:g} samples, but `value` can be {value:g} then"
                refuse(what, found, "`at` must be the largest value after that many samples")
    check_doubt(what, threshold.doubt(problem))


def check_doubt(what: str, doubt: object) -> None:
    """Check that a doubt is None, a reason or a condition."""
    if not (doubt is None or isinstance(doubt, Doubt)):
        refuse(what, f"`doubt` returns {_show(doubt)}", "it must return None, a `Reason` or a `Condition`")


# --- questions


def check_question(question: Question, problem: Problem) -> None:
    """Check that answers can be recorded and are correct where claimed, and that the number of pieces is right."""
    if question.features is not None:  # means are not free
        return
    what, arms = f"question '{question.name}'", problem.arms
    means = _instances(question, problem)
    answers = np.asarray(question.answer(means))
    if answers.shape[:1] != means.shape[:1] or any(
        not np.array_equal(question.answer(each), answer) for each, answer in zip(means, answers, strict=True)
    ):
        refuse(
            what,
            "`answer` of several runs at once is not that of each run alone",
            "runs come before the arms and must not mix",
        )
    right = _check_shape(what, "correct", question.correct(answers, means), means.shape[:1])
    if not right.all():
        i = int(np.argmin(right))
        found = f"`correct` says that {_show(answers[i])}, its own answer at the means {_show(means[i])}, is wrong"
        refuse(what, found, "an answer must be correct at the means that it is for")
    names = [f"arm {i}" for i in range(arms)]
    for answer in answers:
        check_answer(question, names, question.answer_to_json(answer), question.answer_to_json(answers[0]))
        if not (isinstance(words := question.answer_text(answer, names), str) and words):
            refuse(what, f"`answer_text` of the answer {_show(answer)} is {_show(words)}", "must be a text")
    counts = np.full(means.shape, 10.0)
    evidence = _check_shape(what, "evidence", question.evidence(counts, means, 1.0), means.shape[:1])
    if not (evidence >= 0).all():
        i = int(np.argmin(evidence >= 0))
        found = f"`evidence` is {evidence[i]:g} with 10 results per arm and the means {_show(means[i])}"
        refuse(what, found, "it must be a number of at least 0")
    if not question.separate_claims and arms <= _MOST_ARMS and question.pieces(arms) is not None:
        _check_pieces(question, what, means, answers)


def check_answer(question: Question, names: list[str] | tuple[str, ...], answer: object, like: object) -> None:
    """Raise an InputError unless an answer as plain data has the form of another one and can be recorded."""
    sets = [answer] if isinstance(answer, list) else list(answer.values()) if isinstance(answer, dict) else [[answer]]
    most = len(question.answer_names(names))
    good = type(answer) is type(like) and all(
        isinstance(number, bool) or (type(number) is int and 0 <= number < most) for each in sets for number in each
    )
    if not good:
        refuse(
            f"question '{question.name}'",
            f"`answer_to_json` of an answer is {_show(answer)}",
            f"it must be true or false, an index from 0 to {most - 1}, or a list of those, and of one kind",
        )


def _instances(question: Question, problem: Problem) -> Floats:
    """Means that have many different answers: in order, with one arm moved, all near either end of the range. (R, K)"""
    arms, rng = problem.arms, np.random.default_rng(1)
    low, high = problem.noise.mean_range
    middle = question.level or 0.0
    low = low if math.isfinite(low) else min(middle, high) - 1.0
    high = high if math.isfinite(high) else max(middle, low) + 1.0
    order = np.sort((np.arange(arms) + 0.5 + 0.3 * rng.uniform(-1, 1, arms)) / arms)[::-1]
    rows = [order, order * 0.1, 0.9 + order * 0.1, *(rng.permutation(order) for _ in range(_CROSSED // 4))]
    if arms <= _MOST_ARMS:
        others = [np.delete(np.arange(arms), arm) for arm in range(arms)]
        rows += [order[np.argsort(np.insert(others[arm], to, arm))] for arm in range(arms) for to in range(arms)]
    return low + (high - low) * np.array(rows)


def _check_pieces(question: Question, what: str, means: Floats, answers: Answer) -> None:
    """Check that half-spaces hold jointly exactly where their answer is right, and that none beyond the declared ones
    is needed.
    """
    arms, some = means.shape[-1], means[:_CROSSED]
    declared = question.pieces(arms)
    assert declared is not None
    violated: list[set[bytes]] = []
    for number, answer in enumerate(answers):
        pieces = question.halfspaces(answer, arms)
        if number < _CROSSED:
            holds: Bools = np.asarray(_holding(pieces, some).all(axis=-1))
            correct = np.asarray(question.correct(np.broadcast_to(answer, (len(some), *answer.shape)), some))
            if (holds != correct).any():
                i = int(np.argmax(holds != correct))
                said = "hold" if holds[i] else "do not hold"
                found = f"the `halfspaces` of the answer {_show(answer)} {said} at the means {_show(some[i])}"
                refuse(what, found, f"there `correct` calls it {'right' if correct[i] else 'wrong'}")
        forms = pieces.dense(arms)
        if (support := int((forms != 0).sum(axis=-1).max(initial=0))) > declared.support:
            found = f"`pieces` declares {declared.support} arms for each half-space"
            refuse(what, found, f"one of the answer {_show(answer)} is about {support}")
        crossed = ~_holding(pieces, means[:1])[0]
        if crossed.any():
            rows = np.round(np.concatenate([forms, pieces.offsets[..., None]], axis=-1)[crossed], 9) + 0.0
            violated.append({each.tobytes() for each in rows})
    apart, taken = 0, set[bytes]()  # sets with nothing in common: a set that meets all has at least as many elements
    for each in sorted(violated, key=len):
        if not taken & each:
            taken |= each
            apart += 1
    if apart > declared.number and declared != (1, arms):  # one piece of all arms is true of every question
        found = f"`pieces` declares {declared.number} half-spaces for {arms} arms"
        refuse(what, found, f"wrong answers can come about in at least {apart} ways that have none in common")


def _holding(pieces: Halfspaces, means: Floats) -> Bools:
    """Which half-spaces of one answer hold at each of several means. (R, P)"""
    return np.asarray(means @ pieces.dense(means.shape[-1]).T > pieces.offsets)


# --- noise models


def check_noise(noise: Noise) -> None:
    """Check that constants and bets are numbers, and that bets have mean at most 1 wherever that can be computed."""
    what, outcome = f"noise model '{noise.name}'", noise.outcome
    sigma = noise.known_sigma
    if sigma is not None and not (sigma > 0 and math.isfinite(sigma)):
        refuse(what, f"`sigma` is {sigma:g}", "it must be a number above 0, or raise an InputError where there is none")
    if noise.needs not in ("sums", "squares", "cubes", "rows"):
        refuse(what, f"`needs` is {_show(noise.needs)}", "it must be 'sums', 'squares', 'cubes' or 'rows'")
    if not outcome.low < outcome.high:
        refuse(what, f"`outcome` lies between {outcome.low:g} and {outcome.high:g}", "the first must be smaller")
    if noise.shares_items:
        return
    low, width = outcome.low if math.isfinite(outcome.low) else 0.0, 1.0
    if math.isfinite(outcome.high):
        low, width = (low, outcome.high - low) if math.isfinite(outcome.low) else (outcome.high - 1.0, 1.0)
    ends_alone = sigma is None or sigma >= width / 2 * (1.0 - _EXACT)  # results may be the ends of the range alone
    for rate in (0.5, 0.1, 0.9):
        for lead in (0.0, 0.15):
            _check_bets(noise, what, low, width, rate, lead, outcome.limited and ends_alone)


def _check_bets(noise: Noise, what: str, low: float, width: float, rate: float, lead: float, exact: bool) -> None:
    """All batches of two arms with a few results each, which are the low or the high value; after a past."""
    successes = np.stack(np.meshgrid(*[np.arange(_ROWS + 1.0)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    runs, rows = len(successes), np.full(successes.shape, float(_ROWS))
    chances = np.array([math.comb(_ROWS, int(k)) for k in successes.reshape(-1)]).reshape(runs, 2)
    chances = (chances * rate**successes * (1.0 - rate) ** (rows - successes)).prod(axis=-1)
    totals, scatter = _sums(low, width, rows, successes)
    table = ValueTable(np.broadcast_to([low, low + width], (runs, 2)), np.stack([rows - successes, successes], axis=-1))
    batch = Batch(rows, totals, scatter, table if noise.needs == "rows" else None)
    many = np.full(rows.shape, 40.0)
    earlier = many * (rate + np.array([lead, -lead]) / 2)
    past = Past.none(rows.shape).plus(Batch(many, *_sums(low, width, many, earlier)))
    variance = _check_shape(what, "variance", noise.variance(past), (runs,))
    if not ((variance > 0) & np.isfinite(variance)).all():
        refuse(what, f"`variance` is {variance.min():g} after 40 results per arm", "it must be a number above 0")
    known = Estimates(past, past.means, variance)
    one = pairs(np.zeros((runs, 1), dtype=np.intp), np.ones((runs, 1), dtype=np.intp))
    need = np.full((runs, 1), 3.0)
    drifts = np.full((1, 1, 1), 2.0)
    nothing = np.zeros(())
    bets: dict[str, tuple[Floats, Floats]] = {
        "budget_bet": (
            noise.budget_bet(known, batch, one, need, np.full((runs, 1), 0.5), 0.2),
            noise.budget_bet(known, batch, one, 0 * need, np.full((runs, 1), 0.5), 0.2),
        ),
        "fixed_size_bet": (noise.fixed_size_bet(past, batch, one, many, drifts)(np.zeros((runs, 1)))[0], nothing),
    }
    level, pilot = low + rate * width, Batch(many, *_sums(low, width, many, earlier))
    ties = _wealth(noise, BestArm(), pilot, batch)
    sides = _wealth(noise, Above(level), pilot, batch)
    bets |= {"bet on the best arm": (ties.gains, nothing)}
    bets |= {"bet above a level": (sides.above, nothing), "bet below a level": (sides.below, nothing)}
    for name, (logs, idle) in bets.items():
        logs = _check_shape(what, name, logs, rows.shape if name.startswith("bet") else (runs, 1))
        if np.isnan(logs).any():
            refuse(what, f"`{name}` returns NaN", "bets must be log e-values, and 0 where no bet is possible")
        if np.any(idle):
            refuse(what, f"`{name}` bets where `need` is 0", "it must return 0 there")
        mean = float((chances @ np.exp(logs)).max())
        if exact and mean > 1.0 + 1e-6:
            found = f"the mean of the bet `{name}` is {mean:.4g} for results that are {low:g} or {low + width:g}"
            refuse(what, found, "under its null the mean of an e-value must be at most 1")


def _wealth(noise: Noise, question: Question, pilot: Batch, batch: Batch) -> Any:
    """The log wealth of the betting rule after a batch of two arms, with earlier results known but not bet on."""
    problem, rule = Problem(question, 2, 0.05, noise), EProcessRule()
    before = rule.warm_start(problem, rule.start(problem, batch.counts.shape[:-1]), pilot, None)
    return rule.fold(
        problem, before, BatchPlan(batch.counts, np.ones(batch.counts.shape[:-1], dtype=np.bool_)), batch
    ).wealth


def _sums(low: float, width: float, rows: Floats, successes: Floats) -> tuple[Floats, Floats]:
    """Totals and scatter of results of which `successes` are high and the rest low."""
    return low * rows + width * successes, width**2 * successes * (1.0 - successes / rows)


# --- policies


def check_policy(policy: Policy, problem: Problem) -> None:
    """Check that the first plan, for one run and for several, is a batch that can be pulled."""
    what = f"policy '{policy.name}'"
    for runs in ((), (3,)):
        check_plan(what, policy.first(problem, runs), (*runs, problem.arms))
    check_doubt(what, policy.stopping.doubt(problem))
    if problem.noise.needs != "rows" and not problem.noise.shares_items:
        trial = begin(problem, policy, (3,))
        pulls = trial.plan.pulls
        low, high = problem.noise.mean_range
        value = float(np.clip(0.0, low, high))
        batch = Batch(pulls, pulls * value, pulls)
        kept = policy.stopping.fold(problem, trial.kept, trial.plan, batch)
        record = Record(pulls, pulls * value, np.ones(3))
        trial = trial._replace(record=record, batch=batch, kept=kept)
        check_plan(what, policy.next(problem, trial), (3, problem.arms))


def check_plan(what: str, plan: BatchPlan, shape: tuple[int, ...]) -> None:
    """Raise an InputError unless the pulls of a plan are whole numbers, not all 0."""
    if not isinstance(plan, BatchPlan):
        refuse(what, f"it plans {_show(plan)}", "it must return a `BatchPlan`")
    pulls = _check_shape(what, "pulls", plan.pulls, shape)
    if not (np.isfinite(pulls) & (pulls >= 0) & (pulls == np.floor(pulls))).all():
        refuse(what, f"it plans the pulls {_show(pulls)}", "they must be whole numbers of at least 0")
    _check_shape(what, "may_stop", plan.may_stop, shape[:-1])
