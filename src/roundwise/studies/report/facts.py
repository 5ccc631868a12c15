"""What there is to say about a study."""

from __future__ import annotations

import math
from shlex import quote
from typing import Any

import numpy as np

from roundwise._version import __version__
from roundwise.stopping import Claim, exacting, explained
from roundwise.studies.drift import SURPRISING
from roundwise.studies.guarantee import (
    Guarantee,
    compares,
    disagreeing,
    disagreement_of,
    emptied,
    guarantee_of,
    standing,
)
from roundwise.studies.report.report import Arm, Report
from roundwise.studies.report.words import batches, clause, ends, number, sentence
from roundwise.studies.state import State

MANY = 1000  # arms up to which intervals are computed
MANY_CLAIMS = 10_000  # claims up to which it is computed by how much they hold


def report_of(state: State, intervals: bool) -> Report:
    """The report of a study; `intervals` takes up to a few seconds."""
    settings, trial = state.settings, state.trial
    record, name = trial.record, quote(state.name)
    verdict = state.decided or state.verdict()
    status = "decided" if verdict is not None else "undecided" if state.closed is None else "closed"
    outstanding = state.outstanding
    missing = {} if outstanding is None else _by_name(settings.arms, outstanding.outstanding)
    claimed = explained(settings.policy.stopping).claims(settings.problem, trial, settings.arms)
    shown, arms = _bounds(state, claimed, intervals)
    open_answers = _open(state, shown)
    guarantee = guarantee_of(state)
    why = "" if state.over is None else f" ({state.over})"
    headline = verdict["words"] if verdict is not None else f"undecided{why}; {open_answers}"
    if state.closed is not None and verdict is None:
        headline = f"closed undecided ({state.closed}); {open_answers}"
    return Report(
        state.name,
        settings.question.name,
        status,
        None if verdict is None else verdict["answer"],
        headline,
        settings.delta,
        int(record.samples),
        int(record.batches),
        missing,
        arms,
        shown,
        settings.noise.words,
        getattr(settings.question, "level", None),
        ends(settings.delta, standing(state).agrees),
        _warnings(state, shown),
        str(guarantee),
        _sentence(state, verdict, open_answers, guarantee),
        _next(state, verdict),
        f"roundwise export {name} --out record.jsonl\nroundwise import record.jsonl --storage sqlite:///copy.db\n"
        f"roundwise verify {name} --storage sqlite:///copy.db",
        __version__,
    )


def _bounds(state: State, shown: list[Claim], intervals: bool) -> tuple[list[Claim], list[Arm]]:
    """What is claimed, with what is to spare, and the arms with their bounds: the bets are folded once."""
    settings, record, verdict = state.settings, state.record, state.decided or state.verdict()
    lower = upper = best = least = most = unknown = np.full(len(settings.arms), np.nan)
    if intervals and state.batches:
        found = explained(settings.policy.stopping).bounds(settings.problem, record, state.batches)
        spare = found.spare() if len(shown) <= MANY_CLAIMS else None
        if spare is not None:
            shown = [each._replace(spare=_known(one)) for each, one in zip(shown, spare, strict=True)]
        if len(settings.arms) <= MANY:
            lower, upper = found.means()
            leader = None if verdict is None else verdict["answer"]
            if spare is not None and (behind := found.behind(leader, spare)) is not None:
                best, least, most = (unknown if each is None else each for each in behind)
    return shown, [
        Arm(name, int(n), float(mean) if n else None, *map(_known, others))
        for name, n, mean, *others in zip(
            settings.arms, record.counts, record.means, lower, upper, best, least, most, strict=True
        )
    ]


def _open(state: State, shown: list[Claim]) -> str:
    """What has not been ruled out."""
    settings = state.settings
    if _of_arms(shown):
        left = [str(each.left) for each in shown if not each.shown]
        if len(left) == len(shown):
            return "any arm may be the best"
        return f"may still be the best: {', '.join(left[:20])}{', ...' if len(left) > 20 else ''}"
    if not state.trial.record.samples:
        return "no results yet"
    waiting = [each.words for each in shown if not each.shown]
    if waiting:
        return f"still to be shown: {'; '.join(waiting[:6])}{'; ...' if len(waiting) > 6 else ''}"
    if state.over is not None:
        return "nothing has been ruled out"
    return f"{settings.policy.name} has its own times at which it decides"


def _of_arms(shown: list[Claim]) -> bool:
    """Whether what is shown rules out arms, one by one."""
    return bool(shown) and shown[0].left is not None


def _warnings(state: State, shown: list[Claim]) -> list[str]:
    """What endangers the guarantee, or should be known."""
    said = []
    rule = state.settings.policy.stopping
    doubt = rule.doubt(state.settings.problem)
    if doubt is not None:
        said.append(sentence(doubt))
    if exacting(rule):
        said.append(
            f"{state.settings.policy.name} stops by a rule of its own, which needs every batch just as it was planned: "
            "with less or more than that the study ends undecided."
        )
    for each in state.amendments:
        what = "withdrawn" if each["withdrawn"] else "corrected"
        said.append(
            f"{each['name']} of batch {each['batch']} was {what}: {each['why']}. The guarantee holds if this had "
            "nothing to do with what the results were; it is void if they were corrected because of what they showed."
        )
    for each in state.short:
        said.append(
            f"Batch {each['batch']} was closed early: {each['missing']} of {each['asked']} results never came "
            f"({each['why']}). The guarantee holds if what is missing has nothing to do with its values."
        )
    if emptied(state):
        said.append(
            f"Every {'arm' if _of_arms(shown) else 'answer'} has been ruled out, which happens to the right one with "
            "at most the error probability if what is assumed holds: look at what is assumed, at rows that depend on "
            "each other, and at results that were chosen by their values."
        )
    said += _disagreement(state)
    needs = state.settings.noise.needs
    if needs == "rows" and state.sums_only:
        said.append("Some results came as sums only: for those the range alone is used, which needs more samples.")
    if state.later:
        came = int(sum(float(each.counts.sum()) for _, each in state.later))
        said.append(f"{came} results came after the decision: they enter means and bounds, and the verdict stands.")
    return [*said, *state.notes]


def _disagreement(state: State) -> list[str]:
    """That the batches differ by more than chance allows, if they do."""
    settings, shifts = state.settings, compares(state)
    found = disagreeing(state)
    if found is None:
        moved = disagreement_of(state, False) if shifts else None
        if moved is None or moved.chance >= SURPRISING:
            return []
        return [
            "All arms moved together between batches (a season, another grader). The decision compares arms within "
            "batches, so it does not mind; means and their intervals mix the batches and do not hold."
        ]
    beyond = ", beyond a shift of all arms together," if shifts else ""
    return [
        f"The batches do not agree: the means of the same arm differ between batches{beyond} as chance does once in "
        f"{number(1 / max(found.chance, 1e-99))} studies, {settings.arms[found.arm]} in batch "
        f"{found.batch} most of all. If something other than chance moved "
        f"{'single arms' if shifts else 'the results'}, or rows depend on each other (several of one user), the "
        "guarantee does not hold."
    ]


def _sentence(state: State, verdict: dict[str, Any] | None, open_answers: str, guarantee: Guarantee) -> str:
    """For a protocol or a paper."""
    settings, record = state.settings, state.trial.record
    what = (
        f"the study concluded that {verdict['words']}"
        if verdict is not None
        else f"the study has not concluded ({open_answers})"
    )
    promise = (
        f"the probability of a wrong conclusion is at most {settings.delta:g} at any number of batches, assuming that "
        f"{clause(settings.noise.words)}"
    )
    if guarantee.reasons:
        promise = f"an error probability of {settings.delta:g} was aimed at, but is not guaranteed"
    elif guarantee.conditions:
        promise += f", provided that {guarantee.provided}"
    return (
        f"With {int(record.samples)} results of {len(settings.arms)} arms in {batches(int(record.batches))}, "
        f"allocated by {settings.policy.name} (roundwise {__version__}), {what}; {promise}."
    )


def _next(state: State, verdict: dict[str, Any] | None) -> str:
    name = quote(state.name)
    if verdict is not None:
        return f"`roundwise report {name} --out report.html` makes a report to keep."
    if state.closed is not None:
        return f"`roundwise report {name} --out report.html` makes a report to keep; the study is closed."
    waiting = state.outstanding
    if exacting(state.settings.policy.stopping) and state.over is not None:
        return (
            f"`roundwise report {name} --out report.html` makes a report to keep; a new study with --policy wager "
            "takes batches of any size."
        )
    if state.over is not None:
        return f"`roundwise report {name} --out report.html` makes a report to keep; what is open was not ruled out."
    if waiting is None:
        return f"`roundwise ask {name}` says what to do next."
    if waiting.files:
        return (
            f"batch {waiting.number} lacks {int(waiting.outstanding.sum())} results: tell them with "
            f"`roundwise tell {name} FILE`, or `roundwise tell {name} --round-over REASON` if they will not come."
        )
    return f"do batch {waiting.number}, then `roundwise tell {name} FILE`."


def _by_name(names: tuple[str, ...], values: Any) -> dict[str, int]:
    return {name: int(value) for name, value in zip(names, values, strict=True) if value > 0}


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
