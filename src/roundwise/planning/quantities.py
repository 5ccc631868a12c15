"""Numbers as people write and read them, and what results, rounds and days cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError, unknown
from roundwise.model.spec import parse_quantity
from roundwise.study.spec import parse_numbers

THIN = "\N{NO-BREAK SPACE}"


def one_for_each(
    value: str | float | Sequence[str | float] | Mapping[str, str | float], names: Sequence[str], what: str
) -> Floats:
    """One number for every arm: the same for all, a list in their order, or by name. (K)

    >>> one_for_each("a=2,b=5%", ["a", "b"], "sample cost")
    array([2.  , 0.05])
    """
    if isinstance(value, str) and "=" in value:
        value = {name.strip(): number for name, _, number in (each.partition("=") for each in value.split(","))}
    if isinstance(value, Mapping):
        for name in value:
            if name not in names:
                raise unknown("arm", name, names)
        missing = [name for name in names if name not in value]
        if missing:
            raise InputError(f"The {what} of '{missing[0]}' is not given. Give one number, or one for every arm.")
        return np.array([parse_quantity(value[name], what) for name in names])
    several = isinstance(value, Sequence) and not (isinstance(value, str) and "," not in value)
    found = np.array(parse_numbers(value, what)) if several else np.array([parse_quantity(value, what)])  # type: ignore[arg-type]
    if found.size == 1:
        return np.full(len(names), found[0])
    if found.size != len(names):
        raise InputError(
            f"The {what} has {found.size} numbers, but there are {len(names)} arms. Give one, or one each."
        )
    return found


def whole(value: float) -> str:
    """A large number to two digits, as a forecast deserves: 178 000.

    >>> whole(177_816.0).replace(THIN, " "), whole(96.0), whole(math.inf)
    ('180 000', '96', 'never')
    """
    if math.isinf(value) or math.isnan(value):
        return "never"
    digits = 1 if value == 0 else math.floor(math.log10(abs(value))) + 1
    return exact(round(value) if digits <= 2 else round(value, 2 - digits))


def exact(value: float) -> str:
    """A number with its thousands apart; fractions to three digits."""
    if math.isinf(value):
        return "infinite"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{round(value):,}".replace(",", THIN)
    return f"{value:.3g}"


def share(value: float) -> str:
    """A probability in per cent; what lies near an end to a tenth.

    >>> share(0.954), share(0.0012), share(0.0)
    ('95 %', '0.1 %', '0 %')
    """
    percent = 100 * value
    text = f"{percent:.1f}" if 0 < percent < 1 or 99 < percent < 100 else f"{percent:.0f}"
    return f"{text}{THIN}%".replace(f".0{THIN}", THIN).replace(THIN, " ")


def amount(value: float, rates: bool) -> str:
    """A difference of means: in points if they are rates, else as it is.

    >>> amount(0.02, True), amount(0.005, True), amount(0.2, False)
    ('2 points', '0.5 points', '0.2')
    """
    if not rates:
        return f"{value:g}"
    points = float(f"{100 * value:.6g}")
    return f"{points:g} point" + ("" if points == 1 else "s")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The price of a result of each arm, the price of a round, and the days that a round takes."""

    sample: tuple[float, ...] | None = None  # one for each arm
    round: float = 0.0
    days: float | None = None  # of a round

    def __post_init__(self) -> None:
        numbers = [*(self.sample or ()), self.round, self.days or 0.0]
        if not all(math.isfinite(each) and each >= 0 for each in numbers):
            raise InputError("Costs and days must be numbers of at least 0.")

    @property
    def known(self) -> bool:
        """Whether anything has a price."""
        return bool(self.sample and any(self.sample)) or self.round > 0

    def of(self, counts: Floats, batches: Floats) -> Floats:
        """What these results and rounds cost; what never ends has no price. (K)->()"""
        prices = np.zeros(counts.shape[-1]) if self.sample is None else np.asarray(self.sample)
        ends = np.isfinite(batches)
        cost = np.where(ends[..., None], counts, 0.0) @ prices + self.round * np.where(ends, batches, 0.0)
        return np.where(ends, cost, np.inf)

    @property
    def price_of_round(self) -> float | None:
        """A round in results of average price: what the policy is to weigh it with."""
        mean = float(np.mean(self.sample)) if self.sample else 0.0
        return self.round / mean if mean > 0 and self.round > 0 else None
