"""Sweeps: every combination of questions, instances, policies and levels in a TOML file, each stored when finished.

A cell is one combination. It is known by a digest of its content: question, instance, noise model, policy, level,
number of runs and seed. Names that the file gives to instances, and the order of its tables, do not matter.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import math
import os
import shutil
import sys
import tempfile
import time
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from roundwise._version import __version__
from roundwise.arrays import Array, Plain
from roundwise.contract import check_classes
from roundwise.errors import DataError, InputError, RoundwiseError, unknown
from roundwise.model.problem import Problem, check_delta
from roundwise.model.spec import Thing, from_spec, is_number, list_parameters, noise_from_spec, to_spec
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.policies.base import Rounds, shares
from roundwise.questions import Question
from roundwise.simulation.environments import BernoulliArms, Environment, GaussianArms, PoissonArms, RandomGaps
from roundwise.simulation.replay import Replay
from roundwise.simulation.run import RunSettings, check_place, compute_blocks, join_runs, split_into_blocks
from roundwise.simulation.summary import Runs
from roundwise.simulation.tables import connect_duckdb, import_duckdb, write_csv, write_parquet

if TYPE_CHECKING:
    from roundwise.simulation.workers import Cluster

Made = TypeVar("Made")
TABLES = ("question", "instance", "policy", "noise")
LISTS = {"delta": 0.05, "sigma": 1.0, "runs": 1000, "seed": 1}  # one value or a list of them
LIMITS = ("max_samples", "max_batches", "budget", "lead", "looks", "round_size")
# the least and the most of a setting; a cell is in memory until it is stored, so runs have a limit
RANGES = {"runs": (1, 10**9), "seed": (0, 2**63 - 1), "max_samples": (1, math.inf)}
FRACTIONS = ("delta", "sigma", "lead", "max_samples")  # settings that need not be whole numbers
REWARDS: dict[str, Callable[..., Environment]] = {
    "gaussian": GaussianArms,
    "binary": BernoulliArms,
    "poisson": PoissonArms,
}
GOES_WITH = {
    "instance": ("data",),
    "replacement": ("data",),
    "rewards": ("means", "random"),
    "sigma": ("means", "random"),
}
INSTANCE_KEYS = ("name", "means", "random", "data", *GOES_WITH)
UNFINISHED = ".unfinished-"
STALE = 3600.0  # seconds after which a file that is being written must be that of a killed process


@dataclass(frozen=True, eq=False)
class SweepCell:
    """One policy on one problem: what is computed and stored as a whole.

    Attributes:
        problem: The question, the number of arms, delta and the noise model.
        environment: Where rewards come from.
        policy: How to sample.
        runs: How many runs.
        seed: The seed of the random numbers.
        limits: max_samples, max_batches, budget, round_size and split, where given.
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
        budget, size, split = (self.limits.get(key) for key in ("budget", "round_size", "split"))
        if budget is None and size is None and split is None:
            return self.policy
        fixed = shares(split, self.problem.arms) if isinstance(split, str) else split
        policy = self.policy
        if policy.plans_budget:
            policy = policy.with_design(budget, self.limits.get("lead"), self.limits.get("looks"))
        return Rounds(policy, budget, size, fixed)

    @property
    def settings(self) -> RunSettings:
        limits = {key: self.limits[key] for key in ("max_samples", "max_batches") if key in self.limits}
        return RunSettings(
            self.problem, self.environment, self.digest, self.limited, runs=self.runs, seed=self.seed, **limits
        )

    @cached_property
    def digest(self) -> str:
        """The name of the cell: equal for equal contents."""
        own = digest_own_code(self.problem.question, self.problem.noise, self.policy)
        content = {
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
        text = json.dumps(_numbers_as_floats(content), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @cached_property
    def labels(self) -> Plain:
        """The cell in a few words."""
        return {
            "question": self.question,
            "instance": self.instance,
            "noise": _describe(to_spec(self.problem.noise), {}),
            "policy": describe(self.policy),
            "delta": self.problem.delta,
            "seed": self.seed,
        }

    def path(self, folder: Path) -> Path:
        """Where the cell is stored, below the folder of the sweep."""
        return folder / "cells" / f"{self.digest}.parquet"


@dataclass(frozen=True)
class SweepGrid:
    """The cells of a sweep.

    Attributes:
        cells: Each combination once.
        impossible: Why some combinations have no cell, one sentence each.
    """

    cells: list[SweepCell]
    impossible: list[str]


def read_toml(path: Path) -> Plain:
    """The contents of a TOML file; a DataError says why it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a TOML file: {str(error).rstrip('.')}.") from None
    except (RecursionError, ValueError):  # of Python itself
        raise DataError(f"{path} is nested too deeply, or has a number of thousands of digits.") from None


def read_grid(path: Path) -> SweepGrid:
    """Return the cells that a TOML file describes; a DataError says where the file is wrong.

    Args:
        path: The file (docs/scale.md shows one).
    """
    found = read_toml(path)
    try:
        return _build_grid(found, path)
    except DataError:
        raise
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def _build_grid(found: Plain, path: Path) -> SweepGrid:
    for key in found:
        if key not in (*TABLES, *LISTS, *LIMITS, "split"):
            raise unknown("setting of a sweep", key, (*TABLES, *LISTS, *LIMITS, "split"))
    lists = {key: _parse_list(key, found.get(key, default)) for key, default in LISTS.items()}
    for delta in lists["delta"]:
        check_delta(delta)
    limits: Plain = {key: _parse_number(key, found[key]) for key in LIMITS if key in found}
    if "split" in found:
        limits["split"] = _parse_split(found["split"])
    listed = _read_tables(found, "instance", path, lambda table: read_instances(table, lists["sigma"], path))
    every = [each for some in listed for each in some]
    names = _distinct((each.name, each.plain) for each in every)
    instances = [dataclasses.replace(each, name=name) for each, name in zip(every, names, strict=True)]
    sizes = {each.environment.arms for each in instances}
    asked = _read_tables(found, "question", path, lambda table: _read_question(table, sizes))
    questions = dict(zip(_distinct((describe(each), to_spec(each)) for each in asked), asked, strict=True))
    noises = _read_tables(found, "noise", path, _read_noise) if "noise" in found else [lambda each: each.noise]
    policies = _read_tables(found, "policy", path, lambda table: from_spec("policy", table, trusted=True))
    cells: dict[str, SweepCell] = {}
    impossible: dict[str, None] = {}
    for (words, question), one, noise, delta in product(questions.items(), instances, noises, lists["delta"]):
        try:
            problem = Problem(question, one.environment.arms, delta, noise(one.environment))
        except InputError as error:
            impossible[f"{words} on {one.name}: {error}"] = None
            continue
        for policy, runs, seed in product(policies, lists["runs"], lists["seed"]):
            cell = SweepCell(problem, one.environment, policy, runs, seed, limits, one.plain, words, one.name)
            try:
                cell.limited.check(problem)
                check_classes(problem, policy)
            except InputError as error:
                impossible[f"{cell.labels['policy']} on {words}: {error}"] = None
            else:
                cells.setdefault(cell.digest, cell)
    reasons = list(impossible)
    if not cells:
        more = f" And {len(reasons) - 3} more reasons." if len(reasons) > 3 else ""
        raise InputError(f"None of its combinations can be run. {' '.join(reasons[:3])}{more}")
    return SweepGrid(list(cells.values()), reasons)


def digest_own_code(question: Question, noise: Noise, policy: Policy) -> dict[str, str]:
    """The modules of things that are not built in, each with a digest of its code: a change makes other cells."""
    things = (question, noise, policy, policy.stopping, policy.stopping.sizing_threshold())
    own = sorted({type(each).__module__ for each in things})
    return {
        module: hashlib.sha256(inspect.getsource(sys.modules[module]).encode()).hexdigest()
        for module in own
        if not module.startswith("roundwise.")
    }


def _read_tables(found: Plain, key: str, path: Path, make: Callable[[Plain], Made]) -> list[Made]:
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


def _read_question(table: Plain, sizes: set[int]) -> Question:
    """The number of arms that a control is compared with is known where all instances have the same number."""
    if "control" in table and "arms" not in table and len(sizes) == 1:
        table = {**table, "arms": min(sizes)}
    return from_spec("question", table, trusted=True)


def _read_noise(table: Plain) -> Callable[[Environment], Noise]:
    from_spec("noise", table, trusted=True)  # an error names the table
    return lambda environment: noise_from_spec(table, environment.sigma)


def _distinct(named: Iterable[tuple[str, object]]) -> Iterator[str]:
    """The names, numbered where the same one stands for different contents."""
    seen: dict[str, list[object]] = {}
    for name, content in named:
        others = seen.setdefault(name, [])
        if content not in others:
            others.append(content)
        place = others.index(content)
        yield name if place == 0 else f"{name} ({place + 1})"


def describe(thing: Thing) -> str:
    """A question or a policy with its settings where they are not the defaults, as on the command line."""
    return _describe(to_spec(thing), {key: each.default for key, each in list_parameters(type(thing)).items()})


def _describe(spec: Plain, defaults: Plain) -> str:
    settings = [
        f"{key}={value:g}" if is_number(value) else f"{key}={value['name'] if isinstance(value, dict) else value}"
        for key, value in spec.items()
        if key != "name" and value != defaults.get(key) and not isinstance(value, list | tuple)
    ]
    return str(spec["name"]) + (":" + ",".join(settings) if settings else "")


def _numbers_as_floats(value: object) -> object:
    """4 and 4.0 are the same number, so they must be the same text."""
    if isinstance(value, Mapping):
        return {key: _numbers_as_floats(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_as_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _parse_list(key: str, value: object) -> list[Any]:
    """One number or a list of numbers, as a list."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"`{key}` is an empty list; give at least one number, or leave it out.")
    return [_parse_number(key, each) for each in values]


def _parse_number(key: str, value: Any) -> float:
    if isinstance(value, list):
        raise InputError(
            f"`{key}` is a list, but all cells share one limit: give one number; for another limit write another file."
        )
    least, most = RANGES.get(key, (1, math.inf) if key in LIMITS else (-math.inf, math.inf))
    whole = key not in FRACTIONS
    if not is_number(value) or not least <= value <= most or (whole and value % 1 != 0):
        range_ = f" of at least {least}" if least > -math.inf else ""
        range_ += f" and at most {most}" if most < math.inf else ""
        raise InputError(f"`{key}` is {_show(value)}, but must be a {'whole ' if whole else ''}number{range_}.")
    return int(value) if whole and key not in LIMITS else float(value)


def _parse_split(value: object) -> str | list[float]:
    """The split as it stands in the file: "2:1:1", "equal", or a list of shares."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(is_number(each) and each >= 0 for each in value) or not any(value):
        raise InputError(f'`split` is {_show(value)}, but must be a text such as "2:1:1", or a list of numbers.')
    return [float(each) for each in value]


def _show(value: object) -> str:
    words = json.dumps(value, default=str)
    return words if len(words) <= 40 else words[:37] + "..."


@dataclass(frozen=True, eq=False)
class Instance:
    """An environment, its name, and its content as plain data."""

    name: str
    plain: Plain
    environment: Environment


def read_instances(table: Plain, sigmas: list[float], path: Path) -> list[Instance]:
    """The instances of a table [[instance]]: one, or one for each sigma."""
    for key in table:
        if key not in INSTANCE_KEYS:
            raise unknown("setting of an instance", key, INSTANCE_KEYS)
    if sum(key in table for key in ("means", "random", "data")) != 1:
        raise InputError("An instance needs either `means`, `random` or `data`.")
    for key, others in GOES_WITH.items():
        if key in table and not any(each in table for each in others):
            raise InputError(f"`{key}` goes with {' or '.join(f'`{each}`' for each in others)}.")
    rewards = table.get("rewards", "gaussian")
    if rewards not in REWARDS:
        raise unknown("kind of rewards", str(rewards), REWARDS)
    if "sigma" in table and rewards != "gaussian":
        raise InputError("`sigma` goes with normal rewards; for others say what is assumed in a table [[noise]].")
    found: list[tuple[str, Plain, Environment]]  # what is added to the name, plain data and environment
    if "data" in table:
        usual, plain, replay = _read_replay(table, path)
        found = [("", plain, replay)]
    else:
        usual, plain, means = _read_means(table, rewards)
        plain = {"rewards": rewards, **plain}
        found = [("", plain, REWARDS[rewards](means))]
        if rewards == "gaussian":
            sigmas = _parse_list("sigma", table["sigma"]) if "sigma" in table else sigmas
            found = [
                ("" if sigma == 1 else f", sigma {sigma:g}", plain | {"sigma": sigma}, GaussianArms(means, sigma))
                for sigma in sigmas
            ]
    name = table.get("name", usual)
    if not isinstance(name, str) or not name.strip():
        raise InputError(f'`name` is {_show(name)}, but must be a text, for example name = "easy".')
    return [Instance(name + more, plain, environment) for more, plain, environment in found]


def _read_means(table: Plain, rewards: str) -> tuple[str, Plain, list[float] | RandomGaps]:
    """The means, fixed or random: their usual name, as plain data, and themselves."""
    if "means" in table:
        means = table["means"]
        if not isinstance(means, list) or not all(is_number(each) for each in means):
            raise InputError("`means` must be a list of numbers, for example [1.0, 0.9, 0.8].")
        words = [f"{each:g}" for each in means]
        return (
            ", ".join(words if len(words) <= 6 else [*words[:5], f"... ({len(words)} arms)"]),
            {"means": means},
            means,
        )
    fields = table["random"]
    known = [field.name for field in dataclasses.fields(RandomGaps)]
    if not isinstance(fields, dict) or not all(is_number(each) and math.isfinite(each) for each in fields.values()):
        raise InputError(f"`random` must be a table of finite numbers: {', '.join(known)}.")
    for key in fields:
        if key not in known:
            raise unknown("setting of random instances", key, known)
    gaps = RandomGaps(**fields)
    low, high = min(gaps.low, gaps.best), max(gaps.high, gaps.best)
    possible = rewards == "gaussian" or (low >= 0 and (rewards == "poisson" or high <= 1))
    if not isinstance(gaps.arms, int) or not possible:
        raise InputError("Random instances need a whole number of arms, rates of at least 0 and, if binary, at most 1.")
    return f"{gaps.arms} random arms", {"random": dataclasses.asdict(gaps)}, gaps


def _read_replay(table: Plain, path: Path) -> tuple[str, Plain, Replay]:
    """A table of data, found from where the sweep's file is, and known by its contents."""
    if not isinstance(table["data"], str) or not isinstance(table.get("replacement", True), bool):
        raise InputError("`data` must be the name of a file and `replacement` true or false.")
    instance = None if "instance" not in table else str(table["instance"])
    replay = Replay.from_csv(path.parent / table["data"], instance, table.get("replacement", True))
    numbers = json.dumps([list(replay.names), replay.outcomes.tolist(), replay.counts.tolist()])
    plain = {"data": hashlib.sha256(numbers.encode()).hexdigest(), "replacement": replay.replacement}
    return Path(table["data"]).stem + ("" if instance is None else f", {instance}"), plain, replay


class SweepResult(NamedTuple):
    """The result of a sweep.

    Attributes:
        rows: One row for each cell: question, instance, noise, policy, delta and seed, and its runs in a few numbers.
        computed: How many cells were computed now; the others were stored before.
        impossible: Why some combinations could not be run, one sentence each.
    """

    rows: list[Plain]
    computed: int
    impossible: list[str]


def run_sweep(
    grid: SweepGrid | str | Path,
    folder: str | Path,
    *,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Callable[[int], None] | None = None,
) -> SweepResult:
    """Run every combination of a sweep and store it; cells that the folder already holds are not run again.

    Args:
        grid: A TOML file (docs/scale.md), or the grid that `read_grid` made of one.
        folder: Where to store every run (cells/*.parquet) and the summary (summary.csv).
        workers: How many processes to use; the numbers do not depend on it.
        cluster: Address, scheduler file or client of a dask cluster to use in place of processes.
        progress: Called with the number of runs that were just finished.

    Returns:
        The rows of the summary, how many cells were computed, and which combinations were impossible.
    """
    grid = read_grid(Path(grid)) if isinstance(grid, str | Path) else grid
    folder = Path(folder)
    check_place(workers, cluster)
    missing = [cell for cell in grid.cells if not is_finished(cell, folder)]
    if missing:
        run_cells(missing, folder, workers=workers, cluster=cluster, progress=progress)
    for cell in grid.cells:
        relabel(cell, folder)
    rows = [summary_row(cell, folder) for cell in grid.cells]
    write_csv(folder / "summary.csv", rows)
    return SweepResult(rows, len(missing), grid.impossible)


def is_finished(cell: SweepCell, folder: Path) -> bool:
    """Whether the cell is stored."""
    return cell.path(folder).is_file()


def run_cells(
    cells: Sequence[SweepCell],
    folder: Path,
    *,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Compute these cells and store each as soon as it is finished.

    The blocks of all cells go through the same workers, so small cells keep many of them busy.
    """
    check_place(workers, cluster)
    for left in folder.glob(f"{UNFINISHED}*"):  # by killed sweeps; another one may be writing a newer one now
        with suppress(FileNotFoundError):  # another sweep has just finished it
            if time.time() - left.stat().st_mtime > STALE:
                shutil.rmtree(left, ignore_errors=True)
    sizes = [cell.settings.number_of_blocks for cell in cells]
    ends = list(accumulate(sizes))
    parts: dict[int, dict[int, Runs]] = {}
    jobs = (job for cell in cells for job in split_into_blocks(cell.settings))
    for place, part in compute_blocks(jobs, sum(sizes), workers, cluster):
        which = bisect_right(ends, place)
        mine = parts.setdefault(which, {})
        mine[place] = part
        if len(mine) == sizes[which]:
            _store(cells[which], join_runs([mine[i] for i in sorted(mine)]), folder)
            del parts[which]
        if progress is not None:
            progress(len(part.samples))


def _store(cell: SweepCell, runs: Runs, folder: Path) -> None:
    """Write the runs of a cell, each with a description of the cell."""
    about = {"cell": cell.digest, **cell.labels, "caveat": runs.doubt or "", "lower_bound_for": runs.bound_for or ""}
    columns = {key: column for key, column in runs.columns().items() if key != "policy"}
    _write(cell, _repeat(about, cell.runs) | columns, folder)


def relabel(cell: SweepCell, folder: Path) -> None:
    """Write the names of today into a finished cell that was stored under others; its runs stay as they are."""
    before = _read(cell, folder, ", ".join(cell.labels), "where run = 0")
    if any(list(before[key]) != [value] for key, value in cell.labels.items()):
        columns = _read(cell, folder, "*")
        _write(cell, columns | _repeat(cell.labels, len(columns["run"])), folder)


def _repeat(values: Mapping[str, object], number: int) -> dict[str, Array]:
    return {
        key: np.full(number, value, dtype=object if isinstance(value, str) else None) for key, value in values.items()
    }


def _write(cell: SweepCell, columns: Mapping[str, Array], folder: Path) -> None:
    """Write to a temporary folder, then rename: readers see the whole cell or none, even if two sweeps finish it."""
    path = cell.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as temporary:
        whole = Path(temporary) / path.name
        write_parquet(whole, [columns])
        os.replace(whole, path)


def _read(cell: SweepCell, folder: Path, columns: str, which: str = "") -> dict[str, Array]:
    """Columns of a finished cell."""
    path = cell.path(folder)
    duckdb = import_duckdb()
    try:
        with connect_duckdb() as connection:
            found = connection.execute(f"select {columns} from read_parquet(?) {which}", [str(path)])
            columns_found: dict[str, Array] = found.fetchnumpy()
    except duckdb.Error:
        raise DataError(f"{path} cannot be read as a cell; delete it and run the sweep again.") from None
    return columns_found


def summary_row(cell: SweepCell, folder: Path) -> Plain:
    """One row of the summary: the labels of a finished cell, and its runs in a few numbers."""
    claims = cell.problem.question.separate_claims
    wanted = "samples, batches, decided, correct, complexity, lower_bound, caveat, lower_bound_for"
    found = _read(cell, folder, f"{wanted}, true_shown" if claims else wanted)
    number = len(found["samples"])
    if number != cell.runs:
        raise DataError(
            f"{cell.path(folder)} holds {number} runs instead of {cell.runs}; delete it and run the sweep again."
        )
    runs = Runs(
        policy=cell.labels["policy"],
        problem=cell.problem,
        samples=found["samples"].astype(np.float64),
        batches=found["batches"].astype(np.float64),
        decided=np.asarray(found["decided"]),
        answer=np.zeros(cell.runs),
        correct=np.asarray(found["correct"]),
        complexity=found["complexity"],
        lower_bound=found["lower_bound"],
        doubt=str(found["caveat"][0]) or None,
        bound_for=str(found["lower_bound_for"][0]) or None,
        true_shown=found["true_shown"].astype(np.float64) if claims else None,
    )
    return {"cell": cell.digest, **cell.labels, **runs.summary.row()}
