"""Results of many runs, and their summary: means with standard errors, quantiles, and bounds on the error rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from roundwise.arrays import Array, Bools, Floats, Plain
from roundwise.model.problem import Problem

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The outcome of each run of one policy. Arrays have one value for each run unless it says otherwise.

    Attributes:
        policy: The name of the policy.
        problem: The question, the number of arms, delta and the noise model.
        samples: How many results were used.
        batches: In how many batches.
        decided: False where a limit ended the run first.
        answer: The answer, meaningless where not decided.
        correct: Whether the run decided, and correctly.
        complexity: T* of the run's instance, for its easiest right answer.
        lower_bound: What no delta-correct algorithm can stay below on average, on the run's instance.
        counts: Results of each arm, (runs, K), if `keep_counts` was set.
        watched: The values of each function of `watch`.
        doubt: Why there is no guarantee, or None.
        bound_for: Which rewards the lower bound holds for, if not for these.
        true_shown: How many true claims were shown, for questions of claims.

    >>> from roundwise import BestArm, GaussianArms, Wager, simulate
    >>> (runs,) = simulate(BestArm(), GaussianArms([1.0, 0.0]), [Wager()], runs=10)
    >>> runs.summary.error
    0.0
    """

    policy: str
    problem: Problem
    samples: Floats
    batches: Floats
    decided: Bools
    answer: Array
    correct: Bools
    complexity: Floats
    lower_bound: Floats
    counts: Floats | None = None
    watched: dict[str, Array] = field(default_factory=dict)
    doubt: str | None = None
    bound_for: str | None = None
    true_shown: Floats | None = None

    @property
    def summary(self) -> Summary:
        """Means, errors and bounds of these runs."""
        number, shown, bound = len(self.samples), self.true_shown, self.lower_bound
        wrong = int((self.decided & ~self.correct).sum())
        quantiles = zip(QUANTILES, np.quantile(self.samples, QUANTILES), strict=True)
        comparable = self.decided.all() and (bound > 0).all() and np.isfinite(bound).all()
        return Summary(
            policy=self.policy,
            runs=number,
            samples_mean=float(self.samples.mean()),
            samples_se=standard_error(self.samples),
            samples_quantiles={f"{q:.0%}": float(value) for q, value in quantiles},
            batches_mean=float(self.batches.mean()),
            batches_se=standard_error(self.batches),
            batches_max=int(self.batches.max()),
            error=wrong / number,
            error_upper_95=error_upper_bound(wrong, number),
            undecided=float(1 - self.decided.mean()),
            lower_bound=float(bound.mean()),
            samples_over_lower_bound=float((self.samples / bound).mean()) if comparable else None,
            doubt=self.doubt,
            bound_for=self.bound_for,
            true_shown_mean=None if shown is None else float(shown.mean()),
            true_shown_se=None if shown is None else standard_error(shown),
            each_shown=() if shown is None or self.answer.ndim < 2 else tuple(self.answer.mean(axis=0).tolist()),
        )

    def columns(self) -> dict[str, Array]:
        """The runs as columns of a tidy table: policy, run, samples, batches, decided, answer, correct, complexity."""
        kinds, which = np.unique(self.answer, axis=0, return_inverse=True)
        labels = np.array([str(self.problem.question.answer_to_json(kind)) for kind in kinds], dtype=np.str_)
        table: dict[str, Array] = {
            "policy": np.full(len(self.samples), self.policy),
            "run": np.arange(len(self.samples)),
            "samples": self.samples.astype(np.int64),
            "batches": self.batches.astype(np.int64),
            "decided": self.decided,
            "answer": np.where(self.decided, labels[which.reshape(-1)], "undecided"),
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


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Runs of one policy in a few numbers.

    Attributes:
        policy: The name of the policy.
        runs: How many runs there were.
        samples_mean: The mean number of results.
        samples_se: Its standard error.
        samples_quantiles: Quantiles of the number of results, by name ("5%", ..., "95%").
        batches_mean: The mean number of batches.
        batches_se: Its standard error.
        batches_max: The largest number of batches.
        error: Wrong answers, as a share of all runs.
        error_upper_95: The exact 95 % upper confidence bound on the error probability.
        undecided: The share of runs that a limit ended first.
        lower_bound: What no delta-correct algorithm can stay below on average; a mean over the instances.
        samples_over_lower_bound: The mean of the runs' ratios; None if a run is undecided or has no bound.
        doubt: Why there is no guarantee, or None.
        bound_for: Which rewards the lower bound holds for, if not for these.
        true_shown_mean: The mean number of true claims shown, for questions of claims.
        true_shown_se: Its standard error.
        each_shown: How often each claim was shown, then each opposite.
    """

    policy: str
    runs: int
    samples_mean: float
    samples_se: float
    samples_quantiles: dict[str, float]
    batches_mean: float
    batches_se: float
    batches_max: int
    error: float
    error_upper_95: float
    undecided: float
    lower_bound: float
    samples_over_lower_bound: float | None
    doubt: str | None
    bound_for: str | None
    true_shown_mean: float | None = None
    true_shown_se: float | None = None
    each_shown: tuple[float, ...] = ()

    def plain(self) -> Plain:
        found: Plain = {
            "policy": self.policy,
            "runs": self.runs,
            "samples": {"mean": self.samples_mean, "se": self.samples_se, "quantiles": self.samples_quantiles},
            "batches": {"mean": self.batches_mean, "se": self.batches_se, "max": self.batches_max},
            "error": self.error,
            "error_upper_95": self.error_upper_95,
            "undecided": self.undecided,
            "sample_lower_bound": self.lower_bound,
            "lower_bound_for": self.bound_for or "these rewards",
            "samples_over_lower_bound": self.samples_over_lower_bound,
            "guarantee": self.doubt is None,
            "caveat": self.doubt,
        }
        if self.true_shown_mean is not None:
            shown = {"mean": self.true_shown_mean, "se": self.true_shown_se}
            found["claims"] = {"true_shown": shown, "shown": list(self.each_shown)}
        return found

    def row(self) -> Plain:
        """The summary as one row of a table."""
        plain = self.plain()
        samples, batches, shown = plain.pop("samples"), plain.pop("batches"), plain.pop("claims", None)
        return (
            {"policy": plain.pop("policy"), "runs": plain.pop("runs")}
            | {"samples_mean": samples["mean"], "samples_se": samples["se"]}
            | {f"samples_{key}": value for key, value in samples["quantiles"].items()}
            | {f"batches_{key}": value for key, value in batches.items()}
            | plain
            | ({} if shown is None else {f"true_shown_{key}": value for key, value in shown["true_shown"].items()})
        )


def standard_error(values: Floats) -> float:
    """The Monte-Carlo standard error of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def error_upper_bound(wrong: int, number: int) -> float:
    """The exact (Clopper-Pearson) 95 % upper confidence bound on a probability after `wrong` of `number`.

    >>> round(error_upper_bound(0, 1000), 5)
    0.00299
    """
    from scipy.special import betaincinv

    return 1.0 if wrong == number else float(betaincinv(wrong + 1, number - wrong, 0.95))


def binomial_p_value(errors: int, runs: int, delta: float) -> float:
    """The exact p-value: the probability of this number of errors or more where each run errs with probability delta.

    >>> round(binomial_p_value(10, 100, 0.05), 4)
    0.0282
    """
    from scipy.special import bdtrc

    return float(bdtrc(errors - 1, runs, delta)) if errors else 1.0
