"""One report for the terminal, Markdown, HTML and JSON: `facts` says what, `report` how."""

from roundwise.studies.report.facts import report_of
from roundwise.studies.report.report import Arm, Report

__all__ = ["Arm", "Report", "report_of"]
