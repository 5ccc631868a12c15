"""What a running study will still take, in numbers and words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roundwise.arrays import Plain
from roundwise.errors import said
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.rows import Spread


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a running study will still take."""

    study: str
    results: int  # counted so far
    rounds: int
    budget: int | None
    ended: str | None  # why nothing more is asked for
    runs: int
    samples: Spread  # still to be asked for
    batches: Spread
    between: tuple[float, float]  # rounds that three of five studies lie between
    next_is_last: float  # chance that nothing more is asked for after the next round
    within_budget: float | None  # chance of an answer with what is left; of claims, of one that is true
    claims: tuple[tuple[str, float], ...] = ()  # each, and the chance that it is shown in the end
    missing: float = 0.0  # share of the results that did not come back so far, and is expected to go on
    days: Spread | None = None
    cost: Spread | None = None

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
            "batches": self.batches.plain() | {"low": self.between[0], "high": self.between[1]},
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
            each = [f"{name} {_both(spread)}" for name, spread in amounts.items() if spread is not None]
            said += f" Still to come: {'; '.join(each)}."
            said += f" As so far, {share(self.missing)} of the results are taken to be missing." if lost(self) else ""
        else:
            said += " More than half of the worlds that the data allow have no answer in sight."
        return f"{said} The next round is the last with probability {share(self.next_is_last)}."

    def text(self) -> str:
        """For a terminal."""
        verb, what = ("ask", "to do next") if self.ended is None else ("report", "it shows")
        how = said(f"`study.{verb}()`", f"`roundwise {verb} {self.study}`")
        lines = [self.words]
        if self.claims and self.ended is None:
            lines += ["Chance to be shown in the end:", *(f"  {claim}: {share(power)}" for claim, power in self.claims)]
        lines.append("A forecast, with means drawn from what the data allow; no verdict rests on it.")
        return "\n".join([*lines, f"Next: {how} says what {what}."])


def lost(outlook: Outlook) -> bool:
    """Whether so many results were missing that it is to be said."""
    return outlook.missing >= 0.005


def _both(spread: Spread) -> str:
    """Typically, and in 19 of 20."""
    typical, nearly = whole(spread.typical), whole(spread.p95)
    if math.isinf(spread.p95):
        return f"typically {typical}, without end in more than one of 20"
    return f"typically {typical}, " + ("hardly ever more" if typical == nearly else f"{nearly} in 19 of 20")
