"""What endangers the guarantee of a study, and what else should be known: each once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.errors import said as said_where
from roundwise.errors import visible
from roundwise.stopping import exacting
from roundwise.stopping.explained import rule_notes
from roundwise.studies.drift import SURPRISING
from roundwise.studies.guarantee import compares, disagreeing, disagreement_of, emptied
from roundwise.studies.report.model import Arm
from roundwise.studies.report.tables import outside
from roundwise.studies.report.words import capital, count, day, few, rarity, rounds, sentence
from roundwise.studies.results.balance import missing_differs, split_differs, splits_differ
from roundwise.studies.so_far import kind_of
from roundwise.studies.state import State

MOST_REMARKS = 20  # the last ones, word by word


def dangers_of(state: State, arms_out: bool) -> list[str]:
    """What endangers the guarantee; `arms_out` if it is arms that are ruled out, not answers."""
    said = []
    rule = state.settings.policy.stopping
    doubt = rule.doubt(state.settings.problem)
    if doubt is not None:
        said.append(sentence(capital(doubt)))
    for each in state.amendments:
        what = "withdrawn" if each["withdrawn"] else "corrected"
        said.append(
            f"{each['name']} of round {each['batch']} was {what}: {each['why']}. The guarantee holds if this had "
            "nothing to do with what the results were; it is void if they were corrected because of what they showed."
        )
    for each in state.short:
        said.append(
            f"Round {each['batch']} was closed early: {each['missing']} of {each['asked']} results never came "
            f"({each['why']}). The guarantee holds if what is missing has nothing to do with its values."
        )
    if state.contradicted:
        said.append(
            f"Files that came later say something else than what was recorded (ids: {count(state.contradicted)}). What "
            "was recorded stands and counts. If results were told before they were final, the guarantee is about what "
            f"they were then; {said_where('`study.amend`', '`roundwise amend`')} corrects them, and the notes below "
            "say which they are."
        )
    if emptied(state):
        said.append(
            f"Every {'arm' if arms_out else 'answer'} has been ruled out, which happens to the right one with "
            "at most the error probability if what is assumed holds: look at what is assumed, at rows that depend on "
            "each other, and at results that were chosen by their values."
        )
    return said + _lost(state) + _split(state) + _disagreement(state)


def _lost(state: State) -> list[str]:
    """That arms differ in what is missing, by more than chance, if they do."""
    if not any(state.lost.values()):
        return []
    missing = np.array([float(state.lost.get(name, 0)) for name in state.settings.arms])
    chance = missing_differs(state.record.counts, missing)
    if chance >= SURPRISING:
        return []
    shares = missing / np.maximum(state.record.counts + missing, 1.0)
    most = state.settings.arms[int(shares.argmax())]
    return [
        f"The arms differ in how many outcomes are missing as chance does once in {rarity(chance)} "
        f"studies, {most} most of all: what is missing may well depend on the arm, and then comparisons are biased."
    ]


def _split(state: State) -> list[str]:
    """That the results are split otherwise than was asked, by more than chance, if they are (sample-ratio mismatch).

    Only where a round is a number of results, so that their split is left to chance.
    """
    settings = state.settings
    if not settings.by_number or state.changes:
        return []
    lost = np.array([float(state.so_far.lost.get(name, 0)) for name in settings.arms])
    came = state.trial.record.counts + lost
    if settings.split is not None:
        wanted = np.array(settings.split)
        chance = split_differs(wanted, came)
    else:
        rounds = [] if state.whole is not None else [each for each in state.recent if each.counted]
        wanted = sum((each.pulls for each in rounds), np.zeros(len(came)))
        chance = splits_differ([(each.pulls, each.counts + each.lost) for each in rounds])
    if chance >= SURPRISING:
        return []
    expected = came.sum() * wanted / wanted.sum()
    off = (came - expected) / np.sqrt(np.maximum(expected, 1.0))
    arm = int(np.abs(off).argmax())
    return [
        f"The results are split among the arms otherwise than was asked, as chance does once in "
        f"{rarity(chance)} studies: {settings.arms[arm]} has {count(came[arm])}, where "
        f"{count(round(float(expected[arm])))} were to be expected. Look for what assigns, loses or filters results by "
        "arm: if that has to do with their values, comparisons are biased."
    ]


def notes_of(state: State, arms: Sequence[Arm]) -> list[str]:
    """What should be known besides."""
    said = []
    policy = state.settings.policy
    if exacting(policy.stopping):
        said.append(
            f"{policy.name} stops by a rule of its own, which needs every round just as it was planned: "
            "with less or more than that the study ends undecided."
        )
    said += _happened(state)
    said += rule_notes(policy.stopping, state.settings.problem, state.trial)
    said += _moved(state)
    strange = [each.name for each in arms if outside(each)]
    if strange:
        said.append(
            f"* The mean of {few(strange)} lies outside its own bounds: a mean counts all results alike, the bounds "
            "come from the bets of the decision, round by round."
        )
    if state.settings.noise.needs == "rows" and state.sums_only:
        said.append("Some results came as sums only: for those the range alone is used, which needs more results.")
    if state.later:
        came = count(sum(float(each.counts.sum()) for _, each in state.later))
        said.append(f"{came} results came after the decision: they enter means and bounds, and the verdict stands.")
    every = [*state.notes, *(note for _, each in state.later for note in each.notes)]
    return said + gathered([(note.partition(":")[0], note) for note in every])


def _happened(state: State) -> list[str]:
    """What was changed in the study, and what people remarked: each once, in their words."""
    said = []
    for each in state.changes:
        when = f"after round {each.after}" if each.after else "before the first round"
        why = f": {visible(each.why.strip(), 300)}" if each.why.strip() else ""
        said.append(sentence(f"{each.arm} was {'left out' if each.kind == 'dropped' else 'added'} {when}{why}"))
    before, now = state.first.budget, state.settings.budget
    if before is not None and now is not None and before != now:
        said.append(f"The budget was {count(before)} results at first, and is {count(now)} now.")
    for remark in state.remarks[-MOST_REMARKS:]:
        by, text = visible(str(remark["by"])), visible(remark["text"].strip(), 500)
        said.append(f"Remark of {by}, {day(remark['at'])}: {text}")
    if len(state.remarks) > MOST_REMARKS:
        said.append(f"{count(len(state.remarks) - MOST_REMARKS)} earlier remarks are in the record.")
    return said


def gathered(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Notes on files, each kind once: with the last file, its numbers, and how many others it is true of.

    >>> gathered([("a.csv", "a.csv: not used: 'x'."), ("b.csv", "b.csv: not used: 'x'."), ("b.csv", "b.csv was cut.")])
    ["b.csv and 1 other file: not used: 'x'.", 'b.csv was cut.']
    >>> gathered([(f"{day}.csv", f"{day}.csv: {day}0 rows were recorded before.") for day in (1, 2, 3)])
    ['3.csv: 30 rows were recorded before; likewise 2 other files.']
    """
    kinds: dict[str, list[tuple[str, str]]] = {}
    for file, note in notes:
        said = note.removeprefix(file)
        kinds.setdefault(kind_of(said), []).append((file, said))
    found = []
    for every in kinds.values():
        file, said = every[-1]
        others = len({name for name, _ in every} - {file})
        files = f"{count(others)} other file{'s' if others > 1 else ''}"
        if not others:
            found.append(f"{file}{said}" if said[:1] in ":, " else said)
        elif len({each for _, each in every}) > 1:
            found.append(f"{file}{said}".removesuffix(".") + f"; likewise {files}.")
        else:
            found.append(f"{file} and {files}{said}" if said[:1] in ":, " else said)
    return found


def _moved(state: State) -> list[str]:
    """That all arms moved together, where that does not matter to the decision."""
    if disagreeing(state) is not None or not compares(state):
        return []
    moved = disagreement_of(state, False)
    if moved is None or moved.chance >= SURPRISING:
        return []
    return [
        "All arms moved together between rounds (a season, another grader). The decision compares arms within "
        "rounds, so it does not mind; means and their intervals mix the rounds and do not hold."
    ]


def _disagreement(state: State) -> list[str]:
    """That the rounds differ by more than chance allows, if they do."""
    found = disagreeing(state)
    if found is None:
        return []
    settings, shifts = state.settings, compares(state)
    beyond = ", beyond a shift of all arms together," if shifts else ""
    return [
        f"The rounds do not agree: the means of the same arm differ between rounds{beyond} as chance does once in "
        f"{rarity(found.chance)} studies, {settings.arms[found.arm]} in round "
        f"{found.batch} most of all. If something other than chance moved "
        f"{'single arms' if shifts else 'the results'}, or rows depend on each other (several of one user), the "
        "guarantee does not hold."
    ]


def conclusion_of(words: str | None, open_words: str) -> str:
    """What the study concluded, to be read inside a sentence."""
    return f"the study concluded that {words}" if words is not None else f"the study has not concluded ({open_words})"


def extent(results: int, arms: int, number_of_rounds: int) -> str:
    """With how much a study concluded."""
    return f"With {results} results of {arms} arms in {rounds(number_of_rounds)}"
