"""What a sweep consists of: a TOML file becomes cells, one for every combination of what it lists.

A cell is known by a digest of its content: what is asked, of which world, by which policy, at which level, how often
and with which seed. Names that the file gives to instances, and the order of its tables, do not matter.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TypeVar

from roundwise.arrays import Plain
from roundwise.contract import check_classes
from roundwise.errors import DataError, InputError, RoundwiseError, unknown
from roundwise.model.problem import Problem, check_delta
from roundwise.model.spec import Thing, from_spec, is_number, list_parameters, noise_from_spec, to_spec
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.policies.rounds import Rounds, shares
from roundwise.questions import Question
from roundwise.simulation.environments import Environment
from roundwise.simulation.sweep.instances import LIMITS, Instance, instances, limit, several, split_in

Made = TypeVar("Made")
TABLES = ("question", "instance", "policy", "noise")
LISTS = {"delta": 0.05, "sigma": 1.0, "runs": 1000, "seed": 1}  # one value or a list of them


@dataclass(frozen=True, eq=False)
class SweepCell:
    """One policy on one problem: what is computed and stored as a whole.

    Attributes:
        problem: The question, the number of arms, delta and the noise model.
        environment: Where rewards come from.
        policy: How to sample.
        runs: How many runs.
        seed: The seed of the random numbers.
        limits: max_samples, max_batches, budget, round and split, where given.
        world: The instance as plain data.
        question: What the question is called.
        instance: What the instance is called.
    """

    problem: Problem
    environment: Environment
    policy: Policy
    runs: int
    seed: int
    limits: Plain
    world: Plain
    question: str
    instance: str

    @property
    def limited(self) -> Policy:
        """The policy within the budget, the rounds and the split that all cells share."""
        budget, size, split = (self.limits.get(key) for key in ("budget", "round", "split"))
        none = budget is None and size is None and split is None
        fixed = shares(split, self.problem.arms) if isinstance(split, str) else split
        return self.policy if none else Rounds(self.policy, budget, size, fixed)

    @cached_property
    def content(self) -> Plain:
        """Everything that the numbers depend on, as plain data."""
        from roundwise._version import __version__

        own = code_of(self.problem.question, self.problem.noise, self.policy)
        return {
            "roundwise": __version__,
            "question": to_spec(self.problem.question),
            "instance": self.world,
            "noise": to_spec(self.problem.noise),
            "policy": to_spec(self.policy),
            **({"own": own} if own else {}),
            "delta": self.problem.delta,
            "runs": self.runs,
            "seed": self.seed,
            **self.limits,
        }

    @cached_property
    def digest(self) -> str:
        """The name of the cell: equal for equal contents."""
        text = json.dumps(_numbers_alike(self.content), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @cached_property
    def labels(self) -> Plain:
        """The cell in a few words."""
        return {
            "question": self.question,
            "instance": self.instance,
            "noise": _words(to_spec(self.problem.noise), {}),
            "policy": _words(to_spec(self.policy), _usual(self.policy)),
            "delta": self.problem.delta,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class SweepGrid:
    """The cells of a sweep.

    Attributes:
        cells: Each combination once.
        impossible: Why some combinations have no cell, one sentence each.
    """

    cells: list[SweepCell]
    impossible: list[str]


def read_grid(path: Path) -> SweepGrid:
    """Return the cells that a TOML file describes; a DataError says where the file is wrong.

    Args:
        path: The file (docs/scale.md shows one).
    """
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a TOML file: {str(error).rstrip('.')}.") from None
    except (RecursionError, ValueError):  # of Python itself
        raise DataError(
            f"{path} is no description of a sweep: it is nested too deeply, or a number has thousands of digits."
        ) from None
    try:
        return _grid(found, path)
    except DataError:
        raise
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def _grid(found: Plain, path: Path) -> SweepGrid:
    for key in found:
        if key not in (*TABLES, *LISTS, *LIMITS, "split"):
            raise unknown("setting of a sweep", key, (*TABLES, *LISTS, *LIMITS, "split"))
    lists = {key: several(key, found.get(key, default)) for key, default in LISTS.items()}
    for delta in lists["delta"]:
        check_delta(delta)
    limits: Plain = {key: limit(key, found[key]) for key in LIMITS if key in found}
    if "split" in found:
        limits["split"] = split_in(found["split"])
    worlds = _apart(_read(found, "instance", path, lambda table: instances(table, lists["sigma"], path)))
    sizes = {each.environment.arms for each in worlds}
    questions = _questions(_read(found, "question", path, lambda table: _question(table, sizes)))
    noises = _read(found, "noise", path, _assumption) if "noise" in found else [lambda world: world.noise]
    policies = _read(found, "policy", path, lambda table: from_spec("policy", table, trusted=True))
    cells: dict[str, SweepCell] = {}
    impossible: dict[str, None] = {}
    for (asked, question), one, noise, delta in product(questions.items(), worlds, noises, lists["delta"]):
        try:
            problem = Problem(question, one.environment.arms, delta, noise(one.environment))
        except InputError as error:
            impossible[f"{asked} on {one.name}: {error}"] = None
            continue
        for policy, runs, seed in product(policies, lists["runs"], lists["seed"]):
            cell = SweepCell(problem, one.environment, policy, runs, seed, limits, one.plain, asked, one.name)
            try:
                cell.limited.check(problem)
                check_classes(problem, policy)
            except InputError as error:
                impossible[f"{cell.labels['policy']} on {asked}: {error}"] = None
            else:
                cells.setdefault(cell.digest, cell)
    if not cells:
        raise InputError(f"None of its combinations can be run. {_first_few(list(impossible))}")
    return SweepGrid(list(cells.values()), list(impossible))


def code_of(*things: Thing) -> dict[str, str]:
    """The modules of things that are not built in, each with a digest of its code: a change makes other cells."""
    rules = [getattr(thing, "stopping", None) for thing in things]
    every = (*things, *rules, *(getattr(rule, "threshold", None) for rule in rules))
    modules = {type(each).__module__ for each in every if each is not None}
    own = sorted(module for module in modules if not module.startswith("roundwise."))
    return {module: hashlib.sha256(inspect.getsource(sys.modules[module]).encode()).hexdigest() for module in own}


def _first_few(reasons: list[str], few: int = 3) -> str:
    more = f" And {len(reasons) - few} more reasons." if len(reasons) > few else ""
    return " ".join(reasons[:few]) + more


def _read(found: Plain, key: str, path: Path, make: Callable[[Plain], Made]) -> list[Made]:
    """What each table of this name describes."""
    tables = found.get(key, [])
    tables = [tables] if isinstance(tables, dict) else tables
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"A sweep needs at least one table [[{key}]].")
    every = []
    for number, table in enumerate(tables, start=1):
        try:
            every.append(make(table))
        except RoundwiseError as error:
            raise DataError(f"{path}, [[{key}]] {number}: {error}") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"{path}, [[{key}]] {number}: cannot be used ({error}).") from None
    return every


def _question(table: Plain, sizes: set[int]) -> Question:
    """What is asked; how many arms a control is compared with is known where all instances have as many."""
    if "control" in table and "arms" not in table and len(sizes) == 1:
        table = {**table, "arms": min(sizes)}
    return from_spec("question", table, trusted=True)


def _assumption(table: Plain) -> Callable[[Environment], Noise]:
    """What the policies assume; checked here, where it is known in which table it stands."""
    from_spec("noise", table, trusted=True)
    return lambda environment: noise_from_spec(table, environment.sigma)


def question_words(question: Question) -> str:
    """What a question is called, as on the command line."""
    return _words(to_spec(question), _usual(question))


def _questions(listed: list[Question]) -> dict[str, Question]:
    """The questions by what they are called."""
    specs = [to_spec(question) for question in listed]
    words = [question_words(question) for question in listed]
    return dict(zip(_distinct(zip(words, specs, strict=True)), listed, strict=True))


def _apart(listed: list[list[Instance]]) -> list[Instance]:
    """The instances of all tables, none of them called like another one."""
    every = [each for some in listed for each in some]
    names = _distinct((each.name, each.plain) for each in every)
    return [dataclasses.replace(each, name=name) for each, name in zip(every, names, strict=True)]


def _distinct(named: Iterable[tuple[str, object]]) -> Iterator[str]:
    """The names, numbered where the same one stands for different contents."""
    seen: dict[str, list[object]] = {}
    for name, content in named:
        others = seen.setdefault(name, [])
        if content not in others:
            others.append(content)
        place = others.index(content)
        yield name if place == 0 else f"{name} ({place + 1})"


def _words(spec: Plain, usual: Plain) -> str:
    """A name with its settings where they are not the usual ones, as on the command line."""
    settings = [
        f"{key}={value:g}" if is_number(value) else f"{key}={value['name'] if isinstance(value, dict) else value}"
        for key, value in spec.items()
        if key != "name" and value != usual.get(key) and not isinstance(value, list | tuple)
    ]
    return str(spec["name"]) + (":" + ",".join(settings) if settings else "")


def _usual(thing: Thing) -> Plain:
    """The settings that need not be given, with their values."""
    return {key: each.default for key, each in list_parameters(type(thing)).items()}


def _numbers_alike(value: object) -> object:
    """4 and 4.0 are the same number, so they must be the same text."""
    if isinstance(value, Mapping):
        return {key: _numbers_alike(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_alike(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
