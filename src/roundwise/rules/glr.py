"""The paper's stopping rule: the generalised likelihood ratio against a threshold (eq. 1, Lemma 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from roundwise.arrays import Bools
from roundwise.errors import InputError
from roundwise.messages import Doubt, Reason
from roundwise.model.batch import Batch
from roundwise.model.problem import Problem, Record, Trial
from roundwise.questions.base import Answer
from roundwise.rules.base import Bounds, ClaimStatus, StoppingRule, threshold_interval
from roundwise.rules.thresholds import Lemma32, Lemma32ByCounts, Threshold


@dataclass(frozen=True)
class GLR(StoppingRule[None]):
    """Stop when the evidence for an answer exceeds the threshold, and give the answer that it is for.

    This is the answer at the empirical means or, if several may be right, the one with the most evidence.

    Args:
        threshold: The threshold of the evidence; see `roundwise.thresholds`.

    >>> GLR().threshold.name
    'lemma-3.2'
    """

    threshold: Threshold = field(default_factory=Lemma32)

    def check(self, problem: Problem) -> None:
        """The question must have a likelihood ratio, the noise a sigma, and the threshold must fit the question."""
        if problem.question.odds:
            raise InputError("Claims about odds ratios have no likelihood ratio. Use the policy 'conditional-power'.")
        _ = problem.sigma
        self.threshold.at(problem, problem.arms)

    def sizing_threshold(self) -> Threshold:
        return self.threshold

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Whether the evidence exceeds the threshold, in runs whose plan asks for the test."""
        record = trial.record
        evidence = problem.evidence(record.counts, record.means)
        least = self.threshold.value(problem, np.zeros(problem.arms))  # it never decreases; most batches are below
        stops = np.asarray(trial.plan.may_stop & (evidence > least))
        if stops.any():
            bars = self.threshold.value(problem, record.counts[stops])
            if np.isnan(bars).any():
                raise InputError(
                    f"The threshold '{self.threshold.name}' is not a number after some counts, so the rule would never "
                    "stop: its `value` must be a number above 0 that never falls."
                )
            stops[stops] = evidence[stops] > bars
        return stops

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The answer with the evidence."""
        return problem.verdict(trial.record.counts, trial.record.means)

    def doubt(self, problem: Problem) -> Doubt | None:
        """The reservation about the threshold; there is no proof for arms that share items."""
        return self.threshold.doubt(problem) if not problem.noise.shares_items else Reason("shared_items")

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[ClaimStatus]:
        """A single entry: the evidence for the answer, and the threshold."""
        question, record = problem.question, trial.record
        evidence = float(problem.evidence(record.counts, record.means))
        bar = float(self.threshold.value(problem, record.counts))
        answer = question.answer_text(self.answer(problem, trial), names)
        return [ClaimStatus(f"{answer}, against every other answer", evidence, bar, evidence > bar)]

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch], kept: None = None) -> Bounds:
        """Bounds from the threshold if that is proved and joint over all arms, otherwise from `Lemma32ByCounts`."""
        fits = self.threshold.joint and self.threshold.doubt(problem) is None
        return Bounds(lambda: threshold_interval(problem, record, self.threshold if fits else Lemma32ByCounts()))
