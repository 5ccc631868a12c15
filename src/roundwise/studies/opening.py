"""Studies by name: new ones, and those that exist, in a storage of this machine or behind a server."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from roundwise.errors import InputError, whole_number
from roundwise.noise import Noise, with_items
from roundwise.policies import Policy, usual_policy
from roundwise.questions import Question
from roundwise.studies.remote import RemoteStudy
from roundwise.studies.replay import begun
from roundwise.studies.results import Columns
from roundwise.studies.settings import Settings, arm_names, shares, within_limits
from roundwise.studies.store import Records, StudyExists, open_store
from roundwise.studies.study import Study
from roundwise.studies.writing import overview

SEED_BITS = 53  # what every reader of JSON keeps


def create_study(
    name: str,
    *,
    question: Question,
    arms: Sequence[str],
    noise: Noise,
    delta: float = 0.05,
    policy: Policy | None = None,
    max_batch: float | None = None,
    min_per_arm: float = 0.0,
    budget: int | None = None,
    round: int | None = None,
    split: Sequence[float] | str | None = None,
    storage: str | None = None,
    load_if_exists: bool = False,
    seed: int | None = None,
    columns: Columns | None = None,
) -> Study:
    """A new study in the storage (ROUNDWISE_STORAGE, or sqlite:///roundwise.db); `load_if_exists` resumes an old one.

    `policy` is the usual one of the question unless said otherwise. After `budget` results nothing more is asked for:
    the study is then undecided, and its report says what has not been ruled out. With a `round` every batch has so many
    results, with a `split` ("equal", or shares such as "2:1:1") so many of each arm; it is then complete when their
    number is there. An old study must have been created with the same settings. `seed` deals the rows of the first
    batch into parts: it is drawn, unless it is given to have the same study again, and must then be chosen before the
    results are known. `columns` are what the columns of its files are called, where they have names of their own; with
    a column of items arms are compared on the items of both, as with a noise model of items (`with_items(noise)`). With
    a storage such as "http://host:8000" the study is kept by a server (`roundwise serve`).
    """
    names = arm_names(arms)
    chosen = within_limits(usual_policy(question) if policy is None else policy, max_batch, min_per_arm)
    drawn = secrets.randbits(SEED_BITS) if seed is None else whole_number("seed", seed, 0)
    fixed = shares(split, len(names))
    titles = columns or Columns()
    if titles.item is not None:
        noise = with_items(noise)
    settings = Settings(question, names, noise, delta, chosen, drawn, budget, round, fixed, columns=titles)
    settings.check_kept()
    store = open_store(storage)
    try:
        store.create(name, settings.payload(), overview=overview(begun(name, settings)))
    except StudyExists:
        if not load_if_exists:
            store.close()
            raise
        old = Settings.from_payload(store.recent(name)[0].payload)
        if old.payload() != settings.payload() | ({"seed": old.seed} if seed is None else {}):
            store.close()
            raise InputError(
                f"There is a study '{name}' with other settings. Nothing was changed; choose another name, or load it."
            ) from None
    return _of(name, store)


def load_study(name: str, storage: str | None = None) -> Study:
    """A study that exists."""
    store = open_store(storage, create=False)
    try:
        store.known(name)
    except BaseException:
        store.close()
        raise
    return _of(name, store)


def _of(name: str, store: Records) -> Study:
    """The study, told by way of a server where there is one."""
    return Study(name, store) if store.server is None else RemoteStudy(name, store, store.server)
