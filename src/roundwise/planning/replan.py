"""From here: what a running study will still take, from its record, in numbers and words."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Bools, Plain
from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import option
from roundwise.model.batch import Batch
from roundwise.planning.forecast import MOST_ROUNDS, Ends, ForecastStart, Quantiles, quantile, quantiles, simulate_ahead
from roundwise.planning.quantities import Costs, exact, share, whole
from roundwise.planning.request import build_ladder
from roundwise.planning.scenarios import Data, Unreliable, allowed_world, world_of
from roundwise.report import Report
from roundwise.study import Study
from roundwise.study.spec import StudySpec
from roundwise.study.state import State


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a running study will still take."""

    study: str
    results: int  # counted so far
    rounds: int
    budget: int | None
    ended: str | None  # why nothing more is asked for
    runs: int
    samples: Quantiles  # still to be asked for
    batches: Quantiles
    between: tuple[float, float]  # rounds that three of five studies lie between
    next_is_last: float  # chance that nothing more is asked for after the next round
    within_budget: float | None  # chance of an answer with what is left; of claims, of one that is true
    claims: tuple[tuple[str, float], ...] = ()  # each, and the chance that it is shown in the end
    missing: float = 0.0  # share of the results that did not come back so far, and is expected to go on
    days: Quantiles | None = None
    cost: Quantiles | None = None

    def plain(self) -> Plain:
        """As JSON."""
        return {
            "study": self.study,
            "results": self.results,
            "rounds": self.rounds,
            "budget": self.budget,
            "ended": self.ended,
            "runs": self.runs,
            "samples": self.samples.plain(),
            "more_rounds": self.batches.plain() | {"low": self.between[0], "high": self.between[1]},
            "next_is_last": self.next_is_last,
            "within_budget": self.within_budget,
            "claims": [{"claim": claim, "power": power} for claim, power in self.claims],
            "missing": self.missing,
            "days": None if self.days is None else self.days.plain(),
            "cost": None if self.cost is None else self.cost.plain(),
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
        if math.isinf(high):
            said = f"about {whole(low)} more rounds, or many more"
        else:
            most = f" to {whole(high)}" if high > low else ""
            said = f"about {whole(low)}{most} more round{'' if high == 1 else 's'}"
        if self.within_budget is not None and self.within_budget < 0.995:
            what = "a true claim is shown" if self.claims else "there is an answer"
            said += f"; {what} within the budget with probability {share(self.within_budget)}"
        return said

    @property
    def words(self) -> str:
        """A few sentences."""
        if self.ended is not None:
            return f"'{self.study}': {self.line}."
        plural = "" if self.rounds == 1 else "s"
        said = f"'{self.study}' has {exact(self.results)} results in {exact(self.rounds)} round{plural}."
        said += f" {self.line[:1].upper()}{self.line[1:]}."
        if math.isfinite(self.samples.typical):
            amounts = {"results": self.samples, "days": self.days, "cost": self.cost}
            each = [f"{name} {_both(amount)}" for name, amount in amounts.items() if amount is not None]
            said += f" Still to come: {'; '.join(each)}."
            said += f" As so far, {share(self.missing)} of the results are taken to be missing." if lost(self) else ""
        else:
            said += " More than half of the worlds that the data allow have no answer in sight."
        return f"{said} The next round is the last with probability {share(self.next_is_last)}."

    def text(self) -> str:
        """For a terminal."""
        verb, what = ("ask", "to do next") if self.ended is None else ("report", "it shows")
        lines = [self.words]
        if self.claims and self.ended is None:
            lines += ["Chance to be shown in the end:", *(f"  {claim}: {share(power)}" for claim, power in self.claims)]
        lines.append("A forecast, with means drawn from what the data allow; no verdict rests on it.")
        how = option(verb, study=self.study)
        return "\n".join([*lines, f"Next: {how} says what {what}."])


def lost(outlook: Outlook) -> bool:
    """Whether so many results were missing that it is to be said."""
    return outlook.missing >= 0.005


def _both(amount: Quantiles) -> str:
    """Typically, and in 19 of 20."""
    typical, nearly = whole(amount.typical), whole(amount.p95)
    if math.isinf(amount.p95):
        return f"typically {typical}, without end in more than one of 20"
    return f"typically {typical}, " + ("hardly ever more" if typical == nearly else f"{nearly} in 19 of 20")


AGAIN = 500  # runs of a re-plan
BRIEF = 150  # runs of the one line of a status
QUICK = 5000  # runs times arms of that line
MANY_ARMS = 500
LONG = 60  # rounds that are followed
BETWEEN = (0.2, 0.8)  # "about 1 to 3 more rounds"
MOST_MISSING = 0.9
NOTHING = Quantiles(typical=0.0, p95=0.0)


def replan(state: State, *, runs: int = AGAIN, seed: int = 1, costs: Costs | None = None) -> Outlook:
    """What the study will still take: means are drawn from what its data allow, and it goes on from where it stands.

    As many results are expected to be missing as were so far.
    """
    settings, record, prices = state.settings, state.trial.record, costs or Costs()
    found = Outlook(
        study=state.name,
        results=int(record.samples),
        rounds=int(record.batches),
        budget=settings.budget,
        ended=_ended(state),
        runs=0,
        samples=NOTHING,
        batches=NOTHING,
        between=(0.0, 0.0),
        next_is_last=0.0,
        within_budget=None,
    )
    if found.ended is not None:
        return found
    missing = missing_so_far(state)
    ends = _ahead(state, runs, seed, missing)
    low, high = quantile(ends.batches, np.array(BETWEEN))
    claims = settings.question.claim_texts(settings.arms) if settings.question.separate_claims else ()
    return dataclasses.replace(
        found,
        runs=runs,
        samples=quantiles(ends.samples),
        batches=quantiles(ends.batches),
        between=(float(low), float(high)),
        next_is_last=float((ends.batches == 1).mean()),
        within_budget=None if settings.budget is None else float(_answered(settings, ends).mean()),
        claims=tuple(zip(claims, ends.shown.mean(axis=0).tolist(), strict=True)) if claims else (),
        missing=missing,
        days=None if prices.days is None else quantiles(ends.batches * prices.days),
        cost=quantiles(prices.of(ends.counts, ends.batches)) if prices.known else None,
    )


def missing_so_far(state: State) -> float:
    """The share of results that were asked for in rounds that are over, and did not come back."""
    over = [each for each in state.rounds if each.counted]
    asked = sum(float(each.pulls.sum()) for each in over)
    return min(sum(each.missing for each in over) / asked, MOST_MISSING) if asked else 0.0


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


def first_line(settings: StudySpec, *, runs: int = BRIEF) -> str | None:
    """One line for a study of which nothing is known but its settings: what it takes with a lead that is not small."""
    settings = settings.alone
    question, noise = settings.question, settings.noise
    low, high = noise.mean_range
    middle = 0.5 * (low + high) if math.isfinite(low) and math.isfinite(high) else 1.0 if math.isfinite(low) else 0.0
    try:
        level = question.level
        row = build_ladder(question, settings.arms, noise, middle if level is None else level, None)[-2]
        means = np.asarray(row.means)
        if not np.isfinite(question.complexity(means).value):
            return None
        world = world_of(noise, means)
    except RoundwiseError:
        return None
    ends = simulate_ahead(settings.problem, settings.acting, world, runs=runs, seed=1, most_rounds=LONG)
    answered = float(_answered(settings, ends).mean())
    given = f"if the {row.noun} is {row.label.removeprefix('+')}"
    if question.separate_claims and settings.budget is not None:
        return f"{given}, a true claim is shown with probability {share(answered)}"
    if settings.budget is not None and answered < 0.5:
        return f"{given}, there is an answer within the budget with probability {share(answered)}"
    samples, rounds = quantiles(ends.samples), quantiles(ends.batches)
    if not math.isfinite(samples.typical):
        return None
    plural = "" if rounds.typical == 1 else "s"
    return f"{given}, about {whole(samples.typical)} results in {whole(rounds.typical)} round{plural}"


def _ahead(state: State, runs: int, seed: int, missing: float) -> Ends:
    settings = state.settings.alone
    told = None if state.outstanding is None or not state.outstanding.files else state.outstanding.batch
    world = allowed_world(settings.noise, collect_data(state, told), seed)
    return simulate_ahead(
        settings.problem,
        settings.acting,
        Unreliable(world, missing) if missing else world,
        runs=runs,
        seed=seed,
        start=ForecastStart(state.trial, told),
        most_rounds=LONG if settings.budget is None else MOST_ROUNDS,
    )


def _answered(settings: StudySpec, ends: Ends) -> Bools:
    """Whether there is an answer; of claims, whether one that is true was shown. (runs)"""
    if not settings.question.separate_claims:
        return ends.decided
    return np.asarray((ends.shown & settings.question.answer(ends.truth)).any(axis=-1))


def collect_data(state: State, told: Batch | None) -> Data:
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
