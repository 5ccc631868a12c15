"""What happened in many runs, and in a few numbers: means with their errors, quantiles, what the error rate can be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.problem import Problem
from roundwise.runs import Floats

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Runs:
    """What happened in each run of one policy."""

    policy: str
    problem: Problem
    samples: Floats  # (runs)
    batches: Floats
    decided: NDArray[np.bool_]  # False where a limit ended the run first
    answer: NDArray[Any]  # meaningless where not decided
    correct: NDArray[np.bool_]
    complexity: Floats  # T* of the run's instance
    counts: Floats | None = None  # (runs, K), on request
    watched: dict[str, NDArray[Any]] = field(default_factory=dict)
    doubt: str | None = None  # why there is no guarantee, or None
    bound_for: str | None = None  # of which rewards the lower bound speaks, unless of these

    @property
    def summary(self) -> Summary:
        """Means, errors and bounds of these runs."""
        return summarised(self)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The runs as columns of a tidy table: policy, run, samples, batches, decided, answer, correct, complexity."""
        table: dict[str, NDArray[Any]] = {
            "policy": np.full(len(self.samples), self.policy),
            "run": np.arange(len(self.samples)),
            "samples": self.samples.astype(np.int64),
            "batches": self.batches.astype(np.int64),
            "decided": self.decided,
            "answer": self._answers(),
            "correct": self.correct,
            "complexity": self.complexity,
            "lower_bound": sample_lower_bound(self.complexity, self.problem.delta),
            "guarantee": np.full(len(self.samples), self.doubt is None),
        }
        if self.counts is not None:
            table |= {f"count_{i}": column.astype(np.int64) for i, column in enumerate(self.counts.T)}
        return table | self.watched

    def _answers(self) -> NDArray[Any]:
        kinds, which = np.unique(self.answer, axis=0, return_inverse=True)
        labels = np.array([str(self.problem.question.plain(kind)) for kind in kinds], dtype=np.str_)
        return np.where(self.decided, labels[which.reshape(-1)], "undecided")


@dataclass(frozen=True)
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
    lower_bound: float  # T* kl(delta, 1 - delta): what no delta-correct algorithm can stay below on average
    samples_over_lower_bound: float  # mean samples / mean lower bound
    doubt: str | None  # why there is no guarantee, or None
    bound_for: str | None  # of which rewards the lower bound speaks, unless of these

    def plain(self) -> dict[str, Any]:
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
        }


def summarised(runs: Runs) -> Summary:
    """The summary of these runs."""
    number = len(runs.samples)
    wrong = int((runs.decided & ~runs.correct).sum())
    bound = float(sample_lower_bound(runs.complexity, runs.problem.delta).mean())
    return Summary(
        runs.policy,
        number,
        float(runs.samples.mean()),
        standard_error(runs.samples),
        {f"{q:.0%}": float(v) for q, v in zip(QUANTILES, np.quantile(runs.samples, QUANTILES), strict=True)},
        float(runs.batches.mean()),
        standard_error(runs.batches),
        int(runs.batches.max()),
        wrong / number,
        error_upper_bound(wrong, number),
        float(1 - runs.decided.mean()),
        bound,
        float(runs.samples.mean()) / bound if bound else math.inf,
        runs.doubt,
        runs.bound_for,
    )


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
    """T* kl(delta, 1 - delta): no delta-correct algorithm needs fewer samples on average (Section 1.1).

    >>> round(float(sample_lower_bound(200.0, 0.05)), 1)
    530.0
    """
    divergence = max(0.0, 1 - 2 * delta) * math.log(
        (1 - delta) / delta
    )  # kl(delta, 1 - delta); nothing to show past 1/2
    return np.asarray(complexity, dtype=np.float64) * divergence


def joined_runs(parts: list[Runs]) -> Runs:
    """Blocks of the same runs, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return Runs(
        first.policy,
        first.problem,
        column("samples"),
        column("batches"),
        column("decided"),
        column("answer"),
        column("correct"),
        column("complexity"),
        None if first.counts is None else column("counts"),
        {key: np.concatenate([part.watched[key] for part in parts]) for key in first.watched},
        first.doubt,
        first.bound_for,
    )
