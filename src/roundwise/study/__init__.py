"""Live studies: named, durable experiments.

`study` has the rules of what may be told, `changing` those of what may change; `replay` reads the log as facts, `count`
does the mathematics when a batch is complete, `keeping` has audits, exports and lists. `results/` reads files, `store/`
keeps the log, `report/` says what there is to say.
"""

from roundwise.study.api import create_study, load_study
from roundwise.study.fold import Round
from roundwise.study.settings import Settings
from roundwise.study.state import State, replay
from roundwise.study.study import Study

__all__ = ["Round", "Settings", "State", "Study", "create_study", "load_study", "replay"]
