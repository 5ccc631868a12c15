"""Contests (built-in, user-defined, replayed real outcomes) and their entrants."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from roundwise import policies
from roundwise.arrays import Floats, Plain
from roundwise.errors import DataError, InputError, RoundwiseError, unknown
from roundwise.formats.small_table import read_rows
from roundwise.model.problem import Problem
from roundwise.model.spec import from_spec, to_spec
from roundwise.policies import Policy, Wager
from roundwise.questions import Claims, Question
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound
from roundwise.simulation.sweep import Instance, read_instances, read_toml

FIXED = "fixed"  # where a contest is from, if not from data
LISTED = "instances.csv"  # of a folder of data
ASKED = {  # in a table of instances: the question, and the name of its parameter
    "best arm": ("best-arm", None),
    "top-k": ("top-k", "k"),
    "threshold": ("above", "level"),
    "any-above": ("any-above", "level"),
}
REQUIRED, OPTIONAL = {"question", "instance"}, {"name", "budget"}  # keys of a contest
GENEROUS = 400.0  # times the lower bound: the budget, so that even cautious methods can end
LARGEST = 1e6  # results, the budget of a near-tie, which no sensible number decides
NEAR_TIE = 1e5  # results that no method needs fewer of
AGAINST_CONTROL = 14  # arms up to which real tests are also asked what beats the first arm


@dataclass(frozen=True, eq=False)
class Contest:
    """A question about an instance, and the sample budget."""

    name: str
    source: str
    problem: Problem
    instance: Instance
    lower_bound: float
    budget: float
    near_tie: bool

    @property
    def question(self) -> str:
        """The kind of question."""
        return self.problem.question.name

    @property
    def true_claims(self) -> int | None:
        """How many claims could be shown, if the question is of claims."""
        if self.question != "claims":
            return None
        asked = to_spec(self.problem.question)
        return int((np.array(asked["forms"]) @ _true_means(self.instance)[0] > np.array(asked["levels"])).sum())

    @property
    def gap(self) -> float | None:
        """How far the best arms are ahead of the others, for policies that need it; None if it is unknown."""
        k = self.problem.question.number_sought
        if k is None:
            return None
        means = -np.sort(-self.problem.question.merits(_true_means(self.instance)), axis=-1)
        gap = float((means[:, k - 1] - means[:, k]).min())
        return gap if gap > 0 else None


def fixed(delta: float = 0.05) -> list[Contest]:
    """The built-in contests."""
    text = files("roundwise.arena").joinpath("contests.toml").read_text()
    return _read(tomllib.loads(text), Path(), FIXED, delta)


def own(path: Path, delta: float = 0.05) -> list[Contest]:
    """The contests of a user's file, in the format of the built-in ones."""
    return _read(read_toml(path), path, path.stem, delta)


def _read(found: Plain, path: Path, source: str, delta: float) -> list[Contest]:
    tables = found.get("contest")
    if not isinstance(tables, list) or set(found) != {"contest"}:
        raise DataError(f"{path}: a file of contests has tables [[contest]] and nothing else.")
    contests = []
    for number, table in enumerate(tables, start=1):
        try:
            if not isinstance(table, dict) or not REQUIRED <= {*table} <= REQUIRED | OPTIONAL:
                raise InputError(f"it needs `question` and `instance`, and may have {' and '.join(sorted(OPTIONAL))}.")
            if not isinstance(table["instance"], dict):
                raise InputError("`instance` must be a table, for example { means = [0.5, 0.4] }.")
            question = from_spec("question", table["question"], trusted=True)
            (instance,) = read_instances(table["instance"], [1.0], path)
            name = str(table.get("name", instance.name))
            contests.append(_contest(name, source, question, instance, delta, table.get("budget")))
        except RoundwiseError as error:
            raise DataError(f"{path}, [[contest]] {number}: {error}") from None
    return contests


def replayed(folder: Path, delta: float = 0.05, max_arms: int = 300) -> list[Contest]:
    """The contests of a folder of real outcomes: those that its `instances.csv` lists, and tests against a control.

    The table has the columns file, instance, question (best arm, top-k, threshold, any-above) and param (k or level);
    each file has the columns instance, arm, outcome, count. Where a column n_total has the original sample size, tests
    of few options also get the question which arms beat the first one, within that budget.
    """
    head, rows = read_rows(folder / LISTED, ("file", "instance", "question", "param"))
    contests, seen = [], set()
    known: dict[tuple[str, str], Instance] = {}
    for row in rows:
        where = file, name = row.text("file"), row.text("instance")
        words, param = row.text("question"), row.text("param")
        if "K" in head and row.text("K").isdecimal() and int(row.text("K")) > max_arms:
            continue
        try:
            if where not in known:
                if Path(file).name != file:
                    raise InputError(f"The file '{file}' must lie in the same folder.")
                (known[where],) = read_instances({"data": file, "instance": name}, [1.0], folder / LISTED)
            instance, question, source = known[where], _question(words, param), Path(file).stem
            arms = instance.environment.arms
            if arms > max_arms:
                continue
            asked = f"{name}: {words}" + (f" {param}" if param else "")
            contests.append(_contest(asked, source, question, instance, delta))
            spent = row.text("n_total") if "n_total" in head else ""
            if where not in seen and arms <= AGAINST_CONTROL and spent.isdecimal():
                control = Claims.against_control(arms, 0)
                asked = f"{name}: what beats the first"
                contests.append(_contest(asked, source, control, instance, delta, float(spent)))
            seen.add(where)
        except RoundwiseError as error:
            raise DataError(f"{row.where}: {error}") from None
    return contests


def _question(words: str, param: str) -> Question:
    if words not in ASKED:
        raise unknown("question of a contest", words, ASKED)
    name, key = ASKED[words]
    try:
        setting = {} if key is None else {key: int(float(param)) if key == "k" else float(param)}
    except ValueError:
        raise InputError(f"The parameter '{param}' of '{words}' is not a number.") from None
    return from_spec("question", {"name": name, **setting})


def _contest(
    name: str, source: str, question: Question, instance: Instance, delta: float, budget: float | None = None
) -> Contest:
    noise, means = instance.environment.noise, _true_means(instance)
    problem = Problem(question, instance.environment.arms, delta, noise)
    own = None if noise.family is None else own_lower_bound(question, means, delta, noise.family)
    bound = float(np.mean(lower_bound_at(question, means, delta, noise.sigma) if own is None else own[1]))
    near_tie = budget is None and bound > NEAR_TIE
    if budget is None:
        budget = LARGEST if near_tie else max(GENEROUS * bound, 1000.0 * problem.arms)
    return Contest(name, source, problem, instance, bound, float(math.ceil(budget)), near_tie)


def _true_means(instance: Instance) -> Floats:
    """True means, of some of the instances where they are random. (n, K)"""
    return instance.environment.initial_state(np.random.default_rng(0), 50).means


LOOKS = 50  # of a sequential yardstick, until it has as many results as the lower bound
FIXED_BUDGET = 3.0  # lower bounds, about what Wager needs
SEQUENTIAL_ARMS, SEQUENTIAL_BOUND = 15, 2500.0  # arms and lower bounds up to which they take part: they pull one by one


@dataclass(frozen=True)
class Entrant:
    """A policy by name."""

    name: str
    policy: Any  # a Policy, whose own settings are replaced below
    claims: bool = True  # whether it may show claims one by one; if not, it says all or nothing
    sequential: bool = False  # looks after every few results: a yardstick, not for use in batches
    knows_gap: bool = False
    knows_bound: bool = False  # has a fixed budget: FIXED_BUDGET lower bounds

    def enter(self, contest: Contest) -> Policy | None:
        """The policy, configured for a contest; None where it does not enter."""
        policy: Policy = self.policy
        if contest.question == "claims" and not self.claims:
            return None
        if self.knows_gap:
            return None if contest.gap is None else replace(self.policy, gap=contest.gap)
        if self.knows_bound:
            return replace(self.policy, budget=max(FIXED_BUDGET * contest.lower_bound, 20.0 * contest.problem.arms))
        if self.sequential:
            if contest.problem.arms > SEQUENTIAL_ARMS or contest.lower_bound > SEQUENTIAL_BOUND:
                return None
            return replace(self.policy, batch=max(self.policy.batch, math.ceil(contest.lower_bound / LOOKS)))
        return policy


BUILT_IN: tuple[Entrant, ...] = (
    Entrant("Wager", Wager()),
    Entrant("Wager, dear batches", Wager(batch_price=1000.0)),
    Entrant("Conditional power", policies.ConditionalPower()),
    Entrant("PET", policies.PET(), claims=False),
    Entrant("Round Robin", policies.RoundRobin(), claims=False),
    Entrant("Track-and-Stop, batched", policies.TrackAndStop(), claims=False),
    Entrant("Tri-BBAI", policies.TriBBAI()),
    Entrant("Opt-BBAI", policies.OptBBAI()),
    Entrant("Elimination", policies.Elimination()),
    Entrant("Hillel 2013", policies.Hillel()),
    Entrant("Agarwal 2017, told the gap", policies.Agarwal(), knows_gap=True),
    Entrant("Jin 2019", policies.Jin2019()),
    Entrant("Karpov 2020", policies.Karpov()),
    Entrant("BatchRacing", policies.BatchRacing()),
    Entrant("Sequential Halving, 3 bounds", policies.SequentialHalving(), claims=False, knows_bound=True),
    Entrant(
        "Sequential Halving in 3 batches, 3 bounds",
        policies.SequentialHalving(rounds=3),
        claims=False,
        knows_bound=True,
    ),
    Entrant("Successive Rejects, 3 bounds", policies.SuccessiveRejects(), claims=False, knows_bound=True),
    Entrant("Track-and-Stop, sequential", policies.ClassicTrackAndStop(), claims=False, sequential=True),
    Entrant("Sticky Track-and-Stop, sequential", policies.StickyTrackAndStop(), claims=False, sequential=True),
    Entrant("LUCB, sequential", policies.LUCB(), claims=False, sequential=True),
    Entrant("Top two, sequential", policies.TopTwo(), claims=False, sequential=True),
)


def entrants(own: Sequence[str] = ()) -> tuple[Entrant, ...]:
    """All built-in policies, and user-defined ones in the notation of the command line."""
    return (*BUILT_IN, *(Entrant(words, from_spec("policy", words, trusted=True)) for words in own))
