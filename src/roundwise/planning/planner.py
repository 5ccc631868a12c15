"""How a plan is made: settings first, a few runs of every row, which are shown at once, then the rest.

Every number follows from what was asked and the seed, never from the clock. Where the answer is too dear, it looks for
what could be asked instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from roundwise.errors import InputError, whole_number
from roundwise.noise import Noise
from roundwise.planning.ahead import Ends, ahead, claims_of, joined_ends, without_budget
from roundwise.planning.bound import lower_bound
from roundwise.planning.costs import Costs
from roundwise.planning.expected import Expected, control_of, given, ladder, scenarios
from roundwise.planning.fixed import FixedDesign, fixed_design
from roundwise.planning.front import RUNS, Setting, front_of
from roundwise.planning.instead import ENOUGH, SENSIBLE, Instead, instead_of, larger_budget, larger_budgets
from roundwise.planning.quantities import one_for_each, quantities
from roundwise.planning.rows import Row, row_of
from roundwise.planning.study_plan import StudyPlan
from roundwise.planning.wish import Wish
from roundwise.policies import Policy, usual_policy
from roundwise.questions import Claims, Question
from roundwise.simulation.environments import numbered
from roundwise.spec import quantity
from roundwise.studies.settings import arm_names, shares, within_limits

FIRST = 40  # runs of the first numbers
FOLLOWED = 150  # runs at least, however many rounds there are
CHEAP = 15  # rounds up to which all runs are followed past the budget
WORK = 40_000  # runs times rounds of a row: where rounds are many, fewer runs must do,
FEW_ARMS = 30  # and where arms are more than these

Progress = Callable[[StudyPlan, float], None]  # the plan so far, and how much of the work is done


def plan(
    question: Question,
    *,
    arms: Sequence[str] | int,
    noise: Noise,
    delta: str | float = 0.05,
    policy: Policy | None = None,
    max_batch: float | None = None,
    min_per_arm: float = 0.0,
    budget: int | None = None,
    round: int | None = None,
    split: str | Sequence[float] | None = None,
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
    power: str | float = 0.9,
    runs: int = 2000,
    seed: int = 1,
    name: str = "study",
    progress: Progress | None = None,
) -> StudyPlan:
    """What a study will take: results, rounds, days and cost, typically and in 19 of 20 studies, and the best settings.

    What is expected is said in one of three ways: `around` with a ladder of `leads` (chosen, unless given), `means`, or
    `scenario`, a CSV file with a column for each arm. Rates may be written in per cent. `target` is the lead (or, with
    scenarios, the name of the row) that the settings are chosen for. `deviation` is that of one result where the noise
    model leaves it open. The same seed gives the same plan.

    >>> from roundwise import BestArm, Binary
    >>> found = plan(BestArm(), arms=3, noise=Binary(), around="30%", leads="10%", runs=100)
    >>> bool(found.rows[0].samples.typical < found.rows[0].samples.p95)
    True
    """
    names = arm_names(numbered(whole_number("arms", arms, 2)) if isinstance(arms, int) else arms)
    chosen = within_limits(usual_policy(question) if policy is None else policy, max_batch, min_per_arm)
    lost = quantity(missing, "missing")
    if not 0 <= lost < 1:
        raise InputError(f"`missing` is {lost:g}, but must be a share of the results: at least 0 and below 1.")
    strength = quantity(power, "power")
    if not 0 < strength < 1:
        raise InputError(f"`power` is {strength:g}, but must lie between 0 and 1.")
    wish = Wish(
        name=name,
        question=question,
        names=names,
        noise=noise,
        delta=quantity(delta, "delta"),
        policy=chosen,
        budget=None if budget is None else whole_number("budget", budget, 1),
        round=None if round is None else whole_number("round", round, 1),
        split=shares(split, len(names)),
        costs=Costs(
            sample=None if sample_cost is None else tuple(one_for_each(sample_cost, names, "sample cost").tolist()),
            batch=quantity(batch_cost, "batch_cost"),
            days=None if batch_days is None else quantity(batch_days, "batch_days"),
        ),
        missing=lost,
        deviation=deviation,
        power=strength,
        seed=whole_number("seed", seed, 0),
    )
    _ = wish.settings  # what `new` would refuse is refused here
    expected = _expected(wish, around, leads, means, scenario)
    return _planned(wish, expected, _target(expected, target, question), whole_number("runs", runs, 1), progress)


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
        centre = None if around is None else quantity(around, "around")
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
    wanted = quantity(target, "target") if target is not None else getattr(question, "tolerance", None)
    if wanted:
        near = [i for i in ahead_by if math.isclose(float(leads[i] or 0), float(wanted), rel_tol=1e-9)]
        if near:
            return near[0]
        if target is not None:
            raise InputError(f"`target` is {target!r}, which is no row of this plan: {', '.join(labels)}.")
    return ahead_by[len(ahead_by) // 2] if ahead_by else 0


def _planned(wish: Wish, expected: Sequence[Expected], target: int, runs: int, progress: Progress | None) -> StudyPlan:
    """First the settings, then a few runs of every row, then the rest; and what could be asked instead."""
    front = _front(wish, expected[target])
    for each in front:
        if each.recommended:
            wish = dataclasses.replace(wish, policy=each.policy)
    lots = [_Lots(wish, each) for each in expected]
    easy_first = sorted(range(len(expected)), key=lambda i: -(expected[i].lead or 0.0))

    def made(instead: tuple[Instead, ...] = ()) -> StudyPlan:
        rows = tuple(each.row for each in lots)
        most = max(row.runs for row in rows)
        return StudyPlan(wish=wish, rows=rows, target=target, front=front, instead=instead, runs=most)

    for i in easy_first:
        lots[i].run(min(FIRST, runs))
    if progress is not None:
        progress(made(), FIRST / max(runs, FIRST))
    for number, i in enumerate(easy_first, 1):
        lots[i].run(runs - FIRST)
        if progress is not None and number < len(expected):
            progress(made(), number / (len(expected) + 1))
    found = made()
    others = _others(wish, found)
    return made(others) if others else found


class _Lots:
    """The runs of one row, lot after lot: within the budget, and as if there were none."""

    def __init__(self, wish: Wish, expected: Expected) -> None:
        self.wish, self.expected = wish, expected
        self.limited: list[Ends] = []
        self.needed: list[Ends] = []
        self.endless = not _answerable(wish, expected)
        self.claims = isinstance(wish.question, Claims) and wish.budget is not None  # they end with the budget
        self.bound = lower_bound(wish.problem, expected.means, wish.deviation)
        self.fixed = self._fixed()
        one = self.fixed is not None and self.fixed.comparisons == 1
        self.sequential = one or control_of(wish.question) is not None  # designs with several looks are standard there

    def run(self, runs: int) -> None:
        """So many more, or fewer where rounds are many."""
        steps = max((each.steps for each in [*self.limited, *self.needed]), default=1)
        work = WORK // (6 if isinstance(self.wish.question, Claims) else 1)  # their bets are slower
        number = min(runs, max(int(work * min(1.0, FEW_ARMS / len(self.wish.names))) // steps, FOLLOWED - FIRST))
        if number <= 0:
            return
        free = self.wish.budget is None
        if not (free and self.endless):
            self.limited.append(self._ahead(self.wish.acting, number, len(self.limited)))
        if not (free or self.claims or self.endless or joined_ends(self.limited).decided.all()):
            followed = number if steps <= CHEAP else FOLLOWED - FIRST
            self.needed.append(self._ahead(without_budget(self.wish.acting), followed, len(self.needed)))

    def _ahead(self, policy: Policy, runs: int, block: int) -> Ends:
        world = self.wish.world(self.expected.means)
        return ahead(self.wish.problem, policy, world, runs=runs, seed=self.wish.seed, block=block)

    @property
    def row(self) -> Row:
        """The numbers so far."""
        limited = joined_ends(self.limited) if self.limited else _no_end(self.wish)
        needed = joined_ends(self.needed) if self.needed else limited
        if not self.claims:
            needed = needed.until_decided
        if self.endless:
            needed = _no_end(self.wish)
        row = row_of(self.wish, self.expected, needed, limited, self.bound, None)
        typical = row.batches.typical
        looks = int(typical) if math.isfinite(typical) and typical >= 2 else None
        fixed = self.fixed if looks is None or not self.sequential else self._fixed(looks)
        return dataclasses.replace(row, fixed=fixed)

    def _fixed(self, looks: int | None = None) -> FixedDesign | None:
        wish = self.wish
        found = fixed_design(
            wish.problem,
            self.expected.means,
            power=wish.power,
            shares=wish.split,
            looks=looks,
            deviation=wish.deviation,
        )
        return None if found is None else found.scaled(1 / (1 - wish.missing))


def _no_end(wish: Wish) -> Ends:
    """One run that goes on for ever."""
    arms, no = len(wish.names), np.zeros(1, dtype=np.bool_)
    lines = np.zeros((1, len(claims_of(wish.problem, wish.names))), dtype=np.bool_)
    return Ends(
        counts=np.full((1, arms), np.inf),
        batches=np.full(1, np.inf),
        decided=no,
        correct=~no,
        shown=lines,
        truth=np.zeros((1, arms)),
        steps=1,
    )


def _answerable(wish: Wish, expected: Expected) -> bool:
    """Whether these means have an answer that results can show: no ties, nothing on a level."""
    if isinstance(wish.question, Claims):
        return bool(wish.question.answer(np.asarray(expected.means)).any()) or wish.budget is not None
    return bool(np.isfinite(wish.question.complexity(np.asarray(expected.means)).value))


def _front(wish: Wish, expected: Expected) -> tuple[Setting, ...]:
    if not _answerable(wish, expected) or isinstance(wish.question, Claims):
        return ()
    return front_of(wish, expected, min(RUNS, max(20, 30 * RUNS // len(wish.names))))


def _others(wish: Wish, found: StudyPlan) -> tuple[Instead, ...]:
    """What could be asked instead, where the target is out of reach."""
    row = found.row
    dear = row.samples.p95 > SENSIBLE if row.within_budget is None else row.within_budget < ENOUGH
    if not dear:
        return ()
    if isinstance(wish.question, Claims):
        return larger_budgets(wish, row.expected)
    others = instead_of(wish, row.expected, row.samples)
    more = larger_budget(wish, row.samples, row.batches)
    return others if more is None else (*others, more)
