"""Live studies: named, durable experiments.

`study` has the rules of what may be told, `changing` those of what may change; `replay` reads the log as facts, `count`
does the mathematics when a batch is complete, `keeping` has audits, exports and lists. `results/` reads files, `store/`
keeps the log, `report/` says what there is to say.
"""

from roundwise.studies.opening import create_study, load_study
from roundwise.studies.replay import replayed
from roundwise.studies.rounds import Asked
from roundwise.studies.settings import Settings
from roundwise.studies.state import State
from roundwise.studies.study import Study

__all__ = ["Asked", "Settings", "State", "Study", "create_study", "load_study", "replayed"]
