"""How to sample: one file an algorithm; `base` says what a policy owes."""

from __future__ import annotations

from roundwise.policies.base import Policy
from roundwise.policies.chances import Chances
from roundwise.policies.opt_bbai import OptBBAI
from roundwise.policies.pet import PET
from roundwise.policies.round_robin import RoundRobin
from roundwise.policies.rounds import Rounds
from roundwise.policies.track_and_stop import TrackAndStop
from roundwise.policies.tri_bbai import TriBBAI
from roundwise.policies.wager import Wager
from roundwise.questions import Claims, Question

POLICIES: dict[str, type[Policy]] = {
    each.name: each for each in (Wager, Chances, PET, RoundRobin, TrackAndStop, TriBBAI, OptBBAI)
}


def usual_policy(question: Question) -> Policy:
    """The policy for a question where none is named."""
    return Chances() if isinstance(question, Claims) else Wager()


__all__ = [
    "PET",
    "POLICIES",
    "Chances",
    "OptBBAI",
    "Policy",
    "RoundRobin",
    "Rounds",
    "TrackAndStop",
    "TriBBAI",
    "Wager",
    "usual_policy",
]
