"""One report for the terminal, Markdown, HTML, JSON, notebooks, PDF, Excel and CSV: `build` computes it, the other
modules render it.
"""

from roundwise.report.build import build_report
from roundwise.report.export import Report
from roundwise.report.model import ArmRow, ClaimRow, Event, list_events

__all__ = ["ArmRow", "ClaimRow", "Event", "Report", "build_report", "list_events"]
