"""What a sweep consists of: a TOML file becomes cells, one for every combination of what it lists.

A cell is known by a digest of its content: what is asked, of which world, by which policy, at which level, how often
and with which seed. Names that the file gives to instances, and the order of its tables, do not matter.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from roundwise.environments import BernoulliArms, Environment, GaussianArms, PoissonArms, RandomGaps, Replay
from roundwise.errors import DataError, InputError, RoundwiseError, unknown
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.problem import Problem
from roundwise.questions import Question
from roundwise.spec import noise_of, noise_spec, policy_of, policy_spec, question_of, question_spec

TABLES = ("question", "instance", "policy", "noise")
LISTS = {"delta": 0.05, "sigma": 1.0, "runs": 1000, "seed": 1}  # one value or a list of them
LIMITS = ("max_samples", "max_batches")
INSTANCE = ("name", "means", "random", "data", "instance", "replacement", "rewards", "sigma")
REWARDS = ("gaussian", "binary", "poisson")


@dataclass(frozen=True, eq=False)
class Cell:
    """One policy on one problem: what is computed and stored as a whole."""

    problem: Problem
    environment: Environment
    policy: Policy
    runs: int
    seed: int
    limits: dict[str, float]  # max_samples, max_batches
    world: dict[str, Any]  # the instance as plain data
    instance: str  # what the instance is called

    @cached_property
    def content(self) -> dict[str, Any]:
        """Everything that the numbers depend on, as plain data."""
        from roundwise import __version__

        return {
            "roundwise": __version__,
            "question": question_spec(self.problem.question),
            "instance": self.world,
            "noise": noise_spec(self.problem.noise),
            "policy": policy_spec(self.policy),
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
    def labels(self) -> dict[str, Any]:
        """The cell in a few words."""
        return {
            "question": _words(question_spec(self.problem.question), _usual(self.problem.question)),
            "instance": self.instance,
            "noise": _words(noise_spec(self.problem.noise), {}),
            "policy": _words(policy_spec(self.policy), policy_spec(type(self.policy)())),
            "delta": self.problem.delta,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Grid:
    """The cells of a sweep, each once, and why some combinations have none."""

    cells: list[Cell]
    impossible: list[str]


@dataclass(frozen=True, eq=False)
class _Instance:
    """A world as plain data, what it is called, and how it is made."""

    name: str
    plain: dict[str, Any]
    environment: Environment


def read_grid(path: Path) -> Grid:
    """The cells that a file describes; a DataError says where the file is wrong."""
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a TOML file: {str(error).rstrip('.')}.") from None
    try:
        return _grid(found, path)
    except DataError:
        raise
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def _grid(found: dict[str, Any], path: Path) -> Grid:
    for key in found:
        if key not in (*TABLES, *LISTS, *LIMITS):
            raise unknown("setting of a sweep", key, (*TABLES, *LISTS, *LIMITS))
    lists = {key: _several(key, found.get(key, default)) for key, default in LISTS.items()}
    limits = {key: float(_several(key, found[key])[0]) for key in LIMITS if key in found}
    questions: list[Question] = _read(found, "question", path, question_of)
    policies: list[Policy] = _read(found, "policy", path, policy_of)
    instances = [
        each for some in _read(found, "instance", path, lambda t: _instances(t, lists["sigma"], path)) for each in some
    ]
    assumed = _read(found, "noise", path, _assumption) if "noise" in found else [lambda world: world.noise]
    cells: dict[str, Cell] = {}
    impossible: dict[str, None] = {}
    for question, one, noise, delta, policy in product(questions, instances, assumed, lists["delta"], policies):
        problem = Problem(question, one.environment.arms, delta, noise(one.environment))
        for runs, seed in product(lists["runs"], lists["seed"]):
            cell = Cell(problem, one.environment, policy, runs, seed, limits, one.plain, one.name)
            try:
                policy.check(problem)
            except InputError as error:
                impossible[f"{cell.labels['policy']} on {cell.labels['question']}: {error}"] = None
            else:
                cells.setdefault(cell.digest, cell)
    if not cells:
        raise InputError(f"None of its combinations can be run. {next(iter(impossible))}")
    return Grid(list(cells.values()), list(impossible))


def _read(found: dict[str, Any], key: str, path: Path, make: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """What each table of this name describes."""
    tables = found.get(key, [])
    tables = [tables] if isinstance(tables, dict) else tables
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"A sweep needs at least one table [[{key}]].")
    made = []
    for number, table in enumerate(tables, start=1):
        try:
            made.append(make(table))
        except RoundwiseError as error:
            raise DataError(f"{path}, [[{key}]] {number}: {error}") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"{path}, [[{key}]] {number}: cannot be used ({error}).") from None
    return made


def _several(key: str, value: Any) -> list[Any]:
    """One number or a list of numbers, as a list."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"`{key}` is an empty list.")
    whole = key in ("runs", "seed")
    least = {"runs": 1, "seed": 0}.get(key, -math.inf)
    for each in values:
        if not _is_number(each) or each < least or (whole and not isinstance(each, int)):
            kind = f"a whole number of at least {least}" if whole else "a number"
            raise InputError(f"`{key}` is {json.dumps(each, default=str)}, but must be {kind}, or a list of such.")
        if key in LIMITS and not each > 0:
            raise InputError(f"`{key}` is {each:g}, but must be positive.")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _assumption(table: dict[str, Any]) -> Callable[[Environment], Noise]:
    """What the policies assume; a sigma that is not given is that of the instance."""
    if table.get("name") in ("gaussian", "sub-gaussian") and "sigma" not in table:
        noise_of(table)
        return lambda environment: noise_of({**table, "sigma": environment.sigma})
    noise = noise_of(table)
    return lambda environment: noise


def _instances(table: dict[str, Any], sigmas: list[float], path: Path) -> list[_Instance]:
    """The worlds of a table: one, or one for each sigma."""
    for key in table:
        if key not in INSTANCE:
            raise unknown("setting of an instance", key, INSTANCE)
    sources = [key for key in ("means", "random", "data") if key in table]
    if len(sources) != 1:
        raise InputError("An instance needs either `means`, `random` or `data`.")
    for key in ("instance", "replacement"):
        if key in table and "data" not in table:
            raise InputError(f"`{key}` goes with `data`.")
    for key in ("rewards", "sigma"):
        if key in table and "data" in table:
            raise InputError(
                f"`{key}` goes with `means` or `random`; a table of data says itself what its rewards are."
            )
    if "data" in table:
        return [_replayed(table, path)]
    rewards = table.get("rewards", "gaussian")
    if rewards not in REWARDS:
        raise unknown("kind of rewards", str(rewards), REWARDS)
    if "sigma" in table and rewards != "gaussian":
        raise InputError("`sigma` goes with normal rewards; for others say what is assumed in a table [[noise]].")
    means, plain, words = _means(table, rewards)
    plain = {"rewards": rewards, **plain}
    name = str(table.get("name", words))
    if rewards == "binary":
        return [_Instance(name, plain, BernoulliArms(means))]
    if rewards == "poisson":
        return [_Instance(name, plain, PoissonArms(means))]
    return [
        _Instance(
            name if sigma == 1 else f"{name}, sigma {sigma:g}", plain | {"sigma": sigma}, GaussianArms(means, sigma)
        )
        for sigma in (_several("sigma", table["sigma"]) if "sigma" in table else sigmas)
    ]


def _means(table: dict[str, Any], rewards: str) -> tuple[Any, dict[str, Any], str]:
    """The means, fixed or random; as plain data; in words."""
    if "means" in table:
        means = table["means"]
        if not isinstance(means, list) or not all(_is_number(each) for each in means):
            raise InputError("`means` must be a list of numbers, for example [1.0, 0.9, 0.8].")
        shown = [f"{each:g}" for each in means]
        return (
            means,
            {"means": means},
            ", ".join(shown if len(shown) <= 6 else [*shown[:5], f"... ({len(shown)} arms)"]),
        )
    fields = table["random"]
    known = [field.name for field in dataclasses.fields(RandomGaps)]
    if not isinstance(fields, dict) or not all(_is_number(each) for each in fields.values()):
        raise InputError(f"`random` must be a table of numbers: {', '.join(known)}.")
    for key in fields:
        if key not in known:
            raise unknown("setting of random instances", key, known)
    gaps = RandomGaps(**fields)
    smallest, largest = min(gaps.low, gaps.best), max(gaps.high, gaps.best)
    if (
        not isinstance(gaps.arms, int)
        or (rewards != "gaussian" and smallest < 0)
        or (rewards == "binary" and largest > 1)
    ):
        raise InputError("Random instances need a whole number of arms, rates of at least 0 and, if binary, at most 1.")
    return gaps, {"random": dataclasses.asdict(gaps)}, f"{gaps.arms} random arms"


def _replayed(table: dict[str, Any], path: Path) -> _Instance:
    """A table of data, found from where the sweep's file is, and known by its contents."""
    if not isinstance(table["data"], str) or not isinstance(table.get("replacement", True), bool):
        raise InputError("`data` must be the name of a file and `replacement` true or false.")
    instance = None if "instance" not in table else str(table["instance"])
    replay = Replay.from_csv(path.parent / table["data"], instance, table.get("replacement", True))
    numbers = json.dumps([list(replay.names), replay.outcomes.tolist(), replay.counts.tolist()])
    plain = {"data": hashlib.sha256(numbers.encode()).hexdigest(), "replacement": replay.replacement}
    words = Path(table["data"]).stem + ("" if instance is None else f", {instance}")
    return _Instance(str(table.get("name", words)), plain, replay)


def _words(spec: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """A name with its settings where they are not the usual ones, as on the command line."""
    settings = [
        f"{key}={value:g}" if _is_number(value) else f"{key}={value}"
        for key, value in spec.items()
        if key != "name" and value != usual.get(key) and not isinstance(value, list | tuple)
    ]
    return str(spec["name"]) + (":" + ",".join(settings) if settings else "")


def _usual(thing: Any) -> dict[str, Any]:
    """The settings that need not be given, with their values."""
    return {field.name: field.default for field in dataclasses.fields(thing)}


def _numbers_alike(value: Any) -> Any:
    """4 and 4.0 are the same number, so they must be the same text."""
    if isinstance(value, Mapping):
        return {key: _numbers_alike(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_alike(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
