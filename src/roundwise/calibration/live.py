"""Real studies, in memory, with results recorded in every way that people do, and amended on the way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Array, Floats, Plain
from roundwise.calibration import cells
from roundwise.calibration.cells import CalibrationCell, Experiment, Refused
from roundwise.calibration.laws import Setting
from roundwise.calibration.shapes import TINY, Shape, shape_of
from roundwise.errors import InputError
from roundwise.model.problem import final_answer
from roundwise.noise import Binary, Bounded, Gaussian, Normal, Poisson, SubGaussian
from roundwise.policies import PET, ConditionalPower, Policy, RoundRobin, Wager
from roundwise.questions import Above, BestArm, Claims, Question
from roundwise.simulation.environments import Generator, numbered
from roundwise.store.log import Head, chain_entries, encode_payload
from roundwise.study.spec import StudySpec
from roundwise.study.state import State, replay
from roundwise.study.study import Study


class NullStore:
    """A store that keeps nothing."""

    def append(self, name: str, new: Sequence[tuple[str, Plain]], expected: int, overview: object = None) -> None:
        """Nothing to do: the study holds its state."""

    def read(self, name: str) -> list[Any]:
        """Nothing was kept."""
        return []

    def close(self) -> None:
        """Nothing to give back."""


class InMemoryStudy(Study):
    """A study whose state is held in memory instead of replayed from a log."""

    def __init__(self, settings: StudySpec) -> None:
        super().__init__("study", NullStore())  # type: ignore[arg-type]
        self._now = replay(
            chain_entries(self.name, Head(), [("created", encode_payload(settings.to_json()))], datetime.now(UTC))
        )

    @property
    def state(self) -> State:
        """Where the study stands."""
        return self._now

    def _report(self, state: State) -> Any:
        """None: no caller reads it."""


# ------------------------------------------------------------------------------------------------ ways to tell results


class Rows(NamedTuple):
    """Results, one a row."""

    arms: Array
    outcomes: Floats

    def take(self, which: Array | slice) -> Rows:
        """Some of the rows, in this order."""
        return Rows(self.arms[which], self.outcomes[which])

    def by_value(self) -> Rows:
        """Sorted by outcome."""
        return self.take(np.argsort(self.outcomes, kind="stable"))

    def shuffle(self, rng: Generator) -> Rows:
        """In random order."""
        return self.take(rng.permutation(len(self.outcomes)))


Tell = Callable[[Study, Rows, Generator], None]


def with_file(use: Callable[[Path], object], **columns: Array | Sequence[float]) -> None:
    """Write a table to a file and use it."""
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    lines = [list(columns), *zip(*lists, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
        use(path)


def tell_table(study: Study, **columns: Array | Sequence[float]) -> None:
    """Tell a file; results that came out the same as others are new ones here."""
    with_file(lambda path: study.tell(path, new=True), **columns)


def is_open(study: Study) -> bool:
    """Whether a round is outstanding."""
    return study.state.open_round is not None


def submit(study: Study, rows: Rows, over: str | None = None) -> None:
    """Record one file, if it has rows; then, if given, close the round with this reason."""
    if len(rows.outcomes):
        tell_table(study, arm=rows.arms, outcome=rows.outcomes)
    if over is not None and is_open(study):
        study.tell(round_over=over)


def in_files(study: Study, rows: Rows, size: int, arrange: Callable[[Rows], Rows] = lambda piece: piece) -> None:
    """Tell the rows in files of this size, each arranged in some way."""
    for start in range(0, len(rows.outcomes), size):
        if is_open(study):
            submit(study, arrange(rows.take(slice(start, start + size))))


def as_drawn(study: Study, rows: Rows, rng: Generator) -> None:
    """One file, in random order."""
    submit(study, rows)


def sorted_files(study: Study, rows: Rows, rng: Generator) -> None:
    """Each file sorted by outcome."""
    in_files(study, rows.shuffle(rng), max(16, len(rows.outcomes) // 12), Rows.by_value)


def cut_files(study: Study, rows: Rows, rng: Generator) -> None:
    """One sorted list, cut into files."""
    in_files(study, rows.by_value(), max(16, len(rows.outcomes) // 12))


def late_files(study: Study, rows: Rows, rng: Generator) -> None:
    """A random part first, the rest later."""
    in_files(study, rows.shuffle(rng), max(12, len(rows.outcomes) // 3))


def settled_short(study: Study, rows: Rows, rng: Generator) -> None:
    """The results so far; then the round is closed."""
    submit(study, rows, over="the rest was lost in the post")


def without_an_arm(study: Study, rows: Rows, rng: Generator) -> None:
    """An arm, at random, has no results in this round."""
    missing = rng.choice(np.unique(rows.arms))
    submit(study, rows.take(rows.arms != missing), over="that arm could not be had")


def sums(study: Study, rows: Rows, rng: Generator) -> None:
    """Sums of each arm."""
    names = np.unique(rows.arms)
    values = [rows.outcomes[rows.arms == name] for name in names]
    squares = {"squares": [float((v**2).sum()) for v in values]} if study.state.spec.noise.needs == "squares" else {}
    tell_table(study, arm=names, count=[len(v) for v in values], total=[float(v.sum()) for v in values], **squares)


def rows_and_sums(study: Study, rows: Rows, rng: Generator) -> None:
    """Some arms as rows, sorted, the others as sums."""
    names = np.unique(rows.arms)
    as_rows = np.isin(rows.arms, names[: len(names) // 2])
    submit(study, rows.take(as_rows).by_value())
    if (~as_rows).any() and is_open(study):
        sums(study, rows.take(~as_rows), rng)


def amended(study: Study, rows: Rows, rng: Generator) -> None:
    """One file in three is replaced by a copy without a random third of its rows, or withdrawn: a coin decides."""
    submit(study, rows)
    state = study.state
    if state.trial.done or state.closed or rng.random() > 0.4:
        return
    keep = rng.random(len(rows.outcomes)) > 0.3
    replaced = keep.any() and rng.random() < 0.7
    amend(study, rows.take(keep) if replaced else None, "rows of a test run were in it")


def amend(study: Study, rows: Rows | None, why: str) -> None:
    """Replace the last file by these rows, or withdraw it."""
    told = study.state.rounds[-1].files[-1].digest
    if rows is None:
        study.amend(told, None, why, new=True)
    else:
        with_file(lambda path: study.amend(told, path, why, new=True), arm=rows.arms, outcome=rows.outcomes)


@dataclass(frozen=True)
class LivePath:
    """A way to tell results."""

    name: str
    tell: Tell
    policy: Policy = Wager(first_pulls=8, growth=1.0)  # noqa: RUF009 - it is frozen
    limits: Plain = field(default_factory=dict)  # max_round_size, min_per_arm, budget
    more: float = 0.0  # rows beyond what was asked, as a share
    lost: float = 0.0  # rows that never come, as a share


_LIMITS: Plain = {"max_round_size": 48, "min_per_arm": 3}
WAYS: tuple[LivePath, ...] = (
    LivePath("one file", as_drawn),
    LivePath("one sorted file", lambda study, rows, rng: submit(study, rows.by_value())),
    LivePath("sorted files", sorted_files),
    LivePath("a sorted list cut into files", cut_files),
    LivePath("late files", late_files),
    LivePath("more than asked", late_files, more=0.5),
    LivePath("settled short", settled_short, lost=0.3),
    LivePath("an arm without rows", without_an_arm),
    LivePath("sums", sums),
    LivePath("rows and sums", rows_and_sums),
    LivePath("amended", amended),
    LivePath("a budget", sorted_files, limits={"budget": 70}),
    LivePath("limits", cut_files, limits=_LIMITS),
    LivePath("Round Robin, limits", late_files, RoundRobin(first_time=40.0), _LIMITS),
    LivePath("PET, a budget", sums, PET(exploration=1.0), {"budget": 500}),
)


# ------------------------------------------------------------------------------------------------- where rows come from


@dataclass(frozen=True)
class RowSource(Setting):
    """A setting with a law of single results."""

    draw: Callable[[Generator, float, int], Floats]


def _normal(sigma: float) -> Callable[[Generator, float, int], Floats]:
    return lambda rng, mean, number: rng.normal(mean, sigma, number)


def _binary(rng: Generator, mean: float, number: int) -> Floats:
    return rng.binomial(1, mean, number).astype(np.float64)


def _valued(rng: Generator, mean: float, number: int) -> Floats:
    """0, .1 (half of them) or 1."""
    top = mean - 0.05
    return rng.choice([0.0, 0.1, 1.0], p=[0.5 - top, 0.5, top], size=number)


SOURCES: tuple[RowSource, ...] = (
    RowSource("normal, sigma known", Gaussian(1.0), 0.0, 0.5, _normal(1.0)),
    RowSource("sub-Gaussian", SubGaussian(1.0), 0.0, 0.5, _normal(1.0)),
    RowSource("sigma unknown", Normal(), 0.0, 3.0, _normal(7.0)),
    RowSource("0/1, rate .5", Binary(), 0.5, 0.2, _binary),
    RowSource("0/1, rate .1", Binary(), 0.1, 0.05, _binary),
    RowSource("values in [0, 1]", Bounded(0.0, 1.0), 0.3, 0.1, _valued),
    RowSource("counts, rate 2", Poisson(), 2.0, 0.5, lambda rng, mean, n: rng.poisson(mean, n).astype(np.float64)),
)
NORMAL, SUB_GAUSSIAN = SOURCES[:2]

ASKED = tuple(
    map(
        shape_of,
        (
            "best of 2, tie",
            "tolerance, 2 arms at its border",
            "top 2 of 4, tie at the cut",
            "above, 5 on both sides",
            "minimum just below",
            "any above, just",
            "control, 4 ties",
            "statements on levels, scaled",
            "largest, sums of groups",
        ),
    )
)
TIE = (shape_of("best of 2, tie"),)


# ----------------------------------------------------------------------------------------------------- whole studies


Means = dict[str, float]  # of each arm, by name
Change = Callable[[InMemoryStudy, Means], None]


def is_wrong(state: State, means: Floats) -> bool:
    """Whether what is true of the present arms has been ruled out, or a wrong answer given."""
    spec = state.spec
    if state.decided is not None:
        answer = final_answer(spec.problem, spec.policy, state.trial)
        assert state.decided["answer"] == spec.question.answer_to_json(answer)
        if not spec.question.correct(answer, means):
            return True
    return bool(cells.is_wrong(spec.problem, spec.policy, state.trial, means))


@dataclass(frozen=True)
class LiveStudies(Experiment):
    """Studies told in one way, from one source, over all questions in turn."""

    way: LivePath
    source: RowSource
    shapes: tuple[Shape, ...] = ASKED
    rounds: int = 5
    delta: float = 0.05
    judge: Callable[[State, Floats], bool] = is_wrong  # of the state and the true means of its arms
    every_round: bool = False  # whether that is asked after every round; by default at the end
    shuffled: bool = True  # whether rows come in random order; by default they do
    before: Callable[[InMemoryStudy, Means, Generator], None] | None = None
    change: Change | None = None  # after every round; it also adds the means of arms that join

    def __call__(self, runs: int, rng: Generator) -> int:
        return sum(self._happens(rng) for _ in range(runs))

    def _happens(self, rng: Generator) -> bool:
        shape = self.shapes[int(rng.integers(len(self.shapes)))]
        means = dict(zip(numbered(shape.arms), shape.asked(self.source)[1].tolist(), strict=True))
        study = InMemoryStudy(self.spec(shape, int(rng.integers(2**32))))
        if self.before is not None:
            self.before(study, means, rng)
        for _ in range(self.rounds):
            asked = study.ask()
            if asked is None:
                break
            self.way.tell(study, self._draw(asked.table, means, rng), rng)
            if self.every_round and self._judge(study.state, means):
                return True
            if self.change is not None and study.state.closed is None:
                self.change(study, means)
        return not self.every_round and self._judge(study.state, means)

    def _judge(self, state: State, means: Means) -> bool:
        return self.judge(state, np.array([means[name] for name in state.spec.arms]))

    def spec(self, shape: Shape, seed: int) -> StudySpec:
        """What is fixed before a study begins."""
        return StudySpec(
            question=shape.asked(self.source)[0],
            arms=numbered(shape.arms),
            noise=self.source.noise,
            delta=self.delta,
            policy=self.way.policy,
            seed=seed,
            **self.way.limits,
        )

    def _draw(self, table: Sequence[tuple[str, int]], means: Means, rng: Generator) -> Rows:
        """Results of a round; more or fewer than asked by chance alone."""
        arms: list[str] = []
        values: list[Floats] = []
        for arm, pulls in table:
            number = pulls + int(rng.binomial(pulls, self.way.more)) - int(rng.binomial(pulls, self.way.lost))
            arms += [arm] * number
            values.append(self.source.draw(rng, means[arm], number))
        rows = Rows(np.array(arms), np.concatenate(values))
        return rows.shuffle(rng) if self.shuffled else rows


def paths() -> Iterator[CalibrationCell | Refused]:
    """Every way with every source."""
    for way in WAYS:
        for source in SOURCES:
            found = LiveStudies(way, source)
            try:
                for shape in ASKED:
                    found.spec(shape, seed=0)
            except InputError as error:
                yield Refused("live", way.name, source.name, str(error))
            else:
                yield CalibrationCell("live", way.name, source.name, 0.05, 0.1, found, chunk=20)


# ------------------------------------------------------------------------------------------ studies changed under way


def _drop(which: int) -> Change:
    """Leave out the arm that looks worst (0) or best (-1), as long as three are left."""

    def change(study: InMemoryStudy, means: Means) -> None:
        state = study.state
        if state.decided is None and len(state.spec.arms) - len(state.spec.left_out) > 2:
            kept = {state.spec.arms[0]} if state.spec.question.separate_claims else set()  # a control stays
            gone = kept.union(state.spec.left_out)
            order = np.argsort(state.record.totals / np.maximum(state.record.counts, 1.0), kind="stable")
            left = [state.spec.arms[i] for i in order if state.spec.arms[i] not in gone]
            study.drop(left[which], "it looks like that")

    return change


def _add(offset: float) -> Change:
    """One arm joins after each of the first rounds, because of the current leader."""

    def change(study: InMemoryStudy, means: Means) -> None:
        if study.state.decided is None and len(means) < 5:
            name = f"arm {len(means)}"
            means[name] = means["arm 0"] + offset
            study.add(name, "the others look weak")

    return change


def _exchange(study: InMemoryStudy, means: Means) -> None:
    """Two arms far above join after the first round, and all others leave."""
    if study.state.decided is None and "new 1" not in means:
        first = list(means)
        for name in ("new 1", "new 2"):
            means[name] = means[first[0]] + 10.0
            study.add(name, "the others look weak")
        for name in first:
            study.drop(name, "it looks weak")


def _extend(study: InMemoryStudy, means: Means) -> None:
    """A larger budget whenever the present one is nearly used up and something is open."""
    state = study.state
    budget, open_ = state.spec.budget, not bool(np.all(state.trial.kept.shown))
    if budget is not None and open_ and state.record.samples + 30 > budget and budget < 200:
        study.extend(budget + 50)


def _teach(study: InMemoryStudy, means: Means, rng: Generator) -> None:
    """Imported earlier results of another world, in which the last arm is far ahead."""
    arms = np.repeat(list(means), 20)
    values = rng.normal(np.repeat([0.0] * (len(means) - 1) + [1.0], 20), 1.0)
    with_file(study.import_past, arm=arms, outcome=values)


def _changed(
    question: Question, offsets: Sequence[float], policy: Policy, delta: float, *, rounds: int = 4, **options: Any
) -> LiveStudies:
    """Normal results, told as sums (rows take ten times as long), and judged after every round."""
    shape = Shape("", len(offsets), lambda at: (question, at.place(*offsets)))
    way = LivePath("", sums, policy, {"budget": options.pop("budget")} if "budget" in options else {})
    return LiveStudies(way, NORMAL, (shape,), rounds, delta, every_round=True, shuffled=False, **options)


def changes(part: str, row: str, delta: float, weight: float) -> Iterator[CalibrationCell]:
    """Every kind of change, with bets and with claims, each made because of what was seen."""
    wager, chances, eager = (
        Wager(first_pulls=20, growth=1.0),
        ConditionalPower(first_pulls=8),
        ConditionalPower(eta=0.5),
    )
    best, above = BestArm(), Above(NORMAL.centre, 1.0)
    tie, control = [0, -TINY, -TINY, -TINY], Claims.against_control
    found = {
        "the worst arm leaves; best of 4, tie": _changed(best, tie, wager, delta, change=_drop(0)),
        "arms join; best of 2, tie": _changed(best, tie[:2], wager, delta, change=_add(-TINY)),
        "the best arm leaves; best of 4, tie": _changed(best, [0, 0, 0, -TINY], wager, delta, change=_drop(-1)),
        "two arms join, all others leave; above within a tolerance": _changed(
            above, [0] * 6, wager, delta, change=_exchange
        ),
        "earlier data of another world; best of 3, tie": _changed(best, tie[:3], wager, delta, before=_teach),
        "arms leave; claims": _changed(control(4, 0), [0] * 4, chances, delta, change=_drop(0)),
        "arms join; claims": _changed(control(2, 0), [0, 0], chances, delta, change=_add(0.0)),
        "larger budgets; claims": _changed(control(2, 0), [0, 0], eager, delta, change=_extend, budget=50, rounds=8),
        "earlier data of another world; claims towards a budget": _changed(
            control(3, 0), [0, 0, 0], eager, delta, before=_teach, budget=90, rounds=8
        ),
    }
    for column, studies in found.items():
        yield CalibrationCell(part, row, column, delta, weight, studies, chunk=50)


def reproductions() -> Iterator[CalibrationCell]:
    """A hole as it was found: with a tolerance, arms that left gave newcomers spurious evidence."""
    found = _changed(Above(NORMAL.centre, 1.0), [0] * 10, Wager(first_pulls=20), 0.05, change=_exchange)
    row = "two arms join and ten leave, above within a tolerance"
    yield CalibrationCell("reproductions", row, "Wager", 0.05, 0.2, found, chunk=20)
