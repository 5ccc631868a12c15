"""Charts of the lab as SVG: box plots of samples and batches, and the front of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.report.wording import count
from roundwise.simulation.summary import Runs, Summary
from roundwise.web.charts import esc, short

LONGEST = 22  # letters of the name of a policy
WIDTH, LEFT, RIGHT, STEP, TOP = 500.0, 145.0, 24.0, 30.0, 6.0


class LogAxis(NamedTuple):
    """A scale of numbers of things: their logarithms between two ends."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Floats) -> LogAxis:
        """One that holds all values, with a little room."""
        low, high = math.log10(max(values.min(), 1.0)), math.log10(max(values.max(), 1.0))
        room = 0.06 * max(high - low, 0.1)
        return cls(low - room, high + room)

    @property
    def ticks(self) -> list[float]:
        """Round numbers in it: at most seven."""
        every = self._round(1, 2, 5)
        if len(every) < 3:
            every = self._round(1, 2, 3, 4, 5, 6, 8)
        tens = self._round(1)
        return tens if len(every) > 7 and len(tens) > 1 else every[:: math.ceil(len(every) / 7) or 1]

    def _round(self, *digits: int) -> list[float]:
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        every = [digit * 10.0**power for power in powers for digit in digits]
        return [each for each in every if self.low <= math.log10(each) <= self.high]

    def place(self, value: float, start: float, end: float) -> float:
        """Where a value is, between two coordinates."""
        part = (math.log10(max(value, 1.0)) - self.low) / (self.high - self.low)
        return round(start + (end - start) * part, 1)


def boxes(runs: Sequence[Runs], what: str) -> str:
    """Box plots of `samples` or `batches`: the middle half, the median, and 90 % of the runs."""
    values = [getattr(each, what) for each in runs]
    axis = LogAxis.over(np.concatenate(values))
    bottom = TOP + STEP * len(runs)
    parts = [
        f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{count(tick)}</text>'
        for tick in axis.ticks
        for x in [axis.place(tick, LEFT, WIDTH - RIGHT)]
    ]
    for i, (each, found) in enumerate(zip(runs, values, strict=True)):
        at = [axis.place(float(q), LEFT, WIDTH - RIGHT) for q in np.quantile(found, (0.05, 0.25, 0.5, 0.75, 0.95))]
        y = TOP + STEP * i + STEP / 2
        name = esc(short(each.policy, LONGEST))
        said = f"{each.policy}: median {count(float(np.median(found)))}, mean {count(float(found.mean()))}"
        parts.append(
            f'<g><title>{esc(said)}</title><text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{name}'
            f'</text><line class="whisker" x1="{at[0]}" x2="{at[4]}" y1="{y}" y2="{y}"/><rect class="half" x="{at[1]}" '
            f'y="{y - 8}" width="{max(at[3] - at[1], 1):.1f}" height="16" rx="2"/><line class="median" x1="{at[2]}" '
            f'x2="{at[2]}" y1="{y - 8}" y2="{y + 8}"/></g>'
        )
    return _svg(parts, bottom + 24, f"{what} of each policy: the middle half, the median, and 90 % of the runs")


def front(summaries: Sequence[Summary]) -> str:
    """Mean samples against mean batches: what lies to the lower left of another is better in both."""
    height, bottom = 300.0, 260.0
    across = LogAxis.over(np.array([each.batches_mean for each in summaries]))
    up = LogAxis.over(np.array([each.samples_mean for each in summaries]))
    parts = [
        f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
        for tick in across.ticks
        for x in [across.place(tick, 70, WIDTH - 60)]
    ]
    parts += [
        f'<line class="grid" x1="70" x2="{WIDTH - 60}" y1="{y}" y2="{y}"/>'
        f'<text class="tick" x="62" y="{y + 4}" text-anchor="end">{count(tick)}</text>'
        for tick in up.ticks
        for y in [up.place(tick, bottom, TOP)]
    ]
    for each in summaries:
        x, y = across.place(each.batches_mean, 70, WIDTH - 60), up.place(each.samples_mean, bottom, TOP)
        said = f"{each.policy}: {count(each.samples_mean)} samples in {each.batches_mean:.1f} batches"
        beside = f'x="{x - 10}" text-anchor="end"' if x > WIDTH / 2 else f'x="{x + 10}"'
        parts.append(
            f'<g class="{"best" if _best(each, summaries) else "other"}"><title>{esc(said)}</title>'
            f'<circle cx="{x}" cy="{y}" r="6"/><text {beside} y="{y + 4}">{esc(short(each.policy, LONGEST))}</text></g>'
        )
    parts.append(
        f'<text class="tick" x="{(WIDTH - 40) / 2}" y="{bottom + 34}" text-anchor="middle">batches on average</text>'
    )
    parts.append('<text class="tick" x="70" y="0">samples on average</text>')
    return _svg(parts, height, "Mean samples against mean batches of each policy")


def _best(one: Summary, every: Sequence[Summary]) -> bool:
    """Whether none is better in both."""
    return not any(
        other.samples_mean < one.samples_mean and other.batches_mean <= one.batches_mean for other in every
    ) and not any(other.samples_mean <= one.samples_mean and other.batches_mean < one.batches_mean for other in every)


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    return (
        f'<svg class="chart lab" viewBox="0 -12 {WIDTH:g} {height + 12:g}" role="img" aria-label="{esc(label)}">'
        f"{''.join(parts)}</svg>"
    )
