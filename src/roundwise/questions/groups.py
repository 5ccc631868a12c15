"""Which group has the best arm? An answer is right on a union of cells "arm i is the best", one for each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, quiet
from roundwise.errors import InputError
from roundwise.questions.base import PLAIN_WORDING, Answer, Question, Wording, column, easier_complexity, finite
from roundwise.questions.best_arm import complexity_of_gaps, cost_of_leading
from roundwise.questions.forms import count_and_list, set_fields
from roundwise.solvers import divergence
from roundwise.solvers.halfspaces import Complexity, Family, pairs


@dataclass(frozen=True)
class BestGroup(Question):
    """Which group has the arm with the largest mean, or the smallest if `lower_is_better`? The answer is its index.

    One arm that beats every arm of all other groups is enough: the best arm within the group need not be known.

    Args:
        groups: The name of the group of each arm.
        lower_is_better: Whether the smallest mean is sought.

    >>> question = BestGroup(("new", "new", "old"))
    >>> int(question.answer([1.0, 0.9, 0.8]))
    0
    >>> [float(x.round(6)) for x in question.complexity([1.0, 1.0, 0.0]).weights]
    [0.5, 0.0, 0.5]
    """

    groups: tuple[str, ...]
    lower_is_better: bool = False
    name = "best-group"
    needs_one_sigma = True

    def __post_init__(self) -> None:
        groups = tuple(str(each) for each in self.groups)
        if not all(each.strip() for each in groups):
            raise InputError("Every group needs a name.")
        names = tuple(dict.fromkeys(groups))
        if len(names) < 2:
            raise InputError("'best-group' compares groups of arms: give at least two.")
        set_fields(self, groups=groups, names=names)

    @cached_property
    def group_of_arm(self) -> NDArray[np.intp]:
        """The index of the group of each arm. (K)"""
        return np.array([self.names.index(each) for each in self.groups])

    def in_group(self, group: ArrayLike) -> Bools:
        """Which arms are in the group. ()->(K)"""
        return np.asarray(self.group_of_arm == np.asarray(group)[..., None])

    def check(self, arms: int) -> None:
        if len(self.groups) != arms:
            raise InputError(f"The question has groups for {len(self.groups)} arms, but there are {arms} arms.")

    def answer(self, means: ArrayLike) -> Answer:
        """The group of the best arm; the first one in a tie."""
        return self.group_of_arm[self._merits(means).argmax(axis=-1)]

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min over b outside and over x of [sum_a N_a (mu_a - x)_+^2 + N_b (x - mu_b)_+^2] / (2 sigma^2).

        Arms a of the group that exceed b must be moved to one value x with it (docs/paper.md).
        """
        merits, pulls = np.broadcast_arrays(self._merits(means), np.asarray(counts, dtype=np.float64))
        mine = self.in_group(self.group_of_arm[merits.argmax(axis=-1)])
        inside = np.where(mine, merits, -np.inf)
        order = np.argsort(-inside, axis=-1, kind="stable")
        own, high = (np.take_along_axis(each, order, axis=-1) for each in (pulls, inside))
        least = np.full(merits.shape[:-1], np.inf)
        for b in range(merits.shape[-1]):
            cost = cost_of_leading(pulls[..., b], merits[..., b], own, high)
            least = np.where(mine[..., b], least, np.minimum(least, cost))
        return np.asarray(least / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w* of the group's best arm against the arms of all other groups (docs/paper.md).

        A sample of another arm of the group never helps as much as one of the best. Over a ball all gaps shrink by
        twice the radius, as for the best arm.
        """
        merits = self._merits(means)
        mine = self.in_group(self.answer(means))
        leads = np.arange(merits.shape[-1]) == merits.argmax(axis=-1)[..., None]
        gaps = np.where(mine, np.inf, merits.max(axis=-1, keepdims=True) - merits - 2 * column(radius))
        leads, possible = np.broadcast_to(leads, gaps.shape), np.ones(gaps.shape[:-1], dtype=np.bool_)
        return complexity_of_gaps(gaps, leads, possible, sigma)

    def family_complexity(self, means: ArrayLike, family: Family) -> Complexity:
        values = family.clip_means(finite(means))
        self.check(values.shape[-1])
        leader = self.merits(values).argmax(axis=-1)
        found = self.group_of_arm[leader]
        best = Complexity(np.full(found.shape, np.inf), np.full(values.shape, 1.0 / values.shape[-1]))
        for group in range(len(self.names)):
            right = np.asarray(found == group)
            others = np.flatnonzero(self.group_of_arm != group)
            first = np.broadcast_to(leader[..., None], (*leader.shape, len(others)))
            second = np.broadcast_to(others, first.shape)
            pieces = pairs(second, first) if self.lower_is_better else pairs(first, second)
            if right.any():
                best = easier_complexity(best, divergence.family_complexity(pieces, values, family, right))
        return best

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"{self.names[int(answer)]} has the best arm"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        end = "lowest" if self.lower_is_better else "highest"
        return f"Which of {count_and_list(self.names, 'group')} has the arm with the {end} {wording.mean}?"

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        return means + self.sign * np.where(np.arange(means.size) == 0, lead, 0.0)

    def lead_patterns(self, arms: int) -> Floats:
        """One pattern for each arm that may be the best."""
        return self.sign * np.eye(arms)

    def cli_options(self, names: Sequence[str]) -> list[str]:
        members = [
            f"{group}={','.join(names[int(i)] for i in np.flatnonzero(self.in_group(g)))}"
            for g, group in enumerate(self.names)
        ]
        return ["--groups", ";".join(members), *self.direction_options()]

    def _merits(self, means: ArrayLike) -> Floats:
        values = finite(means)
        self.check(values.shape[-1])
        return self.merits(values)
