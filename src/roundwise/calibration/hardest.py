"""Each rule where its error was measured to come nearest to its bound: few cells, with runs enough to see a break.

Ties of two arms, one mean on a level, a single claim at its margin: there the union over wrong answers costs nothing.
The thresholds of the likelihood ratio and the rules of other authors are far below their bounds everywhere; for those
the cells show the distance. A row is a rule, a column one of its cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from roundwise.calibration.cells import CalibrationCell, Case, Experiment, Simulated, case_of, chunk_of, horizon
from roundwise.calibration.controls import conditions
from roundwise.calibration.coverage import CLAIMED, FORMS, ClaimsCovered, Covered
from roundwise.calibration.laws import LAWS, law_of
from roundwise.calibration.live import NORMAL, WAYS, LiveStudies, changes
from roundwise.calibration.rules import PROVED
from roundwise.calibration.shapes import SINGLE, shape_of
from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.noise import Binary, PairedBounded
from roundwise.policies import (
    LUCB,
    PET,
    BatchRacing,
    ClassicTrackAndStop,
    ConditionalPower,
    Designed,
    Elimination,
    Hillel,
    Karpov,
    Lockstep,
    Policy,
    Rage,
    RoundRobin,
    Rounds,
    TopTwo,
    TrackAndStop,
    Wager,
)
from roundwise.questions import Above, BestArm, Claims, Question, TopK
from roundwise.rules import GLR, KaufmannKoolenPairwise
from roundwise.simulation.environments import Generator
from roundwise.simulation.items import ListReplay

PART = "rules"
STUDIES = 0.4  # delta of whole studies: they take a tenth of a second each, and the larger it is, the fewer are needed
MANY, SOME, FEW = 10.0, 2.0, 0.5  # weights in the full run: vectorised runs, slower ones, whole studies
STEADY, SMALL = Wager(first_pulls=10, growth=1.0), Wager(max_batch=120)
BUDGET, SHORT_BUDGET = (
    Rounds(ConditionalPower(), budget=1200),
    Rounds(ConditionalPower(eta=0.5), budget=220, round_size=70),
)


@dataclass(frozen=True)
class MixedExperiment(Experiment):
    """Several experiments, each run by one of them at random."""

    experiments: tuple[Experiment, ...]

    def __call__(self, runs: int, rng: Generator) -> int:
        shares = rng.multinomial(runs, np.full(len(self.experiments), 1 / len(self.experiments)))
        return sum(count(int(number), rng) for count, number in zip(self.experiments, shares, strict=True) if number)


def simulated(
    rule: str, shape: str, law: str, policy: Policy, delta: float, batches: int | None = None
) -> CalibrationCell:
    """One cell of a rule."""
    case = case_of(shape_of(shape), law_of(law), delta)
    found = Simulated(case, policy, batches or horizon(case.problem.arms))
    weight = MANY if not case.problem.noise.shares_items else SOME
    return CalibrationCell(PART, rule, f"{shape}; {law}; {policy.name}", delta, weight, found, chunk=chunk_of(case))


def hardest() -> Iterator[CalibrationCell]:
    """Every rule."""
    for words, names in QUESTIONS.items():  # bets for each kind of question
        for name in names:
            yield simulated(f"Wager: {words}", name, NORMAL.name, STEADY, 0.05)
    yield from _noises()
    yield from _claims()
    yield from _designed()
    yield from _lists()
    yield from _bounds()
    yield from _thresholds()
    for words, (policy, batches) in OTHERS.items():
        for name in ("best of 2, tie", "best of 5, tie"):
            yield simulated(words, name, NORMAL.name, policy, 0.1, batches)
    for cell in conditions():
        yield replace(cell, part=PART, row=cell.column, column=cell.row, weight=MANY)
    yield from _studies()


QUESTIONS: dict[str, Sequence[str]] = {
    "best arm": ("best of 2, tie", "best of 5, tie", "best of 10, a pair ahead"),
    "best arm within a tolerance": ("tolerance, 2 arms at its border", "tolerance, 5 arms at its border"),
    "top k": ("top 2 of 4, tie at the cut", "top 2 of 4 within a tolerance"),
    "above a level": ("above, 2 just above", "above within a tolerance"),
    "minimum below": ("minimum just below", "minimum of 10 just not below"),
    "any above": ("any above, just", "none of 10 above, just", "none of 10 above, within a tolerance"),
    "statements": ("statements on levels, scaled", "control, margin just missed", "ranking of 4, ties"),
    "largest": ("largest, against a constant", "largest, sums of groups"),
    "arms with features": ("features, best of 5, tie", "features, above, 4 just below"),
}


def _noises() -> Iterator[CalibrationCell]:
    """Bets in each noise model, with two questions."""
    for law in LAWS[1:]:
        shared = law.noise.shares_items
        policy, batches = (STEADY, 8 if shared else None) if law.name != "shared items, graded" else (SMALL, 20)
        for name in ("best of 2, tie", "any above, just"):
            about = shape_of(name).about
            if law.noise == PairedBounded(0.0, 1.0) and about == SINGLE:
                continue  # the slowest of all: they are in the product
            if law.covers in ("everything", about):
                with suppress(InputError):  # a rate below 0: the product says so
                    rule = f"Wager: results '{law.noise.name}'"
                    yield simulated(rule, name, law.name, policy, 0.2 if shared else 0.1, batches)


CLAIMS: dict[str, tuple[Sequence[str], Sequence[str], Sequence[Policy]]] = {
    "without a budget": (
        ("claims, one null", "claims, margin just met"),
        ("normal, sigma known", "0/1, rate .5"),
        (ConditionalPower(first_pulls=10),),
    ),
    "towards a budget": (
        ("claims, one null", "claims, 4 nulls", "claims, 2 nulls and 2 effects", "claims, on both borders of futility"),
        ("normal, sigma known", "0/1, rate .5", "counts, rate 5"),
        (BUDGET, SHORT_BUDGET),
    ),
    "ratios": (
        ("claims, ratio just missed",),
        ("0/1, rate .5", "counts, rate 5"),
        (BUDGET, SHORT_BUDGET, ConditionalPower(first_pulls=10)),
    ),
    "odds ratios": (("claims, odds ratio just missed",), ("0/1, rate .5",), (BUDGET, ConditionalPower(first_pulls=10))),
    "independent": (
        ("claims, 4 independent nulls", "claims, independent, 1 null and 3 effects"),
        ("normal, sigma known", "0/1, rate .5"),
        (ConditionalPower(first_pulls=10),),
    ),
    "shared items": (("claims, one null",), ("shared items, 0/1", "shared items, graded"), (SHORT_BUDGET,)),
}


def _claims() -> Iterator[CalibrationCell]:
    budgets = {id(BUDGET): "a budget of 1200", id(SHORT_BUDGET): "a budget of 220"}
    for words, (shapes, laws, policies) in CLAIMS.items():
        for name, law, policy in product(shapes, laws, policies):
            delta = 0.1 if not law_of(law).noise.shares_items else 0.2
            cell = simulated(f"claims: {words}", name, law, policy, delta)
            yield replace(cell, column=f"{name}; {law}; {budgets.get(id(policy), 'no budget')}")


DESIGN, TWO_LOOKS = (
    Designed(budget=600, lead=0.5, looks=5),
    Designed(budget=150, lead=0.1, looks=2, extension_value=0.0),
)
DESIGNED: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "best arm": (
        ("best of 2, tie", "best of 5, tie"),
        ("normal, sigma known", "sigma unknown", "0/1, rate .5", "values in [0, 1]", "counts, rate 5"),
    ),
    "top k": (("top 2 of 4, tie at the cut",), ("normal, sigma known", "0/1, rate .5")),
    "levels": (("above, 2 just above", "none of 10 above, just"), ("normal, sigma known", "0/1, rate .5")),
}


def _designed() -> Iterator[CalibrationCell]:
    for words, (shapes, laws) in DESIGNED.items():
        for name, law, policy in product(shapes, laws, (DESIGN, TWO_LOOKS)):
            cell = simulated(f"designed: {words}", name, law, policy, 0.1, (policy.looks or 5) + 1)
            yield replace(cell, column=f"{name}; {law}; {policy.looks} looks")


LISTS: dict[str, tuple[Question, int, int]] = {  # the arms, and how many of them are an item ahead
    "best of 2, one item ahead": (BestArm(), 2, 1),
    "best of 5, one item ahead": (BestArm(), 5, 1),
    "top 2 of 4, one item ahead": (TopK(2), 4, 2),
    "above, 3 on the level": (Above(0.5), 3, 0),
    "claims, 2 as good as the control": (Claims.against_control(3, 0, sides="two"), 3, 0),
}


def _lists() -> Iterator[CalibrationCell]:
    """Lists of 400 items in random orders, on which the arms differ by an item or by none."""
    for words, (question, arms, ahead) in LISTS.items():
        drawn = np.random.default_rng(arms)
        table = np.stack([drawn.permutation(np.arange(400) % 2.0) for _ in range(arms)], axis=1)
        for arm in range(ahead):
            table[np.flatnonzero(table[:, arm] == 0)[0], arm] = 1.0
        policy, means = Lockstep(len(table), max_batch=20.0 * arms), table.mean(axis=0)
        found = Simulated(Case(Problem(question, arms, 0.05, Binary()), ListReplay(table), means), policy, 20)
        yield CalibrationCell(PART, f"lists: {question.name}", words, 0.05, SOME, found, chunk=100)


def _bounds() -> Iterator[CalibrationCell]:
    for name in ("normal, sigma known", "sigma unknown", "0/1, rate .5", "values in [0, 1]", "counts, rate 5"):
        case = case_of(shape_of("best of 2, tie"), law_of(name), 0.2)
        for form in FORMS:
            yield CalibrationCell(PART, f"bounds: {form}", name, 0.2, SOME, Covered(case, form), chunk=100)
    rate = "0/1, rate .5"
    for words, policy in CLAIMED.items():
        found = ClaimsCovered(case_of(shape_of("claims, one null"), law_of(rate), 0.3), policy, "single_lower", 2)
        column = f"single step, {rate}; {words}"
        yield CalibrationCell(PART, "bounds: claims", column, 0.3, FEW, found, chunk=50)


def _thresholds() -> Iterator[CalibrationCell]:
    """The likelihood ratio with every threshold that is proved."""
    tie, level = "best of 2, tie", "minimum of 10 just not below"
    for threshold in PROVED:
        rule, words = GLR(threshold), f"likelihood ratio: {threshold.name}"
        for policy in (RoundRobin(stopping=rule, first_time=8.0), TrackAndStop(stopping=rule, first_time=8.0)):
            yield simulated(words, tie, NORMAL.name, policy, 0.1, 14)
            if threshold != KaufmannKoolenPairwise():  # which does not fit this question
                yield simulated(words, level, NORMAL.name, policy, 0.1, 14)
        yield simulated(words, tie, NORMAL.name, PET(stopping=rule), 0.1)


# rules of other authors, with their own tests or under a condition, and their batches
OTHERS: dict[str, tuple[Policy, int]] = {
    "Elimination": (Elimination(first_pulls=5.0, growth=1.5), 20),
    "Hillel et al.": (Hillel(), 14),
    "Karpov et al.": (Karpov(), 14),
    "batch racing": (BatchRacing(batch=100.0), 20),
    "RAGE": (Rage(first_pulls=50.0), 14),
    "LUCB": (LUCB(batch=20.0), 40),
    "Track-and-Stop, pull by pull": (ClassicTrackAndStop(batch=50, stopping=GLR(KaufmannKoolenPairwise())), 12),
    "top two": (TopTwo(batch=50, stopping=GLR(KaufmannKoolenPairwise())), 12),
}


def _studies() -> Iterator[CalibrationCell]:
    """Whole studies: results recorded in every way, and the study amended on the way."""
    asked = (shape_of("best of 2, tie"), shape_of("any above, just"))
    told = MixedExperiment(tuple(LiveStudies(way, NORMAL, asked, 3, STUDIES) for way in WAYS))
    yield CalibrationCell(PART, "studies: told in every way", NORMAL.name, STUDIES, FEW, told, chunk=20)
    every = list(changes(PART, "studies: changed under way", STUDIES, FEW))
    for words, claims in (("bets", False), ("claims", True)):
        mine = tuple(each.count for each in every if ("claims" in each.column) == claims)
        yield CalibrationCell(PART, "studies: changed under way", words, STUDIES, FEW, MixedExperiment(mine), chunk=20)


@dataclass(frozen=True)
class Break:
    """How a copy of a rule is broken, and in which of its cells that shows."""

    cell: str  # a part of the name of its column
    times: float = 1.0  # the bar of the bets is this many times too low: 3 is 6.7 : 1 in place of 20 : 1
    sigma: float = 1.0  # or a deviation that is assumed where it is 1


BREAKS: dict[str, Break] = {  # the first whose name the rule begins with
    "Wager: best arm within a tolerance": Break("5 arms", times=16.0),
    "Wager: best arm": Break("best of 2", times=4.0),
    "Wager: top k": Break("tie at the cut", times=8.0),
    "Wager: above a level": Break("2 just above", times=8.0),
    "Wager: minimum below": Break("minimum of 10", times=3.0),
    "Wager: any above": Break("none of 10 above, just", times=3.0),
    "Wager: statements": Break("ranking", times=9.0),
    "Wager: largest": Break("constant", times=8.0),
    "Wager: arms with features": Break("best of 5", times=10.0),
    "Wager: results 'paired-bounded'": Break("graded", times=4.7),
    "Wager: results 'paired-normal'": Break("any above", times=4.5),
    "Wager: results 'bounded-variance'": Break("any above", times=8.0),
    "Wager: results": Break("any above", times=4.0),
    "claims: ratios": Break("counts, rate 5; a budget of 1200", times=4.0),
    "claims: odds ratios": Break("no budget", times=4.0),
    "claims: independent": Break("3 effects; normal", times=4.0),
    "claims: shared items": Break("shared items, 0/1", times=4.0),
    "claims": Break("one null; 0/1", times=4.0),
    "designed: top k": Break("normal, sigma known; 5 looks", times=6.0),
    "designed: levels": Break("2 just above; normal", times=4.0),
    "designed": Break("best of 2, tie; normal", times=4.0),
    "lists: top-k": Break("", times=18.0),
    "lists": Break("", times=10.0),
    "bounds: claims": Break("without a budget", times=3.2),
    "bounds": Break("0/1, rate .5", times=4.7),
    "likelihood ratio": Break("best of 2", sigma=0.25),
    "Karpov et al.": Break("best of 2", sigma=0.1),
    "batch racing": Break("best of 2", sigma=0.1),
    "LUCB": Break("best of 2", sigma=0.1),
    "Track-and-Stop, pull by pull": Break("best of 2", sigma=0.2),
    "top two": Break("best of 2", sigma=0.2),
    "agarwal": Break("best of 10", sigma=0.25),
    "jin-2019": Break("best of 10, beside", sigma=0.1),
    "": Break("best of 2", sigma=0.25),
}


def broken() -> Iterator[CalibrationCell]:
    """A copy of each rule with more than twice the error that it states, which must be caught."""
    rules: dict[str, list[CalibrationCell]] = {}
    for each in hardest():
        rules.setdefault(each.row, []).append(each)
    for rule, mine in rules.items():
        if rule.startswith("studies"):  # they run the rules above
            continue
        how = next(each for name, each in BREAKS.items() if rule.startswith(name))
        cell = next(each for each in mine if how.cell in each.column)
        words = f"bar {how.times:g} times too low" if how.sigma == 1 else f"sigma {how.sigma:g} assumed where it is 1"
        count = cell.count.broken_copy(how.times, how.sigma)
        yield replace(cell, part="controls", column=f"{words}; {cell.column}", count=count, must_fail=True, weight=0.5)
