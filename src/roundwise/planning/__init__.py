"""What a study will take: before the first result, and from the middle of it."""

from roundwise.planning.costs import Costs
from roundwise.planning.expected import Expected
from roundwise.planning.fixed import FixedDesign
from roundwise.planning.front import Setting
from roundwise.planning.instead import Instead
from roundwise.planning.plan import StudyPlan, Wish, plan
from roundwise.planning.rows import Power, Row, Spread

__all__ = [
    "Costs",
    "Expected",
    "FixedDesign",
    "Instead",
    "Power",
    "Row",
    "Setting",
    "Spread",
    "StudyPlan",
    "Wish",
    "plan",
]
