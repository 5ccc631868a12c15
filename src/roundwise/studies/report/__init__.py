"""One report for the terminal, Markdown, HTML, JSON, notebooks, PDF, Excel and CSV: `facts` says what, others how."""

from roundwise.studies.report.facts import Report, report_of
from roundwise.studies.report.model import Arm, Event, Shown, events_of

__all__ = ["Arm", "Event", "Report", "Shown", "events_of", "report_of"]
