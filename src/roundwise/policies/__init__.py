"""How to sample: one file an algorithm; `base` says what a policy owes."""

from __future__ import annotations

from roundwise.policies.base import Policy
from roundwise.policies.opt_bbai import OptBBAI
from roundwise.policies.pet import PET
from roundwise.policies.round_robin import RoundRobin
from roundwise.policies.track_and_stop import TrackAndStop
from roundwise.policies.tri_bbai import TriBBAI
from roundwise.policies.wager import Wager

POLICIES: dict[str, type[Policy]] = {
    each.name: each for each in (Wager, PET, RoundRobin, TrackAndStop, TriBBAI, OptBBAI)
}

__all__ = ["PET", "POLICIES", "OptBBAI", "Policy", "RoundRobin", "TrackAndStop", "TriBBAI", "Wager"]
