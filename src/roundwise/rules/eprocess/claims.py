"""The rule of claims: one e-process a claim, never reset; a closed test after every batch; what is shown stays shown.

(docs/why-the-guarantee-holds.md, Propositions 13 to 17.) Before a batch it is fixed what must be won; where a budget
says how much is to come, bets are made towards it, and otherwise they are those of every other question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats, quiet, sum_rows, total, zeros
from roundwise.errors import InputError
from roundwise.messages import Note
from roundwise.model.batch import Batch, Parts, stack_parts
from roundwise.model.estimates import Estimates, FormEstimate, Past, estimate_from, form_values, form_variances
from roundwise.model.problem import BatchPlan, Problem, Record, Trial, budget_before
from roundwise.noise.bets import PartBets
from roundwise.noise.budget_bets import ETA
from roundwise.noise.paired import check_forms
from roundwise.questions.base import Answer
from roundwise.questions.claims import Claims
from roundwise.rules.base import Bounds, ClaimStatus, StoppingRule, TrialStatus
from roundwise.rules.eprocess.claim_bounds import (
    ClaimState,
    ClaimStep,
    adjusted_of,
    bets_of,
    claims_elsewhere,
    claims_of,
    compares,
    describe_claims,
    join_claims,
    least_wealth,
    lines_of,
    metrics_of,
    note_joint_bounds,
    open_of,
    pad_lines,
    pad_past,
    parts_of,
    sides_of,
    states_of,
    update_history,
    weights_of,
)
from roundwise.rules.eprocess.closed_testing import (
    lost_by_others,
    open_weight,
    reject_closed,
    reject_independent,
)
from roundwise.rules.eprocess.conditional_power import PowerForecast, forecast_power, power_by_line
from roundwise.rules.eprocess.engine import OpenNulls, PartsView, bet_on_parts, forms_of
from roundwise.solvers.halfspaces import Halfspaces


@quiet
def bet_on_claims(
    problem: Problem, known: Estimates, forecast: FormEstimate, parts: Parts, gains: Floats, bars: Floats, shifts: bool
) -> Floats:
    """log of what each line has after a batch in parts; one whose bar is not above what it has is not bet on. (L)

    Nothing in the bets on a line depends on what other lines win in this batch.
    """
    first, late = not known.past.history, shifts and known.past.batches > 1
    without = form_variances(1.0 / known.past.counts, forecast.pieces)
    extra = np.maximum(forecast.leverage - without, 0.0) / without**2 if late else bars
    pieces = claims_of(problem).bets(())  # the same in all runs

    def opened(view: PartsView, part_bets: PartBets, wealth: Floats, goal: Floats, extra: Floats) -> OpenNulls | None:
        size, arms, n = view.means.shape
        at = np.flatnonzero((goal > -np.inf) & _fed(pieces, view.data.counts))
        if not at.size:  # results of arms that have nothing open
            return None
        form, units = forms_of(pieces, at, size, arms, n)
        never = np.arange(size)[:, None] > 0
        return OpenNulls(
            form,
            at,
            goal.reshape(-1).take(at),
            gate=lambda z: np.broadcast_to(never, z.shape) if first else None,
            extra=partial(_add_shifts, extra.reshape(-1).take(at), units) if late else None,
            by_level=True,
        )

    goals = np.where(bars > gains, bars, -np.inf)
    return bet_on_parts(problem, known, parts, shifts, opened, gains, goals, extra, wide=gains.shape[-1])


def _fed(pieces: Halfspaces, counts: Floats) -> Bools:
    """Where all arms with the largest coefficient have results: elsewhere no bet is `possible`. (P, K, n)->(L, n)"""
    pulled, factors = np.maximum.reduce(counts) > 0, np.abs(pieces.coefficients)
    small = factors < factors.max(axis=-1, keepdims=True)
    each = zip(pieces.arms.transpose(), small.transpose(), strict=True)
    return np.logical_and.reduce([pulled[arm] | few[:, None] for arm, few in each])


def _add_shifts(extra: Floats, units: Floats, before: Floats) -> Floats:
    """Add the variance due to shifts of earlier batches to that of each form."""
    found = (before * units) ** 2 * extra
    return np.where(np.isfinite(found), found, 0.0)


HOPELESS = 0.005  # true claims still expected, below which nothing more is asked for
AGREE = 9.0  # squared standard errors of a difference up to which plans do not mind it; more, if there are many
UNPLANNED = 0.5  # rho of bets that need one where there is no budget


@dataclass(frozen=True)
class ClosedTestingRule(StoppingRule[ClaimState]):
    """Show every claim whose closed test rejects; the error, of anything false being ever shown, is at most delta.

    `eta` is how early to show: when the chance that the test at the budget will reject passes 1 - eta. `reserve` is the
    share of wealth withheld from a last bet, so that claims it does not show can continue if the budget is extended.
    """

    eta: float = ETA
    reserve: float = 0.0
    any_time: ClassVar[bool] = True
    uses_budget: ClassVar[bool] = True
    learns: ClassVar[bool] = True
    several_metrics: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.eta < 1:
            raise InputError(f"`eta` is {self.eta:g}, but must lie strictly between 0 and 1.")
        if not 0 <= self.reserve < 0.5:
            raise InputError(f"`reserve` is {self.reserve:g}, but must lie between 0 and 0.5.")

    def check(self, problem: Problem) -> None:
        """A question of claims, under a noise model with bets towards a budget; of every metric."""
        question = claims_of(problem)
        for each in problem.metrics:
            self.check(each)
        if problem.metrics and any(claims_of(each).independent for each in metrics_of(problem)):
            raise InputError("Several metrics of the same rows are not independent: leave out `independent`.")
        if question.odds and not problem.noise.outcome.rates:
            raise InputError("Odds ratios compare rates: they need 0/1 results.")
        if problem.noise.shares_items:
            if question.independent:
                raise InputError("Claims on shared items are not independent: leave out `independent`.")
            if question.odds:
                raise InputError(
                    "Odds and risk ratios need separate items for every arm: with shared items, use differences."
                )
            check_forms(question.bets(()))

    def state_tag(self, problem: Problem) -> str:
        """Claims and their closed test."""
        return "claims/1"

    def restore(self, problem: Problem, saved: ClaimState) -> ClaimState:
        for sub, state in zip(metrics_of(problem), states_of(saved), strict=True):
            number, lines = claims_of(sub).number, len(state.gains)
            steps = [each.fits(sub.arms, lines) for each in state.steps]
            optional = [(state.means, sub.arms), (state.left_out, number)]
            shapes = [each.shape == (size,) for each, size in optional if each is not None]
            if not all(steps + shapes) or not (state.tail is None or state.tail.fits(sub.arms, lines, number)):
                raise ValueError("batches of other claims or arms")
        return saved

    def start(self, problem: Problem, runs: tuple[int, ...]) -> ClaimState:
        """Nothing won, nothing shown."""
        lines = len(claims_of(problem).lines.forms)
        nothing = zeros((*runs, lines))
        past = Past.none((*runs, problem.arms))
        zero = np.zeros(runs)
        none = zeros((*runs, claims_of(problem).number))
        kept = ClaimState(
            nothing, nothing > 0, nothing, nothing, past, nothing, nothing + np.inf, nothing + np.inf,
            np.ones_like(past.counts), none == 0, none + np.nan, zero + np.inf, zero > 0, zero,
        )  # fmt: skip
        kept = kept._replace(metrics=tuple(self.start(each, runs) for each in problem.metrics))
        every = states_of(kept)
        other_metrics = claims_elsewhere(problem, [each.gains for each in every], [each.shown for each in every])
        first, *others = (each._replace(other_metrics=rest) for each, rest in zip(every, other_metrics, strict=True))
        return self.update_forecast(problem, first._replace(metrics=tuple(others)), None)._replace(means=None)

    def fold(self, problem: Problem, kept: ClaimState, plan: BatchPlan, batch: Batch) -> ClaimState:
        """Bet on the batch what was fixed before; then see what is shown, of all metrics in one closed test."""
        every, states, batches = metrics_of(problem), states_of(kept), (batch, *batch.metrics)
        bets = [self._bet(*each, plan) for each in zip(every, states, batches, strict=True)]
        gains, before = [each.gains for each in bets], [each.shown for each in states]
        shown = self._shown(problem, gains, before)
        least = least_wealth([each._replace(gains=g, shown=s) for each, g, s in zip(states, gains, shown, strict=True)])
        lacks, other_metrics = claims_elsewhere(problem, gains, before), claims_elsewhere(problem, gains, shown)
        left = None
        if plan.left is not None:
            beyond = np.maximum(batch.counts.sum(axis=-1) - plan.pulls.sum(axis=-1), 0.0)  # more than was asked for
            left = np.maximum(plan.left - beyond, 0.0)
        found = []
        for m, (sub, state, own, bet) in enumerate(zip(every, states, batches, bets, strict=True)):
            rest = lacks[m]
            shortfall = None if rest is None else rest.shortfall
            after = self._settle(sub, state, plan, own, bet, shown[m], shortfall, least if len(every) > 1 else None)
            found.append(self._forecast_metric(sub, after._replace(other_metrics=other_metrics[m]), left))
        return found[0]._replace(metrics=tuple(found[1:]))

    def _bet(self, problem: Problem, kept: ClaimState, batch: Batch, plan: BatchPlan) -> _MetricBets:
        """The wealth of the claims about one metric after the batch."""
        question = claims_of(problem)
        size = np.asarray(batch.counts.sum(axis=-1))
        bars = self.bars(problem, kept)
        rho = None
        if question.independent or (plan.left is None and not question.odds):
            gains = self._open_ended(problem, kept, batch, bars)
        else:
            rho = self._share(plan, size)
            need = np.where(kept.shown | ~np.isfinite(kept.gains), 0.0, bars - kept.gains)
            gains = kept.gains + self.budget_bets(problem, kept.past, batch, question.bets(size.shape), need, rho)
        return _MetricBets(gains, bars, rho)

    def _settle(
        self,
        problem: Problem,
        kept: ClaimState,
        plan: BatchPlan,
        batch: Batch,
        bet: _MetricBets,
        shown: Bools,
        shortfall: Floats | None,
        least: Floats | None,
    ) -> ClaimState:
        """The state of the claims about one metric after the closed test.

        Claims about other metrics `lack` this much, and no open claim of any metric has less than the `least`.
        """
        gains, bars, rho = bet
        size = np.asarray(batch.counts.sum(axis=-1))
        past = kept.past.plus(batch)
        after = kept.rounds + (size > 0)
        new = shown & ~kept.shown
        steps, tail = kept.steps, kept.tail
        if batch.counts.ndim == 1:  # bounds are of one run
            share = np.asarray(np.nan) if rho is None else rho
            sums = batch.counts, batch.totals, batch.scatter
            step = ClaimStep(*sums, share, bars, gains, shown, batch.pairs, (), batch.cubes, shortfall, least)
            steps, tail = update_history(problem, kept, step, parts_of(batch), partial(self.budget_bets, problem))
        return kept._replace(
            gains=gains,
            shown=shown,
            batch=np.where(new, after[..., None], kept.batch),
            samples=np.where(new, total(past.counts)[..., None], kept.samples),
            past=past,
            past_with_imported=None if kept.past_with_imported is None else kept.past_with_imported.plus(batch),
            last_bet_done=kept.last_bet_done if plan.last is None else kept.last_bet_done | (plan.last & (size > 0)),
            rounds=after,
            steps=steps,
            tail=tail,
        )

    def warm_start(self, problem: Problem, kept: ClaimState, batch: Batch, left: Floats | None) -> ClaimState:
        """Start with earlier results as past, without wealth: they set estimates, and so the allocation. (24)

        Not where bets rest on how much results of the study vary (Proposition 31).
        """
        own = zip(states_of(kept), (batch, *batch.metrics), (problem, *problem.metrics), strict=True)
        warmed = [
            state if about.noise.needs == "cubes" else state._replace(past_with_imported=state.seen.plus(results))
            for state, results, about in own
        ]
        return self.update_forecast(problem, warmed[0]._replace(metrics=tuple(warmed[1:])), left)

    def restart(self, problem: Problem, past: Past, left: Floats | None) -> ClaimState:
        return self.update_forecast(problem, self.start(problem, past.counts.shape[:-1])._replace(past=past), left)

    def past(self, kept: ClaimState) -> Past:
        return kept.past

    def without_history(self, kept: ClaimState) -> ClaimState:
        return kept._replace(steps=(), tail=None, metrics=tuple(map(self.without_history, kept.metrics)))

    def with_budget(self, problem: Problem, kept: ClaimState, left: Floats) -> ClaimState:
        """Return the state under another budget, which leaves this many results: every claim keeps its wealth."""
        again = np.zeros_like(kept.last_bet_done)
        others = tuple(each._replace(last_bet_done=again) for each in kept.metrics)
        return self.update_forecast(problem, kept._replace(last_bet_done=again, metrics=others), left)

    def why_final(self, problem: Problem, kept: ClaimState) -> str | None:
        """Say why no budget lets it continue; None if an unsettled claim has wealth left. One run."""
        if self.finished(problem, kept):
            return _all_shown(problem, kept)
        for sub, state in zip(metrics_of(problem), states_of(kept), strict=True):
            if (sides_of(sub, np.isfinite(state.gains)) & open_of(sub, state)).any():
                return None
        return "the last round was bet on as the last one, which left nothing to what it did not show"

    def budget_bets(
        self, problem: Problem, past: Past, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats
    ) -> Floats:
        """log e of every line, bet towards the budget; of a last bet the reserve is kept. (L)"""
        last, raised = (rho >= 1)[..., None] & (need > 0), need
        if self.reserve:
            most = np.where(last & (need < 700), need, 1.0)
            raised = np.where(last, np.log((np.exp(most) - self.reserve) / (1.0 - self.reserve)), need)
        share = np.broadcast_to(rho[..., None], need.shape)
        if claims_of(problem).odds:
            logs = problem.noise.odds_budget_bet(batch, pieces, raised, share, self.eta)
        else:
            known = Estimates(past, past.means, problem.noise.variance(past))
            logs = problem.noise.budget_bet(known, batch, pieces, raised, share, self.eta)
        if not self.reserve:
            return logs
        return np.where(last, np.logaddexp(np.log(self.reserve), np.log1p(-self.reserve) + logs), logs)

    def bars(self, problem: Problem, kept: ClaimState) -> Floats:
        """log of what shows each line if the others lost everything; if multiplied, with what they have. (L)"""
        weights, shown = weights_of(problem), sides_of(problem, kept.shown)
        if claims_of(problem).independent:
            bars = problem.goal + lost_by_others(sides_of(problem, kept.gains), shown)
        else:
            heavy = open_weight(shown, weights) + (0.0 if kept.other_metrics is None else kept.other_metrics.unsettled)
            whole = problem.goal + np.log(np.maximum(heavy, 1e-300))
            bars = (whole.transpose() - np.log(weights).reshape(-1, *[1] * whole.ndim)).transpose()
        return np.concatenate([bars] * shown.shape[-2], axis=-1)

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Everything is shown, the last batch was bet on, or nothing more can be expected."""
        kept = trial.kept
        return np.asarray(self.finished(problem, kept) | kept.last_bet_done | (_expected(kept) < HOPELESS))

    def finished(self, problem: Problem, kept: ClaimState) -> Bools:
        """Whether of every claim one side is shown, or an arm of it was left out. ()"""
        every = zip(metrics_of(problem), states_of(kept), strict=True)
        return np.logical_and.reduce([~open_of(*each).any(axis=-1) for each in every])

    def why(self, problem: Problem, trial: Trial) -> str | None:
        """Why it stopped, None if it did not. One run only."""
        kept = trial.kept
        if self.finished(problem, kept):
            return _all_shown(problem, kept)
        left = trial.plan.left
        if kept.last_bet_done or (left is not None and left + trial.plan.pulls.sum(axis=-1) <= 0):
            return "the budget is used"
        return "nothing more is to be expected of the results that are left" if _expected(kept) < HOPELESS else None

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The mask of shown claims."""
        return np.asarray(trial.kept.shown)

    def false_rejection(self, problem: Problem, trial: Trial, means: Floats) -> Bools:
        """Where something false is shown."""
        shown = trial.kept.shown
        return ~claims_of(problem).correct(shown, np.broadcast_to(means, trial.record.counts.shape))

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return

    def describe(self, delta: float) -> str:
        """Products of bets, and the closed test."""
        return (
            "Each claim has its own evidence, the product of the payoffs of bets that are fixed before each round; "
            f"it is shown, permanently, when the closed test over all claims reaches 1/{delta:g}."
        )

    def standing(self, problem: Problem, trial: Trial) -> TrialStatus:
        """Whether bets compare arms; whether a claim and its opposite were both shown, which exclude each other."""
        excluded = False
        for sub, state in zip(metrics_of(problem), states_of(trial.kept), strict=True):
            question, sides = claims_of(sub), sides_of(sub, state.shown)
            ends = question.lines.levels.reshape(-1, question.number)
            excluded |= bool((sides.all(axis=-2) & (ends[0] >= -ends[-1]) & (len(ends) > 1)).any())
        return TrialStatus(compares(claims_of(problem)), excluded)

    def notes(self, problem: Problem, trial: Trial) -> list[Note]:
        """Why it stopped, and what its bounds promise. One run only."""
        why = self.why(problem, trial)
        return [
            *([] if why is None else [Note("ended", why=why)]),
            *([Note("within_rounds")] if compares(claims_of(problem)) and not claims_of(problem).odds else []),
            note_joint_bounds(problem, trial.kept),
        ]

    def bounds(
        self, problem: Problem, record: Record, batches: Sequence[Batch], kept: ClaimState | None = None
    ) -> Bounds:
        """Of the means of all arms, from bets on each."""
        return Bounds(bets_of(problem, batches, parts_of(batches[0])).intervals)

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[ClaimStatus]:
        """Every claim, then every opposite: what was won for it, its size with bounds, and what can be expected.

        Those about further metrics follow.
        """
        found, adjusted = [], adjusted_of(problem, trial.kept)
        for m, (sub, kept) in enumerate(zip(metrics_of(problem), states_of(trial.kept), strict=True)):
            own = trial._replace(kept=kept)
            forecast = self.forecast(sub, own)
            if kept.past_with_imported is not None:  # sizes are those of the results
                own = own._replace(kept=self._forecast_metric(sub, kept._replace(past_with_imported=None), None))
            bets = partial(self.budget_bets, sub)
            found += [each._replace(metric=m) for each in describe_claims(sub, own, names, bets, forecast, adjusted[m])]
        return found

    @quiet
    def forecast(self, problem: Problem, trial: Trial) -> Floats:
        """How likely each line is to be shown by the end, nan where no budget says when that is. (L) One run only."""
        kept, left = trial.kept, budget_before(trial.plan)
        if left is None:
            return np.full(kept.shown.shape, np.nan)
        question = claims_of(problem)
        needed = problem.noise.rows_before_bets(kept.seen)
        if needed is not None:  # what is not bet on shows nothing
            left = np.maximum(left - total(np.maximum(needed - kept.seen.counts, 0.0)), 0.0)
            if not left:
                return np.zeros(kept.shown.shape)
        pieces = question.bets(())
        items = problem.noise.variance_per_arm(kept.seen, pieces)
        if items is None and not question.odds:
            kept = self._unshifted(kept, pieces, form_variances(1.0 / kept.seen.counts, pieces))
        need = np.where(np.isfinite(kept.gains), self.bars(problem, kept) - kept.gains, np.inf)
        targeted = self.conditional_power(problem, kept, left).targeted & open_of(problem, kept) & ~kept.last_bet_done
        return power_by_line(question.forms, pieces, targeted, need, kept.value, kept.error, kept.spread, left, items)

    def evidence(self, problem: Problem, trial: Trial, names: Sequence[str]) -> tuple[Floats, Floats, Bools]:
        """log of what was won for each line, of what it must reach now, and whether it is shown. (L) each"""
        every = zip(metrics_of(problem), states_of(trial.kept), strict=True)
        won, bars, shown = zip(*((*lines_of(sub, kept), kept.shown) for sub, kept in every), strict=True)
        return np.concatenate(won), np.concatenate(bars), np.concatenate(shown)

    def _share(self, plan: BatchPlan, size: Floats) -> Floats:
        """rho: the share of the batch in all that is still to come, itself included; 1 only for a last batch."""
        if plan.left is None:
            return np.where(size > 0, UNPLANNED, 0.0)
        share = np.minimum(size / np.maximum(size + plan.left, 1.0), 1.0 - 1e-9)
        last = np.zeros(size.shape, dtype=np.bool_) if plan.last is None else plan.last
        return np.where(last & (size > 0), 1.0, share)

    def _open_ended(self, problem: Problem, kept: ClaimState, batch: Batch, bars: Floats) -> Floats:
        """The wealth of each line after bets without a budget: in parts, if there are any."""
        question, past = claims_of(problem), kept.seen
        pieces, shifts = question.bets(batch.counts.shape[:-1]), compares(question)
        forecast = FormEstimate(pieces, kept.value, kept.leverage)
        bars = np.where(kept.shown | ~np.isfinite(kept.gains), -np.inf, bars)
        variance = problem.noise.variance(past)
        if kept.means is None or question.odds:
            known = estimate_from(past, variance, shifts)
        else:
            known = Estimates(past, kept.means, variance)
        return bet_on_claims(problem, known, forecast, batch.parts or stack_parts((batch,)), kept.gains, bars, shifts)

    def _shown(self, problem: Problem, gains: Sequence[Floats], shown: Sequence[Bools]) -> Sequence[Bools]:
        """The claims shown for each metric: one closed test of all claims (Proposition 32)."""
        if claims_of(problem).independent:
            sides = sides_of(problem, gains[0]), sides_of(problem, shown[0])
            return [reject_independent(*sides, problem.goal).reshape(shown[0].shape)]
        test = join_claims(problem, gains, shown)
        return test.split(reject_closed(test.wealth, test.shown, test.weights))

    def update_forecast(self, problem: Problem, kept: ClaimState, left: Floats | None) -> ClaimState:
        """With the estimates, and with what can be expected of the results that are left; of every metric."""
        every = zip(metrics_of(problem), states_of(kept), strict=True)
        first, *others = (self._forecast_metric(*each, left) for each in every)
        return first._replace(metrics=tuple(others))

    @quiet
    def _forecast_metric(self, problem: Problem, kept: ClaimState, left: Floats | None) -> ClaimState:
        question, past = claims_of(problem), kept.seen
        pieces = question.bets(past.counts.shape[:-1])
        pooled = form_variances(1.0 / past.counts, pieces)  # as if no batch were shifted
        if question.odds:
            rates = (past.totals + 0.5) / (past.counts + 1.0)
            each, means = 1.0 / (rates * (1.0 - rates)), np.log(rates) - np.log1p(-rates)
            known = Estimates(past, means, np.ones(past.counts.shape[:-1]))
            forecast = known.forecast(pieces)
            error = np.sqrt(form_variances(each / past.counts, pieces))
        else:
            variance = problem.noise.variance(past)
            each = np.broadcast_to(variance[..., None], past.counts.shape)
            known = estimate_from(past, variance, compares(question) and not problem.noise.shares_items)
            forecast = problem.noise.estimate_forms(known, pieces)
            items = problem.noise.variance_per_arm(past, pieces)
            if items is not None:
                each = np.broadcast_to((total(items) / items.shape[-1])[..., None], each.shape)
            error = np.sqrt(variance[..., None] * forecast.leverage)
        error = np.where(np.isfinite(pooled), error, np.inf)
        kept = kept._replace(
            value=forecast.value, leverage=forecast.leverage, error=error, means=known.means, spread=each
        )
        if left is None:
            return kept
        plain = question.odds or problem.noise.shares_items
        found = self.conditional_power(problem, kept if plain else self._unshifted(kept, pieces, pooled), left)
        some = left > 0  # of nothing, nothing is to be expected
        return kept._replace(
            targeted=found.targeted,
            chances=found.chances * some[..., None],
            expected=np.where(some, found.expected, 0.0),
        )

    def _unshifted(self, kept: ClaimState, pieces: Halfspaces, pooled: Floats) -> ClaimState:
        """For plans alone: with pooled means, which are more exact, where differences within batches do not object.

        The two differ by a variance that is the difference of theirs (Hausman); so they agree up to `AGREE` of it.
        """
        value = form_values(kept.seen.means, pieces) - pieces.offsets
        room = kept.spread[..., :1] * np.maximum(kept.leverage - pooled, 0.0)
        apart = (value - kept.value) ** 2 > (AGREE + 4 * math.log(value.shape[-1])) * room + 1e-12 * kept.spread[
            ..., :1
        ]
        agrees = ~(apart & np.isfinite(pooled)).any(axis=-1, keepdims=True)
        error = np.where(np.isfinite(pooled), np.sqrt(kept.spread[..., :1] * pooled), np.inf)
        return kept._replace(value=np.where(agrees, value, kept.value), error=np.where(agrees, error, kept.error))

    def conditional_power(self, problem: Problem, kept: ClaimState, left: Floats) -> PowerForecast:
        """The conditional power with this many results left."""
        question = claims_of(problem)
        need = np.where(np.isfinite(kept.gains), self.bars(problem, kept) - kept.gains, np.inf)
        sides = sides_of(problem, kept.shown)
        unshown = (~sides & open_of(problem, kept)[..., None, :]).reshape(kept.shown.shape)  # one side settles a claim
        items = problem.noise.variance_per_arm(kept.seen, question.bets(kept.value.shape[:-1]))
        known = (kept.value, kept.error, kept.spread)
        return forecast_power(question.forms, question.bets(()), unshown, need, *known, left, items)


class _MetricBets(NamedTuple):
    """The bets on one batch of the claims about one metric."""

    gains: Floats  # (L), log of what each line has after it
    bars: Floats  # (L), log of what it had to reach
    rho: Floats | None  # (), None where there was no budget


def _expected(kept: ClaimState) -> Floats:
    """How many more claims can be expected to be shown, of all metrics. ()"""
    return sum_rows(np.array([each.expected for each in states_of(kept)]))


def _all_shown(problem: Problem, kept: ClaimState) -> str:
    every = zip(metrics_of(problem), states_of(kept), strict=True)
    if not all(sides_of(sub, state.shown).any(axis=-2).all() for sub, state in every):
        return "only claims about arms that were left out are open"
    return "everything is settled" if claims_of(problem).opposites else "all claims are shown"


def with_claims(
    rule: ClosedTestingRule, before: Problem, kept: ClaimState, after: Problem, left: Floats | None = None
) -> ClaimState:
    """Return the state of a question with more claims, and perhaps more arms, after those there are; of every metric.

    A claim that joins starts with the smallest wealth that is open, at most 1, whatever the reason. `left` results are
    still to come. The state of bounds stays: those of the claims there are go on.
    """
    states, start = states_of(kept), least_wealth(states_of(kept))
    every = zip(metrics_of(before), states, metrics_of(after), strict=True)
    found = [_with_claims(rule, old, state, new, start) for old, state, new in every]
    other_metrics = claims_elsewhere(after, [each.gains for each in found], [each.shown for each in found])
    first, *others = (each._replace(other_metrics=rest) for each, rest in zip(found, other_metrics, strict=True))
    return rule.update_forecast(after, first._replace(metrics=tuple(others)), left)


def _with_claims(
    rule: ClosedTestingRule, before: Problem, kept: ClaimState, after: Problem, start: Floats
) -> ClaimState:
    """The same for the claims about one metric; those that join start with the log wealth `start`."""
    old, new = claims_of(before), claims_of(after)
    arms, more = old.forms.shape[-1], new.forms.shape[-1]
    same = new.number >= old.number and more >= arms and _ends_agree(old, new)
    first = new.forms[: old.number]
    if not (same and np.array_equal(first[:, :arms], old.forms) and not first[:, arms:].any()):
        raise InputError(
            "Claims are added after those there are, and arms after those there are: keep their order and their levels."
        )
    if not np.array_equal(weights_of(after)[: old.number], weights_of(before)):
        raise InputError("The weights of claims are fixed before the first bet: keep those there are.")

    def placed(values: Array, fill: Floats | float = 0.0) -> Array:
        return pad_lines(values, old.number, new.number, fill)

    return rule.start(after, start.shape)._replace(
        gains=placed(kept.gains, start[..., None, None]),
        shown=placed(kept.shown),
        batch=placed(kept.batch),
        samples=placed(kept.samples),
        past=pad_past(kept.past, more),
        past_with_imported=None if kept.past_with_imported is None else pad_past(kept.past_with_imported, more),
        last_bet_done=kept.last_bet_done,
        rounds=kept.rounds,
        steps=kept.steps,
        tail=None if kept.tail is None else kept.tail.padded(old.number, new.number, more),
        left_out=None if kept.left_out is None else placed(kept.left_out),
    )


def left_out(
    rule: ClosedTestingRule, problem: Problem, kept: ClaimState, arms: Bools, left: Floats | None = None
) -> ClaimState:
    """Return the state in which these arms are no longer sampled; the wealth of their claims stays in rule (R)."""
    every = zip(metrics_of(problem), states_of(kept), strict=True)
    first, *others = (
        state._replace(left_out=np.asarray(((claims_of(sub).forms != 0) & arms).any(axis=-1))) for sub, state in every
    )
    return rule.update_forecast(problem, first._replace(metrics=tuple(others)), left)


def _ends_agree(old: Claims, new: Claims) -> bool:
    """Whether the claims of the old question, first in the new one, say the same on the same terms."""
    if (new.opposites, new.odds, new.independent) != (old.opposites, old.odds, old.independent):
        return False
    before, after = (each.lines.levels.reshape(-1, each.number) for each in (old, new))
    return np.array_equal(before, after[:, : old.number])
