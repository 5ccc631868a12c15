"""What happened in many runs, and in a few numbers: means with their errors, quantiles, what the error rate can be."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Array, Bools, Floats, Plain, total
from roundwise.errors import RoundwiseError
from roundwise.problem import Problem
from roundwise.questions import divergence
from roundwise.questions.base import Question, Tolerant
from roundwise.questions.claims import Claims
from roundwise.questions.families import Family

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What happened in each run of one policy."""

    policy: str
    problem: Problem
    samples: Floats  # (runs)
    batches: Floats
    decided: Bools  # False where a limit ended the run first
    answer: Array  # meaningless where not decided
    correct: Bools
    complexity: Floats  # T* of the run's instance: that of its easiest right answer
    lower_bound: Floats  # what no delta-correct algorithm can stay below on average, on the run's instance
    counts: Floats | None = None  # (runs, K), on request
    watched: dict[str, Array] = field(default_factory=dict)
    doubt: str | None = None  # why there is no guarantee, or None
    bound_for: str | None = None  # of which rewards the lower bound speaks, unless of these
    true_shown: Floats | None = None  # (runs), how many true claims were shown, if the question is of claims

    @property
    def summary(self) -> Summary:
        """Means, errors and bounds of these runs."""
        return summarised(self)

    def columns(self) -> dict[str, Array]:
        """The runs as columns of a tidy table: policy, run, samples, batches, decided, answer, correct, complexity."""
        table: dict[str, Array] = {
            "policy": np.full(len(self.samples), self.policy),
            "run": np.arange(len(self.samples)),
            "samples": self.samples.astype(np.int64),
            "batches": self.batches.astype(np.int64),
            "decided": self.decided,
            "answer": self._answers(),
            "correct": self.correct,
            "complexity": self.complexity,
            "lower_bound": self.lower_bound,
            "guarantee": np.full(len(self.samples), self.doubt is None),
        }
        if self.true_shown is not None:
            table["true_shown"] = self.true_shown.astype(np.int64)
        if self.counts is not None:
            table |= {f"count_{i}": column.astype(np.int64) for i, column in enumerate(self.counts.T)}
        return table | self.watched

    def _answers(self) -> Array:
        kinds, which = np.unique(self.answer, axis=0, return_inverse=True)
        labels = np.array([str(self.problem.question.plain(kind)) for kind in kinds], dtype=np.str_)
        return np.where(self.decided, labels[which.reshape(-1)], "undecided")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Runs of one policy in a few numbers."""

    policy: str
    runs: int
    samples_mean: float
    samples_se: float
    samples_quantiles: dict[str, float]
    batches_mean: float
    batches_se: float
    batches_max: int
    error: float  # wrong answers, as a share of all runs
    error_upper_95: float  # exact 95 % upper confidence bound on the error probability
    undecided: float  # share of runs that a limit ended first
    lower_bound: float  # what no delta-correct algorithm can stay below on average; a mean over the instances
    samples_over_lower_bound: float | None  # mean of the runs' ratios; None if a run is undecided or has none
    doubt: str | None  # why there is no guarantee, or None
    bound_for: str | None  # of which rewards the lower bound speaks, unless of these
    true_shown_mean: float | None = None  # true claims shown, if the question is of claims
    true_shown_se: float | None = None
    each_shown: tuple[float, ...] = ()  # how often each claim was shown, then each opposite

    def plain(self) -> Plain:
        """The summary as JSON."""
        return {
            "policy": self.policy,
            "runs": self.runs,
            "samples": {
                "mean": self.samples_mean,
                "se": self.samples_se,
                "quantiles": self.samples_quantiles,
            },
            "batches": {"mean": self.batches_mean, "se": self.batches_se, "max": self.batches_max},
            "error": self.error,
            "error_upper_95": self.error_upper_95,
            "undecided": self.undecided,
            "sample_lower_bound": self.lower_bound,
            "lower_bound_for": self.bound_for or "these rewards",
            "samples_over_lower_bound": self.samples_over_lower_bound,
            "guarantee": self.doubt is None,
            "caveat": self.doubt,
            **({} if self.true_shown_mean is None else {"claims": self._claims()}),
        }

    def _claims(self) -> Plain:
        return {"true_shown": {"mean": self.true_shown_mean, "se": self.true_shown_se}, "shown": list(self.each_shown)}


def summarised(runs: Runs) -> Summary:
    """The summary of these runs."""
    number = len(runs.samples)
    wrong = int((runs.decided & ~runs.correct).sum())
    quantiles = zip(QUANTILES, np.quantile(runs.samples, QUANTILES), strict=True)
    return Summary(
        policy=runs.policy,
        runs=number,
        samples_mean=float(runs.samples.mean()),
        samples_se=standard_error(runs.samples),
        samples_quantiles={f"{q:.0%}": float(value) for q, value in quantiles},
        batches_mean=float(runs.batches.mean()),
        batches_se=standard_error(runs.batches),
        batches_max=int(runs.batches.max()),
        error=wrong / number,
        error_upper_95=error_upper_bound(wrong, number),
        undecided=float(1 - runs.decided.mean()),
        lower_bound=float(runs.lower_bound.mean()),
        samples_over_lower_bound=_over_lower_bound(runs),
        doubt=runs.doubt,
        bound_for=runs.bound_for,
        true_shown_mean=None if runs.true_shown is None else float(runs.true_shown.mean()),
        true_shown_se=None if runs.true_shown is None else standard_error(runs.true_shown),
        each_shown=() if runs.true_shown is None or runs.answer.ndim < 2 else tuple(runs.answer.mean(axis=0).tolist()),
    )


def _over_lower_bound(runs: Runs) -> float | None:
    """The mean of samples / lower bound, run by run: a mean that a limit cuts off says nothing against a bound."""
    bound = runs.lower_bound
    if not (runs.decided.all() and (bound > 0).all() and np.isfinite(bound).all()):
        return None
    return float((runs.samples / bound).mean())


def standard_error(values: Floats) -> float:
    """The Monte-Carlo standard error of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def error_upper_bound(wrong: int, number: int, level: float = 0.95) -> float:
    """The exact (Clopper-Pearson) upper confidence bound on a probability after `wrong` of `number`.

    >>> round(error_upper_bound(0, 1000), 5)
    0.00299
    """
    from scipy.special import betaincinv

    return 1.0 if wrong == number else float(betaincinv(wrong + 1, number - wrong, level))


def sample_lower_bound(complexity: ArrayLike, delta: float) -> Floats:
    """T* kl(delta, 1 - delta): with one right answer no delta-correct algorithm needs fewer on average (Section 1.1).

    >>> round(float(sample_lower_bound(200.0, 0.05)), 1)
    530.0
    """
    divergence = max(0.0, 1 - 2 * delta) * math.log(
        (1 - delta) / delta
    )  # kl(delta, 1 - delta); nothing to show past 1/2
    return np.asarray(complexity, dtype=np.float64) * divergence


def shared_lower_bound(complexities: ArrayLike, delta: float) -> Floats:
    """The same where several answers i are right, from their T_i (nan for those that are wrong). (answers)->()

    Any algorithm has E[tau] >= T_i kl(P(i), delta) for each of them, and the P(i) add up to 1 - delta or more
    (docs/bounds.md): the bound is the x with sum_i max{p: kl(p, delta) <= x/T_i} = 1 - delta. The sum is concave in
    x, so Newton's method from T_min kl((1 - delta)/number, delta) rises to it: no iterate is above.

    >>> round(float(shared_lower_bound([200.0, np.nan], 0.05)), 1)  # one right answer
    530.0
    >>> round(float(shared_lower_bound([200.0, 200.0], 0.05)), 1)
    151.6
    """
    needs = np.asarray(complexities, dtype=np.float64)
    right = ~np.isnan(needs)
    share = (1 - delta) / np.maximum(right.sum(axis=-1), 1)
    easiest = np.where(right, needs, np.inf).min(axis=-1)
    bound = np.where(share > delta, easiest, 0.0)  # 0 if guessing among them will do
    todo = (share > delta) & np.isfinite(easiest)
    bound[todo] = _where_shares_suffice(needs[todo], easiest[todo] * _kl(share[todo], delta), delta)
    return bound


def lower_bound_at(
    question: Question, means: ArrayLike, delta: float, sigma: float = 1.0, complexity: Floats | None = None
) -> Floats:
    """What no delta-correct algorithm can stay below on average at these means, whether one answer is right or more.

    T* can be given as `complexity` where it is known already.

    >>> from roundwise.questions import BestArm
    >>> [round(float(lower_bound_at(BestArm(tolerance), [0.01, 0.0], 0.05))) for tolerance in (0.0, 0.1)]
    [212000, 605]
    """
    values = np.asarray(means, dtype=np.float64)
    if isinstance(question, Claims):  # whoever shows nothing is not wrong
        return np.zeros(values.shape[:-1])
    if not (isinstance(question, Tolerant) and several_right(question, values).any()):
        known = question.complexity(values, sigma=sigma).value if complexity is None else complexity
        return sample_lower_bound(known, delta)
    rows = values.reshape(-1, values.shape[-1])
    if (rows == rows[:1]).all():  # the same instance in every run
        rows = rows[:1]
    guessing = question.right(rows).sum(axis=-1) * delta >= 1 - delta  # then nothing is to be solved
    found = np.zeros(len(rows))
    found[~guessing] = shared_lower_bound(question.complexities(rows[~guessing], sigma), delta)
    return np.broadcast_to(found, math.prod(values.shape[:-1])).reshape(values.shape[:-1]).copy()


def own_lower_bound(question: Question, means: ArrayLike, delta: float, family: Family) -> tuple[Floats, Floats] | None:
    """T~* with the divergences of the rewards' own family, and the lower bound that follows; None where there is none.

    There is none for claims, for questions that are not made of half-spaces, and where it cannot be solved for.

    >>> from roundwise.questions import BestArm
    >>> from roundwise.questions.families import BinaryFamily
    >>> found = own_lower_bound(BestArm(), [0.05, 0.04, 0.03], 0.05, BinaryFamily())
    >>> round(float(found[1]))
    9696
    """
    values = np.asarray(means, dtype=np.float64)
    if isinstance(question, Claims):
        return None
    rows = values.reshape(-1, values.shape[-1])
    if (rows == rows[:1]).all():  # the same instance in every run
        rows = rows[:1]
    try:
        needed = divergence.complexity(question, rows, family).value
        bound = sample_lower_bound(needed, delta)
        several = several_right(question, rows)
        if several.any():
            bound[several] = shared_lower_bound(divergence.complexities(question, rows[several], family), delta)
    except (RoundwiseError, AttributeError):
        return None
    runs = values.shape[:-1]
    number = math.prod(runs)
    return tuple(np.broadcast_to(each, number).reshape(runs).copy() for each in (needed, bound))  # type: ignore[return-value]


def several_right(question: Question, means: ArrayLike) -> Bools:
    """Whether more than one answer is right, in each run."""
    values = np.asarray(means, dtype=np.float64)
    if not isinstance(question, Tolerant):
        return np.zeros(values.shape[:-1], dtype=np.bool_)
    return np.asarray(question.right(values).sum(axis=-1) > 1)


def _where_shares_suffice(needs: Floats, bound: Floats, delta: float) -> Floats:
    """The x with sum_i p_i(x) = 1 - delta, p_i = max{p: kl(p, delta) <= x/T_i}, from below."""
    right = ~np.isnan(needs)
    logit = math.log(delta / (1 - delta))
    rates = np.where(right, 1 / needs, 0.0)
    for _ in range(100):
        shares = _largest_share(rates * bound[:, None], delta)
        slopes = np.log(shares / (1 - shares)) - logit  # of kl(p, delta)
        rises = total(np.where(slopes > 0, rates / np.where(slopes > 0, slopes, 1.0), 0.0))
        step = (1 - delta - total(np.where(right, shares, 0.0))) / rises
        rising = step > 1e-12 * bound
        if not rising.any():
            break
        bound = np.where(rising, bound + step, bound)
    return bound


def _largest_share(divergence: Floats, delta: float) -> Floats:
    """max{p: kl(p, delta) <= divergence}, but at most 1 - delta: Newton's method on a convex function, from above."""
    share = np.minimum(delta + np.sqrt(divergence / 2), 1 - delta)  # Pinsker's inequality
    logit = math.log(delta / (1 - delta))
    for _ in range(200):
        slope = np.log(share / (1 - share)) - logit
        step = np.where(slope > 0, (_kl(share, delta) - divergence) / np.where(slope > 0, slope, 1.0), 0.0)
        falling = step > 1e-15
        if not falling.any():
            break
        share = np.where(falling, np.maximum(share - step, delta), share)
    return share


def _kl(share: Floats, delta: float) -> Floats:
    """kl(p, delta) of two coins, 0 < p < 1."""
    return np.asarray(share * np.log(share / delta) + (1 - share) * np.log((1 - share) / (1 - delta)))


def joined_runs(parts: list[Runs]) -> Runs:
    """Blocks of the same runs, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first

    columns = (
        "samples",
        "batches",
        "decided",
        "answer",
        "correct",
        "complexity",
        "lower_bound",
        "counts",
        "true_shown",
    )
    names = [name for name in columns if getattr(first, name) is not None]
    together: Plain = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    watched = {key: np.concatenate([part.watched[key] for part in parts]) for key in first.watched}
    return dataclasses.replace(first, **together, watched=watched)
