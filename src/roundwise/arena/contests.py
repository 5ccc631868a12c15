"""Contests (fixed, a user's own, real outcomes that are replayed), and who takes part in them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.errors import DataError, InputError, RoundwiseError, unknown
from roundwise.formats.small_table import read_rows
from roundwise.model.problem import Problem
from roundwise.model.spec import from_spec, to_spec
from roundwise.policies import (
    LUCB,
    PET,
    Agarwal,
    BatchRacing,
    ClassicTrackAndStop,
    ConditionalPower,
    Elimination,
    Hillel,
    Jin2019,
    Karpov,
    OptBBAI,
    Policy,
    RoundRobin,
    TopTwo,
    TrackAndStop,
    TriBBAI,
    Wager,
)
from roundwise.questions import Claims, Question
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound
from roundwise.simulation.sweep.instances import Instance, instances

FIXED = "fixed"  # where a contest is from, if not from data
LISTED = "instances.csv"  # of a folder of data
ASKED = {"best arm": "best-arm", "top-k": "top-k", "threshold": "above", "any-above": "any-above"}
SETTING = {"top-k": "k", "above": "level", "any-above": "level"}
GENEROUS = 400.0  # times the lower bound: the budget, so that even cautious methods can end
LARGEST = 1e6  # results, the budget of a near-tie, which no sensible number decides
NEAR_TIE = 1e5  # results that no method needs fewer of
AGAINST_CONTROL = 14  # arms up to which real tests are also asked what beats the first arm


@dataclass(frozen=True, eq=False)
class Contest:
    """A question in a world, and the results that may be spent on it."""

    name: str
    source: str
    problem: Problem
    instance: Instance
    lower_bound: float
    budget: float
    near_tie: bool

    @property
    def question(self) -> str:
        """What kind of question it is."""
        return str(to_spec(self.problem.question)["name"])

    @property
    def true_claims(self) -> int | None:
        """How many claims could be shown, if the question is of claims."""
        asked = to_spec(self.problem.question)
        if self.question != "claims":
            return None
        return int((np.array(asked["forms"]) @ _drawn(self.instance)[0] > np.array(asked["levels"])).sum())

    @property
    def gap(self) -> float | None:
        """How far the best arms are ahead of the others, for policies that must be told; None if nobody could say."""
        k = self.problem.question.number_sought
        if k is None:
            return None
        means = -np.sort(-_drawn(self.instance), axis=-1)
        gap = float((means[:, k - 1] - means[:, k]).min())
        return gap if gap > 0 else None


def fixed(delta: float = 0.05) -> list[Contest]:
    """The contests that come with roundwise."""
    return _read(tomllib.loads(files("roundwise.arena").joinpath("contests.toml").read_text()), Path(), FIXED, delta)


def own(path: Path, delta: float = 0.05) -> list[Contest]:
    """The contests of a user's file, written like ours."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not a TOML file: {str(error).rstrip('.')}.") from None
    return _read(found, path, path.stem, delta)


def replayed(folder: Path, delta: float = 0.05, most_arms: int = 300) -> list[Contest]:
    """The contests of a folder of real outcomes: those that its `instances.csv` lists, and tests against a control.

    The table has the columns file, instance, question (best arm, top-k, threshold, any-above) and param (k or level);
    each file has the columns instance, arm, outcome, count. Where a column n_total says how many results were really
    spent, tests of few options are also asked what beats the first of them, within that budget.
    """
    head, rows = read_rows(folder / LISTED, ("file", "instance", "question", "param"))
    found, seen = [], set()
    worlds: dict[tuple[str, str], Instance] = {}
    for row in rows:
        where = file, instance = row.text("file"), row.text("instance")
        words, param = row.text("question"), row.text("param")
        if "K" in head and row.text("K").isdecimal() and int(row.text("K")) > most_arms:
            continue
        try:
            if where not in worlds:
                worlds[where] = _table(folder, file, instance)
            world = worlds[where]
            asked = _asked(words, param)
            source = Path(file).stem
            if world.environment.arms > most_arms:
                continue
            name = f"{instance}: {words}" + (f" {param}" if param else "")
            found.append(_contest(name, source, asked, world, delta))
            spent = row.text("n_total") if "n_total" in head else ""
            if where not in seen and world.environment.arms <= AGAINST_CONTROL and spent.isdecimal():
                control = Claims.against_control(world.environment.arms, 0)
                name = f"{instance}: what beats the first"
                found.append(_contest(name, source, control, world, delta, float(spent)))
            seen.add(where)
        except RoundwiseError as error:
            raise DataError(f"{row.where}: {error}") from None
    return found


def _table(folder: Path, file: str, instance: str) -> Instance:
    """One table of outcomes."""
    if Path(file).name != file:
        raise InputError(f"The file '{file}' must lie in the same folder.")
    (found,) = instances({"data": file, "instance": instance}, [1.0], folder / LISTED)
    return found


def _asked(words: str, param: str) -> Question:
    if words not in ASKED:
        raise unknown("question of a contest", words, ASKED)
    name = ASKED[words]
    fields: Plain = {"name": name}
    if name in SETTING:
        try:
            fields[SETTING[name]] = int(float(param)) if name == "top-k" else float(param)
        except ValueError:
            raise InputError(f"The parameter '{param}' of '{words}' is not a number.") from None
    return from_spec("question", fields)


def _read(found: Plain, path: Path, source: str, delta: float) -> list[Contest]:
    return list(_each(found, path, source, delta))


def _each(found: Plain, path: Path, source: str, delta: float) -> Iterator[Contest]:
    tables = found.get("contest")
    if not isinstance(tables, list) or set(found) != {"contest"}:
        raise DataError(f"{path}: a file of contests has tables [[contest]] and nothing else.")
    for number, table in enumerate(tables, start=1):
        try:
            if not isinstance(table, dict) or not {"question", "instance"} <= {*table} <= KEYS:
                raise InputError(f"it needs `question` and `instance`, and may have {' and '.join(sorted(MORE))}.")
            question, (world,) = from_spec("question", table["question"], trusted=True), _one(table["instance"], path)
            yield _contest(str(table.get("name", world.name)), source, question, world, delta, table.get("budget"))
        except RoundwiseError as error:
            raise DataError(f"{path}, [[contest]] {number}: {error}") from None


MORE = {"name", "budget"}
KEYS = {"question", "instance", *MORE}


def _one(table: Plain, path: Path) -> list[Instance]:
    if not isinstance(table, dict):
        raise InputError("`instance` must be a table, for example { means = [0.5, 0.4] }.")
    return instances(table, [1.0], path)


def _contest(
    name: str, source: str, question: Question, world: Instance, delta: float, budget: float | None = None
) -> Contest:
    problem = Problem(question, world.environment.arms, delta, world.environment.noise)
    bound = _lower_bound(problem, _drawn(world))
    near_tie = budget is None and bound > NEAR_TIE
    if budget is None:
        budget = LARGEST if near_tie else max(GENEROUS * bound, 1000.0 * problem.arms)
    return Contest(name, source, problem, world, bound, float(math.ceil(budget)), near_tie)


def _drawn(world: Instance) -> Floats:
    """True means, of some of the instances where they are random. (n, K)"""
    means: Floats = world.environment.initial_state(np.random.default_rng(0), 50).means
    return means


def _lower_bound(problem: Problem, means: Floats) -> float:
    """What no method can stay below on average, over some instances where they are random."""
    family = problem.noise.family
    found = None if family is None else own_lower_bound(problem.question, means, problem.delta, family)
    bound = lower_bound_at(problem.question, means, problem.delta, problem.noise.sigma) if found is None else found[1]
    return float(np.mean(bound))


LOOKS = 50  # of a sequential yardstick, until it has as many results as the lower bound
SEQUENTIAL_ARMS, SEQUENTIAL_BOUND = 15, 2500.0  # arms and lower bounds up to which they take part: they pull one by one


@dataclass(frozen=True)
class Entrant:
    """A policy by name, made for a contest; None where it is not in its league."""

    name: str
    made: Callable[[Contest], Policy | None]
    sequential: bool = False  # looks after every few results: a yardstick, not for use in batches


def always(policy: Policy) -> Callable[[Contest], Policy | None]:
    """The same policy for every contest."""
    return lambda contest: policy


def _not_for_claims(policy: Policy) -> Callable[[Contest], Policy | None]:
    """Claims are shown one by one, also by a study that ends with some of them open: these rules say all or nothing."""
    return lambda contest: None if contest.question == "claims" else policy


def _agarwal(contest: Contest) -> Policy | None:
    return None if contest.gap is None else Agarwal(gap=contest.gap)


def _looks(make: Callable[[int], Policy]) -> Callable[[Contest], Policy | None]:
    """A sequential policy that looks about fifty times until the lower bound."""
    return lambda contest: (
        None
        if contest.problem.arms > SEQUENTIAL_ARMS
        or contest.lower_bound > SEQUENTIAL_BOUND
        or contest.question == "claims"
        else make(max(1, math.ceil(contest.lower_bound / LOOKS)))
    )


BUILT_IN: tuple[Entrant, ...] = (
    Entrant("Wager", always(Wager())),
    Entrant("Wager, dear batches", always(Wager(batch_price=1000.0))),
    Entrant("Conditional power", always(ConditionalPower())),
    Entrant("PET", _not_for_claims(PET())),
    Entrant("Round Robin", _not_for_claims(RoundRobin())),
    Entrant("Track-and-Stop, batched", _not_for_claims(TrackAndStop())),
    Entrant("Tri-BBAI", always(TriBBAI())),
    Entrant("Opt-BBAI", always(OptBBAI())),
    Entrant("Elimination", always(Elimination())),
    Entrant("Hillel 2013", always(Hillel())),
    Entrant("Agarwal 2017, told the gap", _agarwal),
    Entrant("Jin 2019", always(Jin2019())),
    Entrant("Karpov 2020", always(Karpov())),
    Entrant("BatchRacing", always(BatchRacing())),
    Entrant("Track-and-Stop, sequential", _looks(lambda b: ClassicTrackAndStop(batch=b)), sequential=True),
    Entrant("LUCB, sequential", _looks(lambda b: LUCB(batch=float(max(b, 2)))), sequential=True),
    Entrant("Top two, sequential", _looks(lambda b: TopTwo(batch=b)), sequential=True),
)


def entrants(own: Sequence[str] = ()) -> tuple[Entrant, ...]:
    """All that are built in, and a user's own, written as on the command line."""
    return (*BUILT_IN, *(Entrant(words, always(from_spec("policy", words, trusted=True))) for words in own))
