"""What a stopping rule owes, and what it may say of itself: what must be shown, what became of it, and its bounds.

A rule folds over the batches: it sees what was planned before a batch and what came back, and keeps what it
needs. The error guarantee rests on it alone: any sampling, also pulling more or less than asked, keeps it. The
exceptions are rules that are `Exacting`: they cannot decide once a batch came back otherwise than planned.

A rule may have, besides: `anytime`, that it may be asked after a batch of any size; `looks_ahead`, that it uses what is
left of a budget; `prolonged(problem, kept, left)` and `final(problem, kept)`, how it goes on after another budget was
said, and why it cannot after its end; `struck(problem, trial, means)`, where it has wrongly ruled out what is true;
`words(delta)`, what it does as sentences for a protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.estimates import Past
from roundwise.noise import range_of_means
from roundwise.problem import Problem
from roundwise.questions.base import Answer
from roundwise.state import Batch, Kept, Plan, Record, Trial
from roundwise.stopping.thresholds import Counts, Threshold


class Stopping(Protocol[Kept]):
    """When an answer may be given, and which."""

    def check(self, problem: Problem) -> None:
        """Raise an InputError if the rule does not fit the problem."""

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """What the rule keeps, before the first batch: None or a named tuple of arrays."""

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """What the rule keeps after a batch that was planned so."""

    def stops(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether to stop now, before the plan of the trial is pulled."""

    def answer(self, problem: Problem, trial: Trial[Any, Kept]) -> Answer:
        """The answer to give when it stops."""

    def doubt(self, problem: Problem) -> str | None:
        """What stands between the rule and a guarantee, or None.

        Either "no guarantee: " and why, or "conditional on the assumption that " and what must be true.
        """


@runtime_checkable
class Exacting(Stopping[Kept], Protocol[Kept]):
    """A rule that decides only as long as every batch came back just as it was planned."""

    def broken(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether one did not, so that the rule never stops."""


@runtime_checkable
class Carrying(Stopping[Kept], Protocol[Kept]):
    """A rule that goes on from what was won by other rules, with what is known otherwise."""

    def carried(self, problem: Problem, won: Any, past: Past) -> Kept:
        """What was won so far, with this past, and the bets of this rule from here on."""


def carrying(rule: Stopping) -> TypeGuard[Carrying]:
    """Whether the rule is one of these."""
    return isinstance(rule, Carrying)


@runtime_checkable
class Taught(Stopping[Kept], Protocol[Kept]):
    """A rule that earlier data may teach."""

    def taught(self, problem: Problem, kept: Kept, batch: Batch, left: Floats | None) -> Kept:
        """What is kept before the first batch, with earlier results known and not bet on; `left` is the budget."""


def teachable(rule: Stopping) -> TypeGuard[Taught]:
    """Whether the rule is one of these."""
    return callable(getattr(rule, "taught", None))


def exacting(rule: Stopping) -> TypeGuard[Exacting]:
    """Whether the rule is one of these: asked after every batch, so by the one thing that it has besides."""
    return callable(getattr(rule, "broken", None))


def anytime(rule: Stopping) -> bool:
    """Whether the rule may be asked after a batch of any size, whoever chose that."""
    return bool(getattr(rule, "anytime", False))


def looks_ahead(rule: Stopping) -> bool:
    """Whether the rule uses what is left of a budget, so that a plan must say it."""
    return bool(getattr(rule, "looks_ahead", False))


def prolonged(rule: Stopping, problem: Problem, kept: Any, left: Floats) -> Any:
    """What the rule keeps after another budget was said; the same, if what is left is nothing to it."""
    own = getattr(rule, "prolonged", None)
    return kept if own is None else own(problem, kept, left)


def final(rule: Stopping, problem: Problem, kept: Any) -> str | None:
    """Why a rule that has ended goes on with no budget; None if it may."""
    own: Callable[[Problem, Any], str | None] | None = getattr(rule, "final", None)
    return "there is an answer" if own is None else own(problem, kept)


def struck(rule: Stopping, problem: Problem, trial: Trial, means: Floats) -> Bools:
    """Where the rule has ruled out what is true of these means, whether an answer was given or not. ()"""
    own = getattr(rule, "struck", None)
    return np.zeros(trial.done.shape, dtype=np.bool_) if own is None else np.asarray(own(problem, trial, means))


def rule_words(rule: Stopping, delta: float) -> str | None:
    """What the rule does, in sentences for a protocol, if it says so."""
    own: Callable[[float], str] | None = getattr(rule, "words", None)
    return None if own is None else own(delta)


class About(NamedTuple):
    """The quantity that a claim is about, a form of the means, and what it is said to lie above (or below)."""

    arms: tuple[int, ...]
    factors: tuple[float, ...]
    level: float
    below: bool = False


class Claim(NamedTuple):
    """Something that must be shown: in logs, what was won for it and the bar it must pass."""

    words: str
    evidence: float
    bar: float
    shown: bool
    spare: float | None = None  # by how much it holds, at least, where that was computed
    left: str | None = None  # the arm that may be the best as long as it is not shown, if it says so of one
    about: About | None = None  # where it is about one form of the means
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
    single_lower: float | None = None  # bounds that take no part in what is shown, nor it in them
    single_upper: float | None = None


class Standing(NamedTuple):
    """What else a rule has to say of a trial."""

    compares: bool = False  # whether a shift of all arms together does not matter to the decision
    emptied: bool = False  # whether every answer has been ruled out: the right one, too
    agrees: bool = False  # whether bounds of means agree with the decision, each on its own


class Interval(NamedTuple):
    """Bounds for each arm; infinite where the data say nothing."""

    lower: Floats  # (K)
    upper: Floats  # (K)


class Behind(NamedTuple):
    """How far each arm is behind others; None for what is not bounded."""

    best: Floats | None  # (K), the best arm, at least
    least: Floats | None  # (K), the arm that leads, at least
    most: Floats  # (K), the arm that leads, at most; 0 for itself


class Bounds(NamedTuple):
    """Bounds of one run that hold at all times, each computed when it is asked for."""

    means: Callable[[], Interval]  # of the mean of each arm
    spare: Callable[[], Floats | None] = lambda: None  # by how much each claim holds, at least, in their order
    behind: Callable[[int | None, Floats], Behind | None] = lambda leader, spare: None  # if the best arm is asked for
    against: Callable[[int], Interval | None] = lambda control: None  # how far each arm is above the control


@runtime_checkable
class Explained(Protocol):
    """What a rule owes, besides, to be shown in reports; `explained` stands in for rules that do not."""

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[Claim]:
        """What must be shown, one line each: this is the stopping rule. One run only."""

    def standing(self, problem: Problem, trial: Trial) -> Standing:
        """What else there is to say. One run only."""

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch], kept: Any = None) -> Bounds:
        """Bounds after these batches, which make this record; they agree with what was `kept`, if it is given."""


class Unexplained:
    """A rule of which nothing is known."""

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[Claim]:
        """None."""
        return []

    def standing(self, problem: Problem, trial: Trial) -> Standing:
        """Nothing."""
        return Standing()

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch], kept: Any = None) -> Bounds:
        """Those that hold however it was sampled."""
        return Bounds(lambda: deviations(problem, record, Counts()))


def explained(rule: Stopping) -> Explained:
    """The rule, as far as it explains itself."""
    return rule if isinstance(rule, Explained) else Unexplained()


def evidence_of(rule: Stopping, problem: Problem, trial: Trial, names: Sequence[str]) -> tuple[Floats, Floats, Bools]:
    """log of what was won for each claim, of what it must reach, and whether it is shown; by `evidence` of the rule."""
    own = getattr(rule, "evidence", None)
    if own is not None:
        found: tuple[Floats, Floats, Bools] = own(problem, trial)
        return found
    claims = explained(rule).claims(problem, trial, names)
    won, bars, shown = ([each[i] for each in claims] for i in (1, 2, 3))
    return np.array(won, dtype=np.float64), np.array(bars, dtype=np.float64), np.array(shown, dtype=np.bool_)


def rule_notes(rule: Stopping, problem: Problem, trial: Trial) -> list[str]:
    """What should be known of a rule besides, by its `notes`. One run only."""
    own: Callable[[Problem, Trial], list[str]] | None = getattr(rule, "notes", None)
    return [] if own is None else own(problem, trial)


def deviations(problem: Problem, record: Record, threshold: Threshold) -> Interval:
    """Means within the deviation of all arms together that a threshold bounds, all of it on one arm."""
    bar = float(threshold.value(problem, record.counts))
    radius = problem.sigma * np.sqrt(2 * bar / np.maximum(problem.weighed(record.counts), 1e-300))
    low, high = range_of_means(problem.noise)
    return Interval(np.maximum(record.means - radius, low), np.minimum(record.means + radius, high))
