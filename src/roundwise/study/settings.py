"""What is fixed when a study is created."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roundwise.arrays import Plain
from roundwise.contract import check_classes
from roundwise.errors import InputError, said
from roundwise.ingest.columns import NAMELESS, Columns
from roundwise.model.problem import Problem, check_whole_number
from roundwise.model.spec import from_spec, to_spec
from roundwise.noise import Noise
from roundwise.policies import POLICIES, Policy, Rounds, limited
from roundwise.policies.base import limits_of
from roundwise.policies.limited import Limited, without_limits
from roundwise.questions import Question


@dataclass(frozen=True)
class Settings:
    """A question asked of named arms, under a noise model, at a level delta, with a policy."""

    question: Question
    arms: tuple[str, ...]
    noise: Noise
    delta: float
    policy: Policy  # with its limits
    seed: int  # drawn when the study is created; deals the rows of the first batch into parts
    budget: int | None = None  # results after which nothing more is asked for
    round: int | None = None  # results that make a batch, whatever the split
    split: tuple[float, ...] | None = None  # shares of the arms in every batch
    left_out: tuple[str, ...] = ()  # arms that are no longer asked for, although claims speak of them
    columns: Columns = NAMELESS  # what the columns of its files are called
    seed_given: bool = False  # the seed was chosen, not drawn, so it is known beforehand how rows will be dealt

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("round", self.round)):
            if value is not None:
                check_whole_number(name, value, 1)
        check_whole_number("seed", self.seed, 0)
        self.acting.check(self.problem)

    @property
    def acting(self) -> Policy:
        """The policy within budget, round and split."""
        if self.budget is None and self.round is None and self.split is None:
            return self.policy
        return Rounds(self.policy, self.budget, self.round, self.split)

    @property
    def alone(self) -> Settings:
        """The same as if every arm had items of its own: forecasts are made for that."""
        return replace(self, noise=self.noise.without_items())

    @property
    def towards_a_budget(self) -> bool:
        """Whether every batch is bet on as a whole, as claims are within a budget, unless they are multiplied."""
        multiplied = getattr(self.question, "independent", False)
        return self.budget is not None and self.policy.stopping.uses_budget and not multiplied

    @property
    def by_number(self) -> bool:
        """Whether a batch is a number of results, whatever their split."""
        return self.round is not None or self.split is not None

    def check_kept(self) -> None:
        """Raise an InputError unless the same study can be made again from what is recorded of it."""
        again = Settings.from_payload(self.payload())
        if again.policy != self.policy:
            raise InputError(
                f"The policy '{self.policy.name}' has settings that cannot be recorded. "
                f"Use one of {', '.join(POLICIES)}, or one of your own, with its usual stopping rule or a threshold."
            )
        if again.payload() != self.payload():
            raise InputError(
                "The question or the noise model comes out otherwise when it is made again from its fields."
            )

    def check_classes(self) -> None:
        """Raise an InputError where a class of the user's own returns what it must not."""
        check_classes(self.problem, self.policy)

    def check_limits(self) -> None:
        """Raise an InputError where rounds of a fixed size, split or budget go beyond limits that are said as well."""
        most, least = limits_of(self.policy)
        pulls = self.acting.first(self.problem, ()).pulls
        size, fewest = int(pulls.sum()), int(pulls[pulls > 0].min(initial=math.inf) if least else 0)
        fixed = said("`round`, `split` and `budget`", "--round, --split and --budget")
        if most is not None and size > most:
            limit, other = said("`max_batch`", "--max-batch"), said("`round`", "--round")
            raise InputError(
                f"{limit} is {most:g}, but {fixed} make a first round of {size} results (of claims with a budget a "
                f"tenth of it). Give {other} {most:g} in place of {limit}."
            )
        if fewest < least:
            limit = said("`min_per_arm`", "--min-per-arm")
            raise InputError(
                f"{limit} is {least:g}, but {fixed} leave an arm {fewest} results in the first round. Give larger "
                f"ones, or leave {limit} out."
            )

    @property
    def problem(self) -> Problem:
        """The problem in arrays."""
        return Problem(self.question, len(self.arms), self.delta, self.noise)

    def payload(self) -> Plain:
        """The settings as JSON."""
        inner, around = without_limits(self.policy)
        limits = {} if around is None else {"max_batch": around.max_batch, "min_per_arm": around.min_per_arm}
        return {
            "question": to_spec(self.question),
            "arms": list(self.arms),
            "noise": to_spec(self.noise),
            "delta": self.delta,
            "policy": to_spec(inner),
            "limits": limits,
            "seed": self.seed,
            **({} if self.budget is None else {"budget": self.budget}),
            **({} if self.round is None else {"round": self.round}),
            **({} if self.split is None else {"split": list(self.split)}),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
            **({"columns": self.columns.payload()} if self.columns != NAMELESS else {}),
            **({"seed_given": True} if self.seed_given else {}),
        }

    @classmethod
    def from_payload(cls, payload: Plain) -> Settings:
        """The settings that `payload` was made of."""
        policy = from_spec("policy", payload["policy"])
        if payload["limits"]:
            policy = Limited(policy, **payload["limits"])
        return cls(
            from_spec("question", payload["question"]),
            tuple(payload["arms"]),
            from_spec("noise", payload["noise"]),
            float(payload["delta"]),
            policy,
            int(payload["seed"]),
            payload.get("budget"),
            payload.get("round"),
            None if payload.get("split") is None else tuple(float(each) for each in payload["split"]),
            tuple(payload.get("left_out", ())),
            Columns.from_payload(payload.get("columns", {})),
            bool(payload.get("seed_given", False)),
        )


def within_limits(policy: Policy, max_batch: float | None, min_per_arm: float) -> Policy:
    """The policy with limits on its batches: Wager sizes its batches for them, others are pulled in parts."""
    if max_batch is None and not min_per_arm:
        return policy
    most, least = (_plain(each) for each in (max_batch, min_per_arm))
    if least is None or not math.isfinite(least):
        raise InputError(f"`min_per_arm` is {least}, but must be a finite number.")
    return limited.within_limits(policy, most, least)


def _plain(number: float | None) -> float | None:
    """A number as JSON has it, whole if it is."""
    return number if number is None or not float(number).is_integer() else int(number)


def arm_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of arms, trimmed and checked: at least two, none empty, no two the same."""
    if isinstance(names, str):
        raise InputError(f"The arms are given as one text, '{names[:40]}'. Give a list of names.")
    trimmed = tuple(str(name).strip() for name in names)
    if len(trimmed) < 2:
        example = said('arms=["a", "b", "c"]', "--arms a,b,c")
        raise InputError(f"A study needs at least two arms; found {len(trimmed)}. Name them, for example {example}.")
    if not all(trimmed):
        raise InputError("An arm has no name. Give every arm a name of its own.")
    for name in trimmed:
        if not name.isprintable():
            raise InputError(f"The name of the arm {name!r} has letters that cannot be printed. Give it another name.")
    seen: set[str] = set()
    for name in trimmed:
        if name in seen:
            raise InputError(f"There are two arms called '{name}'. Give every arm a name of its own.")
        seen.add(name)
    return trimmed
