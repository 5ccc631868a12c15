"""Charts as SVG: axes, grids, lines, bars, intervals, points and legends, for pages and as files.

Places across are in per cent of the width and text is in pixels, so a chart is as readable on a phone as on a wide
screen. Elements carry classes; `static/base.css` says how they look, on pages and inside SVG files alike.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from roundwise.messages import visible

SERIES = 8  # colors
TICKS = 7  # of a logarithmic axis, at most
Label = Callable[[float], str]  # the words for a value on an axis
LegendEntry = tuple[str, str, str]  # words, class, marker
# markers, 10 pixels wide
CIRCLE = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z"
CROSS = "M-4-4L4 4M-4 4L4-4"
SHAPES = (CIRCLE, "M-4-4h8v8h-8z", "M0-5.5l5.5 5.5-5.5 5.5-5.5-5.5z", "M0-5l5 9h-10z")


class Svg(str):
    """Markup that a template inserts as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def element(tag: str, *inside: str, **attributes: object) -> Svg:
    """Build an element; every attribute, and every text that is not an `Svg`, is escaped.

    >>> element("text", "a < b", x="5%", class_="tick")
    '<text x="5%" class="tick">a &lt; b</text>'
    """
    plain = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in attributes.items()}
    named = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in plain.items())
    text = "".join(escape(each) if type(each) is str else each for each in inside)
    return Svg(f"<{tag}{named}>{text}</{tag}>" if inside else f"<{tag}{named}/>")


def escape(text: str) -> str:
    """Escape text for a page; control characters are written out."""
    return html.escape(visible(text))


def shorten(name: str, longest: int = 40) -> str:
    """Cut a name that is too long for a chart."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


class Axis(NamedTuple):
    """A scale between two ends, with the values to label."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    @classmethod
    def linear(cls, values: Iterable[float]) -> Axis:
        """Build a scale with round ticks that holds all values.

        >>> Axis.linear([0.21, 0.38]).ticks
        (0.2, 0.25, 0.3, 0.35, 0.4)
        """
        values = list(values)
        low, high = min(values), max(values)
        span = (high - low) or abs(high) or 1.0
        unit = 10.0 ** math.floor(math.log10(span / 4))
        step = next(unit * each for each in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (unit * each) <= 5)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        last = max(last, first + 1)
        return cls(first * step, last * step, tuple(round(i * step, 12) for i in range(first, last + 1)))

    @classmethod
    def whole(cls, low: int, high: int) -> Axis:
        """Build a scale of whole numbers, with at most eight ticks.

        >>> Axis.whole(0, 20).ticks
        (0, 3, 6, 9, 12, 15, 18)
        """
        return cls(low, max(high, low + 1), tuple(range(low, high + 1, max(1, math.ceil((high - low + 1) / 8)))))

    @classmethod
    def logarithmic(cls, values: Iterable[float]) -> Axis:
        """Build a logarithmic scale that holds all values with some room, with at most seven round ticks.

        >>> Axis.logarithmic([30, 900]).ticks
        (50.0, 100.0, 200.0, 500.0, 1000.0)
        """
        values = [each for each in values if each > 0] or [1.0]
        low, high = math.log10(min(values)), math.log10(max(values))
        room = 0.06 * max(high - low, 0.1)
        low, high = low - room, high + room

        def ticks(*digits: int) -> list[float]:
            powers = range(math.floor(low), math.ceil(high) + 1)
            every = [digit * 10.0**power for power in powers for digit in digits]
            return [each for each in every if low <= math.log10(each) <= high]

        found = ticks(1, 2, 5)
        if len(found) < 3:
            found = ticks(1, 2, 3, 4, 5, 6, 8)
        if len(found) > TICKS:
            found = tens if len(tens := ticks(1)) > 1 else found
            found = found[:: math.ceil(len(found) / TICKS)]
        return cls(10.0**low, 10.0**high, tuple(found), True)

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1; values beyond an end lie at that end."""
        value = min(max(value, min(self.low, self.high)), max(self.low, self.high))
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Chart:
    """A chart that is drawn piece by piece.

    Args:
        x: The horizontal scale.
        y: The vertical scale; without one, vertical places are pixels from the top.
        height: Pixels of the plot itself, without its labels.
        left: Where the plot begins, in per cent of the width.
        top: Pixels above the plot.
    """

    def __init__(
        self, x: Axis, y: Axis | None = None, *, height: float = 180.0, left: float = 12.0, top: float = 10.0
    ) -> None:
        self.x, self.y, self.height, self.left, self.right, self.top = x, y, height, left, 98.0, top
        self.bottom = top + height + 24  # with the labels of ticks
        self.parts: list[Svg] = []
        self.legend: list[LegendEntry] = []
        self.title = ""

    def add(self, tag: str, *inside: str, **attributes: object) -> None:
        self.parts.append(element(tag, *inside, **attributes))

    def across(self, value: float) -> str:
        """The horizontal place of a value."""
        return f"{round(self.left + (self.right - self.left) * self.x.place(value), 2):g}%"

    def down(self, value: float) -> float:
        """The vertical place of a value."""
        return round(value if self.y is None else self.top + self.height * (1 - self.y.place(value)), 1)

    def draw_ticks(self, x: Label | None = None, y: Label | None = None, grid: str = "xy") -> None:
        """Label the ticks, with grid lines across (`x`) or down."""
        end = self.top + self.height
        for tick in self.x.ticks if x is not None else ():
            at = self.across(tick)
            if "x" in grid:
                self.add("line", class_="grid", x1=at, x2=at, y1=self.top, y2=end)
            anchor = "start" if float(at[:-1]) < 5 else "end" if float(at[:-1]) > 95 else "middle"
            self.add("text", x(tick), x=at, y=end + 16, text_anchor=anchor)  # type: ignore[misc]
        for tick in self.y.ticks if y is not None and self.y is not None else ():
            if "y" in grid:
                self.add("line", class_="grid", x1=f"{self.left:g}%", x2="100%", y1=self.down(tick), y2=self.down(tick))
            self.add("text", y(tick), x=f"{self.left - 1:g}%", y=self.down(tick) + 4, text_anchor="end")  # type: ignore[misc]

    def draw_names(self, x: str = "", y: str = "", title: str = "") -> None:
        """Name the axes and the chart: the horizontal axis below the plot, all else above it."""
        self.title = title
        for i, line in enumerate(title.splitlines()):
            self.add("text", line, class_="title", x=0, y=14 + 16 * i)
        if y:
            self.add("text", y, x=0, y=self.top - 14)
        if x:
            self.add("text", x, x=f"{(self.left + self.right) / 2:g}%", y=self.bottom + 10, text_anchor="middle")
            self.bottom += 16

    def draw_level(self, value: float, across: bool = False, kind: str = "level") -> None:
        """Draw a dashed line at a value of the horizontal axis, or with `across` of the vertical one."""
        if across:
            x1, x2, y1, y2 = f"{self.left:g}%", f"{self.right:g}%", self.down(value), self.down(value)
        else:
            x1, x2, y1, y2 = self.across(value), self.across(value), self.top, self.top + self.height
        self.add("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)

    def draw_line(self, points: Sequence[tuple[float, float]], kind: str, step: bool = False) -> None:
        """Join points; with `step`, horizontally to the next point and then vertically."""
        if step:
            points = [each for one, two in itertools.pairwise(points) for each in (one, (two[0], one[1]))] + [
                *points[-1:]
            ]
        places = " ".join(f"{100 * self.x.place(x):.2f},{self.down(y):g}" for x, y in points)
        line = element("polyline", class_=f"line {kind}", points=places, vector_effect="non-scaling-stroke")
        size = {"x": f"{self.left:g}%", "width": f"{self.right - self.left:g}%", "height": self.bottom}
        self.add(
            "svg", line, **size, viewBox=f"0 0 100 {self.bottom:g}", preserveAspectRatio="none", overflow="visible"
        )

    def draw_point(self, x: float, y: float, kind: str, shape: str = CIRCLE, title: str = "", name: str = "") -> None:
        """Draw a marker, with a `title` on hover and a `name` next to it."""
        inside = [element("title", title)] if title else []
        inside.append(element("path", d=shape))
        if name:
            far = float(self.across(x)[:-1]) > 60
            inside.append(element("text", name, x=-10 if far else 10, y=4, text_anchor="end" if far else "start"))
        place = {"x": self.across(x), "y": self.down(y), "overflow": "visible", "width": 1, "height": 1}
        self.add("svg", *inside, class_=f"point {kind}", **place)

    def draw_bar(self, start: float, end: float, value: float, kind: str) -> None:
        """Draw an upright bar from one horizontal value to another."""
        left, right = (float(self.across(each)[:-1]) for each in (start, end))
        place = {"x": f"{left:g}%", "width": f"{right - left:g}%", "y": self.down(value)}
        self.add("rect", class_=kind, **place, height=round(self.top + self.height - self.down(value), 1))

    def explain(self, words: str, kind: str, shape: str = "") -> None:
        """Add an entry to the legend, with a marker or else a line."""
        self.legend.append((words, kind, shape))

    def render(self, label: str = "", caption: str = "") -> Svg:
        """Render the chart for a page; caption and legend stand below it, and screen readers read the `label`."""
        below = [element("p", caption, class_="hint")] if caption else []
        return Svg("".join([self.render_plot(label), *below, render_legend(self.legend)]))

    def render_plot(self, label: str = "") -> Svg:
        """Render the chart for a page without its legend."""
        size = {"width": "100%", "height": round(self.bottom + 2)}
        return element("svg", *self.parts, class_="chart", **size, role="img", aria_label=label or self.title)


def render_legend(entries: Sequence[LegendEntry]) -> Svg:
    """Render a legend as a list."""
    lines = [
        element("li", element("svg", _swatch(kind, shape), width=18, height=12, aria_hidden="true"), words)
        for words, kind, shape in entries
    ]
    return element("ul", *lines, class_="legend") if lines else Svg()


def merge_legends(charts: Sequence[Chart]) -> list[LegendEntry]:
    """The entries of all legends, each once."""
    return list(dict.fromkeys(entry for chart in charts for entry in chart.legend))


def _swatch(kind: str, shape: str) -> Svg:
    if not shape:
        return element("line", class_=f"line {kind}", x1=0, x2=18, y1=6, y2=6)
    place = {"x": 9, "y": 6, "width": 1, "height": 1, "overflow": "visible"}
    return element("svg", element("path", d=shape), class_=f"point {kind}", **place)


class IntervalRow(NamedTuple):
    """A row of a chart of intervals; `box` holds the ends of the middle half, where it is drawn."""

    name: str
    low: float
    middle: float
    high: float
    kind: str = "s0"
    box: tuple[float, float] | None = None
    title: str = ""


def draw_intervals(rows: Sequence[IntervalRow], axis: Axis, label: Label, levels: Sequence[float] = ()) -> Chart:
    """Draw each interval below its name, with its middle as a dot, or as a box plot."""
    step = 34.0
    chart = Chart(axis, height=step * len(rows), left=2.0, top=6.0)
    chart.draw_ticks(label)
    for value in levels:
        chart.draw_level(value)
    for i, row in enumerate(rows):
        y = chart.top + i * step
        low, middle, high = (chart.across(each) for each in (row.low, row.middle, row.high))
        inside = [element("title", row.title)] if row.title else []
        inside.append(element("text", row.name, x=0, y=y + 12))
        inside.append(element("line", class_="range", x1=low, x2=high, y1=y + 22, y2=y + 22))
        if row.box is None:
            inside.append(element("circle", class_="dot", cx=middle, cy=y + 22, r=5))
        else:
            start, end = (float(chart.across(each)[:-1]) for each in row.box)
            width = f"{max(end - start, 0.3):g}%"
            inside.append(element("rect", class_="half", x=f"{start:g}%", width=width, y=y + 16, height=12, rx=2))
            inside.append(element("line", class_="median", x1=middle, x2=middle, y1=y + 16, y2=y + 28))
        chart.add("g", *inside, class_=row.kind)
    return chart


def render_file(
    charts: Sequence[Chart],
    columns: int = 2,
    width: int = 900,
    shared_legend: bool = False,
    heading: Sequence[str] = (),
) -> str:
    """Render charts as an SVG file with its own styles.

    Args:
        charts: The charts, in reading order.
        columns: How many stand side by side.
        width: Pixels of the whole file.
        shared_legend: Whether there is one legend for all charts, in place of one below each.
        heading: Lines above all charts.
    """
    ground = element("rect", class_="ground", width="100%", height="100%")
    parts = [element("style", Svg(read_style("chart.css"))), ground]
    parts += [element("text", line, x="1%", y=22 + 18 * i) for i, line in enumerate(heading)]
    top = 10.0 + 18 * len(heading) + (8 if heading else 0)
    for start in range(0, len(charts), columns):
        row = charts[start : start + columns]
        heights = [chart.bottom + 6 + (0 if shared_legend else 18 * len(chart.legend)) for chart in row]
        for i, (chart, height) in enumerate(zip(row, heights, strict=True)):
            legend = [] if shared_legend else _legend_lines(chart.legend, 1, chart.bottom + 6)
            place = {"x": f"{100 * i / columns + 1:g}%", "y": top, "width": f"{100 / columns - 2:g}%", "height": height}
            parts.append(element("svg", *chart.parts, *legend, **place))
        top += max(heights) + 14
    if shared_legend:
        entries, across = merge_legends(charts), max(1, width // 260)
        parts += _legend_lines(entries, across, top)
        top += 18 * math.ceil(len(entries) / across) + 6
    size = {"viewBox": f"0 0 {width} {math.ceil(top)}", "width": width, "height": math.ceil(top)}
    return element("svg", *parts, xmlns="http://www.w3.org/2000/svg", class_="chart", **size) + "\n"


def _legend_lines(entries: Sequence[LegendEntry], columns: int, top: float) -> list[Svg]:
    return [
        element(
            "svg",
            _swatch(kind, shape),
            element("text", words, x=26, y=10),
            x=f"{100 * (i % columns) / columns + 1:g}%",
            y=top + 18 * (i // columns),
            overflow="visible",
        )
        for i, (words, kind, shape) in enumerate(entries)
    ]


def read_style(name: str) -> str:
    """Read a style sheet of this package."""
    return files("roundwise.render").joinpath("static", name).read_text(encoding="utf-8")


def flat_chart_style() -> str:
    """The style sheet of charts without variables: light colors, and a rule for each color of a series."""
    text = re.sub(r"var\(--[\w-]+,(#\w+)\)", r"\1", read_style("chart.css"))
    rules = re.findall(r"([^{}]+)\{([^}]*)\}", text)
    colors = {
        name.strip(): body.partition("--own:")[2]
        for names, body in rules
        if "--own:" in body
        for name in names.split(",")
    }
    flat = [f"{selector}{{{body}}}" for selector, body in rules if "--own" not in body]
    for selector, body in rules:
        if "var(--own)" not in body:
            continue
        for each, (series, color) in itertools.product(selector.split(","), colors.items()):
            above, _, last = each.strip().rpartition(" ")
            colored = body.replace("var(--own)", color)
            flat.append(f"{above} {last}{series},{above} {series} {last},{above}{series} {last}{{{colored}}}")
    return "".join(flat)
