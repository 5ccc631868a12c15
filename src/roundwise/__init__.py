"""roundwise finds the best of several noisy options when results come in batches, with error at most delta.

Arrays have the arms on the last axis, and independent runs on every axis before it: a live experiment has shape (K,),
a simulation (runs, K), and every function takes both.
"""

from roundwise._start import loading

loading()

# ruff: noqa: E402 - first of all, since the rest takes most of a second
from typing import TYPE_CHECKING

from roundwise._version import __version__
from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.model.batch import Batch, BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.model.trial import advance, begin, final_answer
from roundwise.noise import (
    Binary,
    Bounded,
    Gaussian,
    HeteroscedasticGaussian,
    Noise,
    Poisson,
    SubGaussian,
    UnknownVariance,
)
from roundwise.policies import (
    PET,
    ConditionalPower,
    OptBBAI,
    Policy,
    Rage,
    RoundRobin,
    Rounds,
    TrackAndStop,
    TriBBAI,
    Wager,
)
from roundwise.questions import (
    Above,
    AnyAbove,
    BestArm,
    Claims,
    Largest,
    Linear,
    MinimumBelow,
    Question,
    Statements,
    TopK,
)
from roundwise.rules import (
    GLR,
    Declared,
    KaufmannKoolenPairwise,
    KaufmannKoolenSum,
    Lemma32,
    Lemma32ByCounts,
    LogDeterminant,
    LogLogHeuristic,
    StoppingRule,
)
from roundwise.simulation.environments import BernoulliArms, FamilyArms, GaussianArms, PoissonArms, RandomGaps
from roundwise.simulation.items import ItemReplay, NormalItems
from roundwise.simulation.replay import Replay
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import Runs, Summary

if TYPE_CHECKING:
    from roundwise.ingest import Columns
    from roundwise.planning import StudyPlan, plan
    from roundwise.report import Report
    from roundwise.store import (
        ConflictError,
        DamagedError,
        StoreError,
        StudyExistsError,
        StudyStateError,
        UnknownStudyError,
    )
    from roundwise.study import Study, create_study, load_study
    from roundwise.study.audit import export_study, import_study, list_studies, study_log, verify_study
    from roundwise.theory.bounds import overview
else:
    _LATER = {  # imported when they are first used: studies and the bounds of the paper
        "roundwise.planning": ("StudyPlan", "plan"),
        "roundwise.study": ("Study", "create_study", "load_study"),
        "roundwise.study.audit": ("export_study", "import_study", "list_studies", "study_log", "verify_study"),
        "roundwise.report": ("Report",),
        "roundwise.ingest": ("Columns",),
        "roundwise.store": (
            "ConflictError",
            "DamagedError",
            "StoreError",
            "StudyExistsError",
            "UnknownStudyError",
            "StudyStateError",
        ),
        "roundwise.theory.bounds": ("overview",),
    }

    def __getattr__(name):
        """What is imported when it is first used."""
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
    "Binary",
    "Bounded",
    "Claims",
    "Columns",
    "ConditionalPower",
    "ConflictError",
    "DamagedError",
    "DataError",
    "Declared",
    "FamilyArms",
    "Gaussian",
    "GaussianArms",
    "HeteroscedasticGaussian",
    "InputError",
    "ItemReplay",
    "KaufmannKoolenPairwise",
    "KaufmannKoolenSum",
    "Largest",
    "Lemma32",
    "Lemma32ByCounts",
    "Linear",
    "LogDeterminant",
    "LogLogHeuristic",
    "MinimumBelow",
    "Noise",
    "NormalItems",
    "OptBBAI",
    "Poisson",
    "PoissonArms",
    "Policy",
    "Problem",
    "Question",
    "Rage",
    "RandomGaps",
    "Replay",
    "Report",
    "RoundRobin",
    "Rounds",
    "RoundwiseError",
    "Runs",
    "Statements",
    "StoppingRule",
    "StoreError",
    "Study",
    "StudyExistsError",
    "StudyPlan",
    "StudyStateError",
    "SubGaussian",
    "Summary",
    "TopK",
    "TrackAndStop",
    "TriBBAI",
    "Trial",
    "UnknownStudyError",
    "UnknownVariance",
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
    "overview",
    "plan",
    "simulate",
    "study_log",
    "verify_study",
]
