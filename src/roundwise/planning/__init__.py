"""Forecasts of what a study will take: before its first result, and while it is running."""

from roundwise.planning.alternatives import PlanAlternative
from roundwise.planning.fixed_designs import FixedDesign
from roundwise.planning.forecast import Outlook, Quantiles, first_line, outlook_line, replan, report_ahead
from roundwise.planning.planner import plan
from roundwise.planning.request import Costs, PlanRequest, Scenario
from roundwise.planning.rows import PlanRow, Power
from roundwise.planning.study_plan import StudyPlan, read_plan
from roundwise.planning.tradeoff import TradeoffPoint

__all__ = [
    "Costs",
    "FixedDesign",
    "Outlook",
    "PlanAlternative",
    "PlanRequest",
    "PlanRow",
    "Power",
    "Quantiles",
    "Scenario",
    "StudyPlan",
    "TradeoffPoint",
    "first_line",
    "outlook_line",
    "plan",
    "read_plan",
    "replan",
    "report_ahead",
]
