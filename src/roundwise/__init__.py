"""Find the best of several noisy options when results arrive in batches, with error probability at most delta.

Everyday names are here: questions, noise models, the usual policies, studies, planning and simulation. The rest:

- `roundwise.policies`: every sampling rule, and the base class for your own
- `roundwise.thresholds`: thresholds for the stopping rule `GLR`
- `roundwise.environments`: simulated and replayed environments, and the base class for your own
- `roundwise.errors`: every exception, as a tree
- `roundwise.simulation.sweep`, `roundwise.arena`, `roundwise.calibration`: grids of simulations
- `roundwise.theory.bounds`: bounds of the paper

Arrays have the arms on the last axis and independent runs on every axis before it: a live experiment has shape (K,), a
simulation (runs, K), and every function takes both.
"""

from roundwise._start import loading

loading()

# ruff: noqa: E402 - first of all, since the rest takes most of a second
from typing import TYPE_CHECKING

from roundwise._version import __version__
from roundwise.errors import DataError, InputError, RoundwiseError, StoreError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, Trial, advance, begin, final_answer
from roundwise.noise import (
    Binary,
    Bounded,
    BoundedVariance,
    Capped,
    EqualVariances,
    Gaussian,
    HeteroscedasticGaussian,
    LargeSample,
    Noise,
    Normal,
    Poisson,
    SubGaussian,
)
from roundwise.policies import PET, ConditionalPower, Designed, Policy, RoundRobin, Rounds, TrackAndStop, Wager
from roundwise.questions import (
    Above,
    AnyAbove,
    BestArm,
    BestGroup,
    Claims,
    Largest,
    Linear,
    MinimumBelow,
    Question,
    Statements,
    TopK,
)
from roundwise.rules import GLR, StoppingRule
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.simulation.environments import BernoulliArms, GaussianArms
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import Runs, Summary

if TYPE_CHECKING:
    from roundwise.ingest import Columns, Reading
    from roundwise.planning import StudyPlan, plan
    from roundwise.report import Report
    from roundwise.study import ItemList, Metric, Study, create_study, load_study
    from roundwise.study.audit import export_study, import_study, list_studies, study_log, verify_study
else:
    _LATER = {  # imported on first use, because studies take a second to import
        "roundwise.planning": ("StudyPlan", "plan"),
        "roundwise.study": ("ItemList", "Metric", "Study", "create_study", "load_study"),
        "roundwise.study.audit": ("export_study", "import_study", "list_studies", "study_log", "verify_study"),
        "roundwise.report": ("Report",),
        "roundwise.ingest": ("Columns", "Reading"),
    }

    def __getattr__(name):
        """Import a name of `_LATER` on first use."""
        from importlib import import_module

        for module, names in _LATER.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module 'roundwise' has no attribute '{name}'")


__all__ = [
    "GLR",
    "PET",
    "Above",
    "AnyAbove",
    "Batch",
    "BatchPlan",
    "BernoulliArms",
    "BestArm",
    "BestGroup",
    "Binary",
    "Bounded",
    "BoundedVariance",
    "Capped",
    "Claims",
    "Columns",
    "ConditionalPower",
    "DataError",
    "Designed",
    "EProcessRule",
    "EqualVariances",
    "Gaussian",
    "GaussianArms",
    "HeteroscedasticGaussian",
    "InputError",
    "ItemList",
    "LargeSample",
    "Largest",
    "Linear",
    "Metric",
    "MinimumBelow",
    "Noise",
    "Normal",
    "Poisson",
    "Policy",
    "Problem",
    "Question",
    "Reading",
    "Report",
    "RoundRobin",
    "Rounds",
    "RoundwiseError",
    "Runs",
    "Statements",
    "StoppingRule",
    "StoreError",
    "Study",
    "StudyPlan",
    "SubGaussian",
    "Summary",
    "TopK",
    "TrackAndStop",
    "Trial",
    "Wager",
    "__version__",
    "advance",
    "begin",
    "create_study",
    "export_study",
    "final_answer",
    "import_study",
    "list_studies",
    "load_study",
    "plan",
    "simulate",
    "study_log",
    "verify_study",
]
