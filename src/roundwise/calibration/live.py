"""The live path: real studies, told in every way that people tell results, in an archive that is kept in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from roundwise.calibration.cells import Cell, Refused, harmed
from roundwise.calibration.laws import Law
from roundwise.calibration.shapes import SHAPES, Shape
from roundwise.environments import Generator
from roundwise.errors import InputError
from roundwise.noise import Binary, Bounded, Gaussian, Poisson, SubGaussian, UnknownVariance
from roundwise.policies import PET, Policy, RoundRobin, Wager
from roundwise.runs import Floats
from roundwise.store.log import Entry, Head, extended, written
from roundwise.study.settings import Settings, within_limits
from roundwise.study.study import Study

BATCHES = 5
Rows = tuple[Any, Floats]  # arms and outcomes, one for each row


class Archive:
    """The log of one study, in memory: what `Study` asks of a store."""

    def __init__(self, settings: Settings) -> None:
        self._entries = extended("study", Head(), [("created", written(settings.payload()))], datetime.now(UTC))

    def read(self, name: str) -> list[Entry]:
        """All entries."""
        return self._entries

    def append(self, name: str, new: Sequence[tuple[str, dict[str, Any]]], expected: int) -> list[Entry]:
        """Add entries after the last one."""
        head = Head(len(self._entries), self._entries[-1].digest)
        found = extended(name, head, [(kind, written(payload)) for kind, payload in new], datetime.now(UTC))
        self._entries = [*self._entries, *found]
        return found

    def close(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True)
class Source:
    """A law of single results."""

    law: Law
    drawn: Callable[[Generator, float, int], Floats]


def _law(name: str, noise: Any, centre: float, unit: float) -> Law:
    return Law(name, noise, centre, unit, _no_sums)


def _no_sums(means: Floats) -> Any:
    raise NotImplementedError("live paths draw rows")


def _valued(rng: Generator, mean: float, number: int) -> Floats:
    """0, .1 (half of them) or 1."""
    top = mean - 0.05
    return rng.choice([0.0, 0.1, 1.0], p=[0.5 - top, 0.5, top], size=number)


SOURCES: tuple[Source, ...] = (
    Source(_law("normal, sigma known", Gaussian(1.0), 0.0, 0.5), lambda rng, mean, n: rng.normal(mean, 1.0, n)),
    Source(_law("sub-Gaussian", SubGaussian(1.0), 0.0, 0.5), lambda rng, mean, n: rng.normal(mean, 1.0, n)),
    Source(_law("sigma unknown", UnknownVariance(), 0.0, 3.0), lambda rng, mean, n: rng.normal(mean, 7.0, n)),
    Source(_law("0/1, rate .5", Binary(), 0.5, 0.2), lambda rng, mean, n: rng.binomial(1, mean, n).astype(np.float64)),
    Source(_law("0/1, rate .1", Binary(), 0.1, 0.05), lambda rng, mean, n: rng.binomial(1, mean, n).astype(np.float64)),
    Source(_law("values in [0, 1]", Bounded(0.0, 1.0), 0.3, 0.1), _valued),
    Source(_law("counts, rate 2", Poisson(), 2.0, 0.5), lambda rng, mean, n: rng.poisson(mean, n).astype(np.float64)),
)

ASKED = tuple(
    next(each for each in SHAPES if each.name == name)
    for name in (
        "best of 2, tie",
        "tolerance, 2 arms at its border",
        "top 2 of 4, tie at the cut",
        "above, 5 on both sides",
        "minimum just below",
        "any above, just",
        "control, 4 ties",
        "statements on levels, scaled",
        "largest, sums of groups",
    )
)


@dataclass(frozen=True)
class Way:
    """A way to tell results."""

    name: str
    told: Callable[[Study, Rows, Generator], None]
    policy: Policy = Wager(first_pulls=8, growth=1.0)  # noqa: RUF009 - it is frozen
    limits: tuple[float | None, float] = (None, 0.0)
    budget: int | None = None
    more: float = 0.0  # rows beyond what was asked, as a share
    lost: float = 0.0  # rows that never come, as a share


def _file(rows: Rows, rng: Generator) -> Path:
    """The rows as a file with an id for each, so that no two files are the same."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
        file.write("id,arm,outcome\n")
        ids = rng.integers(2**62, size=len(rows[1])).tolist()
        file.writelines(f"{i},{arm},{value!r}\n" for i, arm, value in zip(ids, rows[0], rows[1].tolist(), strict=True))
    return Path(file.name)


def _some(rows: Rows, which: Any) -> Rows:
    return rows[0][which], rows[1][which]


def _hand_in(study: Study, rows: Rows, rng: Generator) -> None:
    """One file."""
    path = _file(rows, rng)
    try:
        study.tell(path)
    finally:
        path.unlink()


def _open(study: Study) -> bool:
    return study.state.outstanding is not None


def _as_drawn(study: Study, rows: Rows, rng: Generator) -> None:
    _hand_in(study, rows, rng)


def _by_value(rows: Rows) -> Rows:
    return _some(rows, np.argsort(rows[1], kind="stable"))


def _sorted(study: Study, rows: Rows, rng: Generator) -> None:
    _hand_in(study, _by_value(rows), rng)


def _files(study: Study, rows: Rows, rng: Generator, size: int, arranged: Callable[[Rows], Rows]) -> None:
    number = len(rows[1])
    starts = list(range(0, number, size))
    for start in starts:
        piece = _some(rows, np.arange(start, min(start + size, number)))
        if len(piece[1]) and _open(study):
            _hand_in(study, arranged(piece), rng)


def _sorted_files(study: Study, rows: Rows, rng: Generator) -> None:
    """Each file sorted by outcome."""
    _files(study, _some(rows, rng.permutation(len(rows[1]))), rng, max(16, len(rows[1]) // 12), _by_value)


def _cut_files(study: Study, rows: Rows, rng: Generator) -> None:
    """One sorted list, cut into files."""
    _files(study, _by_value(rows), rng, max(16, len(rows[1]) // 12), lambda piece: piece)


def _late(study: Study, rows: Rows, rng: Generator) -> None:
    """A random part first, the rest later."""
    order = rng.permutation(len(rows[1]))
    _files(study, _some(rows, order), rng, max(12, len(order) // 3), lambda piece: piece)


def _settled(study: Study, rows: Rows, rng: Generator) -> None:
    """What came, and that the rest will not."""
    _hand_in(study, rows, rng)
    if _open(study):
        study.tell(settle="the rest was lost in the post")


def _no_rows(study: Study, rows: Rows, rng: Generator) -> None:
    """An arm, at random, has no results in this batch."""
    missing = rng.choice(np.unique(rows[0]))
    kept = _some(rows, rows[0] != missing)
    if len(kept[1]):
        _hand_in(study, kept, rng)
    if _open(study):
        study.tell(settle="that arm could not be had")


def _sums(study: Study, rows: Rows, rng: Generator) -> None:
    """Sums of each arm."""
    names = np.unique(rows[0])
    values = [rows[1][rows[0] == name] for name in names]
    frame = {"arm": names.tolist(), "count": [len(v) for v in values], "total": [float(v.sum()) for v in values]}
    if study.state.settings.noise.needs == "squares":
        frame["squares"] = [float((v**2).sum()) for v in values]
    study.tell(frame)


def _mixed(study: Study, rows: Rows, rng: Generator) -> None:
    """Some arms as rows, sorted, the others as sums."""
    names = np.unique(rows[0])
    as_rows = np.isin(rows[0], names[: len(names) // 2])
    if as_rows.any():
        _hand_in(study, _by_value(_some(rows, as_rows)), rng)
    if (~as_rows).any() and _open(study):
        _sums(study, _some(rows, ~as_rows), rng)


def _amended(study: Study, rows: Rows, rng: Generator) -> None:
    """One file in three is replaced by a copy without a random third of its rows, or withdrawn: a coin decides."""
    _hand_in(study, rows, rng)
    state = study.state
    if state.trial.done or state.closed or rng.random() > 0.4:
        return
    told = state.asked[-1].told[-1]
    keep = rng.random(len(rows[1])) > 0.3
    source = _file(_some(rows, keep), rng) if keep.any() and rng.random() < 0.7 else None
    study.amend(told.digest, source, "rows of a test run were in it")
    if source is not None:
        source.unlink()


WAYS: tuple[Way, ...] = (
    Way("one file", _as_drawn),
    Way("one sorted file", _sorted),
    Way("sorted files", _sorted_files),
    Way("a sorted list cut into files", _cut_files),
    Way("late files", _late),
    Way("more than asked", _late, more=0.5),
    Way("settled short", _settled, lost=0.3),
    Way("an arm without rows", _no_rows),
    Way("sums", _sums),
    Way("rows and sums", _mixed),
    Way("amended", _amended),
    Way("a budget", _sorted_files, budget=70),
    Way("limits", _cut_files, limits=(48, 3)),
    Way("Round Robin, limits", _late, policy=RoundRobin(first_time=40.0), limits=(48, 3)),
    Way("PET, a budget", _sums, policy=PET(exploration=1.0), budget=500),
)


@dataclass(frozen=True)
class Lived:
    """Studies told in one way, from one source, over all questions in turn."""

    way: Way
    source: Source
    shapes: tuple[Shape, ...] = ASKED

    def __call__(self, runs: int, rng: Generator) -> int:
        """In how many studies a wrong answer was given, or a true null struck off."""
        return sum(self.one(self.shapes[int(rng.integers(len(self.shapes)))], rng) for _ in range(runs))

    def one(self, shape: Shape, rng: Generator) -> bool:
        """One study to the horizon, or its end."""
        question, means = shape.asked(self.source.law)
        names = tuple(f"arm {i}" for i in range(shape.arms))
        policy = within_limits(self.way.policy, *self.way.limits)
        settings = Settings(
            question, names, self.source.law.noise, 0.05, policy, int(rng.integers(2**32)), self.way.budget
        )
        study = Study("study", Archive(settings))  # type: ignore[arg-type]
        for _ in range(BATCHES):
            asked = study.ask()
            if asked is None:
                break
            self.way.told(study, self._rows(asked.table, means, rng), rng)
        state = study.state
        if state.decided is not None:
            answer = state.decided["answer"]
            right = question.plain(question.answer(means))
            if answer != right and not _also_right(settings, state, means):
                return True
        return bool(harmed(settings.problem, settings.policy, state.trial, means))

    def _rows(self, table: Sequence[tuple[str, int]], means: Floats, rng: Generator) -> Rows:
        """Results of a batch, in random order; more or fewer than asked by chance alone."""
        arms: list[str] = []
        values: list[Floats] = []
        for arm, pulls in table:
            number = pulls + int(rng.binomial(pulls, self.way.more)) - int(rng.binomial(pulls, self.way.lost))
            arms += [arm] * number
            values.append(self.source.drawn(rng, float(means[int(arm.split()[1])]), number))
        order = rng.permutation(len(arms))
        return np.array(arms)[order], np.concatenate(values)[order]


def _also_right(settings: Settings, state: Any, means: Floats) -> bool:
    from roundwise.trial import conclusion

    answer = conclusion(settings.problem, settings.policy, state.trial)
    return bool(settings.question.correct(answer, means))


def paths() -> Iterator[Cell | Refused]:
    """Every way with every source."""
    for way in WAYS:
        for source in SOURCES:
            found = Lived(way, source)
            try:
                for shape in ASKED:
                    question, _ = shape.asked(source.law)
                    policy = within_limits(way.policy, *way.limits)
                    Settings(question, tuple(map(str, range(shape.arms))), source.law.noise, 0.05, policy, 0)
            except InputError as error:
                yield Refused("live", way.name, source.law.name, str(error))
                continue
            yield Cell("live", way.name, source.law.name, 0.05, 0.2, found)


def violations() -> Iterator[Cell]:
    """What must be flagged: in how many studies it was not."""
    return iter(())
