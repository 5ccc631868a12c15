"""How to sample: one file an algorithm; `base` says what a policy owes."""

from __future__ import annotations

from roundwise.policies.agarwal import Agarwal
from roundwise.policies.base import Policy
from roundwise.policies.batch_racing import BatchRacing
from roundwise.policies.classic_track_and_stop import ClassicTrackAndStop
from roundwise.policies.conditional_power import ConditionalPower
from roundwise.policies.elimination import Elimination
from roundwise.policies.halving import Hillel, Karpov
from roundwise.policies.jin_2019 import Jin2019
from roundwise.policies.lucb import LUCB
from roundwise.policies.opt_bbai import OptBBAI
from roundwise.policies.pet import PET
from roundwise.policies.rage import Rage
from roundwise.policies.round_robin import RoundRobin
from roundwise.policies.rounds import Rounds
from roundwise.policies.top_two import TopTwo
from roundwise.policies.track_and_stop import TrackAndStop
from roundwise.policies.tri_bbai import TriBBAI
from roundwise.policies.wager import Wager
from roundwise.questions import Question

POLICIES: dict[str, type[Policy]] = {
    each.name: each
    for each in (
        *(Wager, ConditionalPower),
        *(PET, RoundRobin, TrackAndStop, TriBBAI, OptBBAI),
        *(Elimination, Hillel, Agarwal, Jin2019, Karpov, BatchRacing, Rage),
        *(ClassicTrackAndStop, LUCB, TopTwo),
    )
}


def usual_policy(question: Question) -> Policy:
    """The policy for a question where none is named."""
    return ConditionalPower() if question.separate_claims else Wager()


__all__ = [
    "LUCB",
    "PET",
    "POLICIES",
    "Agarwal",
    "BatchRacing",
    "ClassicTrackAndStop",
    "ConditionalPower",
    "Elimination",
    "Hillel",
    "Jin2019",
    "Karpov",
    "OptBBAI",
    "Policy",
    "Rage",
    "RoundRobin",
    "Rounds",
    "TopTwo",
    "TrackAndStop",
    "TriBBAI",
    "Wager",
    "usual_policy",
]
