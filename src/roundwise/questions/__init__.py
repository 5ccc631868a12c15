"""Questions about the means of the arms; `base` has the base classes for questions of your own."""

from roundwise.questions.base import HalfspaceQuestion, Question, Wording
from roundwise.questions.best_arm import BestArm
from roundwise.questions.claims import Claims
from roundwise.questions.forms import Largest, Statements
from roundwise.questions.groups import BestGroup
from roundwise.questions.levels import Above, AnyAbove, MinimumBelow, SomeBeyond
from roundwise.questions.linear import Linear
from roundwise.questions.top_k import TopK
from roundwise.solvers.halfspaces import Complexity, Halfspaces, Pieces, pairs

_QUESTIONS = (
    BestArm, TopK, Above, MinimumBelow, AnyAbove, Statements, Largest, BestGroup, Claims,
    Linear,
)  # fmt: skip
QUESTIONS: dict[str, type[Question]] = {each.name: each for each in _QUESTIONS}

__all__ = [
    "QUESTIONS",
    "Above",
    "AnyAbove",
    "BestArm",
    "BestGroup",
    "Claims",
    "Complexity",
    "HalfspaceQuestion",
    "Halfspaces",
    "Largest",
    "Linear",
    "MinimumBelow",
    "Pieces",
    "Question",
    "SomeBeyond",
    "Statements",
    "TopK",
    "Wording",
    "pairs",
]
