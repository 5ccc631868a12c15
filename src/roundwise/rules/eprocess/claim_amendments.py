"""What may change while claims are under way, and what each change does to the purses (Proposition 18).

Budget, rounds, split, and who is fed may change at any time without any of this: they enter bets before their results.
"""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.model.estimates import Past
from roundwise.model.problem import Problem
from roundwise.questions.claims import Claims
from roundwise.rules.eprocess.claim_state import ClaimState, claims_of, weights_of
from roundwise.rules.eprocess.claims import ClosedTestingRule


def with_claims(
    rule: ClosedTestingRule, before: Problem, kept: ClaimState, after: Problem, left: Floats | None = None
) -> ClaimState:
    """The purses of a question with more claims at its end, and arms that are new, if there are any, after the others.

    A claim that joins starts with the smallest purse that is open, at most 1, whatever the reason. `left` results are
    still to come. What bounds are made of stays: those of the claims there are go on.
    """
    old, new = claims_of(before), claims_of(after)
    arms, more = old.forms.shape[-1], new.forms.shape[-1]
    same = new.number >= old.number and more >= arms and _ends_agree(old, new)
    first = new.forms[: old.number]
    if not (same and np.array_equal(first[:, :arms], old.forms) and not first[:, arms:].any()):
        raise InputError(
            "Claims are added after those there are, and arms after those there are: keep their order and their levels."
        )
    if not np.array_equal(weights_of(after)[: old.number], weights_of(before)):
        raise InputError("The weights of claims are fixed before the first bet: keep those there are.")
    start = np.minimum(np.where(kept.shown, np.inf, kept.gains).min(axis=-1), 0.0)
    begun = rule.start(after, start.shape)
    sides = len(new.lines.forms) // new.number

    def placed(values: Floats | Bools, others: Floats | Bools) -> Floats:
        found = np.array(others, copy=True).reshape(*start.shape, sides, new.number)
        found[..., : old.number] = values.reshape(*start.shape, sides, old.number)
        return np.asarray(found.reshape(*start.shape, sides * new.number), dtype=np.float64)

    kept = begun._replace(
        gains=placed(kept.gains, begun.gains + start[..., None]),
        shown=placed(kept.shown, begun.shown).astype(np.bool_),
        batch=placed(kept.batch, begun.batch),
        samples=placed(kept.samples, begun.samples),
        past=_widened(kept.past, more),
        taught=None if kept.taught is None else _widened(kept.taught, more),
        over=kept.over,
        rounds=kept.rounds,
        steps=kept.steps,
        tail=None if kept.tail is None else kept.tail.of_arms(more),
        out=None if kept.out is None else _padded(kept.out, new.number) > 0,
    )
    return rule.looked(after, kept, left)


def left_out(
    rule: ClosedTestingRule, problem: Problem, kept: ClaimState, arms: Bools, left: Floats | None = None
) -> ClaimState:
    """Claims about these arms are not fed any more, for whatever reason; their purses stay in rule (R) as they are."""
    out = np.asarray(((claims_of(problem).forms != 0) & arms).any(axis=-1))
    return rule.looked(problem, kept._replace(out=out), left)


def _ends_agree(old: Claims, new: Claims) -> bool:
    """Whether the claims of the old question, first in the new one, say the same on the same terms."""
    if (new.opposites, new.odds, new.independent) != (old.opposites, old.odds, old.independent):
        return False
    before, after = (each.lines.levels.reshape(-1, each.number) for each in (old, new))
    return np.array_equal(before, after[:, : old.number])


def _padded(values: Floats | Bools, number: int) -> Floats:
    """With zeros up to this number at the end."""
    more = np.zeros((*values.shape[:-1], number - values.shape[-1]))
    return np.concatenate([values, more], axis=-1)


def _widened(past: Past, arms: int) -> Past:
    """The past of more arms, of which the last have no results."""

    def padded(values: Floats) -> Floats:
        return _padded(values, arms)

    if arms == past.counts.shape[-1]:
        return past
    if getattr(past, "earlier", None) is not None:
        raise InputError("After this many batches no arm can be added: start a new study.")
    history = tuple((padded(counts), padded(totals)) for counts, totals in past.history)
    return past._replace(
        counts=padded(past.counts),
        totals=padded(past.totals),
        scatter=padded(past.scatter),
        freedom=padded(past.freedom),
        history=history,
        pairs=None if past.pairs is None else _widened_pairs(past.pairs, past.counts.shape[-1], arms),
    )


def _widened_pairs(past: Past, before: int, arms: int) -> Past:
    """The same of every two arms."""

    def padded(values: Floats) -> Floats:
        found = np.zeros((*values.shape[:-1], arms, arms))
        found[..., :before, :before] = values.reshape(*values.shape[:-1], before, before)
        return found.reshape(*values.shape[:-1], arms * arms)

    counts, totals, scatter, freedom = (padded(each) for each in past[:4])
    return Past(counts, totals, scatter, freedom, ())
