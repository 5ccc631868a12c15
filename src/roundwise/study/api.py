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
from roundwise.formats.detect import COLUMNS, columns_of
from roundwise.formats.sheet import is_frame, is_path, opened, unreadable
from roundwise.ingest import Columns, Options, Words
from roundwise.model.problem import check_whole_number
from roundwise.noise import Noise
from roundwise.policies import Policy, usual_policy
from roundwise.policies.rounds import shares
from roundwise.questions import Question
from roundwise.store import StudyExists, open_store
from roundwise.store.client import Part, Server, segment
from roundwise.study.replay import begun
from roundwise.study.rounds import Asked
from roundwise.study.settings import Settings, arm_names, within_limits
from roundwise.study.state import State
from roundwise.study.study import Study
from roundwise.study.transactions import FRAME, overview, reasoned

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

    def asking(self) -> tuple[Asked | None, State]:
        """The batch to do next, and where the study stands."""
        found = self.server.post(self._path("ask"), {})
        state = self.state
        return (None if found["round"] is None else state.outstanding), state

    def tell(
        self, *sources: object, round_over: str | None = None, key: str | None = None, **words: Unpack[Words]
    ) -> Report:
        """Record results of the open batch: files or data frames; `round_over` says why the rest will not come."""
        options = Options(**words)
        if not sources and round_over is None:
            raise InputError("Give the results: a file or a data frame.")
        if round_over is not None:
            reasoned(round_over)
        said = options.plain() | ({} if round_over is None else {"round_over": round_over})
        return self._upload("files", sources, said, key)

    def amend(self, replaces: str, source: object | None, why: str, **words: Unpack[Words]) -> Report:
        """Correct what a recorded file brought (or withdraw it: `source` None), with a reason; nothing is erased."""
        said = Options(**words).plain() | {"file": replaces, "why": why}
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
        return self._report(self.state)

    def _upload(self, verb: str, sources: tuple[object, ...], said: Plain, key: str | None = None) -> Report:
        parts = [Part("options", json.dumps(said).encode()), *(part_of(each) for each in sources)]
        self.server.upload(self._path(verb), parts, key or self.key or secrets.token_hex(16), self.expected)
        return self._report(self.state)


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
    number is there. An old study must have been created with the same settings. `seed` deals the rows of a batch into
    parts. It is drawn, unless it is given to have the same study again: choose it then before results are known, and
    the guarantee is conditional on an order of rows that has nothing to do with their values. `columns` are what the
    columns of its files are called, where they have names of their own; with a column of items arms are compared on the
    items of both, as with a noise model of items (`noise.with_items()`). With a storage such as "http://host:8000" the
    study is kept by a server (`roundwise serve`).
    """
    names = arm_names(arms)
    for what, given, like in (("question", question, "BestArm()"), ("noise", noise, "Binary()")):
        if isinstance(given, str):
            raise InputError(f"`{what}` is the text '{given[:40]}'. Give the object, for example {like}.")
    chosen = within_limits(usual_policy(question) if policy is None else policy, max_batch, min_per_arm)
    drawn = secrets.randbits(SEED_BITS) if seed is None else check_whole_number("seed", seed, 0)
    fixed = shares(split, len(names))
    titles = columns or Columns()
    if titles.item is not None:
        noise = noise.with_items()
    settings = Settings(
        question, names, noise, delta, chosen, drawn, budget, round, fixed, columns=titles, seed_given=seed is not None
    )
    settings.check_kept()
    settings.check_classes()
    settings.check_limits()
    store = open_store(storage)
    try:
        store.create(name, settings.payload(), overview=overview(begun(name, settings)))
    except StudyExists:
        if not load_if_exists:
            store.close()
            raise
        old = Settings.from_payload(store.recent(name)[0].payload)
        same = replace(settings, seed=old.seed if seed is None else seed, seed_given=old.seed_given)
        if old.payload() != same.payload():
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
