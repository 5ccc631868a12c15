"""Whether the promise of a study stands, after everything that happened in it: this is its only home.

"kept"; "conditional on the assumption that ..." with everything that must be true and cannot be seen in the record; or
"void because ..." with every reason. What is assumed of the noise is said beside it, and is not a condition here. What
endangers it, and what else should be known, are sentences of a report, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.errors import said as said_where
from roundwise.errors import visible
from roundwise.formats.messages import quoted, spoken
from roundwise.ingest import Repeats
from roundwise.noise.refutation import FALSE_ALARM
from roundwise.questions.besides import one_by_one
from roundwise.report.wording import capital, count, day, few, rarity, sentence, several
from roundwise.rules.base import TrialStatus
from roundwise.study.diagnostics import SURPRISING, Disagreement, Splits, differs, missing_differs, split_differs
from roundwise.study.state import State
from roundwise.study.summary import Surplus, kind_of, with_split

KEPT = "kept"
CONDITIONAL = "conditional on the assumption that "
VOID = "void because "
NONE = "no guarantee: "  # how rules say it
MOST_REMARKS = 20  # the last ones, word by word


@dataclass(frozen=True)
class Guarantee:
    """What must be true for the guarantee to hold, beside what is assumed of the noise, and what voids it."""

    conditions: tuple[str, ...] = ()  # each to be read after "that"
    reasons: tuple[str, ...] = ()  # each to be read after "because"

    def __str__(self) -> str:
        """As it stands in JSON.

        >>> str(Guarantee(("a holds", "b holds")))
        'conditional on the assumption that a holds; and that b holds'
        >>> str(Guarantee(("a holds",), ("c failed",)))
        'void because c failed'
        """
        if self.reasons:
            return VOID + "; and because ".join(self.reasons)
        return CONDITIONAL + self.provided if self.conditions else KEPT

    @property
    def provided(self) -> str:
        """All conditions, to be read after "that"."""
        return "; and that ".join(self.conditions)


def guarantee_mark(guarantee: str) -> str:
    """What became of a guarantee in one word for a list, nothing if it was kept.

    >>> guarantee_mark("kept"), guarantee_mark("conditional on the assumption that a holds"), guarantee_mark("void")
    ('', 'conditional', 'void')
    """
    return "" if guarantee == KEPT else "conditional" if guarantee.startswith(CONDITIONAL) else "void"


def guarantee_of(state: State) -> Guarantee:
    """What became of the guarantee of a study."""
    doubt = state.settings.policy.stopping.doubt(state.settings.problem)
    reasons = [] if doubt is None or doubt.startswith(CONDITIONAL) else [doubt.removeprefix(NONE)]
    if state.decided is not None and not state.trial.done:
        reasons.append("the answer that was recorded does not follow from what was counted")
    if standing(state).all_rejected:
        reasons.append(
            "all answers have been ruled out, which happens with at most the error probability if what is assumed "
            "holds, so it can hardly hold"
        )
    refuted = refutation_of(state)
    if refuted is not None:
        reasons.append(f"the results refute what is assumed of them: {refuted}")
    conditions = [] if doubt is None or not doubt.startswith(CONDITIONAL) else [doubt.removeprefix(CONDITIONAL)]
    conditions += missing(state)
    for entry in state.amendments:
        what = "withdrawal" if entry["withdrawn"] else "correction"
        conditions.append(
            f"the {what} of {entry['name']} in round {entry['batch']} has nothing to do with what results showed"
        )
    if state.contradicted:
        ids = "1 id" if state.contradicted == 1 else f"{state.contradicted} ids"
        conditions.append(f"what was recorded of {ids} is right, although later files say otherwise")
    for change in state.changes:
        if change.unrelated:
            what = "left out" if change.kind == "dropped" else "added"
            conditions.append(f"{change.arm} was {what} for a reason that has nothing to do with any result")
    if state.so_far.refolded:
        conditions.append("the rules by which earlier rounds were counted anew were not chosen because of them")
    if state.shares_items and not state.settings.noise.shares_items:
        conditions.append("results of different arms on the same item have nothing to do with each other")
    conditions += [_repeats(each) for each in state.repeats]
    if surplus := _surplus(state):
        conditions.append(
            f"the {count(surplus.added)} results beyond what was asked for that were told after others of the same "
            f"round ({_where(surplus)}) were not added because of what those showed"
        )
    if state.settings.seed_given and state.deals_rows:
        conditions.append(
            "the order of the rows has nothing to do with their values, because the seed that deals them into parts "
            "was chosen, not drawn"
        )
    if disagreeing(state) is not None:
        conditions.append("the rounds differ from each other by chance")
    if refuted is None and not means_hold(state):
        conditions.append("what moved between rounds moved all arms alike")
    return Guarantee(tuple(conditions), tuple(reasons))


def _repeats(found: Repeats) -> str:
    """What must be true of rows that share an identifier, to be read after "that"."""
    about = "" if found.exact else "about "
    arms = f", {count(found.several)} of them in several arms" if found.several else ""
    return (
        f"rows with the same {quoted(found.title)} are independent of each other ({about}{count(found.repeated)} of "
        f"{count(found.values)} values have several rows{arms})"
    )


def _surplus(state: State) -> Surplus | None:
    """Results that may have been added after looking; None without any, and where the rule does not mind.

    A bet on a round needs numbers of results that have nothing to do with their values. The paper's thresholds hold
    after every single result, however the next is chosen.
    """
    found = state.surplus
    return found if found.added and state.settings.policy.stopping.any_time else None


def _where(surplus: Surplus) -> str:
    """Of which rounds, with the numbers."""
    numbers = few([str(each) for each in surplus.batches])
    rounds = "round" if len(surplus.batches) == 1 else "rounds"
    return f"{rounds} {numbers}: {count(surplus.came)} came, {count(surplus.asked)} were asked for"


def refutation_of(state: State) -> str | None:
    """How the results refute what is assumed of them (Proposition 29), as a clause; None if they do not.

    Batches that lie apart do not where the decision compares arms within batches and all arms moved together.
    """
    held = None if state.so_far.agreement is None else state.so_far.agreement.held
    if held is None:
        return None
    found = ["they vary more than sigma allows"] if held.spreading else []
    if held.moving is not None and not moved_together(state):
        found.append(f"no single mean of each arm fits all rounds, {state.settings.arms[held.moving]} least of all")
    return ", and ".join(found) or None


def bounds_hold(state: State) -> bool:
    """Whether bounds may be shown at all: not once their own assumptions are refuted."""
    return not standing(state).all_rejected and refutation_of(state) is None


def means_hold(state: State) -> bool:
    """Whether intervals of means may be shown: not either where no single means fit all rounds."""
    kept = state.so_far.agreement
    return kept is None or kept.held is None or kept.held.moving is None


def missing(state: State) -> list[str]:
    """What must be true of results that never came."""
    short, more = [str(each["batch"]) for each in state.short], state.so_far.more_short
    found = []
    if short:
        which = short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}"
        which += f" and {more} more" if more else ""
        rounds = "round" if len(short) == 1 else "rounds"
        found.append(f"what is missing of {rounds} {which} has nothing to do with its values")
    lost = sum(state.lost.values())
    if lost:
        found.append(
            f"the reasons why {lost} outcomes are missing have nothing to do with what they would have been"
            if lost > 1
            else "the reason why 1 outcome is missing has nothing to do with what it would have been"
        )
    return found


def disagreeing(state: State) -> Disagreement | None:
    """How the batches differ by more than chance allows, in a way that matters to the decision; None if they agree."""
    found = disagreement_of(state, standing(state).compares)
    return None if found is None or found.chance >= SURPRISING else found


def disagreement_of(state: State, shifts: bool) -> Disagreement | None:
    """How well the batches agree, up to a `shift` of all arms together; None if that cannot be said."""
    kept = state.so_far.agreement
    return None if kept is None else differs(state.settings.problem, kept, shifts)


def standing(state: State) -> TrialStatus:
    """What else the rule has to say of it."""
    return state.settings.policy.stopping.standing(state.settings.problem, state.trial)


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
    for column in state.repeats:
        about = "" if column.exact else "about "
        remedy = spoken(
            "Tell one row for each (--id-column, --average-ids), or, if arms were tried on the same items, start a "
            "study with --item-column."
        )
        said.append(
            f"{quoted(column.title)} looks like an identifier, and {about}{count(column.repeated)} of its "
            f"{count(column.values)} values have several rows. Results of one user or item usually depend on each "
            f"other, and then the error may be far larger than promised. {remedy}"
        )
    if surplus := _surplus(state):
        said.append(
            f"{several(surplus.added, 'result')} beyond what was asked for came after others of the same round "
            f"({_where(surplus)}). If they were added because of what those showed, the guarantee does not hold: tell "
            "what is beyond a round in one call with the rest of it, or in the next round."
        )
    if standing(state).all_rejected:
        said.append(
            f"Every {'arm' if arms_out else 'answer'} has been ruled out, which happens to the right one with "
            "at most the error probability if what is assumed holds: look at what is assumed, at rows that depend on "
            "each other, and at results that were chosen by their values."
        )
    refuted = refutation_of(state)
    if refuted is not None:
        said.append(
            f"The results refute what is assumed of them: {refuted}. If the assumptions hold, this happens in at most "
            f"1 of {count(round(1 / FALSE_ALARM))} studies, however often one looks. Look for a sigma that is too "
            "small, a mean that moved, rows that depend on each other, and outliers. No bounds are shown: they rest on "
            "the same assumptions."
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
        splits = state.so_far.splits
        if splits is None:  # in the record of an earlier version; only where all rounds are at hand
            splits = Splits()
            for asked in [] if state.whole is not None else state.recent:
                splits = with_split(splits, asked) if asked.counted else splits
        wanted, chance = np.array(splits.asked), splits.chance
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


def notes_of(state: State, widened: Sequence[str]) -> list[str]:
    """What should be known besides; intervals of `widened` arms were extended to their means."""
    said = []
    policy = state.settings.policy
    if policy.stopping.exact_batches:
        said.append(
            f"{policy.name} stops by a rule of its own, which needs every round just as it was planned: "
            "with less or more than that the study ends undecided."
        )
    said += _happened(state)
    said += policy.stopping.notes(state.settings.problem, state.trial)
    said += _moved(state)
    if widened:
        said.append(
            f"* The interval of {few(widened)} was extended to its mean, which it had left out: bounds come from bets "
            "round by round, and keep the tightest there ever was, while a mean counts all results alike. It may be "
            "chance, or a sign that something assumed does not hold."
        )
    if state.settings.noise.needs == "rows" and state.sums_only:
        said.append("Some results came as sums only: for those the range alone is used, which needs more results.")
    waiting = state.waiting
    if waiting is not None and state.closed is not None:
        said.append(
            f"{several(waiting.results, 'result')} of round {waiting.batch}, which was not complete when the study was "
            f"closed, {'counts' if waiting.results == 1 else 'count'} in nothing."
        )
    for _, each in state.lessons:
        said.append(
            f"{several(int(each.counts.sum()), 'earlier result')} ({each.name}) taught where to look, and are no "
            "evidence."
        )
    came = float(state.late.counts.sum())
    if came:
        asked_before = bool(state.so_far.passed) or any(state.after_decision(each) for each in state.uncounted)
        anew = " (by what decides now that all is counted anew)" if asked_before else ""
        enter = "means and bounds, and the verdict stands"
        if one_by_one(state.settings.question):
            enter = "means and their intervals; what was found for the claims, and its bounds, stand as they were"
        said.append(f"{several(came, 'result')} came after the decision{anew}: they enter {enter}.")
    every = [*state.notes, *(note for _, each in state.later for note in each.notes)]
    return said + gathered([(note.partition(":")[0], note) for note in every])


def _happened(state: State) -> list[str]:
    """What was changed in the study, and what people remarked: each once, in their words."""
    said = []
    for each in state.changes:
        when = f"after round {each.after}" if each.after else "before the first round"
        why = f": {visible(each.why.strip(), 300)}" if each.why.strip() else ""
        said.append(sentence(f"{each.arm} was {'left out' if each.kind == 'dropped' else 'added'} {when}{why}"))
        if each.kind == "dropped" and each.arm not in state.settings.arms:
            said[-1] += f" Results of {each.arm} stay in the record, and count in nothing."
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
    if not moved_together(state):
        return []
    shown = "means and their intervals mix the rounds and do not hold"
    if not means_hold(state):
        shown = "means mix the rounds, and intervals of them are not shown"
    return [
        "All arms moved together between rounds (a season, another grader). The decision compares arms within "
        f"rounds, so it does not mind; {shown}."
    ]


def moved_together(state: State) -> bool:
    """Whether rounds differ by more than chance: all arms moved together, which does not matter to the decision."""
    if disagreeing(state) is not None or not standing(state).compares:
        return False
    moved = disagreement_of(state, False)
    return moved is not None and moved.chance < SURPRISING


def _disagreement(state: State) -> list[str]:
    """That the rounds differ by more than chance allows, if they do."""
    found = disagreeing(state)
    if found is None:
        return []
    settings, shifts = state.settings, standing(state).compares
    beyond = ", beyond a shift of all arms together," if shifts else ""
    return [
        f"The rounds do not agree: the means of the same arm differ between rounds{beyond} as chance does once in "
        f"{rarity(found.chance)} studies, {settings.arms[found.arm]} in round "
        f"{found.batch} most of all. If something other than chance moved "
        f"{'single arms' if shifts else 'the results'}, or rows depend on each other (several of one user), the "
        "guarantee does not hold."
    ]
