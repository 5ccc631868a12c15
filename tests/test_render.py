"""Pages and charts: everything shown is text, axes hold their values, and a base install does not need Jinja2."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from roundwise.render.html import render_card, render_page
from roundwise.render.svg import Axis, Chart, IntervalRow, Svg, draw_intervals, element, render_file

HOSTILE = '<script>alert("1")</script>\x1b[31m&'


def texts(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter() if each.text]


def chart():
    found = Chart(Axis.linear([0, 1]), Axis.logarithmic([1, 1000]), top=46.0)
    found.draw_names(HOSTILE, HOSTILE, HOSTILE)
    found.draw_ticks(lambda tick: HOSTILE, lambda tick: HOSTILE)
    found.draw_point(0.5, 10, "s0", title=HOSTILE, name=HOSTILE)
    found.explain(HOSTILE, "s0")
    return found


def test_names_in_a_chart_are_only_text():
    shown = HOSTILE.replace("\x1b", "\\x1b")
    row = IntervalRow(HOSTILE, 0.0, 0.5, 1.0, title=HOSTILE)
    for svg in (
        f"<div>{chart().render(HOSTILE, HOSTILE)}</div>",
        render_file([chart()], heading=[HOSTILE]),
        draw_intervals([row], Axis.linear([0, 1]), lambda tick: HOSTILE).render(HOSTILE),
    ):
        assert "<script" not in svg
        assert {each for each in texts(svg) if "alert" in each} == {shown}


def test_an_attribute_cannot_be_left():
    assert element("text", x='1" onload="alert(1)') == '<text x="1&quot; onload=&quot;alert(1)"/>'


@pytest.mark.parametrize(
    "axis", [Axis.linear([3, 7]), Axis.logarithmic([3, 7000]), Axis.whole(3, 7), Axis(9, 1, (), True)]
)
def test_an_axis_keeps_order_and_ends(axis):
    places = [axis.place(value) for value in (-5 if not axis.log else 1e-9, axis.low, 4.0, axis.high)]
    assert {axis.place(axis.low), axis.place(axis.high)} == {0.0, 1.0}
    assert all(0.0 <= each <= 1.0 for each in places)
    assert all(min(axis.low, axis.high) <= tick <= max(axis.low, axis.high) for tick in axis.ticks)


@pytest.mark.parametrize("values", [[0.0], [5.0], [1e-9, 1e9], [2.0, 2.0]])
def test_any_values_have_an_axis(values):
    for axis in (Axis.linear(values), Axis.logarithmic(values)):
        assert axis.low < axis.high
        assert 1 <= len(axis.ticks) <= 8 or axis.log


def test_the_styles_of_a_card_end_at_its_edge():
    class View:
        def __getattr__(self, name):
            return Svg() if name in ("means", "evidence") else HOSTILE if name in ("headline", "under") else []

    card = render_card("report_card.html", view=View())
    style = card[card.index("<style>") : card.index("</style>")]
    assert style.startswith("<style>.roundwise{")
    assert style.endswith("}")
    assert ":root{" not in style
    assert "<script" not in card
    assert "<script" not in render_page("report_page.html", view=View())


def test_jinja_is_imported_for_pages_only():
    code = "import sys, roundwise, roundwise.report, roundwise.planning; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
