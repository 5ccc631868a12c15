"""What a rule says of itself, besides: what must be shown, what has become of it, and bounds that agree with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.noise import range_of_means
from roundwise.problem import Problem
from roundwise.state import Batch, Record, Trial
from roundwise.stopping.base import Stopping
from roundwise.stopping.thresholds import Counts, Threshold


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
