"""Example studies for new users: one that runs, one that is decided, and doses against a placebo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roundwise.noise import Binary
from roundwise.questions import BestArm, Claims, Question
from roundwise.store.log import written_by
from roundwise.study import create_study
from roundwise.web.uploads import Table

PAGES = {"Control": 0.312, "Short form": 0.303, "Big button": 0.337, "Guest checkout": 0.380}
TITLES = {"Plain": 0.08, "A question": 0.13, "A number": 0.09}
DOSES = {"Placebo": 0.30, "75 mg": 0.33, "150 mg": 0.45, "300 mg": 0.60}


def example_studies(storage: str) -> None:
    """Create the example studies; their results are random with a fixed seed."""
    doses = Claims.against_control(list(DOSES), "Placebo")
    _study(storage, "checkout", BestArm(), PAGES, 3, "day", 15, round_size=2000, budget=20_000)
    _study(storage, "newsletter titles", BestArm(), TITLES, 12, "week", round_size=3000, budget=60_000)
    _study(storage, "dose", doses, DOSES, 3, "visit", 5, round_size=120, budget=1200)


def _study(
    storage: str,
    name: str,
    question: Question,
    rates: Mapping[str, float],
    rounds: int,
    unit: str,
    seed: int = 1,
    **settings: Any,
) -> None:
    rng = np.random.default_rng(seed)
    people = ("user A", "user B")
    words = {"question": question, "arms": list(rates), "noise": Binary(), "seed": 3, **settings}
    with written_by(people[0]), create_study(name, storage=storage, **words) as study:
        for number in range(1, rounds + 1):
            asked = study.ask()
            if asked is None:
                return
            arms = np.repeat(np.array(asked.arms), asked.pulls.astype(int))
            arms = rng.permutation(arms)
            values = rng.random(len(arms)) < np.array([rates[str(arm)] for arm in arms])
            columns = {"user_id": [f"{number}-{i}" for i in range(len(arms))], "arm": arms.tolist()}
            with written_by(people[number % 2]):
                study.tell(Table(f"{unit}{number}.csv", columns | {"outcome": values.astype(int).tolist()}))
        study.ask()
