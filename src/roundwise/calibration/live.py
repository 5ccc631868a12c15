"""The live path: real studies, told in every way that people tell results, in an archive that is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.calibration.cells import CalibrationCell, Refused, harmed
from roundwise.calibration.laws import Law
from roundwise.calibration.shapes import SHAPES, Shape
from roundwise.calibration.telling import (
    Rows,
    amended,
    as_drawn,
    cut_files,
    late_files,
    rows_and_sums,
    settled_short,
    sorted_file,
    sorted_files,
    sums,
    without_an_arm,
)
from roundwise.errors import InputError
from roundwise.model.problem import final_answer
from roundwise.noise import Binary, Bounded, Gaussian, Noise, Normal, Poisson, SubGaussian
from roundwise.policies import PET, Policy, RoundRobin, Wager
from roundwise.simulation.environments import Environment, Generator
from roundwise.store.log import Head, extended, written
from roundwise.study.spec import StudySpec
from roundwise.study.state import State, replay
from roundwise.study.study import Study


class Nowhere:
    """A store that keeps nothing."""

    def append(self, name: str, new: Sequence[tuple[str, Plain]], expected: int, overview: object = None) -> None:
        """Nothing to do: the study holds its state."""

    def read(self, name: str) -> list[Any]:
        """Nothing was kept."""
        return []

    def close(self) -> None:
        """Nothing to give back."""


class Remembered(Study):
    """A study by all the rules of studies, whose state is held in memory instead of replayed from a log."""

    def __init__(self, settings: StudySpec) -> None:
        super().__init__("study", Nowhere())  # type: ignore[arg-type]
        self._now = replay(extended(self.name, Head(), [("created", written(settings.to_json()))], datetime.now(UTC)))

    @property
    def state(self) -> State:
        """Where the study stands."""
        return self._now

    def _report(self, state: State) -> Any:
        """None: nobody reads it."""


@dataclass(frozen=True)
class RowSource:
    """A law of single results."""

    law: Law
    drawn: Callable[[Generator, float, int], Floats]


def _law(name: str, noise: Noise, centre: float, unit: float) -> Law:
    return Law(name, noise, centre, unit, _no_sums)


def _no_sums(means: Floats) -> Environment:
    raise AssertionError("live paths draw rows, never sums")


def _valued(rng: Generator, mean: float, number: int) -> Floats:
    """0, .1 (half of them) or 1."""
    top = mean - 0.05
    return rng.choice([0.0, 0.1, 1.0], p=[0.5 - top, 0.5, top], size=number)


SOURCES: tuple[RowSource, ...] = (
    RowSource(_law("normal, sigma known", Gaussian(1.0), 0.0, 0.5), lambda rng, mean, n: rng.normal(mean, 1.0, n)),
    RowSource(_law("sub-Gaussian", SubGaussian(1.0), 0.0, 0.5), lambda rng, mean, n: rng.normal(mean, 1.0, n)),
    RowSource(_law("sigma unknown", Normal(), 0.0, 3.0), lambda rng, mean, n: rng.normal(mean, 7.0, n)),
    RowSource(
        _law("0/1, rate .5", Binary(), 0.5, 0.2), lambda rng, mean, n: rng.binomial(1, mean, n).astype(np.float64)
    ),
    RowSource(
        _law("0/1, rate .1", Binary(), 0.1, 0.05), lambda rng, mean, n: rng.binomial(1, mean, n).astype(np.float64)
    ),
    RowSource(_law("values in [0, 1]", Bounded(0.0, 1.0), 0.3, 0.1), _valued),
    RowSource(
        _law("counts, rate 2", Poisson(), 2.0, 0.5), lambda rng, mean, n: rng.poisson(mean, n).astype(np.float64)
    ),
)

ASKED = tuple(
    next(each for each in SHAPES if each.name == name)
    for name in (
        "best of 2, tie",
        "tolerance, 2 arms at its border",
        "top 2 of 4, tie at the cut",
        "above, 5 on both sides",
        "minimum just below",
        "any above, just",
        "control, 4 ties",
        "statements on levels, scaled",
        "largest, sums of groups",
    )
)


@dataclass(frozen=True)
class LivePath:
    """A way to tell results."""

    name: str
    told: Callable[[Study, Rows, Generator], None]
    policy: Policy = Wager(first_pulls=8, growth=1.0)  # noqa: RUF009 - it is frozen
    limits: tuple[int | None, int] = (None, 0)
    budget: int | None = None
    more: float = 0.0  # rows beyond what was asked, as a share
    lost: float = 0.0  # rows that never come, as a share


WAYS: tuple[LivePath, ...] = (
    LivePath("one file", as_drawn),
    LivePath("one sorted file", sorted_file),
    LivePath("sorted files", sorted_files),
    LivePath("a sorted list cut into files", cut_files),
    LivePath("late files", late_files),
    LivePath("more than asked", late_files, more=0.5),
    LivePath("settled short", settled_short, lost=0.3),
    LivePath("an arm without rows", without_an_arm),
    LivePath("sums", sums),
    LivePath("rows and sums", rows_and_sums),
    LivePath("amended", amended),
    LivePath("a budget", sorted_files, budget=70),
    LivePath("limits", cut_files, limits=(48, 3)),
    LivePath("Round Robin, limits", late_files, policy=RoundRobin(first_time=40.0), limits=(48, 3)),
    LivePath("PET, a budget", sums, policy=PET(exploration=1.0), budget=500),
)


@dataclass(frozen=True)
class Lived:
    """Studies told in one way, from one source, over all questions in turn."""

    way: LivePath
    source: RowSource
    shapes: tuple[Shape, ...] = ASKED
    batches: int = 5
    delta: float = 0.05

    def __call__(self, runs: int, rng: Generator) -> int:
        """In how many studies a wrong answer was given, or a true null struck off."""
        return sum(self.one(self.shapes[int(rng.integers(len(self.shapes)))], rng) for _ in range(runs))

    def one(self, shape: Shape, rng: Generator) -> bool:
        """Whether that happened in one study."""
        means, state = self.state(shape, rng)
        settings = state.spec
        if state.decided is not None:
            answer = final_answer(settings.problem, settings.policy, state.trial)
            assert state.decided["answer"] == settings.question.answer_to_json(answer)
            if not settings.question.correct(answer, means):
                return True
        return bool(harmed(settings.problem, settings.policy, state.trial, means))

    def state(self, shape: Shape, rng: Generator) -> tuple[Floats, State]:
        """The true means, and one study at the horizon, or at its end."""
        means, settings = self.settings(shape, rng)
        study = Remembered(settings)
        for _ in range(self.batches):
            asked = study.ask()
            if asked is None:
                break
            self.way.told(study, self.rows(asked.table, means, rng), rng)
        return means, study.state

    def settings(self, shape: Shape, rng: Generator) -> tuple[Floats, StudySpec]:
        """The true means, and what is fixed before a study begins."""
        question, means = shape.asked(self.source.law)
        names = tuple(f"arm {i}" for i in range(shape.arms))
        most, least = self.way.limits
        seed = int(rng.integers(2**32))
        return means, StudySpec(
            question=question,
            arms=names,
            noise=self.source.law.assumed(len(names)),
            delta=self.delta,
            policy=self.way.policy,
            max_round=most,
            min_per_arm=least,
            seed=seed,
            budget=self.way.budget,
        )

    def rows(self, table: Sequence[tuple[str, int]], means: Floats, rng: Generator) -> Rows:
        """Results of a batch, in random order; more or fewer than asked by chance alone."""
        arms: list[str] = []
        values: list[Floats] = []
        for arm, pulls in table:
            number = pulls + int(rng.binomial(pulls, self.way.more)) - int(rng.binomial(pulls, self.way.lost))
            arms += [arm] * number
            values.append(self.source.drawn(rng, float(means[int(arm.split()[1])]), number))
        order = rng.permutation(len(arms))
        return np.array(arms)[order], np.concatenate(values)[order]


def paths() -> Iterator[CalibrationCell | Refused]:
    """Every way with every source."""
    for way in WAYS:
        for source in SOURCES:
            found = Lived(way, source)
            try:
                for shape in ASKED:
                    question, _ = shape.asked(source.law)
                    most, least = way.limits
                    StudySpec(
                        question=question,
                        arms=tuple(map(str, range(shape.arms))),
                        noise=source.law.assumed(shape.arms),
                        delta=0.05,
                        policy=way.policy,
                        max_round=most,
                        min_per_arm=least,
                        seed=0,
                    )
            except InputError as error:
                yield Refused("live", way.name, source.law.name, str(error))
                continue
            yield CalibrationCell("live", way.name, source.law.name, 0.05, 0.1, found, chunk=20)
