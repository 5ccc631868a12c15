"""What must be shown, one line each: how much was won for it and how much it needs. This is the stopping rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.betting.above import AboveLedger
from roundwise.betting.best_arm import BestArmLedger
from roundwise.betting.candidates import CandidateLedger
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.rule import Betting, ledger_of
from roundwise.problem import Problem
from roundwise.questions import Largest, Statements
from roundwise.state import Trial
from roundwise.stopping.glr import GLR


class Claim(NamedTuple):
    """Something that must be shown: in logs, what was won for it and the bar it must pass."""

    words: str
    evidence: float
    bar: float
    shown: bool
    spare: float | None = None  # by how much it holds, at least, where that was computed


def claims(problem: Problem, rule: object, trial: Trial, names: Sequence[str]) -> list[Claim]:
    """The claims of a trial of one run."""
    if isinstance(rule, GLR):
        record = trial.record
        evidence = float(problem.question.evidence(record.counts, record.means, problem.sigma))
        bar = float(rule.threshold.value(problem, record.counts))
        answer = problem.question.words(problem.question.answer(record.means), names)
        return [Claim(f"{answer}, against every other answer", evidence, bar, evidence > bar)]
    if not isinstance(rule, Betting):
        return []
    ledger, won, goal = ledger_of(problem), trial.kept.won, problem.goal
    if isinstance(ledger, BestArmLedger):
        return [
            Claim(f"{name} is not the best", float(gain), goal, bool(lost))
            for name, gain, lost in zip(names, won.gains, won.lost, strict=True)
        ]
    if isinstance(ledger, AboveLedger):
        level = f"{ledger.level:g}"
        return [
            Claim(
                f"{name} is {'above' if side else 'below'} {level}",
                float(max(gain, goal) if settled else gain),
                goal,
                bool(settled),
            )
            for name, side, gain, settled in zip(
                names, *ledger.claimed(won, trial.kept.choice), won.settled, strict=True
            )
        ]
    if isinstance(ledger, ExtremeLedger):
        beyond = f"{'above' if ledger.beyond_is_above else 'below'} {ledger.level:g}"
        some = Claim(f"some mean is {beyond}", float(won.none), goal, bool(won.none_lost))
        return [
            some,
            *(
                Claim(f"{name} is not {beyond}", float(gain), goal, bool(lost))
                for name, gain, lost in zip(names, won.arms, won.arms_lost, strict=True)
            ),
        ]
    assert isinstance(ledger, CandidateLedger)
    return _candidate_claims(problem, ledger, trial, names)


def _candidate_claims(problem: Problem, ledger: CandidateLedger, trial: Trial, names: Sequence[str]) -> list[Claim]:
    """What makes the candidate right: the one that won, once there is one, else that of the estimates."""
    won, choice = trial.kept.won, trial.kept.choice
    number = ledger.number(won, choice)
    answer = choice.answer if number == choice.number else won.answers[number]
    visited = number < won.gains.shape[-2]
    gains = won.gains[number] if visited else np.zeros(won.gains.shape[-1])
    lost = won.lost[number] if visited else np.zeros(won.gains.shape[-1], dtype=np.bool_)
    bar = float(ledger.goal(problem, choice._replace(number=np.asarray(number))))
    return [
        Claim(words, float(gain), bar, bool(out))
        for words, gain, out in zip(_piece_words(problem, answer, names), gains, lost, strict=True)
    ]


def _piece_words(problem: Problem, numbers: Floats, names: Sequence[str]) -> list[str]:
    """What each piece of an answer says; the answer as numbers, as the ledger keeps it."""
    question = problem.question
    if isinstance(question, Statements):
        return [f"{name}: {'yes' if holds else 'no'}" for name, holds in zip(question.names, numbers, strict=True)]
    if isinstance(question, Largest):
        best = int(numbers[0])
        return [f"{question.names[best]} exceeds {name}" for i, name in enumerate(question.names) if i != best]
    like = question.answer(np.zeros(problem.arms))
    pieces = question.halfspaces(numbers.reshape(like.shape).astype(like.dtype), problem.arms)
    slack = [f" (or is within {-offset:g})" if offset < 0 else "" for offset in pieces.offsets]
    return [f"{names[int(a)]} beats {names[int(b)]}{near}" for (a, b), near in zip(pieces.arms, slack, strict=True)]
