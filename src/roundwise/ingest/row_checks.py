"""Do single rows contradict the noise model? Tests of its assumptions: a true model fails any in 1 of 1 000 studies.

An arm is checked at the end of the first round with 20, 40, 80, ... of its rows. The k-th check of one statistic of one
arm has level 0.001/(arms x statistics x k (k + 1)): the levels of a study add up to 1/1000. What was found stays.
Moments are taken about the means of rounds that have enough rows, so a shift of all arms between rounds is no finding.

- *Skewness* (D'Agostino 1970) and *kurtosis* (Anscombe and Glynn 1983; half the level, which its approximation needs).
- *Repeated value*: the commonest of the first 20 rows in more than half of the rows after them, a binomial tail.
- *Deviations*: the F test of each arm against the others.
- *Sigma*: a chi-squared law by its Chernoff bound (x e^(1-x))^(nu/2), x = s^2/sigma^2, which holds above sigma also for
  sub-Gaussian rows, as E exp(t Y^2) <= (1 - 2 t sigma^2)^(-1/2).
- *Dispersion* of counts (half the level): the sum of squares over the mean is chi-squared for means from 2 on. Below,
  the pairs C = sum x (x - 1)/2 have mean T (T - 1)/(2 N) given the total T; C/(1 + mean) is nearly Poisson.
- *All arms together*, as one arm more, when they have 20, 40, 80, ... rows: the sum of their scores of skewness, and of
  kurtosis, over the root of their number; and the dispersion within the round, where arms may have few rows each.

The statistics that they need are a few numbers per arm. Moments of files and rounds are combined by the pairwise
formulas (Pebay 2008), so nothing grows with the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Facts, Floats, Plain, pack, quiet, unpack
from roundwise.ingest.columns import Index
from roundwise.messages import Condition, Note
from roundwise.noise import Noise
from roundwise.noise.base import RowCheck

if TYPE_CHECKING:
    from roundwise.ingest.record import Results

TOGETHER = "all arms"  # whose rows are checked together
LARGE_COUNTS = 5.0  # mean from which few rows of an arm have a chi-squared sum of squares
FIRST = 20  # rows of an arm from which the value is taken whose repetitions are counted, and rows of the first check
FALSE_ALARM = 1e-3  # the probability that any check of a study under a true model finds something, at most
MOST = 30  # findings that are kept
ENOUGH = 128.0  # rows of an arm in every round, times its squared skewness, from which its bets are nearly exact
HUGE = 1e9  # larger sizes are not distinguished
CROWDED = 0.1  # share of rows at an end of the range that is worth a note

ASSUMPTIONS: dict[RowCheck, str] = {  # what a check tests: codes of `messages.py`
    "skewness": "normal",
    "kurtosis": "normal",
    "repeated": "normal",
    "deviations": "equal_variances",
    "sigma": "sigma",
    "dispersion": "poisson",
}
_JOINT: tuple[RowCheck, ...] = ("skewness", "kurtosis", "dispersion")  # checked of all arms together, too


# --- statistics of rows


class Moments(NamedTuple):
    """Sums of powers about the mean of each arm, and its extremes. (K) each"""

    counts: Floats
    means: Floats
    second: Floats  # sum (x - mean)^2
    third: Floats
    fourth: Floats
    groups: Floats  # means that were taken off: of all rows, or of each large round
    low: Floats  # the smallest value; inf without rows
    at_low: Floats  # how often it came
    high: Floats
    at_high: Floats
    capped: Floats  # rows beyond the cap, or below the floor
    cut: Floats  # how far beyond, in all

    @classmethod
    def none(cls, arms: int) -> Moments:
        """Before the first row."""
        no, inf = np.zeros(arms), np.full(arms, np.inf)
        return cls(no, no, no, no, no, no, inf, no, -inf, no, no, no)

    @quiet
    def plus(self, other: Moments, own_means: Bools | bool = False) -> Moments:
        """With more rows; arms with `own_means` leave out how far their means lie from those before. (K)

        Rounds may differ by a shift of all arms, which the noise models allow and these checks must not see.
        """
        n, m = self.counts, other.counts
        size = np.maximum(n + m, 1.0)
        off, shared = other.means - self.means, (n > 0) & (m > 0) & ~np.asarray(own_means)
        apart = np.where(shared, off, 0.0)
        second = self.second + other.second + apart**2 * n * m / size
        third = self.third + other.third + apart**3 * n * m * (n - m) / size**2
        third += 3 * apart * (n * other.second - m * self.second) / size
        fourth = self.fourth + other.fourth + apart**4 * n * m * (n * n - n * m + m * m) / size**3
        fourth += 6 * apart**2 * (n * n * other.second + m * m * self.second) / size**2
        fourth += 4 * apart * (n * other.third - m * self.third) / size
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(
            n + m,
            self.means + off * m / size,
            second,
            third,
            fourth,
            self.groups + other.groups - shared,
            low,
            self.at_low * (self.low == low) + other.at_low * (other.low == low),
            high,
            self.at_high * (self.high == high) + other.at_high * (other.high == high),
            self.capped + other.capped,
            self.cut + other.cut,
        )

    @quiet
    def rescaled(self, round: Moments, common: bool) -> Moments:
        """These rows as if they varied as much as those of a round: each arm by itself, or all by a `common` factor."""
        each = [(m.second.sum(), m.freedom.sum()) if common else (m.second, m.freedom) for m in (self, round)]
        before, now = (second / freedom for second, freedom in each)
        ratio = now / before
        factor = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)
        return self._replace(
            second=self.second * factor, third=self.third * factor**1.5, fourth=self.fourth * factor**2
        )

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of `second`."""
        return self.counts - self.groups

    @property
    @quiet
    def skewness(self) -> Floats:
        """g1 of each arm; nan where all values are equal."""
        return np.sqrt(self.counts) * self.third / self.second**1.5

    @property
    @quiet
    def kurtosis(self) -> Floats:
        """b2 of each arm, 3 for normal rows; nan where all values are equal."""
        return self.counts * self.fourth / self.second**2


class Repetition(NamedTuple):
    """How often one value comes again: the commonest of the first rows of an arm, counted in the rows after them."""

    first: Floats  # (K, up to 20), rows before the value was chosen; nan where there are fewer
    value: Floats  # (K), nan until there are 20 rows
    rows: Floats  # (K), those after
    hits: Floats  # (K), those of them with a value that was chosen before

    @classmethod
    def none(cls, arms: int) -> Repetition:
        """Before the first row."""
        no = np.zeros(arms)
        return cls(np.zeros((arms, 0)), np.full(arms, np.nan), no, no)

    def plus(self, file: Repetition) -> Repetition:
        """With the rows of a file; whichever value each is compared with, it was chosen before."""
        both = np.concatenate([self.first, file.first], axis=1)
        both = np.take_along_axis(both, np.argsort(np.isnan(both), axis=1, kind="stable"), axis=1)
        there, chosen = ~np.isnan(both), ~np.isnan(self.value)
        new = ~chosen & (there.sum(axis=1) >= FIRST)
        value = self.value.copy()
        value[new] = _commonest(both[new, :FIRST])
        later = there & (chosen | new)[:, None]
        later[:, :FIRST] &= ~new[:, None]
        hits = (later & (both == value[:, None])).sum(axis=1)
        first = np.where((chosen | new)[:, None], np.nan, both)
        width = int((~np.isnan(first)).sum(axis=1).max(initial=0))
        rows = self.rows + file.rows + later.sum(axis=1)
        return Repetition(first[:, :width], value, rows, self.hits + file.hits + hits)


class RowStatistics(NamedTuple):
    """Summary statistics of the rows of a file, or of all files of a study."""

    moments: Moments
    repetition: Repetition

    @classmethod
    def none(cls, arms: int) -> RowStatistics:
        """Before the first row."""
        return cls(Moments.none(arms), Repetition.none(arms))

    @classmethod
    def of_zero_one(cls, counts: Floats, ones: Floats) -> RowStatistics:
        """The statistics of results that are 0 or 1, of sums: as if the commonest came first, which is careful. (K)"""
        p, zeros, some = ones / np.maximum(counts, 1.0), counts - ones, counts > 0
        second, third, fourth = (ones * (1 - p) ** k + zeros * (-p) ** k for k in (2, 3, 4))
        moments = Moments.none(len(counts))._replace(
            counts=counts, means=p, second=second, third=third, fourth=fourth, groups=some.astype(np.float64)
        )
        low, high = np.where(zeros > 0, 0.0, 1.0), np.where(ones > 0, 1.0, 0.0)
        moments = moments._replace(
            low=np.where(some, low, np.inf),
            at_low=np.where(zeros > 0, zeros, ones),
            high=np.where(some, high, -np.inf),
            at_high=np.where(ones > 0, ones, zeros),
        )
        common, often = (ones > zeros).astype(np.float64)[:, None], np.maximum(ones, zeros)[:, None]
        places = np.arange(min(int(counts.max(initial=0.0)), FIRST))
        first = np.where(places < often, common, np.where(places < counts[:, None], 1.0 - common, np.nan))
        rows, hits = (np.maximum(each - FIRST, 0.0) for each in (counts, often[:, 0]))
        return cls(moments, Repetition(first, np.where(counts >= FIRST, common[:, 0], np.nan), rows, hits))

    def fits(self, arms: int) -> bool:
        """Whether every array is there, for this many arms: a record may have been changed by hand."""
        arrays = (*self.moments, *self.repetition)
        return all(isinstance(each, np.ndarray) and each.shape[:1] == (arms,) for each in arrays)

    def of_arms(self, names: Sequence[str], wanted: Sequence[str]) -> RowStatistics:
        """The statistics of the arms `names` for the arms `wanted`, with none for an arm that is new."""
        if tuple(names) == tuple(wanted):
            return self
        place = {name: i for i, name in enumerate(names)}
        at = np.array([place.get(name, len(names)) for name in wanted], dtype=np.int64)
        nothing = RowStatistics.none(1)
        width = self.repetition.first.shape[1]
        repetition = nothing.repetition._replace(first=np.full((1, width), np.nan))

        def taken(own: Any, none: Any) -> Any:
            return type(own)(*(np.concatenate([one, other])[at] for one, other in zip(own, none, strict=True)))

        return RowStatistics(taken(self.moments, nothing.moments), taken(self.repetition, repetition))


class RowCounter:
    """Rows on their way to statistics: each added in turn, so that the bits do not depend on how a file is cut up."""

    def __init__(self, counts: Floats, totals: Floats, repetition: bool = True) -> None:
        size = len(counts)
        self._first_rows = FIRST if repetition else 0
        self._found = Moments.none(size)._replace(
            counts=counts, means=totals / np.maximum(counts, 1.0), groups=(counts > 0).astype(np.float64)
        )
        self._powers = np.zeros((3, size))
        self._low, self._high = np.full(size, np.inf), np.full(size, -np.inf)
        self._at_low, self._at_high = np.zeros(size), np.zeros(size)
        self._capped, self._cut = np.zeros(size), np.zeros(size)
        self._first = np.full((size, self._first_rows), np.nan)
        self._rows, self._hits = np.zeros(size), np.zeros(size)
        self._value = np.full(size, np.nan)
        self._filled = np.zeros(size, dtype=np.int64)

    @quiet
    def add(self, arms: Index, values: Floats, places: Index, beyond: Floats | None = None) -> None:
        """Rows with the arm of each, its place among the rows of that arm, and how far beyond a cap it was."""
        if beyond is not None:
            np.add.at(self._capped, arms, (beyond != 0).astype(np.float64))
            np.add.at(self._cut, arms, np.abs(beyond))
        off = values - self._found.means[arms]
        for k, power in enumerate((off**2, off**3, off**4)):
            np.add.at(self._powers[k], arms, power)
        self._low, self._at_low = _extreme(np.minimum, self._low, self._at_low, arms, values)
        self._high, self._at_high = _extreme(np.maximum, self._high, self._at_high, arms, values)
        if not self._first_rows:
            return
        early = places < FIRST
        self._first[arms[early], places[early]] = values[early]
        np.add.at(self._filled, arms[early], 1)
        ready = np.isnan(self._value) & (self._filled == FIRST)
        self._value[ready] = _commonest(self._first[ready])
        np.add.at(self._rows, arms[~early], 1.0)
        np.add.at(self._hits, arms[~early], (values == self._value[arms])[~early].astype(np.float64))

    def statistics(self) -> RowStatistics:
        """The statistics of all rows that were added."""
        second, third, fourth = self._powers
        found = self._found._replace(second=second, third=third, fourth=fourth)
        found = found._replace(low=self._low, at_low=self._at_low, high=self._high, at_high=self._at_high)
        found = found._replace(capped=self._capped, cut=self._cut)
        width = int(self._filled.max(initial=0))
        return RowStatistics(found, Repetition(self._first[:, :width], self._value, self._rows, self._hits))


def _extreme(which: np.ufunc, known: Floats, often: Floats, arms: Index, values: Floats) -> tuple[Floats, Floats]:
    """The extreme value of each arm with some rows more, and how often it came."""
    found = known.copy()
    which.at(found, arms, values)
    again = np.where(found == known, often, 0.0)
    np.add.at(again, arms, (values == found[arms]).astype(np.float64))
    return found, again


def _commonest(first: Floats) -> Floats:
    """The value that came most often in each line, the first of several. (n, 20) -> (n)"""
    if not first.size:
        return np.zeros(len(first))
    often = (first[:, :, None] == first[:, None, :]).sum(axis=-1)
    return np.take_along_axis(first, often.argmax(axis=1)[:, None], axis=1)[:, 0]


# --- checks


class Finding(NamedTuple):
    """Evidence in the rows of an arm against an assumption."""

    arm: str
    check: str
    size: float  # skewness, kurtosis, a share of rows, or how many times as large as assumed
    value: float | None  # that is repeated
    rows: int  # of the arm, when it was found
    matters: bool  # whether rounds are too small to make up for it


class RowChecks(NamedTuple):
    """Row statistics of a study, and the findings so far."""

    statistics: RowStatistics
    smallest: Floats  # (K), rows of an arm in the smallest round that has any; inf before the first
    findings: tuple[Finding, ...] = ()
    unchecked: bool = False  # whether results came as sums

    @classmethod
    def none(cls, arms: int) -> RowChecks:
        """Before the first round."""
        return cls(RowStatistics.none(arms), np.full(arms, np.inf))

    def of_arms(self, names: Sequence[str], wanted: Sequence[str]) -> RowChecks:
        """The same for other arms; what was found stays."""
        known = dict(zip(names, self.smallest.tolist(), strict=True))
        smallest = np.array([known.get(name, np.inf) for name in wanted])
        return self._replace(statistics=self.statistics.of_arms(names, wanted), smallest=smallest)

    def plus(self, noise: Noise, files: Sequence[Results], names: Sequence[str], arms: Sequence[str]) -> RowChecks:
        """With the files of one more round, told for the arms `names`, and all checks that are due.

        Results adjusted for a covariate vary less in later rounds, without an assumption being wrong: earlier ones are
        brought to the deviation of the round. That needs `FIRST` rows of an arm in it: fewer are left out.
        """
        if not noise.row_checks:
            return self
        told = [each.row_statistics.of_arms(names, arms) for each in files if each.row_statistics is not None]
        unchecked = self.unchecked or any(each.row_statistics is None and each.rows > 0 for each in files)
        if not told:
            return self._replace(unchecked=unchecked)
        before, repetition = self.statistics
        round = reduce(Moments.plus, (each.moments for each in told))
        counts = round.counts
        if any(each.covariate is not None for each in files):
            known = round.counts >= FIRST
            round = Moments(*(np.where(known, *each) for each in zip(round, Moments.none(len(arms)), strict=True)))
            before = before.rescaled(round, common="deviations" in noise.row_checks)
        moments = before.plus(round, own_means=round.counts >= FIRST)
        statistics = RowStatistics(moments, reduce(Repetition.plus, (each.repetition for each in told), repetition))
        smallest = np.minimum(self.smallest, np.where(counts > 0, counts, np.inf))
        findings = self.findings + tuple(_find(noise, before.counts, statistics, arms, self.findings))
        findings += tuple(_find_together(noise, before.counts, round, moments, findings))
        if (smallest < ENOUGH * np.nan_to_num(moments.skewness) ** 2).any():
            findings = tuple(each._replace(matters=True) for each in findings)
        return RowChecks(statistics, smallest, findings[:MOST], unchecked)

    def payload(self) -> Plain:
        """As it is recorded."""
        return {
            "statistics": pack(self.statistics),
            "smallest": pack(self.smallest),
            "findings": [each._asdict() for each in self.findings],
            "unchecked": self.unchecked,
        }

    @classmethod
    def from_payload(cls, payload: Facts, arms: int) -> RowChecks:
        """What `payload` was made of in a study of this many arms; a ValueError where it contradicts itself."""
        statistics, smallest = unpack(RowStatistics, payload["statistics"]), unpack(np.ndarray, payload["smallest"])
        if not statistics.fits(arms) or smallest.shape != (arms,):
            raise ValueError("statistics of other arms")
        return cls(statistics, smallest, tuple(map(_read_finding, payload["findings"])), bool(payload["unchecked"]))


def _read_finding(written: Facts) -> Finding:
    value = written["value"]
    if written["check"] not in ASSUMPTIONS:
        raise ValueError("a check that is not known")
    return Finding(
        str(written["arm"]),
        written["check"],
        float(written["size"]),
        None if value is None else float(value),
        int(written["rows"]),
        bool(written["matters"]),
    )


# --- tests


class CheckResult(NamedTuple):
    """P-values of one statistic, and how large it is. (K) each"""

    chances: Floats
    sizes: Floats


@quiet
def skewness_scores(moments: Moments) -> Floats:
    """The skewness of each arm as a normal score (D'Agostino, Biometrika 57, 1970). (K)"""
    n, skewness = np.maximum(moments.counts, 8.0), moments.skewness
    y = skewness * np.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    beta = 3 * (n**2 + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    w = np.sqrt(2 * (beta - 1)) - 1
    return np.asarray(np.arcsinh(y * np.sqrt((w - 1) / 2)) / np.sqrt(0.5 * np.log(w)))


@quiet
def kurtosis_scores(moments: Moments) -> Floats:
    """The kurtosis of each arm as a normal score (Anscombe and Glynn, Biometrika 70, 1983). (K)"""
    n, kurtosis = np.maximum(moments.counts, 8.0), moments.kurtosis
    deviation = np.sqrt(24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5)))
    x = (kurtosis - 3 * (n - 1) / (n + 1)) / deviation
    beta = 6 * (n**2 - 5 * n + 2) / ((n + 7) * (n + 9)) * np.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / beta * (2 / beta + np.sqrt(1 + 4 / beta**2))
    turn = 1 + x * np.sqrt(2 / (a - 4))  # the cube root turns over for flat samples: these have the score -4
    z = (1 - 2 / (9 * a) - np.cbrt((1 - 2 / a) / turn)) / np.sqrt(2 / (9 * a))
    return np.where(turn > 0, np.maximum(z, -4.0), np.where(np.isnan(turn), np.nan, -4.0))


def skewness_test(moments: Moments) -> CheckResult:
    """The test of normality by the skewness, two-sided."""
    from scipy.special import ndtr

    return CheckResult(2 * ndtr(-np.abs(skewness_scores(moments))), moments.skewness)


def kurtosis_test(moments: Moments) -> CheckResult:
    """The test of normality by the kurtosis, upper, at half the level."""
    from scipy.special import ndtr

    return CheckResult(np.minimum(2 * ndtr(-kurtosis_scores(moments)), 1.0), moments.kurtosis)


def repetition_test(repetition: Repetition) -> CheckResult:
    """Whether a value that was chosen before comes in more than half of the rows."""
    from scipy.special import bdtrc

    rows, hits = repetition.rows, repetition.hits
    return CheckResult(
        np.where(hits > 0, bdtrc(hits - 1, rows.astype(np.int64), 0.5), 1.0), hits / np.maximum(rows, 1.0)
    )


@quiet
def deviations_test(moments: Moments) -> CheckResult:
    """The F test of each arm's variance against that of all others, two-sided."""
    from scipy.special import fdtr, fdtrc

    own, others = moments.freedom, moments.freedom.sum() - moments.freedom
    ratio = moments.second / own / ((moments.second.sum() - moments.second) / others)
    return CheckResult(2 * np.minimum(fdtr(own, others, ratio), fdtrc(own, others, ratio)), np.sqrt(ratio))


@quiet
def sigma_test(moments: Moments, sigmas: Floats, exact: bool) -> CheckResult:
    """Whether rows vary more than sigma says; with `exact` also less."""
    ratio = moments.second / (moments.freedom * sigmas**2)
    bound = np.exp(0.5 * moments.freedom * (np.log(ratio) + 1 - ratio))
    return CheckResult(np.minimum((2 if exact else 1) * np.where((ratio > 1) | exact, bound, 1.0), 1.0), np.sqrt(ratio))


@quiet
def dispersion_test(moments: Moments) -> CheckResult:
    """Whether counts vary more than their mean."""
    from scipy.special import chdtrc, pdtrc

    n, mean = moments.counts, moments.means
    pairs = (moments.second + n * mean * (mean - 1)) / 2
    scale = 1 + mean
    reached = np.ceil(pairs / scale - 1e-6)  # a whole number up to rounding
    few = pdtrc(np.maximum(reached - 1, 0.0), np.maximum(n * mean - 1, 0.0) * mean / (2 * scale))
    few = np.where(reached >= 1, few, 1.0)
    ratio = moments.second / (moments.freedom * mean)
    return CheckResult(2 * np.where(mean < 2, few, chdtrc(moments.freedom, moments.second / mean)), ratio)


def _tests(noise: Noise, statistics: RowStatistics) -> dict[RowCheck, Callable[[], CheckResult]]:
    moments, repetition = statistics
    sigmas = noise.known_sigma if noise.arm_sigmas is None else noise.arm_sigmas
    every: dict[RowCheck, Callable[[], CheckResult]] = {
        "skewness": lambda: skewness_test(moments),
        "kurtosis": lambda: kurtosis_test(moments),
        "repeated": lambda: repetition_test(repetition),
        "deviations": lambda: deviations_test(moments),
        "sigma": lambda: sigma_test(moments, np.asarray(sigmas), noise.outcome.normal),
        "dispersion": lambda: dispersion_test(moments),
    }
    return {check: test for check, test in every.items() if check in noise.row_checks}


def _find(
    noise: Noise, before: Floats, statistics: RowStatistics, arms: Sequence[str], known: Sequence[Finding]
) -> list[Finding]:
    """What the checks find that are due after a round, beyond what is known."""
    tests, counts = _tests(noise, statistics), statistics.moments.counts
    levels = levels_of_checks(before, counts, _number_of_tests(noise, len(arms)))
    seen, found = {(each.arm, each.check) for each in known}, []
    for check, test in tests.items() if levels.any() else ():
        chances, sizes = test()
        for i in np.flatnonzero(chances < levels).tolist():
            if (arms[i], check) not in seen:
                value = float(statistics.repetition.value[i]) if check == "repeated" else None
                size = float(np.clip(sizes[i], -HUGE, HUGE))
                found.append(Finding(arms[i], check, size, value, int(counts[i]), check != "skewness"))
    return found


def _number_of_tests(noise: Noise, arms: int) -> int:
    """How many tests a study has at a time."""
    tests = [check for check in noise.row_checks if check in ASSUMPTIONS]
    return arms * len(tests) + (sum(check in _JOINT for check in tests) if arms > 1 else 0)


@quiet
def joint_tests(noise: Noise, round: Moments, moments: Moments) -> dict[RowCheck, CheckResult]:
    """What is checked of all arms together, in a round or in all, of many studies at once. (..., K) -> (...)"""
    from scipy.special import chdtrc, ndtr

    found: dict[RowCheck, CheckResult] = {}
    if "skewness" in noise.row_checks:
        enough = (moments.counts >= FIRST) & (moments.second > 0)
        rows, root = np.where(enough, moments.counts, 0.0).sum(axis=-1), np.sqrt(enough.sum(axis=-1))
        scores = [np.where(enough, each(moments), 0).sum(axis=-1) / root for each in (skewness_scores, kurtosis_scores)]
        skewness, kurtosis = (
            np.where(enough, each * moments.counts, 0.0).sum(axis=-1) / rows
            for each in (moments.skewness, moments.kurtosis)
        )
        found["skewness"] = CheckResult(2 * ndtr(-np.abs(scores[0])), skewness)
        found["kurtosis"] = CheckResult(2 * ndtr(-scores[1]), kurtosis)
    if "dispersion" in noise.row_checks:
        large = round.means >= LARGE_COUNTS
        square = np.where(large, round.second / round.means, 0.0).sum(axis=-1)
        freedom = np.where(large, round.freedom, 0.0).sum(axis=-1)
        found["dispersion"] = CheckResult(2 * chdtrc(freedom, square), square / freedom)
    return found


def _find_together(
    noise: Noise, before: Floats, round: Moments, moments: Moments, known: Sequence[Finding]
) -> list[Finding]:
    """What is found of all arms together, beyond what is found of single arms."""
    arms, first, rows = len(before), before.sum(), before.sum() + round.counts.sum()
    (level,) = levels_of_checks(first[None], rows[None], _number_of_tests(noise, arms))
    if arms == 1 or not level:
        return []
    seen = {each.check for each in known}
    return [
        Finding(TOGETHER, check, float(np.minimum(test.sizes, HUGE)), None, int(rows), check != "skewness")
        for check, test in joint_tests(noise, round, moments).items()
        if test.chances < level and check not in seen
    ]


def levels_of_checks(before: Floats, counts: Floats, tests: int) -> Floats:
    """The level of each of `tests` checks of an arm that had `before` rows and has `counts`; 0 where none is due. (K)

    The number of a check is that of the last of 20, 40, 80, ... rows that were reached.
    """
    then, now = (np.floor(np.log2(np.maximum(each, 1.0) / FIRST)) + 1 for each in (before, counts))
    due = (counts >= FIRST) & (now > np.maximum(then, 0.0))
    return np.where(due, FALSE_ALARM / (max(tests, 1) * np.maximum(now * (now + 1), 1.0)), 0.0)


def check_once(noise: Noise, statistics: RowStatistics, arms: Sequence[str]) -> RowChecks:
    """All checks of rows that come at once, for rounds of as few rows of an arm as are checked."""
    smallest = np.full(len(arms), float(FIRST))
    findings = _find(noise, np.zeros(len(arms)), statistics, arms, ())
    matters = bool((smallest < ENOUGH * np.nan_to_num(statistics.moments.skewness) ** 2).any())
    return RowChecks(
        statistics, smallest, tuple(each._replace(matters=each.matters or matters) for each in findings[:MOST])
    )


# --- its notes


def contradicted_assumptions(checks: RowChecks) -> list[Condition]:
    """The assumptions that rows contradict, each with what was found."""
    found = [each for each in checks.findings if each.matters]
    return [
        Condition("rows_contradict", assumption=assumption, findings=_plain(found, assumption))
        for assumption in dict.fromkeys(ASSUMPTIONS.values())
        if _plain(found, assumption)
    ]


def notes_on_rows(noise: Noise, checks: RowChecks, arms: Sequence[str]) -> list[Note]:
    """Notes on rows: harmless findings, unchecked rows, values at an end of the range."""
    found = []
    mild = [each for each in checks.findings if not each.matters]
    if mild and not contradicted_assumptions(checks):
        found.append(Note("rows_skewed", findings=_plain(mild, "normal")))
    if checks.unchecked and _tests(noise, checks.statistics):
        found.append(Note("rows_unchecked"))
    moments = checks.statistics.moments
    if "ends" in noise.row_checks and moments.counts.any():
        rows = np.maximum(moments.counts, 1.0)
        ends = ((noise.outcome.low, moments.low, moments.at_low), (noise.outcome.high, moments.high, moments.at_high))
        for end, extreme, often in ends:
            shares = np.where(extreme == end, often, 0.0) / rows
            if shares.max() > CROWDED:
                most = int(shares.argmax())
                found.append(Note("rows_at_end", arm=arms[most], share=float(shares[most]), end=float(end)))
    if "cut" in noise.row_checks and moments.capped.any():
        found.append(Note("cap_cut", shares=dict(zip(arms, cut_shares(moments).tolist(), strict=True))))
    return found


def cut_shares(moments: Moments) -> Floats:
    """What the cap and the floor cut of each arm, as a share of what its results were in all without them. (K)"""
    size = np.abs(moments.means * moments.counts) + moments.cut
    return np.where(size > 0, moments.cut / np.where(size > 0, size, 1.0), 0.0)


def _plain(findings: Sequence[Finding], assumption: str) -> list[dict[str, Any]]:
    chosen = [each for each in findings if ASSUMPTIONS[each.check] == assumption]  # type: ignore[index]
    return [{key: value for key, value in each._asdict().items() if key != "matters"} for each in chosen]
