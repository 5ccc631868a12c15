"""The base class of noise models: assumptions about rewards, and the bets that they allow.

A bet takes the state before a batch and the batch, and returns log e-values for forms of the means exceeding their
offsets, or for single means lying above (or below) a level. The expectation of each e-value is at most 1 under every
law in its null, whatever the past (proofs: docs/why-the-guarantee-holds.md). `need` is the log of the factor by which
wealth must still grow; where it is not positive nothing is bet, and log e is 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.errors import InputError
from roundwise.messages import Approximation, Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, FormEstimate, Past, form_values, form_variances
from roundwise.noise.bets import (
    GaussianPartBets,
    PartBets,
    PartsData,
    bet_where_needed,
    log_factor_of_size,
    means_and_inverse_counts,
)
from roundwise.noise.budget_bets import drift_budget_bet
from roundwise.noise.payoffs import FULL, LookAim
from roundwise.solvers.halfspaces import Family, Halfspaces

AssumedShape = Literal["normal", "poisson"] | None  # the shape that the law of results is assumed to have
Needs = Literal["sums", "squares", "cubes", "rows"]
RowCheck = Literal["skewness", "kurtosis", "repeated", "deviations", "sigma", "dispersion", "ends", "cut"]
FixedSizeBet = Callable[[Floats], Floats]  # offsets (P) -> log e-values of each size, decreasing in the offset (k, P)

UNTRUE = Reason("wrong_noise_model")
ETA_OF_LOOKS = 0.5  # without an exact payoff: stop when the test at the budget is more likely to reject than not


class Outcome(NamedTuple):
    """The values that a result may take, and the message for an invalid one."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False  # whether results are whole numbers
    normal: bool = False  # whether results are normal with exactly the assumed sigma
    wrong: str = "is impossible under the noise model this study was created with."
    remedy: str = "another noise model."  # a template of `Remedy`; its fields low and high enclose the result
    clip: bool = False  # whether values beyond low and high are clipped to them

    @property
    def rates(self) -> bool:
        """Whether results are 0 or 1, so that means are rates."""
        return self.whole and (self.low, self.high) == (0.0, 1.0)

    @property
    def counts(self) -> bool:
        """Whether results are non-negative whole numbers."""
        return self.whole and (self.low, self.high) == (0.0, math.inf)

    @property
    def limited(self) -> bool:
        """Whether results lie in a bounded range."""
        return math.isfinite(self.low) and math.isfinite(self.high)


class Scale(NamedTuple):
    """Estimates on a scale on which they are nearly normal."""

    estimate: Floats  # (K)
    variance: Floats  # (K)
    of: Callable[[float], float]  # from a mean to this scale
    back: Callable[[Floats], Floats]  # from this scale to means
    unit: float  # the standard deviation of one result on this scale


class Noise(ABC):
    """An assumption about the rewards, and the bets that it allows.

    A noise model of your own defines `name` and `words`, and either `sigma`, which makes the default, sub-Gaussian bets
    valid (Lemma 1), or bets of its own. Everything else has a default.
    """

    name: ClassVar[str]  # in specifications and records
    needs: ClassVar[Needs] = "sums"  # "squares": also variances; "cubes": also skewness; "rows": every value
    law: ClassVar[Literal["binary", "poisson"] | None] = None  # name in records of the law that splits sums into parts
    most_parts: ClassVar[int] = 1_000_000  # parts of one batch
    few_rows: ClassVar[float] = 0.0  # with fewer results of an arm in a batch, bets lose much of their power
    shares_items: ClassVar[bool] = False  # whether arms are tried on the same items
    merges_arms: ClassVar[bool] = False  # whether results of several arms can be pooled as those of one arm
    row_checks: ClassVar[tuple[RowCheck, ...]] = ()  # checks of rows against the model (ingest/row_checks.py)
    shape: ClassVar[AssumedShape] = None  # of the law of results; rows may contradict it
    looks_in_parts: ClassVar[bool] = True  # whether designed looks bet part by part, since their exact law is unknown
    monotone_budget_bets: ClassVar[bool] = False  # whether budget bets decrease in the offset (Proposition 17)

    @property
    @abstractmethod
    def words(self) -> str:
        """The assumption, as a sentence."""

    @property
    def outcome(self) -> Outcome:
        """The values that one result may take."""
        return Outcome()

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant, E exp(s (X - mu)) <= exp(sigma^2 s^2 / 2); an InputError if the model has none."""
        raise InputError(f"The noise model '{self.name}' has no sigma. Use the policy 'wager', or name a sigma.")

    @property
    def estimates_variance(self) -> bool:
        """Whether the variance is unknown and estimated from sums of squares."""
        return self.needs in ("squares", "cubes")

    @property
    def approximation(self) -> Approximation | None:
        """Why the guarantee only holds in large samples; None if it holds in all."""
        return None

    @property
    def known_sigma(self) -> float | None:
        """The sub-Gaussian constant, or None."""
        try:
            return self.sigma
        except InputError:
            return None

    @property
    def largest_deviation(self) -> float | None:
        """The largest standard deviation that the model allows, if it names one; plans assume it."""
        return self.known_sigma

    @property
    def arm_sigmas(self) -> Floats | None:
        """The known standard deviation of each arm, if these differ. (K)"""
        return None

    @property
    def mean_range(self) -> tuple[float, float]:
        """The smallest and the largest possible mean."""
        return self.outcome.low, self.outcome.high

    @property
    def family(self) -> Family | None:
        """The one-parameter family of the rewards; None if there is none, and for normal rewards of equal variance."""
        return None

    @property
    def flags(self) -> Sequence[str] | None:
        """The command-line options that select the model; None for `--noise`."""
        return None

    def at_level(self, delta: float) -> Noise:
        """Return the model for an error probability of delta."""
        return self

    def rows_before_bets(self, past: Past) -> Floats | None:
        """The results that each arm needs before it is bet on, as estimated from the past; None: at most 2. (K)"""
        return None

    def rows_at_skewness(self, skewness: Floats) -> Floats | None:
        """As `rows_before_bets`, for results with this skewness. ()"""
        return None

    def check_arms(self, arms: int) -> None:  # noqa: B027 - an intended default
        """Raise an InputError if the model does not fit this number of arms."""

    def doubt(self, true: Noise) -> Reason | None:
        """Return why results of the model `true` do not satisfy this one; None if they do."""
        return None if self == true else UNTRUE

    def with_items(self) -> Noise:
        """Return the model for arms tried on the same items."""
        raise InputError(
            f"The noise model '{self.name}' has no bets on items that several arms are tried on. Use 0/1 results, "
            "a range, or normal results of unknown deviation; or try every arm on separate items."
        )

    def without_items(self) -> Noise:
        """Return the model for arms that do not share items."""
        return self

    # --- plug-in estimates: they size bets and batches; no guarantee rests on them

    def variance(self, past: Past) -> Floats:
        """Return an estimate of the variance of one result. ()"""
        return np.full(past.counts.shape[:-1], self.sigma**2, dtype=np.float64)

    def variances(self, past: Past) -> Floats:
        """Return an estimate of the variance of one result of each arm. (K)"""
        return np.broadcast_to(self.variance(past)[..., None], past.counts.shape)

    def difference_variances(self, past: Past, pieces: Halfspaces) -> Floats:
        """Return an estimate of the variance of each form of one result per arm (per item, if items are shared). (P)"""
        return form_variances(self.variances(past), pieces)

    def variance_per_arm(self, past: Past, pieces: Halfspaces) -> Floats | None:
        """Return the variance that makes independent arms as informative of each form as arms on shared items.

        None if items are not shared. (P)
        """
        return None

    def estimate_forms(self, known: Estimates, pieces: Halfspaces) -> FormEstimate:
        """Return the estimate of each form from the past. (P)"""
        return known.forecast(pieces)

    def scale(self, counts: Floats, totals: Floats) -> Scale | None:
        """Return the estimates on a scale on which they are nearly normal; None if that is the scale of the means."""
        return None

    # --- bets

    def part_bets(self, data: PartsData) -> PartBets:
        """Return the bets on the parts of a batch."""
        return GaussianPartBets(self.sigma)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """Return the bets behind confidence bounds, whose sizes do not depend on the offset (Proposition 11). (k, P)

        Size k is optimal for a difference of `drifts[k]`, (k, 1) or (k, P), standard errors of the form after `units`
        (K) results per arm.
        """
        means, inverse = means_and_inverse_counts(batch)
        new, error = form_values(means, pieces), self.sigma * np.sqrt(form_variances(inverse, pieces))
        sizes = drifts * self.sigma * np.sqrt(form_variances(1.0 / units, pieces)) / error
        return lambda offsets: log_factor_of_size(sizes, new - offsets, error)

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Return log e for each form exceeding its offset, with a bet that aims at the end of a budget. (P)

        `rho` is the share of this batch in all results still to come. A claim is shown early once the conditional power
        of the test at the end of the budget exceeds 1 - `eta` (noise/budget_bets.py).
        """
        return bet_where_needed(drift_budget_bet, need, self.standard_score(batch, pieces), need, rho)

    @quiet
    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        """Return the level of "this form is at most its offset" after a designed look (Proposition 44). (P)

        The default is the payoff of a budget bet; a model that knows the exact law of the look uses it.
        """
        open_ = (level > 0) & (level < FULL)
        need = np.where(open_, -np.log(level), 0.0)
        logs = self.budget_bet(known, batch, pieces, need, np.broadcast_to(aim.rho, level.shape), ETA_OF_LOOKS)
        return np.where(open_, np.minimum(level * np.exp(logs), 1.0), level)

    def odds_budget_bet(self, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float) -> Floats:
        """Return log e for the log odds of the first arm exceeding those of the second by the offset. (P)"""
        raise InputError("Odds ratios compare rates: they need 0/1 results.")

    def draw_part_totals(
        self, rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int
    ) -> Floats | None:
        """Draw the totals of the parts of a random partition given the total of all rows; None if rows are needed.

        The law must not depend on the means. Counts (P, K, 1, ...), totals (K, 1, ...) -> (P, K, partitions, ...).
        """
        return None

    @quiet
    def standard_score(self, batch: Batch, pieces: Halfspaces) -> Floats:
        """Return each form of the batch's means minus its offset, in standard errors; nan without results. (P)"""
        means, inverse = means_and_inverse_counts(batch)
        error = self.sigma * np.sqrt(form_variances(inverse, pieces))
        return np.where(np.isfinite(error), (form_values(means, pieces) - pieces.offsets) / error, np.nan)


# --- tests of the noise model itself, whatever the means are (Proposition 29)


FALSE_ALARM = 1e-3  # an upper bound on the probability that a true model is ever refuted
BAR = math.log(2 / FALSE_ALARM)  # log threshold of each of two tests
_PRIOR = 1.0  # prior sample size of the mixture over normal means
_TILTS = 0.97 * 0.7 ** np.arange(30)  # u, the grid of the mixture over exponents
_NORMAL = 0.5 * np.log1p(-_TILTS)  # log 1/E exp(u z^2/2), z sub-Gaussian
_CHERNOFF = np.log1p(-_TILTS) - _TILTS * math.log(2)  # log 1/E exp(u x) at most, where P(x >= t) <= 2 exp(-t)


class RefutationState(NamedTuple):
    """The state of the tests of the noise model itself (Proposition 29).

    For all possible means there are e-processes against "these are the means, and the noise is as assumed". Once even
    the smallest over all means reaches the threshold, the confidence set of the means is empty and the model is
    refuted. A true model ever is with probability at most `FALSE_ALARM`, however often one looks. The tests are:

    - *Between batches*: the deviance of an arm's batch means from its overall mean, for values in a range, counts, and
      every model with a sigma. It detects means that move and dependent rows.
    - *Within batches*: the scatter of results about the mean of their batch. It detects a sigma that is too small.
    - *Normal results of unknown deviation*: a confidence sequence for the mean of each arm, which may become empty.
    """

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats  # (K), sum of squares about the mean of the arm; nan once a batch had none
    lower: Floats  # (K), ends of the confidence sequence, if the deviation is unknown
    upper: Floats  # (K)
    deviance: Floats  # (K), of the batch means from the overall means
    batches: Floats  # (K), the number of batch means in it
    squares: float = 0.0  # within batches and arms, in units of sigma^2
    rows: float = 0.0  # the number of results in it
    log_between: float = 0.0  # log of the largest wealth so far against batches that lie apart
    log_within: float = 0.0  # log of the largest wealth so far against results that vary too much

    @classmethod
    def none(cls, arms: int) -> RefutationState:
        """The state before the first batch."""
        nothing = np.zeros(arms)
        return cls(nothing, nothing, nothing, np.full(arms, -np.inf), np.full(arms, np.inf), nothing, nothing)

    @property
    def moving(self) -> int | None:
        """The arm whose batch means lie furthest apart, if no means fit them all."""
        if (self.lower > self.upper).any():
            return int((self.lower - self.upper).argmax())
        return int(self.deviance.argmax()) if self.log_between >= BAR else None

    @property
    def spreading(self) -> bool:
        """Whether results vary more than sigma allows."""
        return self.log_within >= BAR


@quiet
def update_refutation(noise: Noise, held: RefutationState, batch: Batch) -> RefutationState:
    """Return the state after one more batch."""
    n, more, seen = held.counts, batch.counts, batch.counts > 0
    counts, totals = n + more, held.totals + batch.totals
    old, new = held.totals / np.maximum(n, 1.0), batch.totals / np.maximum(more, 1.0)
    mean = totals / np.maximum(counts, 1.0)
    within = np.where(more > 1, np.nan, 0.0) if batch.scatter is None else batch.scatter
    squares = n * more / np.maximum(counts, 1.0) * (new - old) ** 2
    found = held._replace(counts=counts, totals=totals, scatter=held.scatter + within + squares)
    sigmas = _sigmas(noise)
    if sigmas is not None and batch.scatter is not None:
        square = held.squares + float((batch.scatter / sigmas**2).sum())
        rows = held.rows + float(more.sum())
        spread = max(held.log_within, _log_mean(_TILTS * square / 2 + rows * _NORMAL))
        found = found._replace(squares=square, rows=rows, log_within=spread)
    if sigmas is None and not noise.outcome.limited and not noise.outcome.counts:
        if not (noise.needs == "squares" and noise.estimates_variance):
            return found
        radius = _radius(counts, found.scatter, BAR + math.log(len(counts)))
        lower = np.where(seen, np.fmax(held.lower, mean - radius), held.lower)
        upper = np.where(seen, np.fmin(held.upper, mean + radius), held.upper)
        return found._replace(lower=lower, upper=upper)
    between = more * _deviance(noise, sigmas, new, mean) + np.where(n > 0, n * _deviance(noise, sigmas, old, mean), 0.0)
    deviance, cells = held.deviance + np.where(seen, between, 0.0), held.batches + seen
    factors = _CHERNOFF if sigmas is None else _NORMAL
    logs = _TILTS[:, None] * deviance + factors[:, None] * cells
    logs = logs if noise.shares_items else logs.sum(axis=-1)  # independent arms are multiplied
    return found._replace(deviance=deviance, batches=cells, log_between=max(held.log_between, _log_mean(logs)))


def _sigmas(noise: Noise) -> Floats | None:
    """The standard deviations of all arms; None if unknown, and for values in a range, which say more."""
    sigma = None if noise.outcome.limited else noise.known_sigma
    return None if sigma is None else np.asarray(sigma) if noise.arm_sigmas is None else noise.arm_sigmas


def _deviance(noise: Noise, sigmas: Floats | None, value: Floats, mean: Floats) -> Floats:
    """The deviance d of a mean of n results from the true mean, per result: P(n d >= t) <= exp(-t) on either side."""
    if sigmas is not None:
        return (value - mean) ** 2 / (2 * sigmas**2)
    outcome = noise.outcome
    if not outcome.limited:
        return _excess(value, mean - value)
    width = outcome.high - outcome.low
    value, mean = (np.clip((each - outcome.low) / width, 0.0, 1.0) for each in (value, mean))
    return _excess(value, mean - value) + _excess(1.0 - value, value - mean)


@quiet
def _excess(value: Floats, off: Floats) -> Floats:
    """value h(off/value) with h(x) = x - log(1 + x); its limit, off, at 0."""
    share = np.maximum(off / value, -1.0)
    return np.where(value > 0, value * (share - np.log1p(share)), np.maximum(off, 0.0))


@quiet
def _radius(n: Floats, scatter: Floats, bar: float) -> Floats:
    """The half-width of the confidence sequence for an arm's mean: a normal mixture of t statistics, over all n."""
    share = -(n + _PRIOR) * np.expm1(-(2 * bar + np.log1p(n / _PRIOR)) / n)  # a share of the sum of squares
    return np.where(share < n, np.sqrt(share * scatter / (n * (n - share))), np.inf)


def _log_mean(logs: Floats) -> float:
    return float(np.logaddexp.reduce(logs, axis=None)) - math.log(logs.size)
