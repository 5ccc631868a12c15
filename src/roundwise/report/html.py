"""The report as an HTML page, half of it for people who decide, and as a card in a notebook."""

from __future__ import annotations

from functools import cached_property

from roundwise.errors import visible
from roundwise.render.html import render_card, render_page
from roundwise.render.svg import Svg
from roundwise.report.charts import draw_evidence, draw_means
from roundwise.report.claim_table import Table, claim_table, describe_evidence
from roundwise.report.headline import meaning, write_subheadline
from roundwise.report.model import ReportData
from roundwise.report.terminal import (
    arm_table,
    describe_extent,
    describe_guarantee,
    describe_places,
    describe_version,
    file_table,
    has_claim_table,
    list_facts,
    round_table,
)
from roundwise.report.wording import sentence


class ReportView:
    """What templates show of a report: each part in words, made when a template asks for it."""

    def __init__(self, report: ReportData) -> None:
        self.report = report
        self.dangers = [*describe_guarantee(report), *map(str, report.dangers)]
        self.headline, self.under = sentence(report.headline), write_subheadline(report)
        self.kind = {"decided": "decided", "closed": "closed"}.get(report.status, "open")  # the headline's color
        self.extent, self.meaning, self.facts = describe_extent(report), meaning(report), list_facts(report)
        self.legend, self.foot = describe_places(report), describe_version(report)
        self.out = {visible(each.name) for each in report.arm_rows if each.place == "out"}

    @cached_property
    def arms(self) -> Table:
        """The table of arms."""
        return arm_table(self.report)

    @cached_property
    def claims(self) -> Table:
        """The table of claims, where claims are not about single arms."""
        return claim_table(self.report) if has_claim_table(self.report) else []

    @cached_property
    def evidence_words(self) -> str:
        """How to read the table of claims."""
        return describe_evidence(self.report)

    @cached_property
    def rounds(self) -> Table:
        """The table of rounds."""
        return round_table(self.report)

    @cached_property
    def files(self) -> Table:
        """The table of files."""
        return file_table(self.report)

    @cached_property
    def means(self) -> Svg:
        """The chart of means with their intervals."""
        return draw_means(self.report)

    @cached_property
    def evidence(self) -> Svg:
        """The chart of evidence."""
        return draw_evidence(self.report)


def render_report(report: ReportData) -> str:
    """Render a report as one HTML page that needs nothing else."""
    return render_page("report_page.html", view=ReportView(report))


def render_report_card(report: ReportData) -> str:
    """Render a report for a notebook: the headline, the arms and the charts."""
    return render_card("report_card.html", view=ReportView(report))
