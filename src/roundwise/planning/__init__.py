"""What a study will take: before the first result, and from the middle of it."""

from roundwise.planning.alternatives import PlanAlternative
from roundwise.planning.fixed_designs import FixedDesign
from roundwise.planning.forecast import Quantiles
from roundwise.planning.planner import plan
from roundwise.planning.quantities import Costs
from roundwise.planning.replan import Outlook, first_line, outlook_line, replan, report_ahead
from roundwise.planning.request import PlanRequest, Scenario
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
