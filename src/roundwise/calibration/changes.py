"""Studies that change under way: arms that leave or join because of results, larger budgets, earlier data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from roundwise.calibration.cells import CalibrationCell
from roundwise.calibration.live import SOURCES, Remembered, RowSource
from roundwise.calibration.shapes import TINY
from roundwise.calibration.telling import file_of, tell_once
from roundwise.model.problem import final_answer
from roundwise.policies import ConditionalPower, Policy, Wager
from roundwise.questions import Above, BestArm, Claims, Question
from roundwise.simulation.environments import Generator
from roundwise.study.spec import StudySpec

Made = Callable[[Remembered, dict[str, float], Generator], None]


@dataclass(frozen=True)
class Changed:
    """Studies in which something changes after every round: in how many a true null was ever struck off."""

    question: Callable[[int], Question]
    offsets: tuple[float, ...]  # of the first arms, in units of the source
    change: Made  # also gives the means of arms that join
    policy: Policy
    source: RowSource
    delta: float
    before: Made | None = None
    budget: int | None = None
    rounds: int = 4

    def __call__(self, runs: int, rng: Generator) -> int:
        """Study by study."""
        return sum(self._one(rng) for _ in range(runs))

    def _one(self, rng: Generator) -> bool:
        law, number = self.source.law, len(self.offsets)
        means = {f"arm {i}": law.centre + law.unit * offset for i, offset in enumerate(self.offsets)}
        seed, names = int(rng.integers(2**32)), tuple(means)
        settings = StudySpec(
            question=self.question(number),
            arms=names,
            noise=law.assumed(number),
            delta=self.delta,
            policy=self.policy,
            seed=seed,
            budget=self.budget,
        )
        study = Remembered(settings)
        if self.before is not None:
            self.before(study, means, rng)
        for _ in range(self.rounds):
            asked = study.ask()
            if asked is None:
                break
            totals = [float(self.source.drawn(rng, means[arm], pulls).sum()) for arm, pulls in asked.table]
            arms, counts = (np.array(each) for each in zip(*asked.table, strict=True))
            tell_once(study, file_of(arm=arms, count=counts, total=totals))  # sums: rows take ten times as long
            if _is_wrong(study, means):
                return True
            if study.state.closed is None:
                self.change(study, means, rng)
        return False


def _is_wrong(study: Remembered, means: dict[str, float]) -> bool:
    """Whether what is true of the present arms has been ruled out, or a wrong answer given."""
    state = study.state
    problem, policy = state.spec.problem, state.spec.policy
    truth = np.array([means[name] for name in state.spec.arms])
    if bool(policy.stopping.false_rejection(problem, state.trial, truth)):
        return True
    decided = bool(state.trial.done)
    return decided and not bool(problem.question.correct(final_answer(problem, policy, state.trial), truth))


def _observed(study: Remembered) -> list[str]:
    """The present arms, from the smallest observed mean to the largest."""
    state = study.state
    order = np.argsort(state.record.totals / np.maximum(state.record.counts, 1.0), kind="stable")
    return [state.spec.arms[i] for i in order]


def _drop(which: int) -> Made:
    """Leave out the arm that looks worst (0) or best (-1), as long as three are left."""

    def change(study: Remembered, means: dict[str, float], rng: Generator) -> None:
        state = study.state
        if state.decided is None and len(state.spec.arms) - len(state.spec.left_out) > 2:
            kept = {state.spec.arms[0]} if state.spec.question.separate_claims else set()  # a control stays
            gone = kept.union(state.spec.left_out)
            study.drop([name for name in _observed(study) if name not in gone][which], "it looks like that")

    return change


def _add(offset: float) -> Made:
    """One arm joins after the first rounds, because something leads."""

    def change(study: Remembered, means: dict[str, float], rng: Generator) -> None:
        state = study.state
        if state.decided is None and len(means) < 5:
            name = f"arm {len(means)}"
            means[name] = means["arm 0"] + offset
            study.add(name, "the others look weak")

    return change


def _exchanged(study: Remembered, means: dict[str, float], rng: Generator) -> None:
    """Two arms far above join after the first round, and all others leave."""
    if study.state.decided is None and "new 1" not in means:
        first = list(means)
        for name in ("new 1", "new 2"):
            means[name] = means[first[0]] + 10.0
            study.add(name, "the others look weak")
        for name in first:
            study.drop(name, "it looks weak")


def _extend(study: Remembered, means: dict[str, float], rng: Generator) -> None:
    """A larger budget whenever the end of the present one is near and something is open."""
    state = study.state
    budget, open_ = state.spec.budget, not bool(np.all(state.trial.kept.shown))
    if budget is not None and open_ and state.record.samples + 30 > budget and budget < 200:
        study.extend(budget + 50)


def _teach(study: Remembered, means: dict[str, float], rng: Generator) -> None:
    """Earlier results of another world, in which the last arm is far ahead."""
    names = list(means)
    arms = np.repeat(names, 20)
    values = rng.normal(np.repeat([0.0] * (len(names) - 1) + [1.0], 20), 1.0)
    path = file_of(arm=arms, outcome=values)
    try:
        study.import_past(path)
    finally:
        path.unlink()


def _nothing(study: Remembered, means: dict[str, float], rng: Generator) -> None:
    """No change."""


def _control(arms: int) -> Question:
    return Claims.against_control(arms, 0)


def changes(part: str, row: str, delta: float, weight: float) -> Iterator[CalibrationCell]:
    """Every kind of change, with bets and with claims, each made because of what was seen."""
    normal, wager, chances = SOURCES[0], Wager(first_pulls=20, growth=1.0), ConditionalPower(first_pulls=8)
    level = normal.law.centre
    asked: list[tuple[str, Changed]] = [
        (
            "the worst arm leaves; best of 4, tie",
            Changed(lambda arms: BestArm(), (0, -TINY, -TINY, -TINY), _drop(0), wager, normal, delta),
        ),
        (
            "arms join; best of 2, tie",
            Changed(lambda arms: BestArm(), (0, -TINY), _add(-TINY), wager, normal, delta),
        ),
        (
            "the best arm leaves; best of 4, tie",
            Changed(lambda arms: BestArm(), (0, 0, 0, -TINY), _drop(-1), wager, normal, delta),
        ),
        (
            "two arms join, all others leave; above within a tolerance",
            Changed(lambda arms: Above(level, 1.0), (0,) * 6, _exchanged, wager, normal, delta),
        ),
        (
            "earlier data of another world; best of 3, tie",
            Changed(lambda arms: BestArm(), (0, -TINY, -TINY), _nothing, wager, normal, delta, before=_teach),
        ),
        ("arms leave; claims", Changed(_control, (0, 0, 0, 0), _drop(0), chances, normal, delta)),
        ("arms join; claims", Changed(_control, (0, 0), _add(0.0), chances, normal, delta)),
        (
            "larger budgets; claims",
            Changed(_control, (0, 0), _extend, ConditionalPower(eta=0.5), normal, delta, budget=50, rounds=8),
        ),
        (
            "earlier data of another world; claims towards a budget",
            Changed(
                _control,
                (0, 0, 0),
                _nothing,
                ConditionalPower(eta=0.5),
                normal,
                delta,
                before=_teach,
                budget=90,
                rounds=8,
            ),
        ),
    ]
    for column, found in asked:
        yield CalibrationCell(part, row, column, delta, weight, found, chunk=50)


def reproductions() -> Iterator[CalibrationCell]:
    """A hole as it was found: with a tolerance, arms that leave gave those that joined evidence out of nothing."""
    wager, normal = Wager(first_pulls=20), SOURCES[0]
    found = Changed(lambda arms: Above(normal.law.centre, 1.0), (0,) * 10, _exchanged, wager, normal, 0.05)
    row = "two arms join and ten leave, above within a tolerance"
    yield CalibrationCell("reproductions", row, "Wager", 0.05, 0.2, found, chunk=20)
