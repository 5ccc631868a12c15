"""The live path: real studies, told in every way that people tell results, in an archive that is kept in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.noise import Binary, Bounded, Gaussian, Poisson, SubGaussian, UnknownVariance
from roundwise.policies import PET, OptBBAI, Policy, RoundRobin, TriBBAI, Wager
from roundwise.questions import BestArm
from roundwise.simulation.environments import Generator
from roundwise.stopping import GLR, Heuristic
from roundwise.studies.guarantee import KEPT, guarantee_of
from roundwise.studies.replay import State, replayed
from roundwise.studies.settings import Settings, within_limits
from roundwise.studies.store.log import Head, extended, written
from roundwise.studies.study import Study
from roundwise.theory.calibration.cells import Cell, Refused, harmed
from roundwise.theory.calibration.laws import Law
from roundwise.theory.calibration.shapes import SHAPES, Shape
from roundwise.trial import conclusion

Rows = tuple[Any, Floats]  # arms and outcomes, one for each row


class Nowhere:
    """A store that keeps nothing."""

    def append(self, name: str, new: Sequence[tuple[str, dict[str, Any]]], expected: int) -> None:
        """Nothing to do: the study holds its state."""

    def read(self, name: str) -> list[Any]:
        """Nothing was kept."""
        return []

    def close(self) -> None:
        """Nothing to give back."""


class Remembered(Study):
    """A study by all the rules of studies, whose state is held in memory instead of replayed from a log."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("study", Nowhere())  # type: ignore[arg-type]
        self._now = replayed(extended(self.name, Head(), [("created", written(settings.payload()))], datetime.now(UTC)))

    @property
    def state(self) -> State:
        """Where the study stands."""
        return self._now

    def _report(self, state: State) -> Any:
        """None: nobody reads it."""


@dataclass(frozen=True)
class Source:
    """A law of single results."""

    law: Law
    drawn: Callable[[Generator, float, int], Floats]


def _law(name: str, noise: Any, centre: float, unit: float) -> Law:
    return Law(name, noise, centre, unit, _no_sums)


def _no_sums(means: Floats) -> Any:
    raise AssertionError("live paths draw rows, never sums")


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


def _file(**columns: Any) -> Path:
    """A table as a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
        file.write(",".join(columns) + "\n")
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
        file.writelines(",".join(map(str, line)) + "\n" for line in zip(*lists, strict=True))
    return Path(file.name)


def _told(study: Study, path: Path) -> None:
    """Tell a file; results that came out the same as others are new ones here."""
    try:
        study.tell(path)
    except InputError as error:
        if "same contents" not in str(error):
            raise
        study.tell(path, again=True)
    finally:
        path.unlink()


def _some(rows: Rows, which: Any) -> Rows:
    return rows[0][which], rows[1][which]


def _hand_in(study: Study, rows: Rows, rng: Generator) -> None:
    """One file, if there is anything to put into it."""
    if len(rows[1]):
        _told(study, _file(arm=rows[0], outcome=rows[1]))


def _open(study: Study) -> bool:
    return study.state.outstanding is not None


def as_drawn(study: Study, rows: Rows, rng: Generator) -> None:
    """One file, in random order."""
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
    columns = {"arm": names, "count": [len(v) for v in values], "total": [float(v.sum()) for v in values]}
    if study.state.settings.noise.needs == "squares":
        columns["squares"] = [float((v**2).sum()) for v in values]
    _told(study, _file(**columns))


def _mixed(study: Study, rows: Rows, rng: Generator) -> None:
    """Some arms as rows, sorted, the others as sums."""
    names = np.unique(rows[0])
    as_rows = np.isin(rows[0], names[: len(names) // 2])
    if as_rows.any():
        _hand_in(study, _by_value(_some(rows, as_rows)), rng)
    if (~as_rows).any() and _open(study):
        _sums(study, _some(rows, ~as_rows), rng)


def _corrected(study: Study, digest: str, path: Path | None, why: str) -> None:
    """Put a file in the place of another, or nothing; one that would be the same as some other is left alone."""
    try:
        study.amend(digest, path, why)
    except InputError as error:
        if "same contents" not in str(error):
            raise
    finally:
        if path is not None:
            path.unlink()


def _amended(study: Study, rows: Rows, rng: Generator) -> None:
    """One file in three is replaced by a copy without a random third of its rows, or withdrawn: a coin decides."""
    _hand_in(study, rows, rng)
    state = study.state
    if state.trial.done or state.closed or rng.random() > 0.4:
        return
    told = state.asked[-1].told[-1]
    keep = rng.random(len(rows[1])) > 0.3
    source = _file(arm=rows[0][keep], outcome=rows[1][keep]) if keep.any() and rng.random() < 0.7 else None
    _corrected(study, told.digest, source, "rows of a test run were in it")


WAYS: tuple[Way, ...] = (
    Way("one file", as_drawn),
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
    batches: int = 5
    delta: float = 0.05

    def __call__(self, runs: int, rng: Generator) -> int:
        """In how many studies a wrong answer was given, or a true null struck off."""
        return sum(self.one(self.shapes[int(rng.integers(len(self.shapes)))], rng) for _ in range(runs))

    def one(self, shape: Shape, rng: Generator) -> bool:
        """Whether that happened in one study."""
        means, state = self.state(shape, rng)
        settings = state.settings
        if state.decided is not None:
            answer = conclusion(settings.problem, settings.policy, state.trial)
            assert state.decided["answer"] == settings.question.plain(answer)
            if not settings.question.correct(answer, means):
                return True
        return bool(harmed(settings.problem, settings.policy, state.trial, means))

    def state(self, shape: Shape, rng: Generator) -> tuple[Floats, State]:
        """The true means, and one study at the horizon, or at its end."""
        means, settings = self.settings(shape, rng)
        study = Remembered(settings)
        for _ in range(self.batches):
            asked = study.ask()
            if asked is None:
                break
            self.way.told(study, self.rows(asked.table, means, rng), rng)
        return means, study.state

    def settings(self, shape: Shape, rng: Generator) -> tuple[Floats, Settings]:
        """The true means, and what is fixed before a study begins."""
        question, means = shape.asked(self.source.law)
        names = tuple(f"arm {i}" for i in range(shape.arms))
        policy = within_limits(self.way.policy, *self.way.limits)
        seed = int(rng.integers(2**32))
        return means, Settings(question, names, self.source.law.noise, self.delta, policy, seed, self.way.budget)

    def rows(self, table: Sequence[tuple[str, int]], means: Floats, rng: Generator) -> Rows:
        """Results of a batch, in random order; more or fewer than asked by chance alone."""
        arms: list[str] = []
        values: list[Floats] = []
        for arm, pulls in table:
            number = pulls + int(rng.binomial(pulls, self.way.more)) - int(rng.binomial(pulls, self.way.lost))
            arms += [arm] * number
            values.append(self.source.drawn(rng, float(means[int(arm.split()[1])]), number))
        order = rng.permutation(len(arms))
        return np.array(arms)[order], np.concatenate(values)[order]


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


def _alternating(rows: Rows) -> Rows:
    """The arms in turn, each arm's rows in their order."""
    place = np.empty(len(rows[1]))
    for name in np.unique(rows[0]):
        mine = rows[0] == name
        place[mine] = np.arange(mine.sum())
    return _some(rows, np.argsort(place, kind="stable"))


def _by_eight(arranged: Callable[[Rows], Rows], piece: Callable[[Rows], Rows]) -> Callable[..., None]:
    """Files of eight rows."""
    return lambda study, rows, rng: _files(study, arranged(rows), rng, 8, piece)


def _thirty(study: Study, rows: Rows, rng: Generator) -> None:
    """No more than thirty rows, then the batch is settled."""
    _hand_in(study, _some(rows, slice(30)), rng)
    if _open(study):
        study.tell(settle="the rest was lost in the post")


def reproductions() -> Iterator[Cell]:
    """Holes of the live path, as they were found."""
    part, tie = "reproductions", (ASKED[0],)
    close = (Shape("three arms, gap .02", 3, lambda law: (BestArm(), np.array([0.02, 0.0, 0.0]))),)
    normal, sub_gaussian = SOURCES[:2]
    for files in (20, 40):
        policy = Wager(first_pulls=4 * files)
        each_sorted = Way("", _by_eight(_alternating, _by_value), policy=policy)
        cut = Way("", _by_eight(lambda rows: _alternating(_by_value(rows)), lambda piece: piece), policy=policy)
        for words, way in (("each sorted", each_sorted), ("cut from a sorted list", cut)):
            found = Lived(way, sub_gaussian, tie, batches=1)
            yield Cell(part, f"first batch in {files} files of 8 rows, {words}", "best of 2, tie", 0.05, 2.0, found)
    for words, way in (
        ("a budget of 40", Way("", as_drawn, policy=OptBBAI(), budget=40)),
        ("batches settled at 30 rows", Way("", _thirty, policy=OptBBAI())),
    ):
        yield Cell(part, f"Opt-BBAI, {words}", close[0].name, 0.05, 2.0, Lived(way, normal, close, batches=4))


@dataclass(frozen=True)
class Unflagged:
    """Studies in which something endangers the guarantee: in how many of them the flag says "kept"."""

    lived: Lived

    def __call__(self, runs: int, rng: Generator) -> int:
        """Over all questions of it in turn."""
        shapes = self.lived.shapes
        states = (self.lived.state(shapes[int(rng.integers(len(shapes)))], rng)[1] for _ in range(runs))
        return sum(str(guarantee_of(state)) == KEPT for state in states)


def _worst_lost(study: Study, rows: Rows, rng: Generator) -> None:
    """The lowest fifth is left out because it is low."""
    _hand_in(study, _some(rows, rows[1] > np.quantile(rows[1], 0.2)), rng)
    if _open(study):
        study.tell(settle="outliers")


def _worst_amended(study: Study, rows: Rows, rng: Generator) -> None:
    """The lowest fifth is taken out afterwards."""
    _hand_in(study, rows, rng)
    kept = _some(rows, rows[1] > np.quantile(rows[1], 0.2))
    path = _file(arm=kept[0], outcome=kept[1])
    _corrected(study, study.state.asked[-1].told[-1].digest, path, "outliers")


def _drifting(study: Study, rows: Rows, rng: Generator) -> None:
    """One arm is two deviations better in every second batch."""
    later = len(study.state.asked) % 2 == 0
    _hand_in(study, (rows[0], rows[1] + 2.0 * later * (rows[0] == "arm 0")), rng)


def _clustered(study: Study, rows: Rows, rng: Generator) -> None:
    """Every ten rows of an arm are copies of one."""
    names, values = rows[0].copy(), rows[1].copy()
    for name in np.unique(names):
        mine = np.flatnonzero(names == name)
        values[mine] = values[mine][(np.arange(len(mine)) // 10) * 10]
    _hand_in(study, (names, values), rng)


def violations() -> Iterator[Cell]:
    """What must be flagged: in how many studies it was not."""
    normal, tie = SOURCES[0], (ASKED[0],)
    steady = Wager(first_pulls=100, growth=0.5, max_batch=400)
    ways = {
        "the lowest results left out": (Way("", _worst_lost), 0.0),
        "the lowest results taken out afterwards": (Way("", _worst_amended), 0.0),
        "a rule without a proof": (Way("", as_drawn, policy=RoundRobin(GLR(Heuristic()))), 0.0),
        "Opt-BBAI": (Way("", as_drawn, policy=OptBBAI()), 0.0),
        "Tri-BBAI": (Way("", as_drawn, policy=TriBBAI()), 0.0),
        "one arm drifts": (Way("", _drifting, policy=steady), 0.05),
        "rows in clusters of ten, twelve batches": (Way("", _clustered, policy=steady), 0.05),
    }
    for name, (way, allowed) in ways.items():
        # what only later batches can show needs studies that are not decided before
        found = Unflagged(Lived(way, normal, tie, 12, 1e-12) if allowed else Lived(way, normal, tie, 3))
        yield Cell("violations", name, "not flagged", allowed, 0.2, found)
