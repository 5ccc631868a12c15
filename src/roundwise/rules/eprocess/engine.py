"""The base class of e-processes, and the engine of bets on the parts of a batch.

"One true null" (docs/why-the-guarantee-holds.md, Proposition 2): the means lie in at least one cell whose answer is
right; there are bets against every cell; an answer is given when the cells of all other answers have lost 1/delta times
the stake. An error needs that the one true cell lost, which has probability at most delta. No union over arms or looks
is paid for.

Every null is a half-space of the means, bet on part after part. An e-process says, for a block of columns, which
half-spaces its open nulls are about before each part (`OpenNulls`); the engine does the rest. Arrays have the parts
first, then the arms, then runs (with their random partitions) as columns.

Estimates, leaders and variances before each part do not depend on the wealth within the batch, so they are computed for
all parts at once; only need -> table -> bet -> need goes part by part (`settle_parts`). The estimates within a batch,
with N, mu from before it, c and t the counts and sums of its parts so far, are

    i = 1/(N+c), f = c i, y = t i - f mu, shift = sum_j N_j y_j / sum_j N_j f_j, means = mu + y - f shift;

the shifts of earlier batches stay as they were estimated before the batch (docs/wager.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats, quiet, total
from roundwise.deadline import check_deadline
from roundwise.model.batch import Parts, part_shares_of_rest
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.bets import (
    NO_ROWS,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    choose_factor,
    columns,
    parts_data,
    sums_before,
)
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus, GapToLeader, Interval
from roundwise.rules.eprocess.bet_sizes import (
    ALONE,
    BOLDEST_PART,
    LEAST_RATIO,
    NEED_STEPS,
    RATIO_STEPS,
    SHAPE,
    Z_STEPS,
    slopes,
)
from roundwise.solvers.halfspaces import Halfspaces

if TYPE_CHECKING:
    from roundwise.rules.eprocess.bounds import BetHistory

CHUNK = 240_000  # parts times arms times columns that are computed at once: what fits the cache
MOST = 0.9  # share of the open nulls that are bet on, above which all are looked at
LIKELY = math.log(0.5)  # what was never bet on is bet on once it is more likely right than wrong
_FEWEST = 1e-9  # in place of no results
UNKNOWN, NOTHING = 1e8, 1e17  # a variance beyond these is that of no results before a part, or in it


class RequiredPulls(NamedTuple):
    """The pulls that would settle everything that is still open, if the estimates were true."""

    pulls: Floats  # (K)
    unfinished: Bools  # (K), arms of open nulls
    tie: Floats | None = None  # (), how much a tolerance decides, from 0 to 1; None without one
    least: Floats | None = None  # (K), pulls of each arm in the next batch, at least, if there is room


class RuleState(NamedTuple):
    """The state of an e-process between batches; wealth and alternative are its named tuples."""

    wealth: Any
    known: Estimates
    alternative: Any  # to bet on in the next batch, fixed before it


class EProcess(ABC):
    """The cells of one kind of question: its wrong answers, and the wealth against each."""

    tag: ClassVar[str]  # names the kind of e-process in the record of a study
    shifts: bool = False  # whether every bet compares arms of one batch, so that shifts of a whole batch cancel
    bounds_match_decision: ClassVar[bool] = False  # whether each end of the bounds of means agrees with the decision
    batch_value: ClassVar[float] = 1.0  # default price of a batch, relative to one that looks for the best arm
    dropping: ClassVar[str | None] = None  # what leaving `{arm}` out does to the wealth; None: it may not leave
    adding: ClassVar[str | None] = None  # what adding `{arm}` does; None: it may not join because of results

    @abstractmethod
    def start(self, problem: Problem, runs: tuple[int, ...]) -> Any:
        """Return the wealth before the first batch."""

    @abstractmethod
    def choose(self, problem: Problem, wealth: Any, known: Estimates) -> Any:
        """Return the alternative to bet on in the next batch, from the past alone."""

    @quiet
    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        """Return the log probability that the alternative points the right way, as far as the past tells. ()

        By default the log of the product of Phi(margin in standard errors) over the forms that it forecasts.
        """
        forecast = state.alternative.forecast
        return total(log_phi(forecast.value / state.known.error(forecast)))

    @abstractmethod
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> Any:
        """Return the wealth after a batch in parts: each is bet on with the results of those before it.

        Only the average over random partitions counts, at the end of the batch. With `shifts`, estimates within the
        batch come from differences, too.
        """

    @abstractmethod
    def stops(self, problem: Problem, wealth: Any) -> Bools:
        """Whether all cells but those of one answer have lost."""

    @abstractmethod
    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """Return the answer whose cells have not lost."""

    @abstractmethod
    def false_rejection(self, problem: Problem, wealth: Any, means: Floats) -> Bools:
        """Whether a cell that holds these means has lost: it must be so with probability at most delta. ()"""

    @abstractmethod
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """Return the pulls that would settle everything open."""

    def sufficient_pulls(self, problem: Problem) -> float | None:
        """Return how many pulls of each arm, the same of all, end it whatever the means; None where none do."""
        return None

    @abstractmethod
    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        """List what must be shown. One run only, as all that follows."""

    @abstractmethod
    def all_rejected(self, problem: Problem, wealth: Any) -> bool:
        """Whether every answer has been ruled out: the right one, too."""

    def means(self, bets: BetHistory) -> Interval:
        """Return bounds of means that hold at all times and agree with the decision.

        For each arm an interval that holds its mean with probability at least 1 - delta; for a question about a level
        each end with probability at least 1 - 2 delta: delta for the bound itself, and delta for the decision.
        """
        return bets.intervals()

    @abstractmethod
    def margins(self, bets: BetHistory) -> Floats:
        """Return by how much each claim holds, at least, in their order: positive just where it is shown.

        Each is a one-sided bound, which holds with probability at least 1 - 2 delta at all times: delta for the bound
        itself, and delta for the decision, with which it agrees.
        """

    def gap_to_leader(self, bets: BetHistory, leader: int | None, margins: Floats) -> GapToLeader | None:
        """Return how far arms are behind the leader (None: that of the estimates), if the best arm is asked for."""
        return None

    def without(self, problem: Problem, wealth: Any, arm: int) -> Any:
        """Return the wealth without an arm (Proposition 22), where `dropping` is not None."""
        raise TypeError(f"No arm may leave the e-process '{self.tag}'.")

    def with_arm(self, wealth: Any) -> Any:
        """Return the wealth with one more arm, the last (Proposition 23), where `adding` is not None."""
        raise TypeError(f"No arm may join the e-process '{self.tag}'.")


@dataclass(frozen=True)
class PartsView:
    """The estimates before each part, and the results in it, per unit of the variance of one result."""

    means: Floats  # (P, K, n), before each part
    inverse: Floats  # (P, K, n), 1/(N + c)
    share: Floats | None  # (P, K, n), f: of this batch in all results; None if its shift is not estimated
    weight: Floats | None  # (P, n), 1 / sum_j N_j f_j
    data: PartsData

    @cached_property
    def per_row(self) -> Floats:
        """1 / rows of the part. (P, K, n)"""
        found = np.maximum(self.data.counts, NO_ROWS)
        return np.divide(1.0, found, out=found)

    @cached_property
    def new(self) -> Floats:
        """Means of the part. (P, K, n)"""
        return self.data.totals * self.per_row


def view_parts(data: PartsData, mu: Floats | None, shifts: bool) -> PartsView:
    """Estimate before each part, after earlier batches with means mu (K, n), or in a first batch (None)."""
    N, c, t = data.before.counts, sums_before(data.counts), sums_before(data.totals)
    if mu is None:
        inverse = 1.0 / np.maximum(c, _FEWEST)
        return PartsView(t * inverse, inverse, None, None, data)
    inverse = 1.0 / np.maximum(N + c, _FEWEST)
    c *= inverse  # f
    t *= inverse
    x = c * mu
    t -= x  # y
    share = weight = None
    if shifts:
        share, weight = c, 1.0 / np.maximum(sum_arms(np.multiply(c, N, out=x)), _FEWEST)
        shift = sum_arms(np.multiply(t, N, out=x)) * weight
        t -= np.multiply(c, shift[:, None], out=x)
    t += mu
    return PartsView(t, inverse, share, weight, data)


def average_partitions(logs: Floats, runs: tuple[int, ...], partitions: int) -> Floats:
    """log of the wealth averaged over partitions: columns (K, n) back to runs (K)."""
    found = logs.reshape(-1, partitions, *runs[::-1])
    if partitions == 1:
        return found[:, 0].transpose()
    top = found.max(axis=1, keepdims=True)
    sums = np.zeros_like(top[:, 0])
    for m in range(partitions):  # in the same order however many runs there are
        sums += np.exp(found[:, m] - top[:, 0])
    return (np.log(sums / partitions) + top[:, 0]).transpose()


def chunks(parts: int, arms: int, size: int) -> Iterator[slice]:
    """Columns that are worked on together."""
    step = max(1, CHUNK // (parts * arms))
    for start in range(0, size, step):
        check_deadline()
        yield slice(start, min(start + step, size))


def sum_arms(values: Floats) -> Floats:
    """Sum over the arms, (P, K, n)->(P, n): in the same order however many columns there are."""
    while (length := values.shape[1]) > 64:  # halves are added until few are left
        half = (length + 1) // 2
        rest = values[:, half:]
        values = values[:, :half].copy()
        values[:, : length - half] += rest
    if values.shape[-1] == 1:  # NumPy would add in pairs
        return np.asarray(values.cumsum(axis=1)[:, -1])
    return np.asarray(np.add.reduce(values, axis=1))


def largest_arm(values: Floats) -> Index:
    """The first arm with the largest value, (P, K, n)->(P, n)."""
    arms, n = values.shape[1:]
    if arms > 32 or n < 32:
        return values.argmax(axis=1)
    top, found = values.max(axis=1), np.zeros((len(values), n), dtype=np.intp)
    for arm in range(arms - 1, -1, -1):  # faster than NumPy, which looks at one column after the other
        found = np.where(values[:, arm] == top, arm, found)
    return found


_PHI_STEPS = 512
_log_phi: Floats | None = None


def log_phi(z: Floats) -> Floats:
    """log Phi at the nearest multiple of 1/512 within +-8: it gates bets and sizes batches, and proves nothing.

    Off by at most 8e-4 for z >= 0, and 8e-3 at -8.
    """
    global _log_phi
    if _log_phi is None:
        from scipy.special import log_ndtr

        _log_phi = log_ndtr(np.arange(-8 * _PHI_STEPS, 8 * _PHI_STEPS + 1) / _PHI_STEPS)
    place = np.clip(z, -8.0, 8.0)
    place *= _PHI_STEPS
    place += 8 * _PHI_STEPS + 0.5
    return _log_phi.take(place.astype(np.int64), mode="clip")


def table_cells(z: Floats, ratio: Floats) -> Index:
    """The place in the table of past z and past variance over that of the rest, up to the need. Both are used up."""
    z *= Z_STEPS
    z += 3.0 * Z_STEPS + 0.5
    np.maximum(z, 0.0, out=z)
    np.minimum(z, SHAPE[0] - 0.5, out=z)
    place = z.astype(np.int64)
    bits = ratio.view(np.int64)  # exponent and two bits of the fraction: 4 log2, piecewise linear
    bits += 1 << 49
    bits >>= 50
    bits -= RATIO_STEPS * (1023 - 8)
    np.maximum(bits, 0, out=bits)
    np.minimum(bits, SHAPE[1] - 1, out=bits)
    place *= SHAPE[1]
    place += bits
    place *= SHAPE[2]
    return place


Switch = Callable[[int, Floats], None]  # before a part: the wealth, changed in place where the null is another now


def settle_parts(
    goal: Floats | float,
    gains: Floats,
    z: Floats,
    ratio: Floats,
    log_factor: LogFactor,
    live: Bools | None,
    switch: Switch | None = None,
    table: int = 0,
) -> Floats:
    """log of the wealth against each null after all parts, (c): the one loop over parts.

    z and past variance over that of the part are (P, c), and are used up. A null that has lost is not bet on further;
    `live` says where there is something to bet on, and `table` how bold bets are (`bet_sizes.TABLES`).
    """
    sizes, kappa = slopes(table), part_shares_of_rest(len(z))
    ratio *= (1.0 / kappa)[:, None]
    few = None
    if ratio.min(initial=1.0) < LEAST_RATIO:  # below the table slopes fall with the square root
        few = ratio * (1.0 / LEAST_RATIO)
        np.minimum(few, 1.0, out=few)
        np.sqrt(few, out=few)
    place, wider = table_cells(z, ratio), np.sqrt(kappa)
    gains = gains.copy()
    mixed = [False] * len(place) if live is None else np.logical_not(live.all(axis=1)).tolist()
    for p in range(len(place)):
        if switch is not None:
            switch(p, gains)
        need = goal - gains
        bet = need > 0
        if live is not None and mixed[p]:
            bet &= live[p]
        if not bet.any():
            continue
        need *= float(NEED_STEPS**2)
        np.maximum(need, 0.25, out=need)
        np.sqrt(need, out=need)
        need += 0.5
        np.minimum(need, SHAPE[2] - 0.5, out=need)
        at = need.astype(np.int64)
        at += place[p]
        q = sizes.slope.take(at, mode="clip") * wider[p]  # float32 times a NumPy float64: float64
        if few is not None:
            q *= few[p]
        np.minimum(q, BOLDEST_PART, out=q)
        q *= bet
        x = log_factor(p, q)
        if mixed[p]:
            x = np.where(bet, x, 0.0)  # where there is nothing to bet on, it may be anything
        np.minimum(x, 600.0, out=x)
        np.exp(x, out=x)
        x -= 1.0
        x *= sizes.stake.take(at, mode="clip")
        x += 1.0
        gains += np.log(x, out=x)
    return gains


def forms_of(pieces: Halfspaces, at: Index, parts: int, arms: int, n: int) -> tuple[PartForm, Floats]:
    """Pieces in units of their largest coefficients, and these units. (P, c), (P, c)

    The pieces are those before each part of every column, (P, n, Q), or the same for all, (Q); taken are those at some
    places of (Q, n) as one row.
    """
    line, run = np.divmod(at, n)
    number = pieces.offsets.shape[-1]

    def pick(values: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(values, (parts, n, number))[:, run, line])

    corner = (np.arange(parts) * (arms * n))[:, None] + run
    places = [pick(each) * n + corner for each in np.moveaxis(pieces.arms, -1, 0)]
    offsets = pick(pieces.offsets)
    if pieces.pairs:
        return PartForm(places, None, offsets), np.broadcast_to(1.0, offsets.shape)
    factors = [pick(each) for each in np.moveaxis(pieces.coefficients, -1, 0)]
    largest = np.maximum.reduce([np.abs(each) for each in factors])  # a form means the same in any units
    units = np.where(largest > 0, largest, 1.0)
    return PartForm(places, [each / units for each in factors], offsets / units), units


class OpenNulls(NamedTuple):
    """The nulls of a block of columns that are bet on."""

    form: PartForm  # (P, c), the half-space that each is bet to lose to
    at: Index  # (c), their places in (nulls, n) as one row
    goal: Floats | float  # (c), log of the wealth that each must reach
    gate: Callable[[Floats], Bools | None] | None = None  # z (P, c) -> where a bet may be placed; None: everywhere
    extra: Callable[[Floats], Floats] | None = None  # variance without shifts -> more by those of earlier batches
    variance: Floats | float | None = None  # of a result, for z; None: of the arms of the form, weighted
    by_level: bool = False  # whether forms of one arm are bets on a level, from the results of that arm alone
    switch: Switch | None = None
    alone: bool = True  # whether what is lost on one null is lost for no other: such bets may be bolder


def bet_on_parts(
    problem: Problem,
    known: Estimates,
    parts: Parts,
    shifts: bool,
    open_nulls: Callable[..., OpenNulls | None],
    wealth: Floats,
    *others: Array,
    wide: int = 0,
) -> Floats:
    """log of the wealth against each null after a batch in parts; `others` are passed on to `open_nulls`. (N)"""
    several, data, first = parts.partitions, parts_data(known.past, parts), not known.past.history
    means = None if first else columns(known.means, several)
    gains, rest = columns(wealth, several), [columns(each, several) for each in others]
    found = gains.copy()
    size, arms, n = data.counts.shape
    for here in chunks(size, max(arms, wide), n):
        view = view_parts(data.at(here), None if means is None else means[:, here], shifts)
        part_bets = problem.noise.part_bets(view.data)
        bets = open_nulls(view, part_bets, gains[:, here], *(each[:, here] for each in rest))
        if bets is not None:
            flat = found[:, here].reshape(-1)
            bet_on_nulls(bets, flat, view, part_bets)
            found[:, here] = flat.reshape(len(found), -1)
    return average_partitions(found, wealth.shape[:-1], several)


def bet_on_nulls(bets: OpenNulls, flat: Floats, view: PartsView, part_bets: PartBets) -> None:
    """Bring the log of the wealth against all nulls (nulls x n) up to date with the bets on the open ones."""
    form, level = bets.form, None
    if bets.by_level and form.factors is not None and len(form.factors) == 1:
        level = form.offsets * form.factors[0]
    z, before = form.of(view.means), form.squares(view.inverse)  # the estimate, and its variance per unit
    z -= form.offsets
    more = None if bets.extra is None else bets.extra(before)
    if view.share is not None and view.weight is not None:
        x = form.of(view.share)
        x *= x
        before += x * view.weight.take(bets.at % view.weight.shape[1], axis=1)
    if more is not None:
        before += more
    error = before * (guess_variance(form, part_bets, view, level) if bets.variance is None else bets.variance)
    z /= np.sqrt(error, out=error)
    of_items = part_bets.paired_statistics(form)
    if of_items is not None:
        z, before = (np.where(form.pair, ours, usual) for ours, usual in zip(of_items, (z, before), strict=False))
    live = before < UNKNOWN
    gate = None if bets.gate is None else bets.gate(z)
    if gate is not None:
        live &= gate
    at, goal, some = bets.at, bets.goal, np.flatnonzero(live.any(axis=0))
    if bets.switch is None and not some.size:
        return
    if bets.switch is None and some.size < MOST * at.size:  # leave out the nulls that are not bet on in any part
        form, at, live = form.take(some), at.take(some), live.take(some, axis=1)
        z, before = z.take(some, axis=1), before.take(some, axis=1)
        goal = goal if isinstance(goal, float) else goal.take(some)
        level = None if level is None else level.take(some, axis=1)
        of_items = part_bets.paired_statistics(form)
    new, leverage = form.of(view.new), form.squares(view.per_row)
    new -= form.offsets
    if of_items is not None:
        leverage = np.where(form.pair, of_items[2], leverage)
    live &= leverage < NOTHING
    log_factor = bet_of_form(part_bets, form, new, leverage, level)
    before /= leverage
    everywhere = None if live.all() else live
    table = ALONE if bets.alone and not view.data.jump else view.data.jump
    flat[at] = settle_parts(goal, flat.take(at), z, before, log_factor, everywhere, bets.switch, table)


def guess_variance(form: PartForm, part_bets: PartBets, view: PartsView, level: Floats | None) -> Floats | float:
    """A guess at the variance of a result before each part."""
    if level is not None:
        found = np.zeros(level.shape)
        for each in np.unique(level):
            own = np.broadcast_to(part_bets.level_variances(float(each)), view.means.shape).reshape(-1)
            found = np.where(level == each, own.take(form.places[0]), found)
        return found
    variances = part_bets.variances
    if variances.size == 1:
        return float(variances.flat[0])
    return form.mean_of(np.broadcast_to(variances, view.means.shape), view.inverse)


def bet_of_form(part_bets: PartBets, form: PartForm, new: Floats, leverage: Floats, level: Floats | None) -> LogFactor:
    """The bet on every form; with a `level`, of one arm from its results alone."""
    if level is None or form.factors is None:
        return part_bets.forms(form, new, leverage)
    sign, arm = form.factors[0], form.places[0]

    def on(levels: list[float]) -> LogFactor:
        first, *rest = levels
        if not rest:
            return part_bets.levels(arm, sign, new.copy(), leverage, first)
        return choose_factor(level == first, lambda: on([first]), lambda: on(rest))

    return on(np.unique(level).tolist())
