"""The base class of stopping rules, and the types of their reports: claims, bounds, and the status of a trial.

A rule folds over the batches: it takes the plan of a batch and its results, and returns its new state. The error
guarantee rests on the rule alone and holds under any sampling, including more or fewer pulls than planned. Rules with
`exact_batches` are the exception: they cannot decide once a batch differs from its plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.messages import Doubt, Note
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import BatchPlan, Kept, Problem, Record, Trial
from roundwise.questions.base import Answer
from roundwise.rules.thresholds import Lemma32, Lemma32ByCounts, Threshold


class LinearForm(NamedTuple):
    """The form of the means that a claim is about, and the level that it is claimed to exceed (or not)."""

    arms: tuple[int, ...]
    factors: tuple[float, ...]
    level: float
    below: bool = False


class ClaimStatus(NamedTuple):
    """The status of something that must be shown: its log wealth and the threshold that this must reach."""

    words: str
    evidence: float
    bar: float
    shown: bool
    margins: float | None = None  # lower bounds on the amounts by which it holds, if computed
    left: str | None = None  # the arm that may still be best until this is shown, if there is one
    about: LinearForm | None = None  # set if it is about one form of the means
    label: str | None = None  # its shortest label
    shown_at: int | None = None  # the batch after which it was shown, if recorded
    samples: int | None = None  # the number of results by then
    estimate: float | None = None  # the estimate of its form
    lower: float | None = None
    upper: float | None = None
    chance: float | None = None  # forecast probability that it is shown by the end
    margin: float | None = None  # the margin that is claimed to be exceeded (or not)
    given_up: bool = False  # whether it currently gets no more results
    opposite: bool = False  # whether it is the opposite of another claim
    scale: str | None = None  # what sizes measure, if neither means nor differences; "odds ratio": sizes are logs
    adjusted: float | None = None  # log of the e-value adjusted for all claims, whose threshold is 1/delta
    single_lower: float | None = None  # simultaneous bounds do not use these
    single_upper: float | None = None
    metric: int = 0  # index of its metric, if there are several


class TrialStatus(NamedTuple):
    """The further status of a trial under a rule."""

    compares: bool = False  # whether the decision is invariant under a shift of all arms
    all_rejected: bool = False  # whether every answer has been ruled out, including the right one
    bounds_match_decision: bool = False  # whether each bound on a mean agrees with the decision


class Interval(NamedTuple):
    """Bounds for each arm; infinite if the data say nothing."""

    lower: Floats  # (K)
    upper: Floats  # (K)


class GapToLeader(NamedTuple):
    """The gap of each arm to the best arm or the leader; None if it is not bounded."""

    best: Floats | None  # (K), lower bounds on the gap to the best arm
    least: Floats | None  # (K), lower bounds on the gap to the leader
    most: Floats  # (K), upper bounds on the gap to the leader; 0 for the leader


class Bounds(NamedTuple):
    """Time-uniform bounds of one run, each computed on demand."""

    means: Callable[[], Interval]  # of the mean of each arm
    margins: Callable[[], Floats | None] = lambda: None  # lower bounds on the amounts by which claims hold
    gap_to_leader: Callable[[int | None, Floats], GapToLeader | None] = lambda leader, spare: (
        None
    )  # if the best arm is asked for
    against: Callable[[int], Interval | None] = lambda control: None  # the lead of each arm over the control


class StoppingRule(ABC, Generic[Kept]):
    """When an answer may be given, and which.

    A rule of your own defines `stops`, `answer` and `doubt`. Rules that need more than the sums of the record keep a
    state: a named tuple of arrays that `start` returns and `fold` updates.
    """

    any_time: ClassVar[bool] = False  # whether it is valid after batches of any size
    uses_budget: ClassVar[bool] = False  # whether it uses the number of results left, which plans must then state
    exact_batches: ClassVar[bool] = False  # whether it can decide only while every batch comes back as planned
    always_ends: ClassVar[bool] = False  # whether every study ends with an answer, even if arms tie
    learns: ClassVar[bool] = False  # whether `warm_start` and `restart` may be called
    several_metrics: ClassVar[bool] = False  # whether it covers claims about further metrics (`Problem.metrics`)
    migrates: ClassVar[bool] = False  # whether arms may join or leave because of results

    def bets_on_whole_batches(self, problem: Problem) -> bool:
        """Whether a rule that uses a budget always bets on whole batches, never on their parts."""
        return True

    def check(self, problem: Problem) -> None:
        """Raise an InputError if the rule does not fit the problem."""

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """Return the state before the first batch: None or a named tuple of arrays.

        Args:
            problem: The problem to be solved.
            runs: The shape of independent runs, () for one experiment.
        """
        return None  # type: ignore[return-value]

    def fold(self, problem: Problem, kept: Kept, plan: BatchPlan, batch: Batch) -> Kept:
        """Return the state after a batch with this plan.

        Args:
            problem: The problem to be solved.
            kept: The state before the batch.
            plan: The plan of the batch, fixed before its results.
            batch: The results.

        Returns:
            The state after the batch.
        """
        return kept

    @abstractmethod
    def stops(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether to stop now, before the plan of the trial is pulled.

        Args:
            problem: The problem to be solved.
            trial: The trial, whose plan has not been pulled.

        Returns:
            A truth value for each run.
        """

    @abstractmethod
    def answer(self, problem: Problem, trial: Trial[Any, Kept]) -> Answer:
        """Return the answer once the rule stops.

        Args:
            problem: The problem to be solved.
            trial: A trial that is done.

        Returns:
            The answer of each run, in the form of the question.
        """

    def correct(self, problem: Problem, answer: Answer, means: Floats) -> Bools:
        """Whether an answer is right for these means, in each run."""
        return problem.question.correct(answer, means)

    def answer_text(self, problem: Problem, trial: Trial[Any, Kept], names: Sequence[str]) -> str:
        """Return the answer in words. One run."""
        return problem.question.answer_text(self.answer(problem, trial), names)

    @abstractmethod
    def doubt(self, problem: Problem) -> Doubt | None:
        """Return the reservation about the rule's guarantee, if there is one.

        Either a `Reason` why there is no guarantee, or a `Condition` under which there is one; `Reason("rule",
        text=...)` and `Condition("rule", text=...)` have a text of your own.
        """

    def sizing_threshold(self) -> Threshold:
        """Return the threshold for which policies size their batches: the rule's own, or that of Lemma 3.2."""
        return Lemma32()

    def broken(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether the rule can no longer stop: with `exact_batches`, because a batch differed from its plan. ()"""
        return np.zeros(trial.done.shape, dtype=np.bool_)

    def false_rejection(self, problem: Problem, trial: Trial[Any, Kept], means: Floats) -> Bools:
        """Whether the rule has rejected something true of these means, even if no answer was given. ()"""
        return np.zeros(trial.done.shape, dtype=np.bool_)

    # --- state of a live study

    def state_tag(self, problem: Problem) -> str:
        """Return the kind and version of the state, for records; rules with the same tag are compatible."""
        return "none/1"

    def save(self, problem: Problem, kept: Kept) -> Any:
        """Return the part of the state from which `restore` rebuilds it: None or a named tuple of arrays."""
        return kept

    def restore(self, problem: Problem, saved: Any) -> Kept:
        """Return the state rebuilt from its saved part."""
        return saved

    def warm_start(self, problem: Problem, kept: Kept, batch: Batch, left: Floats | None) -> Kept:
        """Return the initial state given earlier results, which are not bet on; `left` is the budget."""
        raise InputError(f"The stopping rule {type(self).__name__} cannot use earlier data.")

    def effect_of_change(self, problem: Problem, dropped: bool) -> str | None:
        """Describe what an arm `{arm}` leaving (or joining) does to the evidence; None: it may not."""
        return None

    def migrate(self, before: Problem, after: Problem, kept: Kept, dropped: int | None, past: Past) -> Kept:
        """Return the state after an arm left (its index is `dropped`) or joined as the last, with this past."""
        raise InputError(f"The stopping rule {type(self).__name__} has fixed arms.")

    def restart(self, problem: Problem, past: Past, left: Floats | None) -> Kept:
        """Return a state without wealth that knows these results; `left` results are still to come."""
        raise InputError(f"The stopping rule {type(self).__name__} cannot start again.")

    def past(self, kept: Kept) -> Past | None:
        """Return the sums over all past batches, if the state has them."""
        return None

    def without_history(self, kept: Kept) -> Kept:
        """Return the state without the parts that only bounds need."""
        return kept

    def with_budget(self, problem: Problem, kept: Kept, left: Floats) -> Kept:
        """Return the state after a budget change that leaves `left` results."""
        return kept

    def why_final(self, problem: Problem, kept: Kept) -> str | None:
        """Explain why a rule that has ended cannot continue with a larger budget; None if it can."""
        return "there is an answer"

    def effect_of_budget(
        self, problem: Problem, trial: Trial[Any, Kept], budget: int, names: Sequence[str]
    ) -> str | None:
        """Describe the effect of another budget; None if bets do not depend on it. One run."""
        return None

    # --- reports; one run only

    def describe(self, delta: float) -> str | None:
        """Describe the rule in sentences for a protocol."""
        return None

    def claims(self, problem: Problem, trial: Trial[Any, Kept], names: Sequence[str]) -> list[ClaimStatus]:
        """List everything that must be shown, which is the whole stopping condition."""
        return []

    def standing(self, problem: Problem, trial: Trial[Any, Kept]) -> TrialStatus:
        """Return the further status of the trial."""
        return TrialStatus()

    def notes(self, problem: Problem, trial: Trial[Any, Kept]) -> list[Note]:
        """List notes for readers of the report; `Note("rule", text=...)` has a text of your own."""
        return []

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch], kept: Kept | None = None) -> Bounds:
        """Return bounds after these batches, which sum to this record; they agree with the state `kept` if given."""
        return Bounds(lambda: threshold_interval(problem, record, Lemma32ByCounts()))

    def evidence(self, problem: Problem, trial: Trial[Any, Kept], names: Sequence[str]) -> tuple[Floats, Floats, Bools]:
        """Return, for each claim, its log evidence, the threshold that this must reach, and whether it is shown."""
        claims = self.claims(problem, trial, names)
        return (
            np.array([each.evidence for each in claims], dtype=np.float64),
            np.array([each.bar for each in claims], dtype=np.float64),
            np.array([each.shown for each in claims], dtype=np.bool_),
        )


def threshold_interval(problem: Problem, record: Record, threshold: Threshold) -> Interval:
    """Intervals for single means from a joint threshold: the whole deviation is attributed to one arm."""
    bar = float(threshold.value(problem, record.counts))
    sigma = math.inf if problem.noise.known_sigma is None else problem.sigma
    with np.errstate(divide="ignore"):
        radius = sigma * np.sqrt(2 * bar / problem.weighed(record.counts))
    low, high = problem.noise.mean_range
    return Interval(np.maximum(record.means - radius, low), np.minimum(record.means + radius, high))
