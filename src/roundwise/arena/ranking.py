"""Standings of the arena: each entrant over all contests of a kind, and which algorithm to choose, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roundwise.arrays import Plain
from roundwise.simulation.summary import binomial_p_value, error_upper_bound

YARDSTICK = "Wager"  # with whom others are compared on the same contests
ENOUGH = 0.75  # of the contests of a kind must be decided by a method that is recommended
KINDS = {
    "best-arm": "Which is best?",
    "top-k": "Which are the k best?",
    "above": "Which are above a level?",
    "any-above": "Is any above a level?",
    "minimum-below": "Is the smallest below a level?",
    "statements": "Which of several statements hold?",
    "claims": "What can be shown against a control?",
}


@dataclass(frozen=True)
class Standing:
    """One entrant in all contests of a kind."""

    kind: str
    entrant: str
    sequential: bool
    guarantee: bool
    contests: int
    decided: int  # contests in which every run was decided within the budget
    over_bound: float | None  # samples over the lower bound: geometric mean over the contests that were decided
    over_wager: float | None  # samples over those of Wager, where both decided
    batches: float | None  # geometric mean
    errors: int
    runs: int
    delta: float
    ms_a_run: float
    shown: float | None = None  # true claims shown, as a share of those there are

    @property
    def error(self) -> float:
        """Wrong answers as a share of all runs."""
        return self.errors / self.runs

    @property
    def error_upper(self) -> float:
        """The exact 95 % upper confidence bound on it."""
        return error_upper_bound(self.errors, self.runs)

    @property
    def broken(self) -> bool:
        """Whether its error exceeds delta significantly (p < 0.001)."""
        return binomial_p_value(self.errors, self.runs, self.delta) < 1e-3

    def plain(self) -> Plain:
        """As JSON."""
        return {**vars(self), "error": self.error, "error_upper_95": self.error_upper, "broken": self.broken}


def standings(rows: Sequence[Plain]) -> list[Standing]:
    """Every entrant in every kind of contest, fewest samples first; near-ties count for errors only."""
    found = []
    for kind in [each for each in KINDS if any(row["question"] == each for row in rows)]:
        here = [row for row in rows if row["question"] == kind]
        frugal = {row["contest"]: row["samples_mean"] for row in here if row["entrant"] == YARDSTICK and _decided(row)}
        some = [_standing(kind, name, here, frugal) for name in dict.fromkeys(row["entrant"] for row in here)]
        found += sorted(some, key=_place)
    return found


def _standing(kind: str, name: str, rows: Sequence[Plain], frugal: dict[str, float]) -> Standing:
    mine = [row for row in rows if row["entrant"] == name]
    open_ones = [row for row in mine if not row["near_tie"]]
    done = [row for row in open_ones if _decided(row)]
    both = [row["samples_mean"] / frugal[row["contest"]] for row in done if row["contest"] in frugal]
    shown = [row["true_shown_mean"] / row["true"] for row in mine if row.get("true")]
    return Standing(
        kind=kind,
        entrant=name,
        sequential=mine[0]["sequential"],
        guarantee=all(row["guarantee"] for row in mine),
        contests=len(open_ones),
        decided=len(done),
        over_bound=_geometric_mean([each for row in done if (each := row["samples_over_lower_bound"])]),
        over_wager=_geometric_mean(both),
        batches=_geometric_mean([row["batches_mean"] for row in done]),
        errors=sum(round(row["error"] * row["runs"]) for row in mine),
        runs=sum(row["runs"] for row in mine),
        delta=max(row["delta"] for row in mine),
        ms_a_run=sum(row["ms_a_run"] for row in mine) / len(mine),
        shown=sum(shown) / len(shown) if shown else None,
    )


def _place(each: Standing) -> tuple[bool, bool, float, float]:
    """Entrants with too many errors last, and before them the baselines."""
    return each.broken, each.sequential, -(each.shown or 0.0), each.over_bound or math.inf


def _decided(row: Plain) -> bool:
    return not row["undecided"]


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def advice(found: Sequence[Standing]) -> list[str]:
    """Which algorithm, a paragraph for each kind of question; every number is from the standings."""
    return [
        _advise(kind, [each for each in found if each.kind == kind]) for kind in dict.fromkeys(f.kind for f in found)
    ]


def _advise(kind: str, here: Sequence[Standing]) -> str:
    words = [f"**{KINDS[kind]}**"]
    most = max(each.contests for each in here)
    sound = [each for each in here if each.guarantee and not each.broken and not each.sequential]
    if kind == "claims":
        best = max(sound, key=lambda each: each.shown or 0.0, default=None)
        if best is not None and best.shown is not None:
            words.append(
                f"{best.entrant} showed {100 * best.shown:.0f} % of the true claims within the budgets of "
                f"{best.contests} contest{'' if best.contests == 1 else 's'}, and a false one in {best.errors} of "
                f"{best.runs} runs."
            )
        return " ".join(words)
    able = [each for each in sound if each.over_bound is not None and each.decided >= ENOUGH * most]
    if not able:
        return " ".join([*words, "No method with a guarantee decided most contests within their budgets."])
    frugal = min(able, key=lambda each: each.over_bound or math.inf)
    quick = min(able, key=lambda each: each.batches or math.inf)
    words.append(f"Fewest results: {frugal.entrant}, {_words(frugal)}.")
    if quick is not frugal:
        words.append(f"Fewest batches: {quick.entrant}, {_words(quick)}.")
    paper = next((each for each in here if each.entrant == "PET" and each is not frugal and each is not quick), None)
    if paper is not None and paper.over_bound is not None:
        words.append(f"The paper's PET: {_words(paper)}.")
    slow = [each for each in here if each.sequential and each.over_bound is not None and not each.broken]
    if slow:
        best = min(slow, key=lambda each: each.over_bound or math.inf)
        words.append(f"Looking after every few results: {best.entrant}, {_words(best)}.")
    if wrong := [each.entrant for each in here if each.broken]:
        words.append(f"Wrong more often than allowed: {', '.join(wrong)}.")
    return " ".join(words)


def _words(each: Standing) -> str:
    whole = "" if each.decided == each.contests else f", in the {each.decided} of {each.contests} contests it decided"
    return f"{each.over_bound:.1f} times the lower bound in {_few(each.batches or 0.0)} batches{whole}"


def _few(number: float) -> str:
    return f"{number:.1f}" if number < 100 else f"{number:,.0f}"
