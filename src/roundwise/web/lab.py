"""What the lab runs: policies on an instance, or the paper's experiments; and what it shows of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from roundwise.arrays import Floats
from roundwise.errors import InputError, said
from roundwise.noise import Needs
from roundwise.policies import POLICIES
from roundwise.simulation.environments import BernoulliArms, Environment, GaussianArms, PoissonArms
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import Runs, Summary
from roundwise.spec import made
from roundwise.state import Batch
from roundwise.theory import paper
from roundwise.web.forms import Form, number, whole
from roundwise.web.jobs import Job

MOST_RUNS = 5000
WORLDS = {
    "normal": "normal, with this spread",
    "binary": "yes / no: means are rates",
    "poisson": "counts: means are numbers of events",
}


class Watched:
    """A world that says before every batch that the work goes on, so that it can be given up within a run."""

    def __init__(self, world: Environment, before: Callable[[], None]) -> None:
        self._world, self._before = world, before
        self.arms, self.noise, self.names, self.sigma = world.arms, world.noise, world.names, world.sigma
        self.world = world.world

    def pull(self, rng: Generator, world: Any, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, Any]:
        """What the world gives."""
        self._before()
        return self._world.pull(rng, world, pulls, needs)

    def __getattr__(self, name: str) -> Any:
        self._before()  # what else it can do is asked for anew for every batch: batches in parts
        return getattr(self._world, name)


class Compared(NamedTuple):
    """Policies on one instance."""

    title: str
    truth: str
    runs: list[Runs]
    summaries: list[Summary]


class Found(NamedTuple):
    """What a job of the lab found."""

    compared: list[Compared]
    claims: list[paper.Finding]  # what the paper says, where it was run again


@dataclass(frozen=True)
class LabForm:
    """The fields of the lab's form."""

    question: str = "best-arm"
    k: str = "2"
    level: str = "0.5"
    tolerance: str = ""
    means: str = "1, 0.8, 0.6, 0.5, 0.5"
    world: str = "normal"
    sigma: str = "1"
    delta: str = "5 %"
    runs: str = "200"
    most: str = "1 000 000"
    seed: str = "1"
    policies: tuple[str, ...] = field(default=("wager", "pet", "track-and-stop", "round-robin"))

    @property
    def names(self) -> list[str]:
        """The arms, numbered."""
        return [f"arm {i + 1}" for i in range(len(self.values))]

    @property
    def values(self) -> list[float]:
        """The means."""
        parts = re.split(r"\s*[;,]\s*|\s+(?!%)", self.means.strip())
        return [number("A mean", each) for each in parts if each]

    def environment(self) -> Environment:
        """The world."""
        if self.world == "binary":
            return BernoulliArms(self.values)
        if self.world == "poisson":
            return PoissonArms(self.values)
        return GaussianArms(self.values, number("The spread", self.sigma))

    def job(self) -> Job[Found]:
        """The work: every policy on the instance."""
        world, count = self.environment(), whole("Runs", self.runs)
        if count > MOST_RUNS:
            use = said("`simulate`", "`roundwise simulate`")
            raise InputError(f"Runs are {count}, but here at most {MOST_RUNS} are done. Use {use}.")
        if not self.policies:
            raise InputError("Choose at least one policy.")
        fields = {"k": self.k, "level": self.level, "tolerance": self.tolerance}
        question = Form(question=self.question, arms="\n".join(self.names), **fields).asked()
        question.check(world.arms)
        chosen = {name: made("policy", name) for name in self.policies if name in POLICIES}
        delta, most = number("Delta", self.delta), number("At most samples", self.most)
        seed = whole("Seed", self.seed)
        truth = question.words(question.answer(np.asarray(self.values)), tuple(self.names))

        def work(advance: Callable[[int], None]) -> Found:
            runs: list[Runs] = []
            for name, policy in chosen.items():
                one = {name: policy}
                watched = Watched(world, lambda: advance(0))
                runs += simulate(
                    question, watched, one, runs=count, delta=delta, seed=seed, max_samples=most, progress=advance
                )
            title = f"{question.name}, means {self.means.strip()}"
            return Found([Compared(title, f"{truth}.", runs, [each.summary for each in runs])], [])

        return Job(f"{question.name}: {', '.join(chosen)}", count * len(chosen), work)


def paper_job(runs: int, seed: int = 1) -> Job[Found]:
    """The work: the paper's experiments."""
    if runs > MOST_RUNS:
        raise InputError(
            f"Runs are {runs}, but here at most {MOST_RUNS} are done. Use {said('`reproduced`', '`roundwise paper`')}."
        )

    def work(advance: Callable[[int], None]) -> Found:
        results = paper.reproduced(runs, seed, advance)
        compared = [
            Compared(name, "", list(found.values()), [each.summary for each in found.values()])
            for name, found in results.items()
        ]
        return Found(compared, paper.claims(results))

    return Job(f"the paper's experiments, {runs} runs", paper.number_of_runs(runs), work)
