"""A plan in words: what it means, a paragraph for a protocol, and the command that creates the study."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.noise import Binary, Bounded, Gaussian, Noise, Poisson, SubGaussian, UnknownVariance
from roundwise.planning.ahead import most_in_a_round
from roundwise.planning.expected import control_of
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.rows import Row
from roundwise.planning.wish import Wish
from roundwise.policies import Wager
from roundwise.questions import Claims, Question


def in_words(wish: Wish, rows: Sequence[Row], target: Row, instead: Sequence[str]) -> str:
    """What the table says, as one would tell it to a colleague."""
    if target.claims and wish.budget is not None:
        said = [_of_claims(wish, rows)]
    else:
        said = [] if wish.budget is None else [_with_budget(wish, rows)]
        said.append(_to_plan(target))
    if instead:
        said.append(f"Or{'' if target.claims else ' ask for less'}: {'; or '.join(instead)}.")
    return " ".join(said)


def _to_plan(target: Row) -> str:
    if not target.answerable:
        return f"With {what_if(target)} no number of results is sure to give an answer."
    time = f" ({_days(target.days.p95)})" if target.days is not None else ""
    money = f", at a cost of {whole(target.cost.p95)}" if target.cost is not None else ""
    return (
        f"For {what_if(target)} plan {whole(target.samples.p95)} results in {whole(target.batches.p95)} "
        f"{_rounds(target.batches.p95)}{time}{money}: 19 of 20 studies end by then, half of them with "
        f"{whole(target.samples.typical)} in {whole(target.batches.typical)}."
    )


def _of_claims(wish: Wish, rows: Sequence[Row]) -> str:
    """What claims can be hoped for within the budget."""
    some = [row for row in rows if row.at_least_one is not None]
    chances = ", ".join(f"in {share(row.at_least_one or 0.0)} of studies with {what_if(row)}" for row in some)
    worst = max(rows, key=lambda row: row.any_false or 0.0)
    of = f"in none of {worst.runs} simulated ones" if not worst.any_false else f"in at most {share(worst.any_false)}"
    said = f"With {exact(wish.budget or 0)} results at least one true claim is shown {chances}; " if some else ""
    best = ""
    if some:
        row = some[-1] if some[-1].expected.lead else some[0]
        first = max(row.claims, key=lambda each: each.power if each.true else -1.0)
        best = f" The surest claim with {what_if(row)} is '{first.claim}': {share(first.power)}."
    return f"{said}a false one {of}.{best}"


def _with_budget(wish: Wish, rows: Sequence[Row]) -> str:
    assert wish.budget is not None
    chances = [(row, row.within_budget or 0.0) for row in rows]
    sure = [row for row, chance in chances if chance >= 0.9 and row.answerable]
    rare = [row for row, chance in chances if chance <= 0.2 and row.answerable]
    some = [(row, chance) for row, chance in chances if 0.2 < chance < 0.9]
    said = []
    if sure:
        easiest = min(sure, key=lambda row: row.expected.lead if row.expected.lead is not None else 0.0)
        said.append(f"you will almost surely have an answer for {what_if(easiest)}")
    said += [f"in {share(chance)} of such studies for {what_if(row)}" for row, chance in some]
    if rare:
        hardest = max(rare, key=lambda row: row.expected.lead if row.expected.lead is not None else 0.0)
        said.append(f"hardly ever for {what_if(hardest)}")
    if not said:
        said = ["you will not have an answer for anything in this table"]
    return f"With {exact(wish.budget)} results {', '.join(said)}."


def what_if(row: Row) -> str:
    """The row in words: a lead of 2 points."""
    if row.expected.lead is None:
        return "these means" if row.expected.label == "as expected" else f"'{row.expected.label}'"
    return "a lead of " + row.expected.label.removeprefix("+") if row.expected.lead else "options that are all alike"


def _days(days: float) -> str:
    return f"{whole(days)} {'day' if days == 1 else 'days'}"


def _rounds(number: float) -> str:
    return "round" if number == 1 else "rounds"


ASKED = {
    "best-arm": "which option is best",
    "top-k": "which options are the best {k}",
    "above": "which options lie above {level:g}",
    "any-above": "whether any option lies above {level:g}",
    "minimum-below": "whether any option lies below {level:g}",
    "statements": "which of the statements hold",
    "claims": "which of the claims can be shown",
    "largest": "which score is largest",
}


def asked(question: Question, names: Sequence[str]) -> str:
    """What is asked, in words."""
    control = control_of(question)
    if control is not None:
        margin = float(np.asarray(getattr(question, "levels", [0.0]))[0])
        odds = bool(getattr(question, "odds", False))
        more = f" by more than {margin:g}" if margin and not odds else ""
        return f"which options beat {names[control]}" + (
            f" by an odds ratio above {np.exp(margin):g}" if odds else more
        )
    known = {name: getattr(question, name, 0) for name in ("k", "level")}
    said = ASKED.get(question.name, question.name).format(**known)
    tolerance = getattr(question, "tolerance", 0.0)
    return said + (f" (any within {tolerance:g} of the best will do)" if tolerance else "")


def protocol(wish: Wish, target: Row) -> str:
    """A paragraph to copy into a protocol."""
    options = (
        ", ".join(wish.names)
        if len(wish.names) <= 8
        else f"{', '.join(wish.names[:3])}, ... ({len(wish.names)} in all)"
    )
    first = int(wish.acting.first(wish.problem, ()).pulls.sum())
    most, fixed = most_in_a_round(wish.acting), getattr(wish.acting, "size", None) is not None
    limits = "" if most is None else f" of {'' if fixed else 'at most '}{exact(most)} results"
    how = "in equal shares"
    if wish.split is not None:
        how = f"in the proportions {':'.join(f'{each:g}' for each in wish.split)}"
    elif isinstance(wish.question, Claims):
        how = "with more for the control"
    share_missing = f" We expect {share(wish.missing)} of the results to be missing." if wish.missing else ""
    ends = "when every claim is shown or has no chance any more" if target.claims else "when everything is settled"
    if wish.budget is not None:
        open_ = "shown" if target.claims else "ruled out"
        ends += f", or after {exact(wish.budget)} results; what is not {open_} by then is reported"
    said = "claim, of any," if target.claims else "answer"
    power = ""
    if target.answerable:
        chance = ""
        if target.claims and target.at_least_one is not None:
            chance = f"; at least one true claim is shown with probability {share(target.at_least_one)}"
        elif wish.budget is not None and target.within_budget is not None:
            chance = f"; an answer within {exact(wish.budget)} results has probability {share(target.within_budget)}"
        power = (
            f" If {_if(target)}, simulation ({target.runs} runs) gives a median of {whole(target.samples.typical)} "
            f"results in {whole(target.batches.typical)} rounds, and at most {whole(target.samples.p95)} results in "
            f"{whole(target.batches.p95)} rounds in 19 of 20 studies{chance}."
        )
    return (
        f"The study asks {asked(wish.question, wish.names)}, among {options}. {_outcome(wish.noise)} Results are "
        f"collected in rounds{limits}, the first of {exact(first)} results {how}; after each round the next "
        f"is planned from all results so far. {_rule(wish)} The study ends {ends}. The probability of a wrong {said} "
        f"is at most {wish.delta:g}, however often results are looked at.{power}{share_missing}"
    )


def _if(row: Row) -> str:
    if row.expected.lead is None:
        return f"the means are {', '.join(f'{each:g}' for each in row.expected.means)}"
    return f"the lead is {row.expected.label.removeprefix('+')}" if row.expected.lead else "all options are alike"


def _rule(wish: Wish) -> str:
    if isinstance(wish.question, Claims):
        return (
            "Each claim has evidence of its own, the product of the pay-offs of bets that are fixed before each round; "
            f"it is shown, for good, when the closed test over all claims reaches 1/{wish.delta:g}."
        )
    if isinstance(wish.policy, Wager):
        bar = f"{1 / wish.delta:.0f} : 1 (1/{wish.delta:g})"
        return (
            "The evidence against every wrong answer is the product of the pay-offs of bets that are fixed before each "
            f"round; an answer is excluded when it reaches {bar}."
        )
    return f"Rounds are planned and the end is decided by the rule of {wish.policy.name}, fixed in advance."


def _outcome(noise: Noise) -> str:
    if isinstance(noise, Binary):
        return "A result is yes or no."
    if isinstance(noise, Poisson):
        return "A result is a count, taken as Poisson."
    if isinstance(noise, Bounded):
        return f"A result is a number between {noise.low:g} and {noise.high:g}."
    if isinstance(noise, Gaussian):
        return f"A result is taken as normal with the known deviation {noise.sigma:g}."
    if isinstance(noise, SubGaussian):
        return f"A result has tails no heavier than a normal one with deviation {noise.sigma:g}."
    return (
        noise.words if not isinstance(noise, UnknownVariance) else "A result is taken as normal, its deviation unknown."
    )
