"""One report for the terminal, Markdown, HTML, JSON, notebooks, PDF, Excel and CSV: `facts` says what, others how."""

from roundwise.studies.report.facts import report_of
from roundwise.studies.report.model import Arm, Event, Shown, events_of
from roundwise.studies.report.report import Report

__all__ = ["Arm", "Event", "Report", "Shown", "events_of", "report_of"]
