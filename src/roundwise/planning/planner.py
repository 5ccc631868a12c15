"""Making a plan: a few runs of every row with guessed settings, shown immediately; then the best settings; then more
runs.

Every number follows from the request and the seed, never from the clock.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from roundwise.errors import InputError
from roundwise.ingest.reading import Columns, Reading
from roundwise.messages import Remedy, option
from roundwise.model.problem import check_whole_number
from roundwise.noise import Noise
from roundwise.planning.alternatives import compare_caps, find_alternatives
from roundwise.planning.budgets import POWERS, BudgetProposal, plan_metrics, propose_budgets
from roundwise.planning.comparison import compare_designs, find_stopping_leads
from roundwise.planning.forecast import planned_looks
from roundwise.planning.request import PlanRequest, Scenario, parse_lead
from roundwise.planning.rows import FIRST, answerable, has_answer, run_first
from roundwise.planning.scenarios import ITEM_CORRELATION
from roundwise.planning.study_plan import StudyPlan
from roundwise.planning.tradeoff import TradeoffPoint, find_front, guess_settings
from roundwise.policies import Policy
from roundwise.questions import Question
from roundwise.simulation.environments import numbered
from roundwise.study.item_list import ItemList
from roundwise.study.metrics import Metric

FEW_LOOKS = 12  # a design of more is simulated in fewer runs
Progress = Callable[[StudyPlan, float], None]  # the plan so far, and the share of the work that is done


def plan(
    question: Question,
    *,
    arms: Sequence[str] | int,
    noise: Noise | None = None,
    delta: float | str = 0.05,
    policy: Policy | None = None,
    max_round_size: int | None = None,
    min_per_arm: int = 0,
    budget: int | None = None,
    lead: str | float | None = None,
    looks: int | None = None,
    round_size: int | None = None,
    split: Sequence[float] | str | None = None,
    columns: Columns | None = None,
    reading: Reading | None = None,
    list: ItemList | Sequence[str] | int | str | Path | None = None,
    prices: str | Sequence[float] | Mapping[str, float] | None = None,
    max_cost: float | str | None = None,
    unit: str | None = None,
    metrics: Sequence[Metric] | None = None,
    baseline: str | float | None = None,
    leads: str | Sequence[str | float] | None = None,
    means: str | Sequence[str | float] | None = None,
    scenario: str | Path | None = None,
    pilot: object = None,
    target: str | float | None = None,
    sample_cost: str | float | Sequence[float] | Mapping[str, float] | None = None,
    round_cost: str | float = 0.0,
    round_days: str | float | None = None,
    per_day: str | float | None = None,
    missing: str | float = 0.0,
    deviation: str | float | None = None,
    skewness: str | float = 0.0,
    item_correlation: str | float = ITEM_CORRELATION,
    metric_baseline: str | Mapping[str, float] | None = None,
    metric_deviation: str | Mapping[str, float] | None = None,
    power: str | float = 0.9,
    runs: int = 2000,
    seed: int = 1,
    name: str = "study",
    quick: bool = False,
    progress: Progress | None = None,
) -> StudyPlan:
    """Forecast the results, rounds, days and cost of a study, and choose the cheapest settings. Describe what you
    expect in one of three ways: a `baseline` with a ladder of `leads`, the `means`, or a `scenario` file. Numbers may
    be text, such as "30%" or "2 points".

    Args:
        question: Question to answer.
        arms: Names of the arms, or their number.
        noise: Noise model of the results; may be left out with a `pilot`, which proposes one.
        delta: Largest probability of a wrong answer.
        policy: Sampling policy; by default the usual one of the question, with the best settings.
        max_round_size: Largest number of results in a round.
        min_per_arm: Smallest number of results of an arm that a round samples.
        budget: Largest number of results in the whole study.
        lead: Smallest lead that matters, which the study is designed for: in units of the results ("2 points"), or
            relative ("10% of baseline"). Without a budget, the plan proposes one.
        looks: Number of rounds that the study is planned for.
        round_size: Number of results in every round.
        split: Fixed allocation ratio, e.g. "equal" or "2:1:1".
        columns: Names of the columns in result files. A column of items means that arms share items.
        reading: Rules by which rows become results.
        list: Finite list of items that the answer is about.
        prices: Price of a result of each arm, as `create_study` takes it.
        max_cost: Not for plans, which say what a study costs whatever it may: give it to `create_study`.
        unit: Unit of the results in reports, e.g. "s", "ms" or "$".
        metrics: Guardrails and secondary metrics: the plan says what each needs, and which one needs most.
        baseline: Scenario baseline rate or mean.
        leads: True leads to forecast, a row each: what may turn out, not what the study is designed for. By default
            0, 1/2, 3/4, 1, 3/2 and 2 times `lead`; chosen if there is none.
        means: Scenario mean of every arm.
        scenario: CSV file with a column per arm and a row per scenario.
        pilot: File or data frame of past results, read by `columns` and `reading`: baseline, deviation, skewness,
            missing share and results per day are taken from it unless given. Its arms may differ.
        target: Row that the settings are optimized for: its lead, or the name of the scenario (default: `lead`).
        sample_cost: Price of a result: one number, or one per arm.
        round_cost: Price of a round.
        round_days: Days that a round takes.
        per_day: Results per day, of all arms together: days follow from them.
        missing: Scenario share of missing results.
        deviation: Standard deviation of one result, where the noise model leaves it open.
        skewness: Skewness of one result, where the noise model waits for enough results of each arm (large-sample).
        item_correlation: Correlation of two equally good arms on the same item, where arms share items.
        metric_baseline: Expected baseline of each of these metrics, by name.
        metric_deviation: Standard deviation of one value of each, where its noise model leaves it open.
        power: Power of the proposed budget, and of the designs shown for comparison.
        runs: Number of simulated studies per row.
        seed: Seed of the simulations: the same seed gives the same plan.
        name: Name of the study in the texts of the plan.
        quick: Stop after the first numbers: few runs, with guessed settings.
        progress: Called with the plan so far and the share of the work that is done.

    Returns:
        The plan: results, rounds, days and cost for every row, typical and in 19 of 20 studies.

    Raises:
        InputError: If a setting is invalid, or `create_study` would refuse the study.

    Example:
        >>> from roundwise import BestArm, Binary
        >>> found = plan(BestArm(), arms=3, noise=Binary(), baseline="30%", leads="10%", runs=100)
        >>> bool(found.rows[0].samples.typical < found.rows[0].samples.p95)
        True
    """
    settings = {name: value for name, value in locals().items() if name not in ("quick", "progress")}
    if isinstance(arms, int):
        settings["arms"] = numbered(check_whole_number("arms", arms, 2))
    return plan_request(PlanRequest.declare(**settings), quick, progress)


def plan_request(request: PlanRequest, quick: bool = False, progress: Progress | None = None) -> StudyPlan:
    """Forecast the requested study; see `plan`. First numbers with guessed settings, then the best settings, more runs,
    and alternatives if the target is out of reach.
    """
    request.check()  # `create_study` would refuse the same
    if request.metrics:
        return _plan_several_metrics(request, quick, progress)
    items = request.noise.shares_items or request.list is not None
    if request.item_correlation != ITEM_CORRELATION and not items:
        raise InputError(f"{option('item_correlation')} requires shared items.", Remedy("Add {@items_or_column}."))
    expected = request.rows()
    target = _target_row(expected, request)
    budgets: tuple[BudgetProposal, ...] = ()
    if request.budget_open:
        powers = tuple(sorted({*POWERS, request.power}))
        budgets = propose_budgets(request, expected[target], powers, fewer=10 if quick else 1)
        wanted = next((each.budget for each in budgets if each.power == request.power), None)
        if wanted is None:
            raise InputError(
                f"No budget gives a power of {request.power:g} if {expected[target].condition}.",
                Remedy(f"Give {option('budget')}, or a larger lead."),
            )
        request = dataclasses.replace(request, budget=wanted, budget_open=False)
    runs = min(FIRST // 4 if items else FIRST, request.runs)
    front: tuple[TradeoffPoint, ...] = ()
    guess = request if request.list is not None else guess_settings(request, expected[target])
    rows = run_first(guess, expected, runs)

    def found() -> StudyPlan:
        every = tuple(each.row for each in rows)
        most = max(row.runs for row in every)
        return StudyPlan(request=rows[0].request, rows=every, target=target, front=front, budgets=budgets, runs=most)

    def report(done: float) -> None:
        if progress is not None:
            progress(found(), done)

    if quick:
        return found()
    report(0.02)
    claims_without_budget = request.question.separate_claims and request.budget is None
    if answerable(request, expected[target]) and not claims_without_budget and request.list is None:
        points = find_front(request, expected[target])
        chosen = next((each.request for each in points if each.recommended), guess)
        if chosen != guess:
            rows = run_first(chosen, expected, runs)
        front = points
    for number, each in enumerate(sorted(rows, key=lambda row: -(row.expected.lead or 0.0))):  # the easy ones first
        report((number + 1) / (len(expected) + 2))
        each.run(request.runs)
    front = tuple(each.remeasured(rows[target].row) if each.recommended else each for each in front)
    if request.list is not None:  # its blocks have no settings to choose
        return found()
    plan, enough = found(), next((each for each in budgets if each.power == request.power), None)
    if enough is None and request.budget is not None and answerable(request, expected[target]):
        quickly = plan.request.policy.plans_budget and planned_looks(plan.request) <= FEW_LOOKS
        fewer = 5 if quickly else 20
        enough = next(iter(propose_budgets(plan.request, expected[target], (request.power,), fewer=fewer)), None)
    return dataclasses.replace(
        plan,
        alternatives=find_alternatives(request, plan.row, enough),
        compared=compare_designs(plan.request, plan.rows, plan.row, enough),
        caps=compare_caps(plan.request, plan.row),
        boundary=find_stopping_leads(plan.request, plan.row),
    )


def _plan_several_metrics(request: PlanRequest, quick: bool, progress: Progress | None) -> StudyPlan:
    """The plan of the main metric, with its share of delta, and what the others need."""
    alone = dataclasses.replace(request, metrics=(), delta=request.delta / (1 + len(request.metrics)))
    found = plan_request(alone, quick, progress)
    needs = () if quick else plan_metrics(request, found.request, found.row.expected)
    whole = dataclasses.replace(found.request, metrics=request.metrics, delta=request.delta)
    return dataclasses.replace(found, request=whole, metrics=needs)


def _target_row(expected: Sequence[Scenario], request: PlanRequest) -> int:
    """The row that matters: the one asked for, a difference that matters to the user, or the middle of the ladder."""
    target = request.target
    labels = [each.label for each in expected]
    if isinstance(target, str) and target in labels:
        return labels.index(target)
    leads = [each.lead for each in expected]
    ahead = [i for i, each in enumerate(leads) if each]
    wanted = request.lead or request.question.tolerance
    if target is not None:
        wanted = parse_lead(target, request.baseline, "target") if isinstance(target, str) else target
    if wanted:
        near = [i for i in ahead if math.isclose(float(leads[i] or 0), float(wanted), rel_tol=1e-9)]
        if near:
            return near[0]
        if target is not None:
            raise InputError(f"`target` is {target!r}, which is not a row of this plan: {', '.join(labels)}.")
    if ahead:
        return ahead[len(ahead) // 2]
    return next((i for i, each in enumerate(expected) if has_answer(request, each)), 0)  # not the null
