"""Studies by name: new ones, and those that exist, in a storage of this machine or behind a server.

One behind a server is read and computed here, from its record, and told, changed and ended there.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from os import fspath
from pathlib import PurePath
from typing import TYPE_CHECKING, Unpack

from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.formats.readers import COLUMNS, columns_of
from roundwise.formats.sheet import is_frame, is_path, opened, unreadable
from roundwise.ingest import Columns, TellKeywords, TellOptions
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.questions import Question
from roundwise.store import StudyExistsError, open_store
from roundwise.store.remote import Part, Server, segment
from roundwise.study.fold import Round
from roundwise.study.spec import StudySpec
from roundwise.study.state import State
from roundwise.study.study import FRAME, Study, overview

if TYPE_CHECKING:
    from roundwise.report import Report
    from roundwise.store import Records


class RemoteStudy(Study):
    """A study that a server keeps.

    What looks is inherited. What records is a request, and has a key: where the connection is lost it is sent again,
    and recorded once.
    """

    def __init__(self, name: str, store: Records, server: Server) -> None:
        super().__init__(name, store)
        self.server = server

    def asking(self) -> tuple[Round | None, State]:
        """The batch to do next, and where the study stands."""
        found = self.server.post(self._path("ask"), {})
        state = self.state
        return (None if found["round"] is None else state.open_round), state

    def tell(
        self, *sources: object, round_over: str | None = None, key: str | None = None, **words: Unpack[TellKeywords]
    ) -> Report:
        """Record results of the open batch: files or data frames; `round_over` says why the rest will not come."""
        options = TellOptions(**words)
        self._check_told(sources, round_over)
        said = options.plain() | ({} if round_over is None else {"round_over": round_over})
        return self._upload("files", sources, said, key)

    def amend(self, replaces: str, source: object | None, why: str, **words: Unpack[TellKeywords]) -> Report:
        """Correct what a recorded file brought (or withdraw it: `source` None), with a reason; nothing is erased."""
        said = TellOptions(**words).plain() | {"file": replaces, "why": why}
        return self._upload("amend", () if source is None else (source,), said)

    def import_past(self, source: object) -> Report:
        """Let earlier data teach where to look; they are no evidence, and must not be told again as results."""
        return self._upload("import-past", (source,), {})

    def end(self, why: str) -> Report:
        """End the study before it is decided; what has not been ruled out is reported."""
        return self._post("end", {"why": why})

    def drop(self, arm: str, why: str, unrelated: bool = False) -> Report:
        """Leave an arm out from here on; `unrelated` says that the reason has nothing to do with any result."""
        return self._post("drop", {"arm": arm, "why": why, "unrelated": unrelated})

    def add(self, arm: str, why: str = "", unrelated: bool = False) -> Report:
        """Take in one more arm; `unrelated` says that the reason has nothing to do with any result."""
        return self._post("add", {"arm": arm, "why": why, "unrelated": unrelated})

    def extend(self, budget: int) -> Report:
        """Allow so many results in all."""
        return self._post("extend", {"budget": budget})

    def reopen(self, why: str) -> Report:
        """Go on with a study that was closed undecided."""
        return self._post("reopen", {"why": why})

    def note(self, text: str) -> Report:
        """Record a remark."""
        return self._post("note", {"text": text})

    def _path(self, verb: str) -> str:
        return f"/studies/{segment(self.name)}/{verb}"

    def _post(self, verb: str, body: Plain) -> Report:
        self.server.post(self._path(verb), body, self.key or secrets.token_hex(16), self.expected)
        return self._recorded_report()

    def _upload(self, verb: str, sources: tuple[object, ...], said: Plain, key: str | None = None) -> Report:
        parts = [Part("options", json.dumps(said).encode()), *(part_of(each) for each in sources)]
        self.server.upload(self._path(verb), parts, key or self.key or secrets.token_hex(16), self.expected)
        return self._recorded_report()

    def _recorded_report(self) -> Report:
        if self.on_recorded is not None:
            self.on_recorded()
        return self._report(self._read_state())


def part_of(source: object) -> Part:
    """A source as it is sent: a file as it is, a data frame as JSON of its columns."""
    if is_path(source):
        path = str(fspath(source))
        try:
            with opened(path) as file:
                return Part("file", file.read(), PurePath(path).name)
        except OSError as error:
            raise unreadable(path, error) from None
    if not is_frame(source):
        raise InputError(f"Results come from a file or a data frame, not from a value of type {type(source).__name__}.")
    return Part("file", json.dumps(columns_of(FRAME, source), allow_nan=False).encode(), FRAME, COLUMNS)


def create_study(
    name: str,
    *,
    question: Question,
    arms: Sequence[str],
    noise: Noise,
    delta: float | str = 0.05,
    policy: Policy | None = None,
    max_round: int | None = None,
    min_per_arm: int = 0,
    budget: int | None = None,
    round: int | None = None,
    split: Sequence[float] | str | None = None,
    columns: Columns | None = None,
    seed: int | None = None,
    storage: str | None = None,
    load_if_exists: bool = False,
) -> Study:
    """Create a study and record its settings.

    Args:
        name: Name of the study, unique in its storage.
        question: Question to answer, e.g. `BestArm()` or `Claims.against_control(arms, "a")`.
        arms: Names of the arms, at least two.
        noise: Noise model of the results, e.g. `Binary()` or `Bounded(1, 5)`. `noise.with_items()` is for arms that are
            tried on the same items.
        delta: Largest probability of a wrong answer.
        policy: Sampling policy with its stopping rule. Default: `ConditionalPower()` for claims, else `Wager()`.
        max_round: Largest number of results in a round.
        min_per_arm: Smallest number of results of an arm that a round samples.
        budget: Largest number of results in the whole study. When it is used up, the study ends undecided and its
            report says what has not been ruled out.
        round: Number of results in every round. The round is complete at that number, whatever the allocation.
        split: Fixed allocation ratio: "equal", or shares such as "2:1:1" or [2, 1, 1].
        columns: Names of the columns in result files, where they are not the usual ones. With a column of items, arms
            are compared on the items they share.
        seed: Seed of the random partition of rows, drawn if omitted. If you choose it, do so before results are known:
            the guarantee is then conditional on row order being unrelated to values.
        storage: URL of the storage: a file ("sqlite:///roundwise.db"), a database ("postgresql://..."), or a server
            ("http://host:8000", see `roundwise serve`). The default is ROUNDWISE_STORAGE, else roundwise.db.
        load_if_exists: Load the study of this name if there is one with the same settings.

    Returns:
        The study, ready for `ask` and `tell`.

    Raises:
        InputError: If a setting is invalid, or the existing study has other settings.
        StudyExistsError: If there is a study of this name and `load_if_exists` is false.

    Example:
        ::

            study = create_study("checkout", question=BestArm(), arms=["red", "green"], noise=Binary())
            while (round_ := study.ask()) is not None:
                report = study.tell(collect(round_))
    """
    spec = StudySpec.declare(
        question=question,
        arms=arms,
        noise=noise,
        delta=delta,
        policy=policy,
        max_round=max_round,
        min_per_arm=min_per_arm,
        budget=budget,
        round=round,
        split=split,
        columns=columns,
        seed=seed,
    )
    return create_from_spec(name, spec, storage, load_if_exists)


def create_from_spec(name: str, spec: StudySpec, storage: str | None = None, load_if_exists: bool = False) -> Study:
    """Create the study that `spec` declares; see `create_study`."""
    spec.check_recordable()
    spec.check()
    store = open_store(storage)
    try:
        store.create(name, spec.to_json(), overview=overview(State(name, spec)))
    except StudyExistsError:
        if not load_if_exists:
            store.close()
            raise
        old = StudySpec.from_json(store.recent(name)[0].payload)
        seed = spec.seed if spec.seed_given else old.seed
        if replace(spec, seed=seed, seed_given=old.seed_given).to_json() != old.to_json():
            store.close()
            raise InputError(
                f"A study '{name}' exists with other settings. Nothing was changed; choose another name, or load it."
            ) from None
    return _of(name, store)


def load_study(name: str, storage: str | None = None) -> Study:
    """Return a study that exists; an UnknownStudyError if there is none of this name.

    Args:
        name: The name of the study.
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.
    """
    store = open_store(storage, create=False)
    try:
        store.head(name)
    except BaseException:
        store.close()
        raise
    return _of(name, store)


def _of(name: str, store: Records) -> Study:
    """The study, told by way of a server where there is one."""
    return Study(name, store) if store.server is None else RemoteStudy(name, store, store.server)
