"""The rule of claims: one purse a claim, never reset; a closed test after every batch; what is shown stays shown.

(docs/why-the-guarantee-holds.md, Propositions 13 to 17.) Before a batch it is fixed what must be won; where a budget
says how much is to come, bets are made towards it, and otherwise they are those of every other question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, total
from roundwise.betting.chances import Outlook, outlook
from roundwise.betting.closed import lacking, money_of, newly_shown, open_weight
from roundwise.errors import InputError
from roundwise.estimates import Forecast, Known, Past, known_from, squares_at
from roundwise.noise import variances
from roundwise.noise.binary import Binary
from roundwise.noise.horizon import ETA
from roundwise.problem import Problem
from roundwise.questions.base import Answer, Halfspaces, quiet
from roundwise.questions.claims import Claims
from roundwise.state import Batch, Plan, Trial

HOPELESS = 0.005  # true claims still expected, below which nothing more is asked for
UNPLANNED = 0.5  # rho of bets that need one where there is no budget


class Step(NamedTuple):
    """One batch as it was bet on."""

    batch: Batch
    rho: Floats | None  # (), None where there was no budget
    bars: Floats  # (L), log of what each line had to reach


class Kept(NamedTuple):
    """The purses, what was shown and when, what is known, and what can be expected. Lines: claims, then opposites."""

    gains: Floats  # (L), log E
    shown: Bools  # (L)
    batch: Floats  # (L), after which it was shown, 0 if it was not
    samples: Floats  # (L), after how many results, 0 if it was not
    past: Past
    value: Floats  # (L), what each line is estimated to hold by
    leverage: Floats  # (L), the variance of that, per unit of the variance of a result
    error: Floats  # (L), its standard error
    spread: Floats  # (K), a guess at the variance of one result, on the scale of the forms
    fed: Bools  # (J), which claims the next results should go to
    chances: Floats  # (J), that each is shown by the end; a forecast
    expected: Floats  # (), how many more will be; infinite without a budget
    over: Bools  # (), the last batch was bet on
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Claiming:
    """Show every claim whose closed test rejects; the error, of anything false being ever shown, is at most delta.

    `eta` is how early to show: when the chance that the test at the budget will reject passes 1 - eta. `cash` is kept
    from a last bet, so that claims it does not show may go on if the budget is extended after all.
    """

    eta: float = ETA
    cash: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.eta < 1:
            raise InputError(f"`eta` is {self.eta:g}, but must lie strictly between 0 and 1.")
        if not 0 <= self.cash < 0.5:
            raise InputError(f"`cash` is {self.cash:g}, but must lie between 0 and 0.5.")

    def check(self, problem: Problem) -> None:
        """A question of claims, under a noise model with bets towards a budget."""
        if not isinstance(problem.question, Claims):
            raise InputError(f"The rule of claims does not fit the question '{problem.question.name}'.")
        if not hasattr(problem.noise, "horizon"):
            raise InputError(f"The noise model '{problem.noise.name}' has no bets for claims.")
        if problem.question.odds and not isinstance(problem.noise, Binary):
            raise InputError("Odds ratios are of rates: they need 0/1 results.")

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """Nothing won, nothing shown."""
        lines = len(claims_of(problem).lines.forms)
        nothing = np.zeros((*runs, lines))
        past = Past.none((*runs, problem.arms))
        zero = np.zeros(runs)
        fed = np.ones((*runs, claims_of(problem).number), dtype=np.bool_)
        kept = Kept(
            nothing, nothing > 0, nothing, nothing, past, nothing, nothing + np.inf, nothing + np.inf,
            np.ones_like(past.counts), fed, np.full(fed.shape, np.nan), zero + np.inf, zero > 0,
        )  # fmt: skip
        return self._looked(problem, kept, None)

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """Bet on the batch what was fixed before; then see what is shown."""
        question = claims_of(problem)
        size = np.asarray(batch.counts.sum(axis=-1))
        bars = self.bars(problem, kept.shown)
        need = np.where(kept.shown | ~np.isfinite(kept.gains), 0.0, bars - kept.gains)
        rho = None
        if plan.left is None and not question.odds:
            logs, past = self._open_ended(problem, kept, batch, need)
        else:
            rho = self._share(plan, size)
            logs = self.towards(problem, kept.past, batch, question.bets(size.shape), need, rho)
            past = kept.past.plus(batch)
        gains = kept.gains + logs
        after = kept.past.batches + 1.0
        shown = self._shown(problem, gains, kept.shown)
        new = shown & ~kept.shown
        kept = kept._replace(
            gains=gains,
            shown=shown,
            batch=np.where(new, after, kept.batch),
            samples=np.where(new, total(past.counts)[..., None], kept.samples),
            past=past,
            over=kept.over if plan.last is None else kept.over | (plan.last & (size > 0)),
            steps=(*kept.steps, Step(batch._replace(parts=()), rho, bars)),
        )
        return self._looked(problem, kept, plan.left)

    def towards(
        self, problem: Problem, past: Past, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats
    ) -> Floats:
        """log e of every line, bet towards the budget; of a last bet the cash is kept. (L)"""
        last = (rho >= 1)[..., None] & np.full(need.shape, self.cash > 0)
        most = np.where(last & (need > 0) & (need < 700), need, 1.0)
        raised = np.where(last & (need > 0), np.log((np.exp(most) - self.cash) / (1.0 - self.cash)), need)
        share = np.broadcast_to(rho[..., None], need.shape)
        if claims_of(problem).odds:
            assert isinstance(problem.noise, Binary)
            logs = problem.noise.odds_horizon(batch, pieces, raised, share, self.eta)
        else:
            known = Known(past, past.means, problem.noise.variance(past))
            logs = problem.noise.horizon(known, batch, pieces, raised, share, self.eta)
        return np.where(
            last & (need > 0), np.logaddexp(np.log(max(self.cash, 1e-300)), np.log1p(-self.cash) + logs), logs
        )

    def bars(self, problem: Problem, shown: Bools) -> Floats:
        """log of what shows each line if all other claims lost everything. (L)"""
        weights = weights_of(problem)
        whole = open_weight(self._sides(problem, shown), weights)
        bars = problem.goal + np.log(np.maximum(whole, 1e-300))[..., None] - np.log(weights)
        return np.concatenate([bars] * (shown.shape[-1] // weights.size), axis=-1)

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Everything is shown, the last batch was bet on, or nothing more can be expected."""
        kept = trial.kept
        return np.asarray(self.finished(problem, kept) | kept.over | (kept.expected < HOPELESS))

    def finished(self, problem: Problem, kept: Kept) -> Bools:
        """Whether of every claim one side is shown. ()"""
        return np.asarray(self._sides(problem, kept.shown).any(axis=-2).all(axis=-1))

    def why(self, problem: Problem, trial: Trial) -> str | None:
        """Why it stopped, None if it did not. One run only."""
        kept = trial.kept
        if self.finished(problem, kept):
            return "everything is settled" if claims_of(problem).opposites else "all claims are shown"
        if kept.over:
            return "the budget is used"
        return "nothing more is to be expected of the results that are left" if kept.expected < HOPELESS else None

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """What is shown."""
        return np.asarray(trial.kept.shown)

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return

    def lines(self, problem: Problem, kept: Kept) -> tuple[Floats, Floats]:
        """log of what was won for each line, and of what it must reach now. (L) each"""
        weights, sides = weights_of(problem), self._sides(problem, kept.shown)
        money = money_of(self._sides(problem, kept.gains), problem.goal)
        bars = problem.goal + np.log1p(lacking(money, sides, weights) / weights)
        bars = np.concatenate([bars] * sides.shape[-2], axis=-1)
        return kept.gains, np.where(kept.shown, np.minimum(bars, kept.gains), bars)

    def _share(self, plan: Plan, size: Floats) -> Floats:
        """rho: the share of the batch in all that is still to come, itself included; 1 only for a last batch."""
        if plan.left is None:
            return np.where(size > 0, UNPLANNED, 0.0)
        share = np.minimum(size / np.maximum(size + plan.left, 1.0), 1.0 - 1e-9)
        last = np.zeros(size.shape, dtype=np.bool_) if plan.last is None else plan.last
        return np.where(last & (size > 0), 1.0, share)

    def _open_ended(self, problem: Problem, kept: Kept, batch: Batch, need: Floats) -> tuple[Floats, Past]:
        """The bets of other questions, with the past as prior; the first batch in its parts, if it has any."""
        runs = batch.counts.shape[:-1]
        pieces = claims_of(problem).bets(runs)
        past = kept.past
        if past.history or not batch.parts:
            known = Known(past, past.means, problem.noise.variance(past))
            return problem.noise.form(known, batch, Forecast(pieces, kept.value, kept.leverage), need), past.plus(batch)
        logs = np.zeros(need.shape)
        for i, part in enumerate(batch.parts):
            if i:
                known = known_from(past, problem.noise.variance(past), False)
                logs = logs + problem.noise.form(known, part, known.forecast(pieces), np.maximum(need - logs, 0.0))
            past = past.plus(part, same_batch=i > 0)
        return logs, kept.past.plus(batch)

    def _shown(self, problem: Problem, gains: Floats, shown: Bools) -> Bools:
        money = money_of(self._sides(problem, gains), problem.goal)
        return newly_shown(money, self._sides(problem, shown), weights_of(problem)).reshape(shown.shape)

    @quiet
    def _looked(self, problem: Problem, kept: Kept, left: Floats | None) -> Kept:
        """With the estimates, and with what can be expected of the results that are left."""
        question, past = claims_of(problem), kept.past
        pieces = question.bets(past.counts.shape[:-1])
        each = variances(problem.noise, past)
        if question.odds:
            rates = (past.totals + 0.5) / (past.counts + 1.0)
            each, means = 1.0 / (rates * (1.0 - rates)), np.log(rates) - np.log1p(-rates)
            known = Known(past, means, np.ones(past.counts.shape[:-1]))
        else:
            known = known_from(past, problem.noise.variance(past), compares(question))
        forecast = known.forecast(pieces)
        pooled = squares_at(1.0 / past.counts, pieces)  # as if there were no shifts, with each arm's own variance
        error = np.sqrt(squares_at(each / past.counts, pieces) * np.maximum(forecast.leverage / pooled, 1.0))
        error = np.where(np.isfinite(pooled), error, np.inf)
        kept = kept._replace(value=forecast.value, leverage=forecast.leverage, error=error, spread=each)
        if left is None:
            return kept
        found = self.outlook(problem, kept, left)
        return kept._replace(fed=found.fed, chances=found.chances, expected=found.expected)

    def outlook(self, problem: Problem, kept: Kept, left: Floats) -> Outlook:
        """What can be expected of so many results."""
        question = claims_of(problem)
        need = np.where(np.isfinite(kept.gains), self.bars(problem, kept.shown) - kept.gains, np.inf)
        sides = self._sides(problem, kept.shown)
        unshown = (~sides & ~sides.any(axis=-2, keepdims=True)).reshape(kept.shown.shape)  # one side settles a claim
        return outlook(
            question.forms,
            question.bets(kept.value.shape[:-1]),
            unshown,
            need,
            kept.value,
            kept.error,
            kept.spread,
            left,
        )

    def _sides(self, problem: Problem, lines: NDArray[Any]) -> NDArray[Any]:
        """Lines with an axis of sides. (L)->(D, J)"""
        return lines.reshape(*lines.shape[:-1], -1, claims_of(problem).number)


def claims_of(problem: Problem) -> Claims:
    """The question, which is of claims."""
    question = problem.question
    assert isinstance(question, Claims)
    return question


def weights_of(problem: Problem) -> Floats:
    """The weights of the claims. (J)"""
    return np.asarray(claims_of(problem).weights, dtype=np.float64)


def compares(question: Claims) -> bool:
    """Whether every claim compares arms, so that a shift of a whole batch cancels."""
    forms = question.forms
    return bool((np.abs(forms.sum(axis=-1)) <= 1e-12 * np.abs(forms).sum(axis=-1)).all())


def names_of(problem: Problem, names: Sequence[str]) -> list[str]:
    """What each claim is called, in as few words as say it."""
    return claims_of(problem).labels(names)
