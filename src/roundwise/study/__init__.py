"""Live studies: named, durable experiments.

`study` has the public methods and their checks; `state` replays the log as facts, `fold` does the mathematics when a
round is complete, `amendments` has the rules by which arms leave and join, `audit` verifies, exports and lists.
"""

from roundwise.study.fold import Round
from roundwise.study.item_list import ItemList
from roundwise.study.metrics import Metric
from roundwise.study.spec import StudySpec
from roundwise.study.state import State, replay
from roundwise.study.study import Study, create_study, load_study

__all__ = ["ItemList", "Metric", "Round", "State", "Study", "StudySpec", "create_study", "load_study", "replay"]
