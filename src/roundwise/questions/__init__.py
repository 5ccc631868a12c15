"""What is asked of the means: one file a question; `base` lists what a question owes."""

from roundwise.questions.base import Complexity, Pieces, Question
from roundwise.questions.best_arm import BestArm
from roundwise.questions.claims import Claims
from roundwise.questions.largest import Largest
from roundwise.questions.levels import Above, AnyAbove, MinimumBelow
from roundwise.questions.linear import Statements
from roundwise.questions.structured import Linear
from roundwise.questions.top_k import TopK

QUESTIONS: dict[str, type[Question]] = {
    each.name: each for each in (BestArm, TopK, Above, MinimumBelow, AnyAbove, Statements, Largest, Claims, Linear)
}

__all__ = [
    "QUESTIONS",
    "Above",
    "AnyAbove",
    "BestArm",
    "Claims",
    "Complexity",
    "Largest",
    "Linear",
    "MinimumBelow",
    "Pieces",
    "Question",
    "Statements",
    "TopK",
]
