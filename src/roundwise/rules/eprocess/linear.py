"""Arms with features: candidates as for any half-spaces, with bets in the directions that a batch knows best.

A half-space a.mu > b of the means is c.theta > b, c = X'a. Any weights u with X'u = c have u.mu = c.theta, whatever
theta: so the form u of a batch's means may be bet on in place of a (Lemma 1), if u is known before the batch. The u of
least variance, u_i = n_i x_i'V^-1 c with V = sum_i n_i x_i x_i' of the batch, depends on its counts alone
(docs/linear.md). It is bet on as a whole: `CandidateLedger` does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total
from roundwise.model.batch import Batch, Parts
from roundwise.model.estimates import Estimates, FormEstimate
from roundwise.model.problem import Problem
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus, Interval
from roundwise.rules.eprocess.base import EProcess, RequiredPulls
from roundwise.rules.eprocess.bounds import BetHistory
from roundwise.rules.eprocess.candidates import Candidate, CandidateEProcess, CandidateWealth
from roundwise.solvers.design import ROUGH, information_matrix, solve_design
from roundwise.solvers.halfspaces import Halfspaces


@dataclass(frozen=True)
class LinearEProcess(EProcess):
    """As `CandidateLedger`, with least squares in place of means."""

    basis: Floats = field(hash=False, compare=False)  # orthonormal features, (K, r)
    inner: CandidateEProcess = field(default_factory=lambda: CandidateEProcess(False))
    tag = "linear"

    def start(self, problem: Problem, runs: tuple[int, ...]) -> CandidateWealth:
        """No candidate."""
        return self.inner.start(problem, runs)

    def choice(self, problem: Problem, won: CandidateWealth, known: Estimates) -> Candidate:
        """The answer of least squares: a candidate of before, or the next one."""
        past = known.past
        fitted = problem.fitted(past.counts, past.means)
        found = self.inner.choice(problem, won, known._replace(means=fitted))
        pieces, rows = found.forecast.pieces, problem.weighed(past.counts).reshape(-1, problem.arms)
        inverse = np.linalg.inv(information_matrix(self.basis, rows))
        forms = self._forms(problem, pieces, len(rows))
        leverage = total((forms @ inverse) * forms).reshape(found.forecast.value.shape)
        leverage = np.where((past.counts > 0).any(axis=-1, keepdims=True), leverage, np.inf)
        return found._replace(forecast=FormEstimate(pieces, found.forecast.value, leverage))

    def confidence(self, problem: Problem, choice: Candidate, known: Estimates) -> Floats:
        """log prod_p Phi(margin of piece p in standard errors)."""
        return self.inner.confidence(problem, choice, self._scaled(problem, known))

    @quiet
    def settled(
        self, problem: Problem, won: CandidateWealth, known: Estimates, choice: Candidate, batch: Batch
    ) -> CandidateWealth:
        """The candidate's money after the batch, from the forms of its means that are known best."""
        counts = batch.counts.reshape(-1, problem.arms)
        weighed = problem.weighed(counts)
        pieces, runs = choice.forecast.pieces, batch.counts.shape[:-1]
        forms = self._forms(problem, pieces, len(counts))
        inverse = np.linalg.inv(information_matrix(self.basis, weighed))
        inside = (forms @ inverse) @ self.basis.T * weighed[:, None, :]  # u, (R, P, K)
        rest = forms - inside @ self.basis  # X'u = c, to all digits
        inside += (rest @ inverse) @ self.basis.T * weighed[:, None, :]
        dense = np.broadcast_to(pieces.dense(problem.arms), (*runs, *pieces.arms.shape[-2:-1], problem.arms))
        inside = inside.reshape(dense.shape)
        off = np.abs(inside @ self.basis - forms.reshape((*dense.shape[:-1], -1))).max(axis=-1)
        known_well = off <= 1e-12 * np.abs(dense).sum(axis=-1)  # else the batch says nothing of it
        factors = np.where(known_well[..., None], inside, dense)
        arms = np.broadcast_to(np.arange(problem.arms), dense.shape)
        offsets = np.broadcast_to(pieces.offsets, dense.shape[:-1])
        exact = Halfspaces(arms, factors, offsets, False)
        forecast = choice.forecast._replace(pieces=exact)
        return self.inner.settled(problem, won, self._scaled(problem, known), choice._replace(forecast=forecast), batch)

    def in_parts(
        self, problem: Problem, won: CandidateWealth, known: Estimates, choice: Candidate, parts: Parts, shifts: bool
    ) -> CandidateWealth:
        """The batch as a whole."""
        counts = np.asarray(parts.counts[..., 0, :, :].sum(axis=-1))
        return self.settled(problem, won, known, choice, Batch(counts, parts.totals[..., 0, :, :].sum(axis=-1)))

    def stops(self, problem: Problem, won: CandidateWealth) -> Bools:
        """All pieces of some candidate have lost."""
        return self.inner.stops(problem, won)

    def answer(self, problem: Problem, won: CandidateWealth, known: Estimates) -> Answer:
        """That candidate."""
        return self.inner.answer(problem, won, known)

    def false_rejection(self, problem: Problem, won: CandidateWealth, means: Floats) -> Bools:
        """Of a wrong candidate, the piece that the means violate most has lost."""
        return self.inner.false_rejection(problem, won, means)

    @quiet
    def required_pulls(
        self, problem: Problem, won: CandidateWealth, choice: Candidate, known: Estimates
    ) -> RequiredPulls:
        """min sum n subject to c'V^-1 c <= g_p^2 / (2 sigma^2 need_p) for all open pieces."""
        plain = self.inner.required_pulls(problem, won, choice, self._scaled(problem, known))
        open_, need = self.inner.open_needs(problem, won, choice)
        runs = need.shape[:-1]
        error = np.sqrt(problem.sigma**2 * choice.forecast.leverage)
        distance = np.maximum(choice.forecast.value, error)
        needs = np.where(open_, distance**2 / (2 * problem.sigma**2 * need), np.inf)
        rows = self.basis * np.sqrt(problem.weighed(np.ones(problem.arms)))[:, None]
        forms = self._forms(problem, choice.forecast.pieces, int(np.prod(runs, dtype=int)))
        _, pulls = solve_design(rows, forms, needs.reshape(len(forms), -1), ROUGH)
        return RequiredPulls(pulls.reshape((*runs, -1)), np.ones_like(plain.unfinished))

    def claims(
        self, problem: Problem, won: CandidateWealth, choice: Candidate, names: Sequence[str]
    ) -> list[ClaimStatus]:
        """What makes the candidate right."""
        return self.inner.claims(problem, won, choice, names)

    def all_rejected(self, problem: Problem, won: CandidateWealth) -> bool:
        """Two candidates were shown to be right of which no means make both so."""
        return self.inner.all_rejected(problem, won)

    def means(self, bets: BetHistory) -> Interval:
        """From each arm's own results."""
        return self.inner.means(bets)

    def margins(self, bets: BetHistory) -> Floats:
        """From each arm's own results."""
        return self.inner.margins(bets)

    def gap_to_leader(self, bets: BetHistory, leader: int | None, spare: Floats) -> None:
        """Nothing."""
        return

    def _forms(self, problem: Problem, pieces: Halfspaces, runs: int) -> Floats:
        """c of each piece in orthonormal features. (R, P, r)"""
        dense = pieces.dense(problem.arms)
        flat = np.broadcast_to(dense.reshape(-1, *dense.shape[-2:]), (runs, *dense.shape[-2:]))
        return np.asarray(flat @ self.basis)

    def _scaled(self, problem: Problem, known: Estimates) -> Estimates:
        """With the variance that leverages are in units of."""
        return known._replace(variance=np.full_like(known.variance, problem.sigma**2))
