"""Do the bounds and intervals of reports hold, at all times at once? How often the truth is ever ruled out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from roundwise.arrays import Floats, tree_map
from roundwise.calibration.cells import CalibrationCell, Refused, chunk_of
from roundwise.calibration.laws import LAWS, Law
from roundwise.calibration.live import SOURCES, Lived, LivePath, Remembered, RowSource
from roundwise.calibration.shapes import SHAPES, Shape
from roundwise.calibration.telling import as_drawn
from roundwise.errors import InputError
from roundwise.model.problem import Problem, advance, begin
from roundwise.policies import ConditionalPower, Policy, Rounds, Wager
from roundwise.report import Report, build_report
from roundwise.rules import ClaimStatus
from roundwise.rules.eprocess.bounds import means_of
from roundwise.rules.eprocess.claim_bounds import claims_of
from roundwise.simulation.environments import Generator, draw_batch, numbered
from roundwise.solvers.halfspaces import Halfspaces, pairs

DELTA = 0.1
POLICY = Wager(first_pulls=10, growth=0.7)
ASKED = tuple(
    next(each for each in SHAPES if each.name == name)
    for name in ("best of 5, tie", "above, 5 on both sides", "control, 4 ties")
)
FORMS: dict[str, Callable[[int], Halfspaces]] = {
    "a mean, from below": lambda arms: means_of(arms, 1.0),
    "a mean, from above": lambda arms: means_of(arms, -1.0),
    "a difference": lambda arms: pairs(np.arange(arms), np.full(arms, arms - 1)),
}


@dataclass(frozen=True)
class Covered:
    """One bound of a form, in many runs at once: in how many the true value of arm 0's form was ever ruled out."""

    law: Law
    shape: Shape
    form: str
    delta: float = DELTA

    def careless(self, times: float, sigma: float) -> Covered:
        """With a bar so many times too low."""
        return replace(self, delta=times * self.delta)

    def __call__(self, runs: int, rng: Generator) -> int:
        """To the horizon, also past the end of a run."""
        question, means = self.shape.asked(self.law)
        problem = Problem(question, self.shape.arms, self.delta, self.law.assumed(self.shape.arms))
        environment = self.law.made(means)
        world, trial, batches = environment.initial_state(rng, runs), begin(problem, POLICY, (runs,)), []
        for _ in range(10):
            batch, world = draw_batch(problem, environment, rng, world, trial.plan)
            trial = advance(problem, POLICY, trial, batch)
            batches.append(batch)
        forms = FORMS[self.form](problem.arms)
        dense = np.zeros((problem.arms, problem.arms))
        np.add.at(dense, (np.arange(problem.arms)[:, None], forms.arms), forms.coefficients)
        values = np.broadcast_to(dense @ means, (runs, problem.arms))
        forms = tree_map(lambda array: np.broadcast_to(array, (runs, *array.shape)), forms)
        bets = POLICY.stopping.replay(problem, batches)
        return int((bets.excess(forms, problem.goal)(values)[:, 0] >= 0).sum())


@dataclass(frozen=True)
class ClaimsCovered:
    """Bounds of what claims are about: in how many runs any lower one (or any upper one) was ever wrong.

    Those of single steps hold together up to delta; those that agree with what is shown, up to twice that.
    """

    law: Law
    shape: Shape
    policy: Policy
    which: str  # "lower", "upper", "single_lower" or "single_upper"
    delta: float = DELTA
    batches: int = 4

    def careless(self, times: float, sigma: float) -> ClaimsCovered:
        """With a bar so many times too low."""
        return replace(self, delta=times * self.delta)

    def __call__(self, runs: int, rng: Generator) -> int:
        """One by one: only single runs keep what bounds are made of."""
        return sum(self._one(rng) for _ in range(runs))

    def _one(self, rng: Generator) -> bool:
        question, means = self.shape.asked(self.law)
        problem = Problem(question, self.shape.arms, self.delta, self.law.assumed(self.shape.arms))
        environment, names = self.law.made(means), numbered(self.shape.arms)
        truth = form_values(problem, means)
        world, trial = environment.initial_state(rng, 1), begin(problem, self.policy, ())
        for _ in range(self.batches):
            if trial.done:
                break
            plan = trial.plan._replace(pulls=trial.plan.pulls[None])
            batch, world = draw_batch(problem, environment, rng, world, plan)
            trial = advance(problem, self.policy, trial, tree_map(lambda array: array[0], batch))
            lines = self.policy.stopping.claims(problem, trial, names)
            if any(_wrong(line, self.which, value) for line, value in zip(lines, truth, strict=False)):
                return True
        return False


def form_values(problem: Problem, means: Floats) -> Floats:
    """What the claims are about, at these means; of odds ratios their logarithms."""
    question = claims_of(problem)
    places = np.log(means) - np.log1p(-means) if question.odds else means
    return np.asarray(question.forms @ places)


def _wrong(line: ClaimStatus, which: str, truth: float) -> bool:
    bound = {
        "lower": line.lower,
        "upper": line.upper,
        "single_lower": line.single_lower,
        "single_upper": line.single_upper,
    }[which]
    if bound is None:
        return False
    return bound > truth if which.endswith("lower") else bound < truth


Missed = Callable[[Report, Floats], bool]
MISSED: dict[str, tuple[Missed, float, str]] = {
    "interval of a mean, arms compared": (
        lambda report, means: _out(report.arm_rows[0].lower, means[0], report.arm_rows[0].upper),
        1.0,
        "best of 5, tie",
    ),
    "behind the best, at least": (
        lambda report, means: _out(report.arm_rows[0].gap_to_best_lower, float(means.max() - means[0]), None),
        2.0,
        "best of 5, tie",
    ),
    "behind the leader, at most": (
        lambda report, means: _behind_most(report, means),
        1.0,
        "best of 5, tie",
    ),
    "a statement, to spare": (lambda report, means: _spare(report, means), 2.0, "control, 4 ties"),
    "a pair of the top 2, to spare": (
        lambda report, means: _pair_spare(report, means),
        2.0,
        "top 2 of 4, tie at the cut",
    ),
    "some mean above, to spare": (
        lambda report, means: _out(report.claim_rows[0].margins, float(means.max()) - (report.level or 0.0), None),
        2.0,
        "any above, just",
    ),
    "lower bound of a mean, level asked": (
        lambda report, means: _out(report.arm_rows[0].lower, means[0], None),
        2.0,
        "above, 5 on both sides",
    ),
    "upper bound of a mean, level asked": (
        lambda report, means: _out(None, means[0], report.arm_rows[0].upper),
        2.0,
        "above, 5 on both sides",
    ),
}


def _out(lower: float | None, truth: float, upper: float | None) -> bool:
    return (lower is not None and lower > truth) or (upper is not None and upper < truth)


def _spare(report: Report, means: Floats) -> bool:
    """Arm 1 beats arm 0 by no margin, or not: by how much."""
    first = report.claim_rows[0]
    lead = float(means[1] - means[0])
    return _out(first.margins, lead if first.claim.endswith("yes") else -lead, None)


def _pair_spare(report: Report, means: Floats) -> bool:
    """'arm i beats arm j': by how much."""
    first = report.claim_rows[0]
    one, other = (int(name.removeprefix("arm ")) for name in first.claim.split(" beats "))
    return _out(first.margins, float(means[one] - means[other]), None)


def _behind_most(report: Report, means: Floats) -> bool:
    leader = next((i for i, each in enumerate(report.arm_rows) if each.gap_to_leader_upper == 0), 0)
    return _out(None, float(means[leader] - means[0]), report.arm_rows[0].gap_to_leader_upper)


@dataclass(frozen=True)
class Reported:
    """A number of the reports of live studies: in how many of them it was wrong at any time."""

    source: RowSource
    shape: Shape
    missed: Missed

    def __call__(self, runs: int, rng: Generator) -> int:
        """A report after every batch."""
        return sum(self._one(rng) for _ in range(runs))

    def _one(self, rng: Generator) -> bool:
        lived = Lived(LivePath("", as_drawn, policy=POLICY), self.source, delta=DELTA)
        means, settings = lived.settings(self.shape, rng)
        study = Remembered(settings)
        for _ in range(4):
            asked = study.ask()
            if asked is None:
                return False
            as_drawn(study, lived.rows(asked.table, means, rng), rng)
            if self.missed(build_report(study.state, intervals=True), means):
                return True
        return False


def bounds() -> Iterator[CalibrationCell | Refused]:
    """Every kind of bound with every law, and what reports print."""
    part = "bounds"
    for form in FORMS:
        for shape in ASKED:
            for law in LAWS:
                column = f"{law.name}; {shape.name}"
                if law.covers == "differences" and form != "a difference":
                    yield Refused(part, form, column, "A mean that moves has no bound.")
                elif law.covers == "one arm at a time" and form == "a difference":
                    sentence = (
                        "Arms of different, unknown deviations cannot be compared: the model says that they have one."
                    )
                    yield Refused(part, form, column, sentence)
                else:
                    try:
                        law.made(shape.asked(law)[1])
                    except InputError as error:
                        yield Refused(part, form, column, str(error))
                    else:
                        chunk = max(1, chunk_of(shape, law) // 4)
                        yield CalibrationCell(part, form, column, DELTA, 1.0, Covered(law, shape, form), chunk=chunk)
    yield from claim_bounds()
    for words, (missed, times, name) in MISSED.items():
        shape = next(each for each in SHAPES if each.name == name)
        for source in SOURCES:
            yield CalibrationCell(
                part, f"report: {words}", source.law.name, times * DELTA, 0.05, Reported(source, shape, missed)
            )


CLAIMED: dict[str, Policy] = {
    "without a budget": ConditionalPower(first_pulls=10),
    "towards a budget": Rounds(ConditionalPower(eta=0.5), budget=220, round=70),
}


def claim_bounds() -> Iterator[CalibrationCell]:
    """Every kind of bound of claims, with and without a budget."""
    kinds = {"single_lower": 1.0, "single_upper": 1.0, "lower": 2.0, "upper": 2.0}
    laws = [law for law in LAWS if law.name in ("normal, sigma known", "0/1, rate .5", "counts, rate 5")]
    for shape in (each for each in SHAPES if each.name in ("claims, one null", "claims, 2 nulls and 2 effects")):
        for law in laws:
            for words, policy in CLAIMED.items():
                for which, times in kinds.items():
                    row = f"claims: {which.replace('_', ' step, ')} bounds"
                    column = f"{law.name}; {shape.name}, {words}"
                    found = ClaimsCovered(law, shape, policy, which)
                    yield CalibrationCell("bounds", row, column, times * DELTA, 0.1, found, chunk=50)
