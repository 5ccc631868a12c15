"""Live studies: named, durable experiments. `study` has the rules of what may be told, `replay` folds the log."""

from roundwise.studies.replay import Asked, State, replayed
from roundwise.studies.settings import Settings
from roundwise.studies.study import Study, create_study, load_study

__all__ = ["Asked", "Settings", "State", "Study", "create_study", "load_study", "replayed"]
