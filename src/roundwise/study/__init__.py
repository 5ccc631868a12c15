"""Live studies: named, durable experiments.

`study` has the rules of what may be told, `changing` those of what may change; `replay` reads the log as facts, `count`
does the mathematics when a batch is complete, `keeping` has audits, exports and lists. `results/` reads files, `store/`
keeps the log, `report/` says what there is to say.
"""

from roundwise.study.api import create_study, load_study
from roundwise.study.events import Asked
from roundwise.study.spec import StudySpec
from roundwise.study.state import State, replayed
from roundwise.study.study import Study

__all__ = ["Asked", "State", "Study", "StudySpec", "create_study", "load_study", "replayed"]
