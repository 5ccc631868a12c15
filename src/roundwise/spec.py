"""Questions, noise models and policies as plain data (JSON, TOML), and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from roundwise.errors import InputError, unknown
from roundwise.noise import Binary, Bounded, Gaussian, Noise, Poisson, SubGaussian, UnknownVariance
from roundwise.policies import POLICIES, Policy
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Question, Statements, TopK
from roundwise.stopping import GLR, THRESHOLDS

QUESTIONS: dict[str, type[Any]] = {
    each.name: each for each in (BestArm, TopK, Above, MinimumBelow, AnyAbove, Statements, Largest)
}
NOISES: dict[str, type[Any]] = {
    each.name: each for each in (Binary, Bounded, Gaussian, Poisson, SubGaussian, UnknownVariance)
}


def question_spec(question: Question) -> dict[str, Any]:
    """A question as plain data.

    >>> question_spec(TopK(3))
    {'name': 'top-k', 'k': 3}
    """
    return {"name": question.name} | _fields(question)


def question_of(spec: Mapping[str, Any]) -> Question:
    """A question from plain data."""
    return _made("question", QUESTIONS, spec)


def noise_spec(noise: Noise) -> dict[str, Any]:
    """A noise model as plain data.

    >>> noise_spec(Bounded(1, 3))
    {'name': 'bounded', 'low': 1, 'high': 3}
    """
    return {"name": noise.name} | _fields(noise)


def noise_of(spec: Mapping[str, Any]) -> Noise:
    """A noise model from plain data."""
    return _made("noise model", NOISES, spec)


def policy_spec(policy: Policy) -> dict[str, Any]:
    """A policy as plain data; the threshold of its stopping rule by name.

    >>> policy_spec(POLICIES["wager"](max_batch=500))["max_batch"]
    500
    """
    fields = _fields(policy)
    fields.pop("stopping", None)
    if isinstance(policy.stopping, GLR):
        fields["threshold"] = policy.stopping.threshold.name
    return {"name": policy.name} | fields


def policy_of(spec: Mapping[str, Any]) -> Policy:
    """A policy from plain data."""
    fields = dict(spec)
    if "stopping" in fields:
        raise InputError("The stopping rule of a policy is chosen by its `threshold`.")
    threshold = fields.pop("threshold", None)
    if threshold is not None:
        if str(threshold) not in THRESHOLDS:
            raise unknown("threshold", str(threshold), THRESHOLDS)
        name = str(fields.get("name", ""))
        if name in POLICIES and not isinstance(POLICIES[name]().stopping, GLR):
            raise InputError(f"The policy '{name}' has a stopping rule of its own, without a threshold.")
        fields["stopping"] = GLR(THRESHOLDS[threshold])
    return _made("policy", POLICIES, fields)


def _fields(thing: Any) -> dict[str, Any]:
    return {
        field.name: value.tolist() if isinstance(value, np.ndarray) else value
        for field in dataclasses.fields(thing)
        if (value := getattr(thing, field.name)) is not None
    }


def _made(kind: str, kinds: Mapping[str, type[Any]], spec: Mapping[str, Any]) -> Any:
    fields = dict(spec)
    name = str(fields.pop("name", ""))
    if name not in kinds:
        raise unknown(kind, name, kinds)
    known = {field.name: field for field in dataclasses.fields(kinds[name])}
    for key, value in fields.items():
        if key not in known:
            raise unknown(f"setting of the {kind} '{name}'", key, known)
        wanted = _WORDS.get(str(known[key].type).removesuffix(" | None"))
        if wanted is not None and (isinstance(value, bool), isinstance(value, int | float)) not in wanted[1]:
            raise InputError(f"The {kind} '{name}' cannot be made: `{key}` is {value!r}, but must be {wanted[0]}.")
    for key, field in known.items():
        if key not in fields and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InputError(f"The {kind} '{name}' cannot be made without `{key}`.")
    try:
        return kinds[name](**{key: tuple(v) if key == "names" else v for key, v in fields.items()})
    except TypeError as error:
        raise InputError(f"The {kind} '{name}' cannot be made: {error}.") from None


# what a setting must be, by its type: in words, and whether that is a truth value and a number for Python
_WORDS = {
    "bool": ("true or false", {(True, True)}),
    "int": ("a whole number", {(False, True)}),
    "float": ("a number", {(False, True)}),
}
