"""What a sweep's file may hold behind a key, and the worlds that it lists in its tables [[instance]]."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roundwise.arrays import Plain
from roundwise.errors import InputError, unknown
from roundwise.model.spec import is_number
from roundwise.simulation.environments import BernoulliArms, Environment, GaussianArms, PoissonArms, RandomGaps
from roundwise.simulation.replay import Replay

LIMITS = ("max_samples", "max_batches", "budget", "round")
WHOLE = {"runs": (1, 10**9), "seed": (0, 2**63 - 1)}  # a cell is in memory until it is stored, so runs have a limit


def several(key: str, value: object) -> list[Any]:
    """One number or a list of numbers, as a list."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"`{key}` is an empty list; give at least one number, or leave it out.")
    for each in values:
        if key in WHOLE:
            _check_whole(key, each)
        elif not is_number(each):
            raise InputError(f"`{key}` is {shown(each)}, but must be a number, or a list of such.")
    return values


def limit(key: str, value: Any) -> float:
    """The one number that a limit is."""
    if isinstance(value, list):
        raise InputError(
            f"`{key}` is a list, but all cells share one limit: give one number; for another limit write another file."
        )
    whole = key != "max_samples"
    kind = "a whole number of at least 1" if whole else "a number of at least 1"
    if not is_number(value) or value < 1 or (whole and value % 1 != 0):
        raise InputError(f"`{key}` is {shown(value)}, but must be {kind}; for no limit leave it out.")
    return float(value)


def split_in(value: object) -> str | list[float]:
    """The split as it stands in the file: "2:1:1", "equal", or a list of shares."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(is_number(each) and each >= 0 for each in value) or not any(value):
        raise InputError(f'`split` is {shown(value)}, but must be a text such as "2:1:1", or a list of numbers.')
    return [float(each) for each in value]


def text(key: str, value: object) -> str:
    """The text that a name is."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f'`{key}` is {shown(value)}, but must be a text, for example {key} = "easy".')
    return value


def shown(value: object) -> str:
    """A value as it stands in the file, more or less."""
    words = json.dumps(value, default=str)
    return words if len(words) <= 40 else words[:37] + "..."


def _check_whole(key: str, value: object) -> None:
    least, most = WHOLE[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(
            f"`{key}` is {shown(value)}, but must be a whole number of at least {least}, or a list of such."
        )
    if value > most:
        hint = "; for more runs list several seeds" if key == "runs" else ""
        raise InputError(f"`{key}` is {shown(value)}, but must be at most {most}{hint}.")


KEYS = ("name", "means", "random", "data", "instance", "replacement", "rewards", "sigma")
REWARDS = ("gaussian", "binary", "poisson")


@dataclass(frozen=True, eq=False)
class Instance:
    """A world: what it is called, as plain data, and itself."""

    name: str
    plain: Plain
    environment: Environment


def instances(table: Plain, sigmas: list[float], path: Path) -> list[Instance]:
    """The worlds of a table: one, or one for each sigma."""
    for key in table:
        if key not in KEYS:
            raise unknown("setting of an instance", key, KEYS)
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
    name = text("name", table.get("name", words))
    if rewards == "binary":
        return [Instance(name, plain, BernoulliArms(means))]
    if rewards == "poisson":
        return [Instance(name, plain, PoissonArms(means))]
    return [
        Instance(
            name if sigma == 1 else f"{name}, sigma {sigma:g}", plain | {"sigma": sigma}, GaussianArms(means, sigma)
        )
        for sigma in (several("sigma", table["sigma"]) if "sigma" in table else sigmas)
    ]


def _means(table: Plain, rewards: str) -> tuple[list[float] | RandomGaps, Plain, str]:
    """The means, fixed or random; as plain data; in words."""
    if "means" in table:
        means = table["means"]
        if not isinstance(means, list) or not all(is_number(each) for each in means):
            raise InputError("`means` must be a list of numbers, for example [1.0, 0.9, 0.8].")
        shown = [f"{each:g}" for each in means]
        return (
            means,
            {"means": means},
            ", ".join(shown if len(shown) <= 6 else [*shown[:5], f"... ({len(shown)} arms)"]),
        )
    fields = table["random"]
    known = [field.name for field in dataclasses.fields(RandomGaps)]
    if not isinstance(fields, dict) or not all(is_number(each) and math.isfinite(each) for each in fields.values()):
        raise InputError(f"`random` must be a table of finite numbers: {', '.join(known)}.")
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


def _replayed(table: Plain, path: Path) -> Instance:
    """A table of data, found from where the sweep's file is, and known by its contents."""
    if not isinstance(table["data"], str) or not isinstance(table.get("replacement", True), bool):
        raise InputError("`data` must be the name of a file and `replacement` true or false.")
    instance = None if "instance" not in table else str(table["instance"])
    replay = Replay.from_csv(path.parent / table["data"], instance, table.get("replacement", True))
    numbers = json.dumps([list(replay.names), replay.outcomes.tolist(), replay.counts.tolist()])
    plain = {"data": hashlib.sha256(numbers.encode()).hexdigest(), "replacement": replay.replacement}
    words = Path(table["data"]).stem + ("" if instance is None else f", {instance}")
    return Instance(text("name", table.get("name", words)), plain, replay)
