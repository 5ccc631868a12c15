"""The problem, and the trial that solves it: the loop shared by live studies and simulations.

trial = begin(problem, policy)          # trial.plan.pulls has the pulls of each arm while not trial.done.all():
    trial = advance(problem, policy, trial, batch)
final_answer(problem, policy, trial) # the answer
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Array, Bools, Floats, tree_map, tree_where, zeros
from roundwise.errors import InputError, RoundwiseError
from roundwise.model.batch import Batch
from roundwise.noise import Gaussian, Noise
from roundwise.questions import Complexity, Question
from roundwise.questions.base import RATE_WORDING, Answer, Wording, wording_in_unit

if TYPE_CHECKING:  # type variables for the states of a policy and of a stopping rule: named tuples of arrays
    from typing_extensions import TypeVar

    from roundwise.policies.base import Policy

    Memory = TypeVar("Memory", default=Any)
    Kept = TypeVar("Kept", default=Any)
else:
    from typing import TypeVar

    Memory, Kept = TypeVar("Memory"), TypeVar("Kept")


@dataclass(frozen=True)
class Problem:
    """A question asked of a number of arms: find the answer with error probability at most delta.

    Args:
        question: The question about the means.
        arms: K, the number of arms.
        delta: The error probability.
        noise: The noise model of the rewards.
        unit: The unit of the rewards, for display.
        metrics: Claims about further metrics of the same rows, each with its own noise model: the error probability is
            that of all claims together (Proposition 32).
        prices: The price of a result of each arm; prices affect the allocation, never a bet.

    >>> from roundwise.questions import BestArm
    >>> Problem(BestArm(), arms=10, delta=0.05).sigma
    1.0
    """

    question: Question
    arms: int
    delta: float = 0.05
    noise: Noise = field(default_factory=Gaussian)
    unit: str = ""
    metrics: tuple[Problem, ...] = ()
    prices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.prices and (len(self.prices) != self.arms or not all(0 < each < math.inf for each in self.prices)):
            raise InputError("Prices are positive numbers, one for each arm.")
        if not isinstance(self.question, Question):
            raise InputError(
                f"A '{type(self.question).__name__}' is not a question: derive its class from roundwise.Question."
            )
        check_delta(self.delta)
        if not float(self.arms).is_integer():
            raise InputError(f"`arms` is {self.arms}, but must be a whole number.")
        self.question.check(self.arms)
        object.__setattr__(self, "noise", self.noise.at_level(self.delta))
        self.noise.check_arms(self.arms)
        self.question.check_range(*self.noise.mean_range)

    @property
    def wording(self) -> Wording:
        """How values are displayed: rates in per cent, everything else as plain numbers."""
        return RATE_WORDING if self.noise.outcome.rates else wording_in_unit(self.unit)

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant of the rewards."""
        return self.noise.sigma

    def weighed(self, counts: Floats) -> Floats:
        """Counts in units of results with deviation sigma: N_i sigma^2/sigma_i^2, if deviations differ between arms."""
        return counts if self.noise.arm_sigmas is None else counts * (self.sigma / self.noise.arm_sigmas) ** 2

    def evidence(self, counts: Floats, means: Floats) -> Floats:
        """The generalised likelihood ratio of the answer with the most evidence."""
        return self.question.evidence(self.weighed(counts), means, self.sigma)

    def verdict(self, counts: Floats, means: Floats) -> Answer:
        """The answer with the most evidence."""
        return self.question.verdict(self.weighed(counts), means)

    def fitted(self, counts: Floats, means: Floats) -> Floats:
        """The fitted means, given the empirical ones."""
        return self.question.fit_means(self.weighed(counts), means)

    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0) -> Complexity:
        """T* and w*; with a radius, their worst case over the ball."""
        if self.noise.arm_sigmas is None:
            return self.question.complexity(means, radius, self.sigma)
        return self.question.complexity_with_sigmas(means, radius, self.noise.arm_sigmas)

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0) -> Floats:
        """A cheap lower bound on the complexity."""
        if self.noise.arm_sigmas is None:
            return self.question.floor(means, radius, self.sigma)
        return self.question.floor_with_sigmas(means, radius, self.noise.arm_sigmas)

    @property
    def goal(self) -> float:
        """ln(1/delta): the log wealth at which a null is rejected."""
        return math.log(1 / self.delta)


def check_delta(delta: float) -> None:
    """Raise an InputError unless delta lies strictly between 0 and 1."""
    if 0 < delta < 1e-300:
        raise InputError(f"`delta` must be at least 1e-300; got {delta:g}.")
    if 0 < 1 - delta < 1e-9:
        raise InputError(f"`delta` must be below 1 - 1e-9; got {delta:.12g}.")
    if not 0 < delta < 1:
        hint = f" For {delta:g} % write {delta / 100:g}." if 1 <= delta < 100 and math.isfinite(delta) else ""
        raise InputError(f"`delta` is {delta:g}, but must lie strictly between 0 and 1.{hint}")


def check_whole_number(name: str, value: object, least: int) -> int:
    """The value as an integer of at least `least` (1e6 counts as one); otherwise an InputError."""
    try:
        number = int(value)  # type: ignore[call-overload]
        good = number == value and number >= least and not isinstance(value, bool | str)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        found = f"{value:g}" if isinstance(value, float) else repr(value)
        raise InputError(f"`{name}` is {found}, but must be a whole number of at least {least}.")
    return int(number)


class Declaration(NamedTuple):
    """The answer of a policy with its own stopping rule, and whether it has been given."""

    made: Bools  # ()
    answer: Array  # in the form of the question; meaningless until it is made


class BatchPlan(NamedTuple, Generic[Memory]):
    """The next batch: how often to pull each arm, and the state of the policy. (The function `plan` is a forecast.)

    Attributes:
        pulls: Pulls of each arm, whole numbers, (K).
        may_stop: Whether the stopping rule is evaluated before this batch is pulled, ().
        memory: The state of the policy, a named tuple of arrays; None if it has none.
        parts: The number of parts into which the batch is cut, in the order of its rows.
        declared: The answer, in every plan of a policy with its own stopping rule.
        left: Results left for later batches, if there is a budget, ().
        last: Whether this batch was declared the last before its results, ().
        looks: In a designed study, the number of batches planned after this one, ().
        jump: The boldness of the bets on its parts: 0 usual, -1 less, 1 more.

    >>> from roundwise import BestArm, Problem, Wager
    >>> Wager().first(Problem(BestArm(), arms=2), runs=()).pulls
    array([30., 30.])
    """

    pulls: Floats
    may_stop: Bools
    memory: Memory = None  # type: ignore[assignment]
    parts: int = 1
    declared: Declaration | None = None
    left: Floats | None = None
    last: Bools | None = None
    looks: Floats | None = None
    jump: int = 0


def budget_before(plan: BatchPlan) -> Floats | None:
    """The results left for this batch and all later ones, if there is a budget. ()"""
    return None if plan.left is None else np.asarray(plan.left + plan.pulls.sum(axis=-1))


class Record(NamedTuple):
    """All results so far, as sums."""

    counts: Floats
    totals: Floats
    batches: Floats  # (), the number of batches with any result

    @property
    def samples(self) -> Floats:
        """The total number of pulls, (K)->()."""
        return np.asarray(self.counts.sum(axis=-1))  # integers: exact in any order

    @property
    def means(self) -> Floats:
        """The empirical means; 0 for an arm without results."""
        counts = np.maximum(self.counts, 1.0)
        return np.divide(self.totals, counts, out=counts)

    def plus(self, batch: Batch) -> Record:
        any_result = (batch.counts > 0).any(axis=-1)
        return Record(self.counts + batch.counts, self.totals + batch.totals, self.batches + any_result)


class Trial(NamedTuple, Generic[Memory, Kept]):
    """A running experiment, in one run or many.

    Attributes:
        record: All results so far, as sums.
        batch: The last batch.
        plan: The next batch; while the policy plans, the batch just pulled.
        kept: The state of the stopping rule.
        done: Whether the rule has stopped, ().

    >>> from roundwise import BestArm, Problem, Wager, begin
    >>> begin(Problem(BestArm(), arms=2), Wager()).plan.pulls
    array([30., 30.])
    """

    record: Record
    batch: Batch
    plan: BatchPlan[Memory]
    kept: Kept
    done: Bools


def begin(problem: Problem, policy: Policy[Memory], runs: tuple[int, ...] = ()) -> Trial[Memory]:
    """Return the trial before its first batch.

    Args:
        problem: The question, the number of arms, delta and the noise model.
        policy: How to sample, and when to stop.
        runs: The shape of independent runs, () for one experiment.

    Returns:
        The trial; its `plan` is the first batch.
    """
    policy.check(problem)
    nothing = zeros((*runs, problem.arms))
    return Trial(
        Record(nothing, nothing, np.zeros(runs)),
        Batch(nothing, nothing),
        policy.first(problem, runs),
        policy.stopping.start(problem, runs),
        np.zeros(runs, dtype=np.bool_),
    )


def advance(problem: Problem, policy: Policy[Memory], trial: Trial[Memory], batch: Batch) -> Trial[Memory]:
    """Return the trial after a batch; empty plans are skipped.

    Args:
        problem: The problem of the trial.
        policy: The policy of the trial.
        trial: The trial before the batch.
        batch: The results of `trial.plan`; there may be more or fewer than planned.

    Returns:
        The trial; its `plan` is the next batch, unless it is `done`.
    """
    trial = _step(problem, policy, trial, batch)
    for _ in range(100):
        idle = ~trial.done & ~policy.stopping.broken(problem, trial) & (trial.plan.pulls.sum(axis=-1) == 0)
        if trial.plan.last is not None:
            idle &= ~trial.plan.last  # the budget is used up
        if trial.plan.declared is not None:
            idle &= ~trial.plan.declared.made  # the policy has declared its answer, whatever the rule says
        if not idle.any():
            return trial
        trial = tree_where(idle, _step(problem, policy, trial, tree_map(np.zeros_like, batch)), trial)
    raise RoundwiseError(f"The policy '{policy.name}' keeps planning empty batches.")


def final_answer(problem: Problem, policy: Policy, trial: Trial) -> Answer:
    """Return the answer of each run in which the trial is done.

    Args:
        problem: The problem of the trial.
        policy: The policy of the trial.
        trial: The trial.

    Returns:
        The answer of each run, in the form of the question.
    """
    return policy.stopping.answer(problem, trial)


def _step(problem: Problem, policy: Policy[Memory], trial: Trial[Memory], batch: Batch) -> Trial[Memory]:
    kept = policy.stopping.fold(problem, trial.kept, trial.plan, batch)
    trial = trial._replace(record=trial.record.plus(batch), batch=batch._replace(parts=None, pairs=None), kept=kept)
    trial = trial._replace(plan=policy.next(problem, trial))
    return trial._replace(done=policy.stopping.stops(problem, trial))
