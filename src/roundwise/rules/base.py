"""The base class of stopping rules, and what a rule reports: claims, bounds, how the trial stands.

A rule folds over the batches: it takes what was planned before a batch and what came back, and returns its new state.
The error guarantee rests on the rule alone: any sampling keeps it, also pulling more or less than asked. The exception
are rules with `exact_batches`, which cannot decide once a batch differs from its plan.
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
    """The quantity that a claim is about, a form of the means, and the level it is claimed to exceed (or not)."""

    arms: tuple[int, ...]
    factors: tuple[float, ...]
    level: float
    below: bool = False


class ClaimStatus(NamedTuple):
    """Something that must be shown: in logs, what was won for it and the bar it must pass."""

    words: str
    evidence: float
    bar: float
    shown: bool
    margins: float | None = None  # by how much it holds, at least, where that was computed
    left: str | None = None  # the arm that may be the best as long as it is not shown, if it says so of one
    about: LinearForm | None = None  # where it is about one form of the means
    label: str | None = None  # its shortest name
    shown_at: int | None = None  # the batch after which it was shown, where that is kept
    samples: int | None = None  # after how many results
    estimate: float | None = None  # of what it is about
    lower: float | None = None
    upper: float | None = None
    chance: float | None = None  # that it is shown by the end: a forecast
    margin: float | None = None  # what it says is exceeded (or not)
    given_up: bool = False  # whether no more results go to it, as things stand
    opposite: bool = False  # whether it says that another claim does not hold
    scale: str | None = None  # what the sizes are of, if of no mean or difference; "odds ratio": they are its logarithm
    adjusted: float | None = None  # log of the e-value adjusted for all claims: the bar of all is 1/delta
    single_lower: float | None = None  # bounds that do not affect the decision
    single_upper: float | None = None
    metric: int = 0  # that it is about, where there are several


class TrialStatus(NamedTuple):
    """Further status of a trial under a rule."""

    compares: bool = False  # whether a shift of all arms together does not matter to the decision
    all_rejected: bool = False  # whether every answer has been ruled out: the right one, too
    bounds_match_decision: bool = False  # whether bounds of means agree with the decision, each on its own


class Interval(NamedTuple):
    """Bounds for each arm; infinite where the data say nothing."""

    lower: Floats  # (K)
    upper: Floats  # (K)


class GapToLeader(NamedTuple):
    """How far each arm is behind others; None for what is not bounded."""

    best: Floats | None  # (K), the best arm, at least
    least: Floats | None  # (K), the arm that leads, at least
    most: Floats  # (K), the arm that leads, at most; 0 for itself


class Bounds(NamedTuple):
    """Bounds of one run that hold at all times, each computed when it is asked for."""

    means: Callable[[], Interval]  # of the mean of each arm
    margins: Callable[[], Floats | None] = lambda: None  # by how much each claim holds, at least, in their order
    gap_to_leader: Callable[[int | None, Floats], GapToLeader | None] = lambda leader, spare: (
        None
    )  # if the best arm is asked for
    against: Callable[[int], Interval | None] = lambda control: None  # how far each arm is above the control


class StoppingRule(ABC, Generic[Kept]):
    """When an answer may be given, and which.

    A rule of your own defines `stops`, `answer` and `doubt`. Rules that need more than the sums of the record keep a
    state: a named tuple of arrays that `start` returns and `fold` updates.
    """

    any_time: ClassVar[bool] = False  # whether it may be evaluated after batches of any size
    uses_budget: ClassVar[bool] = False  # whether it uses how many results are left; plans must then say so
    exact_batches: ClassVar[bool] = False  # whether it decides only while every batch comes back as planned
    always_ends: ClassVar[bool] = False  # whether every study has an answer, also where arms tie
    learns: ClassVar[bool] = False  # whether `warm_start` and `restart` may be called
    several_metrics: ClassVar[bool] = False  # whether it shows claims about further metrics (`Problem.metrics`)
    migrates: ClassVar[bool] = False  # whether arms may join and leave because of results

    def bets_on_whole_batches(self, problem: Problem) -> bool:
        """Of a rule that uses a budget: whether it bets on whole batches only, never on their parts."""
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
            trial: The trial, whose plan is not pulled yet.

        Returns:
            A truth value for each run.
        """

    @abstractmethod
    def answer(self, problem: Problem, trial: Trial[Any, Kept]) -> Answer:
        """Return the answer to give when it stops.

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
        """Say the answer in words. One run."""
        return problem.question.answer_text(self.answer(problem, trial), names)

    @abstractmethod
    def doubt(self, problem: Problem) -> Doubt | None:
        """Return what stands between the rule and a guarantee, or None.

        Either a `Reason` that there is none, or a `Condition` under which there is one; `Reason("rule", text=...)` and
        `Condition("rule", text=...)` have a text of your own.
        """

    def sizing_threshold(self) -> Threshold:
        """Return the threshold that policies size their batches for: that of the rule, or Lemma 3.2 if it has none."""
        return Lemma32()

    def broken(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether the rule never stops: with `exact_batches`, because a batch differed from its plan. ()"""
        return np.zeros(trial.done.shape, dtype=np.bool_)

    def false_rejection(self, problem: Problem, trial: Trial[Any, Kept], means: Floats) -> Bools:
        """Whether the rule has ruled out what is true of these means, whether or not an answer was given. ()"""
        return np.zeros(trial.done.shape, dtype=np.bool_)

    # --- state of a live study

    def state_tag(self, problem: Problem) -> str:
        """Name the kind of state and its version, for the record of a study; rules of one tag continue one another."""
        return "none/1"

    def save(self, problem: Problem, kept: Kept) -> Any:
        """Return the part of the state from which `restore` makes all of it: None or a named tuple of arrays."""
        return kept

    def restore(self, problem: Problem, saved: Any) -> Kept:
        """Return the state that was saved."""
        return saved

    def warm_start(self, problem: Problem, kept: Kept, batch: Batch, left: Floats | None) -> Kept:
        """Return the state before the first batch with earlier results known but not bet on; `left` is the budget."""
        raise InputError(f"The stopping rule {type(self).__name__} cannot use earlier data.")

    def effect_of_change(self, problem: Problem, dropped: bool) -> str | None:
        """Say what an arm `{arm}` that leaves (or joins) because of results does to the evidence; None: it may not."""
        return None

    def migrate(self, before: Problem, after: Problem, kept: Kept, dropped: int | None, past: Past) -> Kept:
        """Return the state after an arm left (its number is `dropped`) or a last one joined, with this past."""
        raise InputError(f"The stopping rule {type(self).__name__} has fixed arms.")

    def restart(self, problem: Problem, past: Past, left: Floats | None) -> Kept:
        """Return the state in which nothing is won, and these results are known; `left` are still to come."""
        raise InputError(f"The stopping rule {type(self).__name__} cannot start again.")

    def past(self, kept: Kept) -> Past | None:
        """Return the sums over all past batches, if the state has them."""
        return None

    def without_history(self, kept: Kept) -> Kept:
        """Return the state without what only bounds need."""
        return kept

    def with_budget(self, problem: Problem, kept: Kept, left: Floats) -> Kept:
        """Return the state after the budget was changed to leave `left` results."""
        return kept

    def why_final(self, problem: Problem, kept: Kept) -> str | None:
        """Say why a rule that has ended cannot continue with a larger budget; None if it can."""
        return "there is an answer"

    def effect_of_budget(
        self, problem: Problem, trial: Trial[Any, Kept], budget: int, names: Sequence[str]
    ) -> str | None:
        """Say what another budget would bring; None if it has no part in the bets. One run."""
        return None

    # --- reports; one run only

    def describe(self, delta: float) -> str | None:
        """Describe the rule in sentences for a protocol."""
        return None

    def claims(self, problem: Problem, trial: Trial[Any, Kept], names: Sequence[str]) -> list[ClaimStatus]:
        """List what must be shown; all of it is the stopping rule."""
        return []

    def standing(self, problem: Problem, trial: Trial[Any, Kept]) -> TrialStatus:
        """Return the further status of the trial."""
        return TrialStatus()

    def notes(self, problem: Problem, trial: Trial[Any, Kept]) -> list[Note]:
        """List what readers of a report should know; `Note("rule", text=...)` has a text of your own."""
        return []

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch], kept: Kept | None = None) -> Bounds:
        """Return bounds after these batches, which make this record; they agree with the state `kept` if given."""
        return Bounds(lambda: threshold_interval(problem, record, Lemma32ByCounts()))

    def evidence(self, problem: Problem, trial: Trial[Any, Kept], names: Sequence[str]) -> tuple[Floats, Floats, Bools]:
        """Return, for each claim, the log of its evidence, the log of what it must reach, and whether it is shown."""
        claims = self.claims(problem, trial, names)
        return (
            np.array([each.evidence for each in claims], dtype=np.float64),
            np.array([each.bar for each in claims], dtype=np.float64),
            np.array([each.shown for each in claims], dtype=np.bool_),
        )


def threshold_interval(problem: Problem, record: Record, threshold: Threshold) -> Interval:
    """Means within the deviation of all arms together that a threshold bounds, all of it on one arm."""
    bar = float(threshold.value(problem, record.counts))
    sigma = math.inf if problem.noise.known_sigma is None else problem.sigma
    with np.errstate(divide="ignore"):
        radius = sigma * np.sqrt(2 * bar / problem.weighed(record.counts))
    low, high = problem.noise.mean_range
    return Interval(np.maximum(record.means - radius, low), np.minimum(record.means + radius, high))
