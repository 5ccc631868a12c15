"""One report for the terminal, Markdown, HTML, JSON, notebooks, PDF, Excel and CSV: `facts` says what, others how."""

from roundwise.report.build import Report, report_of
from roundwise.report.model import Arm, Event, Shown, events_of

__all__ = ["Arm", "Event", "Report", "Shown", "events_of", "report_of"]
