"""Skewed results: money, times and counts, row by row, for the model that takes their variance from earlier rows.

In each pair of laws the leader is the more skewed one, which is where errors are most likely: a mean that is mostly due
to rare large values looks too small as long as they have not come. Means are 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, zeros
from roundwise.calibration.cells import CalibrationCell, Case, Simulated
from roundwise.model.batch import Batch
from roundwise.model.problem import Problem
from roundwise.noise import LargeSample, Needs, Noise
from roundwise.policies import Policy, Rounds, Wager
from roundwise.questions import BestArm
from roundwise.simulation.environments import ArmState, Environment, Generator

PART = "skewed results"
Draw = Callable[[Generator, int], Floats]  # this many results of mean 1


def _log_normal(rng: Generator, n: int, sigma: float) -> Floats:
    return rng.lognormal(-(sigma**2) / 2, sigma, n)


def _gamma(rng: Generator, n: int, shape: float) -> Floats:
    return rng.gamma(shape, 1 / shape, n)


def _pareto(rng: Generator, n: int, shape: float) -> Floats:
    return (rng.pareto(shape, n) + 1) * (shape - 1) / shape


def _weibull(rng: Generator, n: int, shape: float) -> Floats:
    return rng.weibull(shape, n) / math.gamma(1 + 1 / shape)


def _student(rng: Generator, n: int) -> Floats:
    return 1 + 0.3 * rng.standard_t(3, n)


def _buyers(rng: Generator, n: int, share: float, basket: Draw) -> Floats:
    """Mostly 0: a share of users buys."""
    found = np.zeros(n)
    bought = rng.random(n) < share
    found[bought] = basket(rng, int(bought.sum())) / share
    return found


def _bots(rng: Generator, n: int) -> Floats:
    """One in a hundred is thirty times as active."""
    found = _gamma(rng, n, 2.0)
    found[rng.random(n) < 0.01] *= 30
    return found / 1.29


def _whales(rng: Generator, n: int) -> Floats:
    """One in 20 000 carries a tenth of the mean."""
    return 0.9 * _gamma(rng, n, 0.08) + 2000.0 * (rng.random(n) < 1 / 20_000)


def _log_normal_buyers(share: float) -> Draw:
    return partial(_buyers, share=share, basket=partial(_log_normal, sigma=1.2))


SKEWED_LAWS: dict[str, tuple[Draw, Draw]] = {  # of the leader, and of the other
    "20 % : 1 % buyers": (_log_normal_buyers(0.01), _log_normal_buyers(0.2)),
    "10 % : 2 % buyers": (_log_normal_buyers(0.02), _log_normal_buyers(0.1)),
    "5 % : 3 % buyers": (_log_normal_buyers(0.03), _log_normal_buyers(0.05)),
    "5 % : 4 % buyers": (_log_normal_buyers(0.04), _log_normal_buyers(0.05)),
    "5 % : 5 % buyers": (_log_normal_buyers(0.05), _log_normal_buyers(0.05)),
    "log-normal 1.2 : 0.5": (partial(_log_normal, sigma=1.2), partial(_log_normal, sigma=0.5)),
    "log-normal 1 : 0.3": (partial(_log_normal, sigma=1.0), partial(_log_normal, sigma=0.3)),
    "gamma, 2 % : 10 % not 0": (
        partial(_buyers, share=0.02, basket=partial(_gamma, shape=0.5)),
        partial(_buyers, share=0.1, basket=partial(_gamma, shape=2.0)),
    ),
    "Pareto 2.5 : log-normal": (partial(_pareto, shape=2.5), partial(_log_normal, sigma=0.3)),
    "Weibull .5 : log-normal": (partial(_weibull, shape=0.5), partial(_log_normal, sigma=0.2)),
    "log-normal 1.5 : 1": (partial(_log_normal, sigma=1.5), partial(_log_normal, sigma=1.0)),
    "3 % Pareto 2.2 : 8 % exponential": (
        partial(_buyers, share=0.03, basket=partial(_pareto, shape=2.2)),
        partial(_buyers, share=0.08, basket=partial(_gamma, shape=1.0)),
    ),
    "bots : gamma": (_bots, partial(_gamma, shape=2.0)),
    "3 % Weibull .6 : 30 % gamma": (
        partial(_buyers, share=0.03, basket=partial(_weibull, shape=0.6)),
        partial(_buyers, share=0.3, basket=partial(_gamma, shape=3.0)),
    ),
    "t with 3 degrees : gamma": (_student, partial(_gamma, shape=30.0)),
    "whale": (_whales, partial(_gamma, shape=2.0)),
}
_CALIBRATED = (*list(SKEWED_LAWS)[:9], "bots : gamma")
WHALE = "whale"  # the control: a value so rare that it is not seen
_OWN = "Wager"  # in its own rounds
_ROUNDS = {1000: 60, 4000: 25, 20_000: 20}  # results in each, and how many there are


@dataclass(frozen=True, eq=False)
class SkewedArms(Environment[ArmState]):
    """Results drawn row by row from laws of mean 1, times the mean of each arm."""

    laws: tuple[Draw, ...]
    means: Floats
    noise: ClassVar[Noise] = LargeSample()
    sigma: ClassVar[float] = 1.0  # the unit of lower bounds, which say nothing here

    @property
    def arms(self) -> int:
        """How many there are."""
        return len(self.laws)

    def initial_state(self, rng: Generator, runs: int) -> ArmState:
        """The means of each run."""
        return ArmState(zeros((runs, self.arms)) + self.means)

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        """Rows, and their sums of powers."""
        totals, scatter, cubes = (np.zeros(pulls.shape) for _ in range(3))
        for at in np.ndindex(pulls.shape):
            rows = self.laws[at[-1]](rng, int(pulls[at])) * self.means[at[-1]]
            if len(rows):
                off = rows - rows.mean()
                totals[at], scatter[at], cubes[at] = rows.sum(), (off * off).sum(), (off * off * off).sum()
        return Batch(pulls, totals, scatter, cubes=cubes), state


def skewed() -> Iterator[CalibrationCell]:
    """The best of two at a tie, in rounds of several sizes; with a value that is not seen the model must fail."""
    means = np.array([1.0001, 1.0])
    for name in (*_CALIBRATED, WHALE):
        case = Case(Problem(BestArm(), 2, 0.05, LargeSample()), SkewedArms(SKEWED_LAWS[name], means), means)
        policies: dict[str, tuple[Policy, int]] = {_OWN: (Wager(growth=1.0), 6)}
        for size, batches in _ROUNDS.items():
            policies[f"rounds of {size:,}".replace(",", " ")] = (Rounds(Wager(), None, size, None), batches)
        for column, (policy, batches) in policies.items():
            found = Simulated(case, policy, batches)
            weight = 0.2 if column == _OWN else 0.1
            yield CalibrationCell(PART, name, column, 0.05, weight, found, must_fail=name == WHALE, chunk=50)
