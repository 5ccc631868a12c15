"""What a study will take: before the first result, and from the middle of it."""

from roundwise.planning.alternatives import Instead
from roundwise.planning.fixed_designs import FixedDesign
from roundwise.planning.forecast import Quantiles
from roundwise.planning.planner import plan
from roundwise.planning.quantities import Costs
from roundwise.planning.replan import Outlook, first_line, outlook_line, replan, report_ahead
from roundwise.planning.request import Expected, PlanRequest
from roundwise.planning.rows import Power, Row
from roundwise.planning.study_plan import StudyPlan, read_plan
from roundwise.planning.tradeoff import Setting

__all__ = [
    "Costs",
    "Expected",
    "FixedDesign",
    "Instead",
    "Outlook",
    "PlanRequest",
    "Power",
    "Quantiles",
    "Row",
    "Setting",
    "StudyPlan",
    "first_line",
    "outlook_line",
    "plan",
    "read_plan",
    "replan",
    "report_ahead",
]
