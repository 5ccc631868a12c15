"""Numbers, names and sentences as people read them, in reports and in errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from roundwise.messages import count as count
from roundwise.messages import day as day
from roundwise.messages import few as few
from roundwise.messages import several as several
from roundwise.noise import Noise

Side = Literal["near", "down", "up"]  # how to round: bounds are rounded away from what they bound
TINY = 1e-12  # a bound that is nearer than this just agrees with the decision: no number is worth saying


class Units(NamedTuple):
    """How values of a study are written: rates in per cent, everything else as it is, to so many decimals."""

    rates: bool
    decimals: int | None = None  # as many as a number needs by itself, if it is not said

    @property
    def mean(self) -> str:
        """What the mean of results is called."""
        return "rate" if self.rates else "mean"

    def value(self, value: float, side: Side = "near") -> str:
        """One value."""
        return per_cent(value, side) if self.rates else self._plain(value, side)

    def gap(self, gap: float, side: Side = "near", unit: bool = True) -> str:
        """A difference of two values, with its `unit` if there is one."""
        return points(gap, side, unit) if self.rates else self._plain(gap, side)

    def given(self, value: float) -> str:
        """A value that somebody chose: a level."""
        return share(value) if self.rates else f"{value:g}"

    def given_gap(self, gap: float) -> str:
        """A margin."""
        return f"{100 * gap:.6g} points" if self.rates else f"{gap:g}"

    def _plain(self, value: float, side: Side) -> str:
        if self.decimals is None:
            return number(value, side)
        shown = rounded(value, self.decimals, side)
        return f"{shown:.{self.decimals}f}" if shown or abs(value) < TINY else number(value, side)


def choose_units(noise: Noise, width: float | None = None) -> Units:
    """Per cent and points for 0/1 results, plain numbers for others: as many digits as bounds of this `width` allow."""
    if noise.outcome.rates or not width or not math.isfinite(width) or not 1e-9 < width < 1e9:
        return Units(noise.outcome.rates)
    return Units(False, max(0, 1 - math.floor(math.log10(width))))


def per_cent(share: float, side: Side = "near", digits: int | None = None, unit: bool = True) -> str:
    """A rate in per cent: a tenth of a point, finer near 0 and 100; or with so many decimals.

    >>> per_cent(0.3784), per_cent(0.03478), per_cent(0.0004321), per_cent(0.99952), per_cent(1.0), per_cent(-0.5)
    ('37.8 %', '3.48 %', '0.0432 %', '99.9520 %', '100 %', '-50.0 %')
    >>> per_cent(0.9), per_cent(0.4, digits=2), per_cent(0.99406, "up", 1), per_cent(0.0, digits=1)
    ('90.0 %', '40.00 %', '99.5 %', '0 %')
    """
    digits = decimals(share) if digits is None or not decimals(share) else digits
    return f"{rounded(100 * share, digits, side):.{digits}f}{' %' if unit else ''}"


def decimals(share: float) -> int:
    """With how many decimals a rate is written in per cent."""
    near = 100 * min(abs(share), abs(1 - share))
    if near < 100 * TINY:
        return 0
    return 1 if near >= 10 * (1 - TINY) else max(2, 2 - math.floor(math.log10(near)))


def alike(shares: Sequence[float], most: int = 2) -> int:
    """The decimals that rates in one column have at least: those of the finest, but no more than so many.

    >>> alike([0.0348, 0.4]), alike([0.0004, 0.4]), alike([0.3, 1.0]), alike([1.0])
    (2, 2, 1, 1)
    """
    return min(max(map(decimals, shares), default=1) or 1, most)


def points(gap: float, side: Side = "near", unit: bool = True) -> str:
    """A difference of two rates in percentage points.

    >>> points(0.0214), points(0.1138), points(0.000321), points(0.01), points(0.0219, "down")
    ('2.1 points', '11.4 points', '0.032 points', '1.0 points', '2.1 points')
    """
    name = " points" if unit else ""
    if abs(gap) < TINY:
        return f"0{name}"
    decimals = 1 if abs(gap) >= 0.01 else 1 - math.floor(math.log10(100 * abs(gap)))
    return f"{rounded(100 * gap, decimals, side):.{decimals}f}{name}"


def number(value: float | None, side: Side = "near") -> str:
    """Four digits; "?" for what is not known.

    >>> number(1234.56), number(0.012345, "down"), number(None), number(2.0)
    ('1235', '0.01234', '?', '2')
    """
    if value is None or not math.isfinite(value):
        return "?"
    if abs(value) < TINY:  # a bound that just agrees with the decision
        return "0"
    if side == "near":
        return f"{value:.4g}"
    return f"{rounded(value, 3 - math.floor(math.log10(abs(value))), side):.4g}"


def rounded(value: float, decimals: int, side: Side) -> float:
    """To so many decimals, to the given side; what is written so already stays."""
    scaled = value * 10.0**decimals
    whole = round(scaled)
    if side != "near" and abs(scaled - whole) > 1e-6:
        whole = math.floor(scaled) if side == "down" else math.ceil(scaled)
    return whole / 10.0**decimals


def odds(log: float, unit: bool = True) -> str:
    """Evidence as odds, as "20 : 1" or without that `unit` as "20".

    >>> [odds(log) for log in (3.0, -1.0, -12.0, 100.0)]
    ['20 : 1', '0.37 : 1', 'below 0.01 : 1', '10^43 : 1']
    """
    to_one = " : 1" if unit else ""
    if log < math.log(0.01):
        return f"below 0.01{to_one}"
    if log > 30:
        return f"10^{log / math.log(10):.0f}{to_one}"
    value = math.exp(log)
    return (count(value + 0.5) if value >= 10 else f"{value:.2g}") + to_one


def ends(delta: float, level: bool) -> str:
    """What bounds of means are: intervals where arms are compared, single bounds for questions about a level."""
    return f"{share(max(1 - 2 * delta, 0))} bounds, each" if level else f"{share(1 - delta)} interval"


def share(probability: float) -> str:
    """A probability in per cent, as short as it can be said.

    >>> share(0.05), share(0.95), share(0.001), share(0.125)
    ('5 %', '95 %', '0.1 %', '12.5 %')
    """
    return f"{100 * probability:.6g} %"


def sentence(text: str) -> str:
    """With a capital and a full stop; a name at its start stays as it is written."""
    return text if text.endswith((".", "?", "!")) else text + "."


def capital(text: str) -> str:
    """With a capital."""
    return text[:1].upper() + text[1:]


def rounds(number: int) -> str:
    """1 round, 2 rounds."""
    return several(number, "round")


def clause(text: str) -> str:
    """A sentence, to go on with inside another."""
    return text[:1].lower() + text[1:].rstrip(".")
