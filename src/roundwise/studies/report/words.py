"""Numbers and words as people read them."""

from __future__ import annotations

import math


def number(value: float | None) -> str:
    """Four digits; "?" for what is not known."""
    return "?" if value is None else f"{value:.4g}"


def odds(log: float) -> str:
    """Evidence as odds: 20 : 1."""
    if log > 30:
        return f"10^{log / math.log(10):.0f} : 1"
    value = math.exp(log)
    return f"{value:,.0f} : 1".replace(",", " ") if value >= 10 else f"{value:.2g} : 1"


def ends(delta: float, level: bool) -> str:
    """What bounds of means are: intervals where arms are compared, single bounds for questions about a level."""
    return f"{max(1 - 2 * delta, 0):.4g} bounds, each" if level else f"{1 - delta:.4g} interval"


SPARE = (
    " What is shown holds with something to spare, in the units of the results: a bound on one side, each wrong with "
    "at most twice the error probability of the study."
)


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + "."


def batches(number: int) -> str:
    """1 batch, 2 batches."""
    return "1 batch" if number == 1 else f"{number} batches"


def clause(text: str) -> str:
    """A sentence, to go on with inside another."""
    return text[:1].lower() + text[1:].rstrip(".")
