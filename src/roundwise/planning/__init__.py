"""What a study will take: before the first result, and from the middle of it."""

from roundwise.planning.again import Outlook, first_line, outlook_line, replan, report_ahead
from roundwise.planning.ahead import Quantiles
from roundwise.planning.fixed import FixedDesign
from roundwise.planning.front import Setting
from roundwise.planning.instead import Instead
from roundwise.planning.planner import plan
from roundwise.planning.quantities import Costs
from roundwise.planning.rows import Power, Row
from roundwise.planning.study_plan import StudyPlan, read_plan
from roundwise.planning.wish import Expected, Wish

__all__ = [
    "Costs",
    "Expected",
    "FixedDesign",
    "Instead",
    "Outlook",
    "Power",
    "Quantiles",
    "Row",
    "Setting",
    "StudyPlan",
    "Wish",
    "first_line",
    "outlook_line",
    "plan",
    "read_plan",
    "replan",
    "report_ahead",
]
