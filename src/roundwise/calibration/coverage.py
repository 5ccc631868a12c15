"""Do the bounds and intervals of reports hold, at all times at once? How often the truth is ever ruled out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from roundwise.arrays import Floats, tree_map
from roundwise.calibration.cells import UNCOMPARABLE, CalibrationCell, Case, Experiment, Refused, case_of, chunk_of
from roundwise.calibration.laws import LAWS, law_of
from roundwise.calibration.live import SOURCES, LivePath, LiveStudies, as_drawn
from roundwise.calibration.shapes import DIFFERENCES, SINGLE, shape_of
from roundwise.errors import InputError
from roundwise.model.problem import advance, begin
from roundwise.policies import ConditionalPower, Policy, Rounds, Wager
from roundwise.report import Report, build_report
from roundwise.rules.eprocess.bounds import means_of
from roundwise.rules.eprocess.claim_bounds import claims_of
from roundwise.simulation.environments import Generator, draw_batch, numbered
from roundwise.solvers.halfspaces import Halfspaces, pairs
from roundwise.study.state import State

DELTA = 0.1
POLICY = Wager(first_pulls=10, growth=0.7)
FORMS: dict[str, Callable[[int], Halfspaces]] = {
    "a mean, from below": lambda arms: means_of(arms, 1.0),
    "a mean, from above": lambda arms: means_of(arms, -1.0),
    "a difference": lambda arms: pairs(np.arange(arms), np.full(arms, arms - 1)),
}


@dataclass(frozen=True)
class Covered(Experiment):
    """One bound of a form, in many runs at once: in how many the true value of arm 0's form was ever ruled out."""

    case: Case
    form: str

    def broken_copy(self, times: float, sigma: float) -> Covered:
        return replace(self, case=self.case.broken_copy(times, sigma))

    def __call__(self, runs: int, rng: Generator) -> int:
        problem, arms = self.case.problem, self.case.problem.arms
        batches = [batch for batch, _ in self.case.simulate(POLICY, runs, 10, rng)]
        forms = FORMS[self.form](arms)
        values = np.broadcast_to(forms.dense(arms) @ self.case.means, (runs, arms))
        forms = tree_map(lambda array: np.broadcast_to(array, (runs, *array.shape)), forms)
        bets = POLICY.stopping.replay(problem, batches)
        return int((bets.excess(forms, problem.goal)(values)[:, 0] >= 0).sum())


@dataclass(frozen=True)
class ClaimsCovered(Experiment):
    """Bounds of what claims are about: in how many runs any lower one (or any upper one) was ever wrong.

    Those of single steps hold together up to delta; those that agree with what is shown, up to twice that.
    """

    case: Case
    policy: Policy
    which: str  # "lower", "upper", "single_lower" or "single_upper"
    batches: int = 4

    def broken_copy(self, times: float, sigma: float) -> ClaimsCovered:
        return replace(self, case=self.case.broken_copy(times, sigma))

    def __call__(self, runs: int, rng: Generator) -> int:
        return sum(self._happens(rng) for _ in range(runs))

    def _happens(self, rng: Generator) -> bool:
        """In one run: only single runs keep what bounds are made of."""
        problem, environment, means = self.case
        question = claims_of(problem)
        truth = question.forms @ (np.log(means) - np.log1p(-means) if question.odds else means)
        sign = 1.0 if self.which.endswith("lower") else -1.0
        world, trial = environment.initial_state(rng, 1), begin(problem, self.policy, ())
        for _ in range(self.batches):
            if trial.done:
                break
            plan = trial.plan._replace(pulls=trial.plan.pulls[None])
            batch, world = draw_batch(problem, environment, rng, world, plan)
            trial = advance(problem, self.policy, trial, tree_map(lambda array: array[0], batch))
            lines = self.policy.stopping.claims(problem, trial, numbered(problem.arms))
            for line, value in zip(lines, truth, strict=False):
                bound = line._asdict()[self.which]
                if bound is not None and sign * bound > sign * value:
                    return True
        return False


def _excludes(lower: float | None, truth: float, upper: float | None = None) -> bool:
    return (lower is not None and lower > truth) or (upper is not None and upper < truth)


def _excludes_lead_over_control(report: Report, means: Floats) -> bool:
    """Arm 1 beats arm 0, or not: by how much."""
    first = report.claim_rows[0]
    lead = float(means[1] - means[0])
    return _excludes(first.margins, lead if first.claim.endswith("yes") else -lead)


def _exclude_lead_of_pair(report: Report, means: Floats) -> bool:
    """'arm i beats arm j': by how much."""
    first = report.claim_rows[0]
    one, other = (int(name.removeprefix("arm ")) for name in first.claim.split(" beats "))
    return _excludes(first.margins, float(means[one] - means[other]))


def _exclude_gap_to_leader(report: Report, means: Floats) -> bool:
    leader = next((i for i, each in enumerate(report.arm_rows) if each.gap_to_leader_upper == 0), 0)
    return _excludes(None, float(means[leader] - means[0]), report.arm_rows[0].gap_to_leader_upper)


# a number of reports: whether it excludes the truth, how many times delta is allowed, and in which shape it is counted
REPORTED: dict[str, tuple[Callable[[Report, Floats], bool], float, str]] = {
    "interval of a mean, arms compared": (
        lambda report, means: _excludes(report.arm_rows[0].lower, means[0], report.arm_rows[0].upper),
        1.0,
        "best of 5, tie",
    ),
    "behind the best, at least": (
        lambda report, means: _excludes(report.arm_rows[0].gap_to_best_lower, float(means.max() - means[0])),
        2.0,
        "best of 5, tie",
    ),
    "behind the leader, at most": (_exclude_gap_to_leader, 1.0, "best of 5, tie"),
    "a statement, to spare": (_excludes_lead_over_control, 2.0, "control, 4 ties"),
    "a pair of the top 2, to spare": (_exclude_lead_of_pair, 2.0, "top 2 of 4, tie at the cut"),
    "some mean above, to spare": (
        lambda report, means: _excludes(report.claim_rows[0].margins, float(means.max()) - (report.level or 0.0)),
        2.0,
        "any above, just",
    ),
    "lower bound of a mean, level asked": (
        lambda report, means: _excludes(report.arm_rows[0].lower, means[0]),
        2.0,
        "above, 5 on both sides",
    ),
    "upper bound of a mean, level asked": (
        lambda report, means: _excludes(None, means[0], report.arm_rows[0].upper),
        2.0,
        "above, 5 on both sides",
    ),
}
CLAIMED: dict[str, Policy] = {
    "without a budget": ConditionalPower(first_pulls=10),
    "towards a budget": Rounds(ConditionalPower(eta=0.5), budget=220, round_size=70),
}


def bounds() -> Iterator[CalibrationCell | Refused]:
    """Every kind of bound with every law, those of claims, and what reports print."""
    yield from _bounds_of_forms()
    yield from _bounds_of_claims()
    for words, (excludes, times, name) in REPORTED.items():
        for source in SOURCES:
            studies = LiveStudies(
                LivePath("", as_drawn, POLICY),
                source,
                (shape_of(name),),
                rounds=4,
                delta=DELTA,
                judge=partial(_judge_report, excludes),
                every_round=True,
            )
            yield CalibrationCell("bounds", f"report: {words}", source.name, times * DELTA, 0.05, studies)


def _judge_report(excludes: Callable[[Report, Floats], bool], state: State, means: Floats) -> bool:
    return excludes(build_report(state, intervals=True), means)


def _bounds_of_forms() -> Iterator[CalibrationCell | Refused]:
    for form in FORMS:
        for name in ("best of 5, tie", "above, 5 on both sides", "control, 4 ties"):
            for law in LAWS:
                column = f"{law.name}; {name}"
                try:
                    if law.covers == DIFFERENCES and form != "a difference":
                        raise InputError("A mean that moves has no bound.")
                    if law.covers == SINGLE and form == "a difference":
                        raise InputError(UNCOMPARABLE)
                    case = case_of(shape_of(name), law, DELTA)
                except InputError as error:
                    yield Refused("bounds", form, column, str(error))
                else:
                    chunk = max(1, chunk_of(case) // 4)
                    yield CalibrationCell("bounds", form, column, DELTA, 1.0, Covered(case, form), chunk=chunk)


def _bounds_of_claims() -> Iterator[CalibrationCell]:
    """Every kind of bound of claims, with and without a budget."""
    for name in ("claims, 2 nulls and 2 effects", "claims, one null"):
        for law in ("normal, sigma known", "0/1, rate .5", "counts, rate 5"):
            case = case_of(shape_of(name), law_of(law), DELTA)
            for words, policy in CLAIMED.items():
                for which, times in {"single_lower": 1.0, "single_upper": 1.0, "lower": 2.0, "upper": 2.0}.items():
                    row = f"claims: {which.replace('_', ' step, ')} bounds"
                    found = ClaimsCovered(case, policy, which)
                    column = f"{law}; {name}, {words}"
                    yield CalibrationCell("bounds", row, column, times * DELTA, 0.1, found, chunk=50)
