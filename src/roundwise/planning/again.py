"""From here: what a running study will still take, from its record."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.arrays import Bools
from roundwise.errors import InputError, RoundwiseError
from roundwise.noise import range_of_means
from roundwise.planning.ahead import MOST_ROUNDS, Ends, Start, ahead
from roundwise.planning.allowed import Data, allowed_world
from roundwise.planning.expected import ladder
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.rows import Spread, quantile, spread
from roundwise.planning.worlds import world_of
from roundwise.questions.besides import level_of, one_by_one
from roundwise.state import Batch
from roundwise.studies import Study
from roundwise.studies.report import Report
from roundwise.studies.settings import Settings
from roundwise.studies.state import State

AGAIN = 500  # runs of a re-plan
BRIEF = 150  # runs of the one line of a status
QUICK = 5000  # runs times arms of that line
MANY_ARMS = 500
LONG = 60  # rounds that are followed
BETWEEN = (0.2, 0.8)  # "about 1 to 3 more rounds"


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a running study will still take."""

    study: str
    results: int  # counted so far
    rounds: int
    budget: int | None
    ended: str | None  # why nothing more is asked for
    runs: int
    samples: Spread  # still to come
    batches: Spread
    between: tuple[float, float]  # rounds that three of five studies lie between
    next_is_last: float  # chance that the next round decides
    within_budget: float | None  # chance of an answer with what is left; of claims, of one that is true
    of_claims: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "study": self.study,
            "results": self.results,
            "rounds": self.rounds,
            "budget": self.budget,
            "ended": self.ended,
            "runs": self.runs,
            "samples": self.samples.plain(),
            "batches": self.batches.plain() | {"low": self.between[0], "high": self.between[1]},
            "next_is_last": self.next_is_last,
            "within_budget": self.within_budget,
            "words": self.words,
        }

    @property
    def line(self) -> str:
        """One line, for a status: "about 1 to 3 more rounds"."""
        if self.ended is not None:
            return f"nothing more is to come: {self.ended}"
        low, high = self.between
        if math.isinf(low):
            return "no end in sight"
        most = f" to {whole(high)}" if math.isfinite(high) and high > low else " or many more" if high > low else ""
        plural = "" if high == 1 else "s"
        said = f"about {whole(low)}{most} more round{plural}"
        if self.within_budget is not None and self.within_budget < 0.995:
            what = "a true claim is shown" if self.of_claims else "an answer"
            said += f"; {what} within the budget in {share(self.within_budget)} of such studies"
        return said

    @property
    def words(self) -> str:
        """A few sentences."""
        if self.ended is not None:
            return f"'{self.study}': {self.line}."
        plural = "" if self.rounds == 1 else "s"
        said = f"'{self.study}' has {exact(self.results)} results in {exact(self.rounds)} round{plural}."
        said += f" {_sentence(self.line)}."
        if math.isfinite(self.samples.typical):
            nearly = f", {whole(self.samples.p95)} in 19 of 20" if math.isfinite(self.samples.p95) else ""
            said += f" Typically {whole(self.samples.typical)} more results{nearly}."
        else:
            said += " More than half of the worlds that the data allow have no answer in sight."
        return f"{said} The next round is the last with probability {share(self.next_is_last)}."

    def text(self) -> str:
        """For a terminal."""
        next_ = (
            "`roundwise ask` says what to do next." if self.ended is None else "`roundwise report` says what it shows."
        )
        what = "A forecast, with means drawn from what the data allow; no verdict rests on it."
        return f"{self.words}\n{what}\nNext: {next_}"


def replan(state: State, *, runs: int = AGAIN, seed: int = 1) -> Outlook:
    """What the study will still take: means are drawn from what its data allow, and it goes on from where it stands."""
    settings, record = state.settings, state.trial.record
    ended = _ended(state)
    if ended is not None:
        nothing = Spread(typical=0.0, p95=0.0)
        ends, samples, batches, between = None, nothing, nothing, (0.0, 0.0)
    else:
        ends = _ahead(state, runs, seed)
        samples, batches = spread(ends.samples), spread(ends.batches)
        low, high = quantile(ends.batches, np.array(BETWEEN))
        between = (float(low), float(high))
    return Outlook(
        study=state.name,
        results=int(record.samples),
        rounds=int(record.batches),
        budget=settings.budget,
        ended=ended,
        runs=0 if ends is None else runs,
        samples=samples,
        batches=batches,
        between=between,
        next_is_last=0.0 if ends is None else float((ends.decided & (ends.batches == 1)).mean()),
        within_budget=None if settings.budget is None or ends is None else float(_answered(settings, ends).mean()),
        of_claims=one_by_one(settings.question),
    )


def outlook_line(state: State, *, runs: int = BRIEF) -> str | None:
    """One line for a status, or None where there is nothing to go by yet, or too many arms to be quick."""
    arms = len(state.settings.arms)
    if arms > MANY_ARMS or _ended(state) is not None:
        return None
    try:
        found = replan(state, runs=min(runs, max(QUICK // arms, 20)))
    except InputError:
        return None
    return found.line


def report_ahead(study: Study) -> Report:
    """The report of a study, with the line that says what is still to come."""
    return dataclasses.replace(study.report(), forecast=outlook_line(study.state))


def first_line(settings: Settings, *, runs: int = BRIEF) -> str | None:
    """One line for a study of which nothing is known but its settings: what it takes with a lead that is not small."""
    question, noise = settings.question, settings.noise
    low, high = range_of_means(noise)
    middle = 0.5 * (low + high) if math.isfinite(low) and math.isfinite(high) else 1.0 if math.isfinite(low) else 0.0
    try:
        level = level_of(question)
        row = ladder(question, settings.arms, noise, middle if level is None else level, None)[-2]
        means = np.asarray(row.means)
        if not np.isfinite(question.complexity(means).value):
            return None
        world = world_of(noise, means)
    except RoundwiseError:
        return None
    ends = ahead(settings.problem, settings.acting, world, runs=runs, seed=1, most_rounds=LONG)
    answered = float(_answered(settings, ends).mean())
    if one_by_one(question) and settings.budget is not None:
        lead = row.label.removeprefix("+")
        return f"if the largest effect is {lead}, a true claim is shown in {share(answered)} of such studies"
    if settings.budget is not None and answered < 0.5:
        lead = row.label.removeprefix("+")
        return f"if the lead is {lead}, an answer within the budget in {share(answered)} of such studies"
    samples, rounds = spread(ends.samples), spread(ends.batches)
    if not math.isfinite(samples.typical):
        return None
    plural = "" if rounds.typical == 1 else "s"
    lead = row.label.removeprefix("+")
    return f"if the lead is {lead}, about {whole(samples.typical)} results in {whole(rounds.typical)} round{plural}"


def _ahead(state: State, runs: int, seed: int) -> Ends:
    settings = state.settings
    told = None if state.outstanding is None or not state.outstanding.files else state.outstanding.batch
    return ahead(
        settings.problem,
        settings.acting,
        allowed_world(settings.noise, data_of(state, told), seed),
        runs=runs,
        seed=seed,
        start=Start(state.trial, told),
        most_rounds=LONG if settings.budget is None else MOST_ROUNDS,
    )


def _answered(settings: Settings, ends: Ends) -> Bools:
    """Whether there is an answer; of claims, whether one that is true was shown. (runs)"""
    if not one_by_one(settings.question):
        return ends.decided
    return np.asarray((ends.shown & settings.question.answer(ends.truth)).any(axis=-1))


def data_of(state: State, told: Batch | None) -> Data:
    """All that came back, also of the outstanding batch; squares as far as the stopping rule keeps them."""
    record, kept = state.trial.record, state.trial.kept
    past = getattr(kept, "past", getattr(getattr(kept, "known", None), "past", None))
    scatter, freedom = (None, None) if past is None or not past.freedom.any() else (past.scatter, past.freedom)
    if told is not None and told.scatter is not None:
        within = np.maximum(told.counts - 1.0, 0.0)
        scatter, freedom = (told.scatter, within) if scatter is None else (scatter + told.scatter, freedom + within)
    nothing = np.zeros_like(record.counts)
    return Data(
        counts=record.counts + (nothing if told is None else told.counts),
        totals=record.totals + (nothing if told is None else told.totals),
        scatter=scatter,
        freedom=freedom,
    )


def _ended(state: State) -> str | None:
    if state.closed is not None:
        return f"it was closed ({state.closed})"
    if state.decided is not None or bool(state.trial.done):
        return "it is decided"
    return state.over


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
