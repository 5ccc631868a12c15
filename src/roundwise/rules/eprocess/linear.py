"""Arms with features: candidates as for any half-spaces, with bets in the directions that a batch knows best.

A half-space a.mu > b of the means is c.theta > b, c = X'a. Any weights u with X'u = c have u.mu = c.theta, whatever
theta: so the form u of a batch's means may be bet on in place of a (Lemma 1), if u is known before the batch. The u of
least variance, u_i = n_i x_i'V^-1 c with V = sum_i n_i x_i x_i' of the batch, depends on its counts alone
(docs/linear.md). A batch is bet on as one part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from roundwise.arrays import Floats, quiet, total
from roundwise.model.batch import Batch, Parts
from roundwise.model.estimates import Estimates, FormEstimate, form_variances
from roundwise.model.problem import Problem
from roundwise.noise import SubGaussian
from roundwise.noise.parts import GaussianPartBets, PartForm
from roundwise.rules.eprocess.base import RequiredPulls
from roundwise.rules.eprocess.candidates import (
    OPENING,
    Candidate,
    CandidateEProcess,
    CandidateWealth,
    extend_candidates,
)
from roundwise.rules.eprocess.engine import settle_parts
from roundwise.solvers.design import ROUGH, information_matrix, solve_design
from roundwise.solvers.halfspaces import Halfspaces


@dataclass(frozen=True)
class LinearEProcess(CandidateEProcess):
    """Candidates as for any half-spaces, with least squares in place of means."""

    basis: Floats = field(kw_only=True, hash=False, compare=False)  # orthonormal features, (K, r)
    tag = "linear"

    def choose(self, problem: Problem, won: CandidateWealth, known: Estimates) -> Candidate:
        """The answer of least squares: a candidate of before, or the next one."""
        past = known.past
        fitted = problem.fitted(past.counts, past.means)
        found = super().choose(problem, won, known._replace(means=fitted))
        pieces, rows = found.forecast.pieces, problem.weighed(past.counts).reshape(-1, problem.arms)
        inverse = np.linalg.inv(information_matrix(self.basis, rows))
        forms = self._forms(problem, pieces, len(rows))
        leverage = total((forms @ inverse) * forms).reshape(found.forecast.value.shape)
        leverage = np.where((past.counts > 0).any(axis=-1, keepdims=True), leverage, np.inf)
        return found._replace(forecast=FormEstimate(pieces, found.forecast.value, leverage))

    def confidence(self, problem: Problem, alternative: Candidate, known: Estimates) -> Floats:
        """log prod_p Phi(margin of piece p in standard errors)."""
        scaled = known._replace(variance=np.full_like(known.variance, problem.sigma**2))  # the unit of leverages
        return super().confidence(problem, alternative, scaled)

    @quiet
    def update(
        self,
        problem: Problem,
        won: CandidateWealth,
        known: Estimates,
        alternative: Candidate,
        parts: Parts,
        shifts: bool,
    ) -> CandidateWealth:
        """Return the wealth after the batch as a whole: the candidate's; that of the others waits."""
        counts = np.asarray(parts.counts[..., 0, :, :].sum(axis=-1))
        batch = Batch(counts, parts.totals[..., 0, :, :].sum(axis=-1))
        new = alternative.number >= (won.answers[..., 0] >= 0).sum(axis=-1)
        sure = (self.confidence(problem, alternative, known) >= math.log(0.5)) & (known.past.counts > 0).any(axis=-1)
        live = ~new | sure
        here = alternative.number[..., None, None]
        won = extend_candidates(won, int(alternative.number.max(initial=0)) + 1)
        gains = self._gains(won, alternative)
        lost = np.take_along_axis(won.lost, here, axis=-2)[..., 0, :]
        need = np.where(live[..., None] & ~lost, problem.goal - gains, 0.0)
        gain = self._bet(problem, batch, alternative.forecast, need)
        after = gains + gain
        # the sum may round to below the goal although the bet won what was needed
        lost = lost | ((need > 0) & ((gain >= need) | (after >= problem.goal)))
        answers, all_gains, all_lost = won.answers.copy(), won.gains.copy(), won.lost.copy()
        for array, value in ((answers, alternative.answer), (all_gains, after), (all_lost, lost)):
            kept = np.take_along_axis(array, here, axis=-2)[..., 0, :]
            np.put_along_axis(array, here, np.where(live[..., None], value, kept)[..., None, :], axis=-2)
        return CandidateWealth(
            answers, all_gains, all_lost, won.bank + np.where(live & new, math.log(1.0 - OPENING), 0.0)
        )

    def _bet(self, problem: Problem, batch: Batch, forecast: FormEstimate, need: Floats) -> Floats:
        """log e of the forms of the batch's means that are known best, as one part. (P)"""
        pieces = self._best_known(problem, batch.counts, forecast.pieces)
        new = SubGaussian(problem.sigma).standard_score(batch, pieces)
        past = forecast.value / np.sqrt(problem.sigma**2 * forecast.leverage)
        leverage = form_variances(1.0 / batch.counts, pieces)
        live = np.isfinite(past) & np.isfinite(new) & (need > 0)
        z, ratio, value, one = (
            np.where(live, each, fill).reshape(1, -1)
            for each, fill in ((past, 0.0), (forecast.leverage / leverage, 1.0), (new, 0.0), (np.ones(need.shape), 1.0))
        )
        log_factor = GaussianPartBets(1.0).forms(PartForm([], None, value), value, one)
        won = settle_parts(need.reshape(-1), np.zeros(need.size), z, ratio, log_factor, live.reshape(1, -1))
        return won.reshape(need.shape)

    def _best_known(self, problem: Problem, counts: Floats, pieces: Halfspaces) -> Halfspaces:
        """The half-spaces with the weights u in place of a; as they are where the batch does not determine u."""
        weighed = problem.weighed(counts.reshape(-1, problem.arms))
        forms = self._forms(problem, pieces, len(weighed))
        inverse = np.linalg.inv(information_matrix(self.basis, weighed))
        inside = (forms @ inverse) @ self.basis.T * weighed[:, None, :]  # u, (R, P, K)
        rest = forms - inside @ self.basis  # X'u = c, to all digits
        inside += (rest @ inverse) @ self.basis.T * weighed[:, None, :]
        shape = (*counts.shape[:-1], *pieces.arms.shape[-2:-1], problem.arms)
        dense = np.broadcast_to(pieces.dense(problem.arms), shape)
        inside = inside.reshape(dense.shape)
        off = np.abs(inside @ self.basis - forms.reshape((*dense.shape[:-1], -1))).max(axis=-1)
        factors = np.where((off <= 1e-12 * np.abs(dense).sum(axis=-1))[..., None], inside, dense)
        arms = np.broadcast_to(np.arange(problem.arms), dense.shape)
        return Halfspaces(arms, factors, np.broadcast_to(pieces.offsets, dense.shape[:-1]), False)

    @quiet
    def required_pulls(
        self, problem: Problem, won: CandidateWealth, alternative: Candidate, known: Estimates
    ) -> RequiredPulls:
        """min sum n subject to c'V^-1 c <= g_p^2 / (2 sigma^2 need_p) for all open pieces."""
        open_, need = self.open_needs(problem, won, alternative)
        runs = need.shape[:-1]
        error = np.sqrt(problem.sigma**2 * alternative.forecast.leverage)
        distance = np.maximum(alternative.forecast.value, error)
        needs = np.where(open_, distance**2 / (2 * problem.sigma**2 * need), np.inf)
        rows = self.basis * np.sqrt(problem.weighed(np.ones(problem.arms)))[:, None]
        forms = self._forms(problem, alternative.forecast.pieces, int(np.prod(runs, dtype=int)))
        _, pulls = solve_design(rows, forms, needs.reshape(len(forms), -1), ROUGH)
        return RequiredPulls(pulls.reshape((*runs, -1)), np.ones((*runs, problem.arms), dtype=np.bool_))

    def _forms(self, problem: Problem, pieces: Halfspaces, runs: int) -> Floats:
        """c of each piece in orthonormal features. (R, P, r)"""
        dense = pieces.dense(problem.arms)
        flat = np.broadcast_to(dense.reshape(-1, *dense.shape[-2:]), (runs, *dense.shape[-2:]))
        return np.asarray(flat @ self.basis)
