"""The e-process of the best group: the cells of the best arm, until those that are left are of one group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, one_hot, quiet, total
from roundwise.model.problem import Problem
from roundwise.questions.base import Answer
from roundwise.questions.groups import BestGroup
from roundwise.rules.base import GapToLeader
from roundwise.rules.eprocess.bounds import BetHistory
from roundwise.rules.eprocess.cells import BestArmEProcess, BestArmWealth
from roundwise.rules.eprocess.engine import EProcess, RequiredPulls, RuleState, log_phi


@dataclass(frozen=True)
class BestGroupEProcess(BestArmEProcess):
    """Cells Q_i = {mu_i is the largest}; a group is right on the union of those of its arms (Proposition 2)."""

    question: BestGroup
    tag = "best-group"
    dropping = None
    adding = None

    def stops(self, problem: Problem, wealth: BestArmWealth) -> Bools:
        """All cells that have not lost are of one group."""
        left = [(~wealth.rejected & self.question.in_group(g)).any(axis=-1) for g in range(len(self.question.names))]
        return np.asarray(np.sum(left, axis=0) <= 1)

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """The group of the best-looking arm that has not lost."""
        return self.question.group_of_arm[super().answer(problem, state)]

    @quiet
    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        """log prod Phi(lead over i in standard errors) over the arms of other groups."""
        lead, leader = state.alternative.lead, state.alternative.leader
        return total(np.where(self._own(leader), 0.0, log_phi(lead.value / state.known.error(lead))))

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """As for the best arm; the other arms of the leader's group need none."""
        own, leads = self._own(state.alternative.leader), one_hot(state.alternative.leader, problem.arms)
        lost = state.wealth.rejected | (own & ~leads)
        return super().required_pulls(problem, state._replace(wealth=state.wealth._replace(rejected=lost)))

    def gap_to_leader(self, bets: BetHistory, leader: int | None, margins: Floats) -> GapToLeader | None:
        return EProcess.gap_to_leader(self, bets, leader, margins)

    def _own(self, leader: NDArray[np.intp]) -> Bools:
        """The arms of the leader's group. ()->(K)"""
        return self.question.in_group(self.question.group_of_arm[leader])
