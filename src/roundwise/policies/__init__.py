"""Sampling policies: the paper's algorithms, elimination in rounds, sequential baselines, and our own."""

from __future__ import annotations

from roundwise.policies.base import Policy, Rounds
from roundwise.policies.conditional_power import ConditionalPower
from roundwise.policies.designed import Designed
from roundwise.policies.fixed_budget import SequentialHalving, SuccessiveRejects
from roundwise.policies.lists import Lockstep
from roundwise.policies.paper import PET, OptBBAI, RoundRobin, TrackAndStop, TriBBAI
from roundwise.policies.racing import Agarwal, BatchRacing, Elimination, Hillel, Jin2019, Karpov, Rage
from roundwise.policies.sequential import LUCB, ClassicTrackAndStop, StickyTrackAndStop, TopTwo
from roundwise.policies.wager import Wager
from roundwise.questions import Question
from roundwise.rules.eprocess.designed import designed_eprocess

POLICIES: dict[str, type[Policy]] = {
    each.name: each
    for each in (
        *(Wager, Designed, ConditionalPower),
        *(PET, RoundRobin, TrackAndStop, TriBBAI, OptBBAI),
        *(Elimination, Hillel, Agarwal, Jin2019, Karpov, BatchRacing, Rage),
        *(ClassicTrackAndStop, StickyTrackAndStop, LUCB, TopTwo),
        *(SequentialHalving, SuccessiveRejects),
    )
}


def usual_policy(question: Question, budget: bool = False, arms: int = 2) -> Policy:
    """The policy for a question where none is named; with a budget, one made for it, unless it has too many arms.

    Args:
        question: The question of the study.
        budget: Whether the study has a budget.
        arms: The number of arms.

    Returns:
        `ConditionalPower` for claims, `Designed` with a budget where it supports the question, else `Wager`.
    """
    if question.separate_claims:
        return ConditionalPower()
    cells = designed_eprocess(question) if budget else None
    return Wager() if cells is None or not cells.fits(arms) else Designed()


__all__ = [
    "LUCB",
    "PET",
    "POLICIES",
    "Agarwal",
    "BatchRacing",
    "ClassicTrackAndStop",
    "ConditionalPower",
    "Designed",
    "Elimination",
    "Hillel",
    "Jin2019",
    "Karpov",
    "Lockstep",
    "OptBBAI",
    "Policy",
    "Rage",
    "RoundRobin",
    "Rounds",
    "SequentialHalving",
    "StickyTrackAndStop",
    "SuccessiveRejects",
    "TopTwo",
    "TrackAndStop",
    "TriBBAI",
    "Wager",
    "usual_policy",
]
