"""How a plan is made: a few runs of every row with guessed settings, shown at once; the best settings; then the rest.

Every number follows from what was asked and the seed, never from the clock. Where the answer is too dear, it looks for
what could be asked instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from roundwise.errors import InputError
from roundwise.ingest.columns import Columns
from roundwise.model.problem import check_whole_number
from roundwise.model.spec import parse_quantity
from roundwise.noise import Noise
from roundwise.planning.alternatives import (
    ENOUGH,
    SENSIBLE,
    PlanAlternative,
    find_alternatives,
    larger_budget,
    larger_budgets,
)
from roundwise.planning.items import SHARED
from roundwise.planning.quantities import costs_of, quantities
from roundwise.planning.request import Expected, Wish, given, ladder, scenarios
from roundwise.planning.rows import FIRST, Lots, answerable, first_lots
from roundwise.planning.study_plan import StudyPlan
from roundwise.planning.tradeoff import Setting, front_of, guessed, remeasured
from roundwise.policies import Policy
from roundwise.questions import Question
from roundwise.simulation.environments import numbered
from roundwise.study.spec import StudySpec, arm_names

Progress = Callable[[StudyPlan, float], None]  # the plan so far, and how much of the work is done


def plan(
    question: Question,
    *,
    arms: Sequence[str] | int,
    noise: Noise,
    delta: str | float = 0.05,
    policy: Policy | None = None,
    max_round: int | None = None,
    min_per_arm: int = 0,
    budget: int | None = None,
    round: int | None = None,
    split: str | Sequence[float] | None = None,
    columns: Columns | None = None,
    around: str | float | None = None,
    leads: str | Sequence[str | float] | None = None,
    means: str | Sequence[str | float] | None = None,
    scenario: str | Path | None = None,
    target: str | float | None = None,
    sample_cost: str | float | Sequence[float] | Mapping[str, float] | None = None,
    batch_cost: str | float = 0.0,
    batch_days: str | float | None = None,
    missing: str | float = 0.0,
    deviation: float | None = None,
    shared: str | float = SHARED,
    power: str | float = 0.9,
    runs: int = 2000,
    seed: int = 1,
    quick: bool = False,
    name: str = "study",
    progress: Progress | None = None,
) -> StudyPlan:
    """What a study will take: results, rounds, days and cost, typically and in 19 of 20 studies, and the best settings.

    What is expected is said in one of three ways: `around` with a ladder of `leads` (chosen, unless given), `means`, or
    `scenario`, a CSV file with a column for each arm. Rates may be written in per cent. `target` is the lead (or, with
    scenarios, the name of the row) that the settings are chosen for. `deviation` is that of one result where the noise
    model leaves it open; `shared` the correlation of two equally good arms on one item, where they are tried on the
    same (a noise model of items, or a column of them). The same seed gives the same plan. `quick` gives first numbers
    only, of a few runs and with settings that are guessed: what a form shows while it is filled in.

    >>> from roundwise import BestArm, Binary
    >>> found = plan(BestArm(), arms=3, noise=Binary(), around="30%", leads="10%", runs=100)
    >>> bool(found.rows[0].samples.typical < found.rows[0].samples.p95)
    True
    """
    names = arm_names(numbered(check_whole_number("arms", arms, 2)) if isinstance(arms, int) else arms)
    lost = parse_quantity(missing, "missing")
    if not 0 <= lost < 1:
        raise InputError(f"`missing` is {lost:g}, but must be a share of the results: at least 0 and below 1.")
    strength = parse_quantity(power, "power")
    if not 0 < strength < 1:
        raise InputError(f"`power` is {strength:g}, but must lie between 0 and 1.")
    spec = StudySpec.declare(
        question=question,
        arms=names,
        noise=noise,
        delta=delta,
        policy=policy,
        max_round=max_round,
        min_per_arm=min_per_arm,
        budget=budget,
        round=round,
        split=split,
        columns=columns,
    )
    spec.check()  # `new` would refuse the same
    wish = Wish(
        name=name,
        question=question,
        names=spec.arms,
        noise=spec.noise,
        delta=spec.delta,
        policy=spec.limited_policy,
        budget=spec.budget,
        round=spec.round,
        split=spec.split,
        costs=costs_of(sample_cost, batch_cost, batch_days, names),
        missing=lost,
        deviation=deviation,
        power=strength,
        seed=check_whole_number("seed", seed, 0),
        columns=spec.columns,
        shared=parse_quantity(shared, "shared"),
    )
    expected = _expected(wish, around, leads, means, scenario)
    return _planned(
        wish, expected, _target(expected, target, question), check_whole_number("runs", runs, 1), quick, progress
    )


def _expected(
    wish: Wish,
    around: str | float | None,
    leads: str | Sequence[str | float] | None,
    means: str | Sequence[str | float] | None,
    scenario: str | Path | None,
) -> tuple[Expected, ...]:
    if sum(each is not None for each in (around, means, scenario)) > 1:
        raise InputError("Say what is expected in one way: around (with leads), means, or a table of scenarios.")
    if leads is not None and (means is not None or scenario is not None):
        raise InputError("Leads go with `around`; means and scenarios say it all by themselves.")
    if means is not None:
        found = given(quantities(means, "means"), wish.names)
    elif scenario is not None:
        found = scenarios(Path(scenario), wish.names)
    else:
        centre = None if around is None else parse_quantity(around, "around")
        steps = None if leads is None else quantities(leads, "leads").tolist()
        found = ladder(wish.question, wish.names, wish.noise, centre, steps, wish.deviation)
    for each in found:
        wish.world(each.means)  # means that cannot be are refused
    return found


def _target(expected: Sequence[Expected], target: str | float | None, question: Question) -> int:
    """The row that matters: the one asked for, a difference that matters to the user, or the middle of the ladder."""
    labels = [each.label for each in expected]
    if isinstance(target, str) and target in labels:
        return labels.index(target)
    leads = [each.lead for each in expected]
    ahead_by = [i for i, each in enumerate(leads) if each]
    wanted = parse_quantity(target, "target") if target is not None else question.tolerance
    if wanted:
        near = [i for i in ahead_by if math.isclose(float(leads[i] or 0), float(wanted), rel_tol=1e-9)]
        if near:
            return near[0]
        if target is not None:
            raise InputError(f"`target` is {target!r}, which is no row of this plan: {', '.join(labels)}.")
    return ahead_by[len(ahead_by) // 2] if ahead_by else 0


def _planned(
    wish: Wish, expected: Sequence[Expected], target: int, runs: int, quick: bool, progress: Progress | None
) -> StudyPlan:
    """First numbers with settings that are guessed, then the best settings, more runs, and what to ask instead."""
    guess = guessed(wish, expected[target])
    making = _Making(guess, expected, target)
    first = min(FIRST if not wish.of_items else FIRST // 4, runs)
    making.begin(first)
    if quick:
        return making.plan()
    if progress is not None:
        progress(making.plan(), 0.02)
    front = _front(wish, guess, expected[target])
    chosen = next((each.wish for each in front if each.recommended), guess)
    if chosen != guess:
        making = _Making(chosen, expected, target)
        making.begin(first)
    making.front = front
    for number, each in enumerate(making.easy_first):
        if progress is not None:
            progress(making.plan(), (number + 1) / (len(expected) + 2))
        each.run(runs)
    row = making.lots[target].row
    making.front = tuple(remeasured(each, row) if each.recommended else each for each in front)
    return making.plan(_others(wish, making.plan()))


class _Making:
    """A plan in the making."""

    def __init__(self, wish: Wish, expected: Sequence[Expected], target: int) -> None:
        self.wish, self.target = wish, target
        self.lots = [Lots(wish, each) for each in expected]
        self.front: tuple[Setting, ...] = ()

    def begin(self, runs: int) -> None:
        """A few runs of every row."""
        first_lots(self.lots, runs)

    @property
    def easy_first(self) -> list[Lots]:
        """The rows, from the largest lead on."""
        return sorted(self.lots, key=lambda each: -(each.expected.lead or 0.0))

    def plan(self, alternatives: tuple[PlanAlternative, ...] = ()) -> StudyPlan:
        """What is known so far."""
        rows = tuple(each.row for each in self.lots)
        most = max(row.runs for row in rows)
        return StudyPlan(
            wish=self.wish, rows=rows, target=self.target, front=self.front, alternatives=alternatives, runs=most
        )


def _front(wish: Wish, guess: Wish, expected: Expected) -> tuple[Setting, ...]:
    if not answerable(wish, expected) or (wish.question.separate_claims and wish.budget is None):
        return ()
    return front_of(wish, guess, expected)


def _others(wish: Wish, found: StudyPlan) -> tuple[PlanAlternative, ...]:
    """What could be asked instead, where the target is out of reach."""
    row = found.row
    dear = row.samples.p95 > SENSIBLE if row.within_budget is None else row.within_budget < ENOUGH
    if not dear:
        return ()
    if wish.question.separate_claims:
        return larger_budgets(wish, row.expected)
    others = find_alternatives(wish, row.expected, row.samples)
    more = larger_budget(wish, row.samples, row.batches)
    return others if more is None else (*others, more)
