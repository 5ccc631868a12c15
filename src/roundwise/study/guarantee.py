"""Whether the guarantee of a study stands after everything that happened in it, and what else readers should know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from roundwise.errors import visible
from roundwise.messages import Condition, Danger, Doubt, Guarantee, Reason
from roundwise.noise import items_of
from roundwise.noise.refutation import FALSE_ALARM
from roundwise.report.wording import count, day, few, sentence, several
from roundwise.rules.base import TrialStatus
from roundwise.study.diagnostics import SURPRISING, Disagreement, Splits, differs, missing_differs, split_differs
from roundwise.study.fold import kind_of, with_split
from roundwise.study.state import State

MOST_REMARKS = 20  # the last ones, word by word


def guarantee_of(state: State) -> Guarantee:
    """Return what became of the guarantee of a study."""
    return Guarantee.of(list(_doubts(state)))


def _doubts(state: State) -> Iterator[Doubt]:
    """Everything that stands between a study and its guarantee."""
    settings = state.settings
    if (doubt := settings.policy.stopping.doubt(settings.problem)) is not None:
        yield doubt
    if state.decided is not None and not state.trial.done:
        yield Reason("answer_not_reproduced")
    if standing(state).all_rejected:
        yield Reason("all_rejected")
    if (refuted := refutation_of(state)) is not None:
        yield refuted
    if state.short:
        keys = ("missing", "asked", "why")
        short = [{"round": each["batch"], **{key: each[key] for key in keys}} for each in state.short]
        yield Condition("short_rounds", rounds=short, more=state.so_far.more_short)
    if lost := sum(state.lost.values()):
        yield Condition("missing_outcomes", number=int(lost))
    for entry in state.amendments:
        about = {"name": entry["name"], "round": entry["batch"], "why": entry["why"]}
        yield Condition("amended", withdrawn=bool(entry["withdrawn"]), **about)
    if state.contradicted:
        yield Condition("contradicted", ids=state.contradicted)
    for change in state.changes:
        if change.unrelated:
            yield Condition(f"arm_{change.kind}", arm=change.arm)
    if state.so_far.refolded:
        yield Condition("recounted")
    if state.shares_items and items_of(settings.noise) is None:
        yield Condition("shared_items")
    for each in state.repeats:
        about = {"repeated": each.repeated, "values": each.values, "exact": each.exact, "several_arms": each.several}
        yield Condition("repeated_ids", column=each.title, **about)
    # A bet on a round needs numbers of results that are unrelated to their values. The paper's thresholds hold after
    # every single result, however the next is chosen.
    if (surplus := state.surplus).added and settings.policy.stopping.any_time:
        rounds = list(surplus.batches)
        yield Condition("surplus", added=surplus.added, rounds=rounds, came=surplus.came, asked=surplus.asked)
    if settings.seed_given and state.deals_rows:
        yield Condition("seed_chosen")
    if (found := disagreeing(state)) is not None:
        about = {"arm": settings.arms[found.arm], "round": found.batch, "chance": found.chance}
        yield Condition("rounds_differ", shifts=standing(state).compares, **about)
    if refuted is None and not means_hold(state):
        yield Condition("arms_moved")


def refutation_of(state: State) -> Reason | None:
    """Return how the results refute the noise model (Proposition 29); None if they do not.

    Batches that lie apart do not where the decision compares arms within batches and all arms moved together.
    """
    held = None if state.so_far.agreement is None else state.so_far.agreement.held
    if held is None:
        return None
    moving = None if held.moving is None or moved_together(state) else state.settings.arms[held.moving]
    if not held.spreading and moving is None:
        return None
    return Reason("refuted", spreading=bool(held.spreading), moving=moving, false_alarm=FALSE_ALARM)


def dangers_of(state: State, guarantee: Guarantee) -> list[Danger]:
    """Return what endangers the guarantee of a study."""
    doubts = map(Danger.of, (*guarantee.conditions, *guarantee.reasons))
    return [each for each in (*doubts, _missing_differ(state), _sample_ratio_mismatch(state)) if each is not None]


def _missing_differ(state: State) -> Danger | None:
    if not any(state.lost.values()):
        return None
    missing = np.array([float(state.lost.get(name, 0)) for name in state.settings.arms])
    chance = missing_differs(state.record.counts, missing)
    if chance >= SURPRISING:
        return None
    shares = missing / np.maximum(state.record.counts + missing, 1.0)
    return Danger("missing_differ", arm=state.settings.arms[int(shares.argmax())], chance=chance)


def _sample_ratio_mismatch(state: State) -> Danger | None:
    """Only where a round is a number of results, so that their split is left to chance."""
    settings = state.settings
    if not settings.by_number or state.changes:
        return None
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
        return None
    expected = came.sum() * wanted / wanted.sum()
    off = (came - expected) / np.sqrt(np.maximum(expected, 1.0))
    arm = int(np.abs(off).argmax())
    numbers = {"came": int(came[arm]), "expected": round(float(expected[arm]))}
    return Danger("sample_ratio_mismatch", arm=settings.arms[arm], chance=chance, **numbers)


def bounds_hold(state: State) -> bool:
    """Whether bounds may be shown at all: not once their own assumptions are refuted."""
    return not standing(state).all_rejected and refutation_of(state) is None


def means_hold(state: State) -> bool:
    """Whether intervals of means may be shown: not either where no single means fit all rounds."""
    kept = state.so_far.agreement
    return kept is None or kept.held is None or kept.held.moving is None


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
        if state.settings.question.separate_claims:
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
