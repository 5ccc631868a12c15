"""Race models in Inspect: a study of a list stops the samples that are no longer needed (docs/tutorial-race.md).

Needs `pip install 'roundwise[inspect]'`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from inspect_ai import Task, task_with
from inspect_ai import eval as run_tasks
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.hooks import Hooks, SampleEnd, hooks
from inspect_ai.log import EvalLog, EvalSpec
from inspect_ai.model import Model
from inspect_ai.scorer import SampleScore
from inspect_ai.util import EarlyStop

from roundwise.errors import InputError
from roundwise.formats.sources import GRADES
from roundwise.study.study import Study

NAME = "roundwise"


def race(
    study: Study,
    make_task: Callable[[], Task],
    models: Mapping[str, str | Model],
    *,
    scorer: str | None = None,
    **options: Any,
) -> list[EvalLog]:
    """Run a study of a list with `inspect_ai.eval`, until it is decided.

    All models run at once. A sample that ends in an error has no result: unless the study has `failed_is`, the race
    pauses after the round, and a second call tries what is missing again. What is recorded is never run twice.

    Args:
        study: A study of a list, whose items are the ids of the samples.
        make_task: Makes the task, with its dataset and its scorer, anew for each model.
        models: The model of each arm of the study whose results are not known already.
        scorer: Which scorer decides, where the task has several.
        **options: Of `inspect_ai.eval`.

    Returns:
        The logs, one for each model. `study.report()` has the answer.
    """
    made = tasks(study, make_task, models, scorer=scorer)
    return run_tasks(made, **{"fail_on_error": False, "max_tasks": len(made)} | options)


def tasks(
    study: Study,
    make_task: Callable[[], Task],
    models: Mapping[str, str | Model],
    *,
    scorer: str | None = None,
) -> list[Task]:
    """Make the tasks that `race` runs, for your own call of `eval(tasks, fail_on_error=False, max_tasks=len(tasks))`.

    The arguments are those of `race`.
    """
    entries = study.state.spec.list
    if entries is None:
        raise InputError(f"'{study.name}' is not the study of a list. Create it with the ids of the samples as `list`.")
    run = [arm for arm in study.state.spec.arms if arm not in entries.known]
    if set(models) != set(run):
        raise InputError(f"Give one model for each arm that is run: {', '.join(run)}.")
    shared = Race(study, scorer)
    found = []
    for arm, model in models.items():
        task = make_task()
        samples = {str(each.id): each for each in task.dataset}
        lacking = next((item for item in entries.items if item not in samples), None)
        if lacking is not None:
            raise InputError(f"The dataset has no sample {lacking!r}, which is on the list.")
        if len(samples) > len(entries.items):
            new = next(each for each in samples if each not in entries.items)
            raise InputError(f"The dataset has the sample {new!r}, which is not on the list.")
        ordered = [
            samples[item].model_copy(update={"id": entry})
            for entry, item in zip(entries.ordered(study.state.spec.seed), shared.items, strict=True)
        ]
        manager = ArmStopping(shared, arm)
        found.append(
            task_with(task, dataset=MemoryDataset(ordered), model=model, epochs=1, early_stopping=manager, name=arm)
        )
    return found


class Race:
    """The open round of a study, which the tasks of all arms share.

    Results are told when the round is complete, or when the last task ends.
    """

    def __init__(self, study: Study, scorer: str | None) -> None:
        entries = study.state.spec.list
        assert entries is not None
        self.order = {entry: place for place, entry in enumerate(entries.ordered(study.state.spec.seed))}
        self.items = [entries.item_of[entry] for entry in self.order]
        self.scorer, self.failed_is = scorer, study.state.spec.reading.failed_is
        self.running = 0  # tasks
        self._study = study
        self._rows: list[tuple[str, str, float]] = []
        self._lost: tuple[str, str] | None = None  # arm and entry of a sample that ended in an error
        self._moved = anyio.Event()
        self._ask()

    def _ask(self) -> None:
        asked = self._study.ask()
        self._due = {} if asked is None else {arm: set(entries) for arm, entries in asked.items.items()}
        self._edge = max((self.order[entry] for due in self._due.values() for entry in due), default=-1)
        self._open = set() if asked is None else {arm for arm, n in zip(asked.arms, asked.pulls, strict=True) if n > 0}
        self.decided = asked is None

    async def why_not(self, arm: str, entry: str) -> str | None:
        """Wait until the round of an entry is open: None if it is to be run, or why not."""
        while True:
            if self.decided:
                return self._study.status().headline
            if entry in self._due.get(arm, ()):
                return None
            if self.order[entry] <= self._edge:
                return "recorded before, or not asked for"
            if arm not in self._open:
                return f"{arm} is out"
            if self._lost is not None:
                return "paused: {} ended in an error on {}; run the race again".format(*self._lost)
            await self._moved.wait()

    def add(self, arm: str, entry: str, value: float | None) -> None:
        """Take one result, None if there is none; tell all of them once the round is complete."""
        if value is None:
            self._lost = self._lost or (arm, entry)
        else:
            self._rows.append((arm, entry, value))
            self._due.get(arm, set()).discard(entry)
            if not any(self._due.values()):
                self.tell()
                self._ask()
        self._moved.set()
        self._moved = anyio.Event()

    def tell(self) -> None:
        """Record what has come."""
        if self._rows:
            arms, entries, values = zip(*self._rows, strict=True)
            self._study.tell({"arm": list(arms), "item": list(entries), "outcome": list(values)})
            self._rows = []

    def summary(self) -> dict[str, Any]:
        """For the log."""
        report, spec = self._study.report(), self._study.state.spec
        return {
            "study": self._study.name,
            "headline": report.headline,
            "guarantee": report.guarantee.status,
            "results": report.results,
            "seed": str(spec.seed),
            "note": "The accuracy of an arm that was stopped is that of a random part of the list.",
        }


class ArmStopping:
    """The early-stopping manager of one arm, as `inspect_ai.util.EarlyStopping` asks for."""

    def __init__(self, race: Race, arm: str) -> None:
        self._race, self.arm = race, arm

    async def start_task(self, task: EvalSpec, samples: Sequence[Sample], epochs: int) -> str:
        """Check that the task is run as the study needs it."""
        given = [str(each.id) for each in samples]
        if given != list(self._race.order) or epochs != 1:
            raise InputError(
                f"The task of {self.arm} has other samples, another order or several epochs. Leave out limits, "
                "shuffling and epochs: the study has an order, and repeats, of its own."
            )
        if task.config.fail_on_error is not False or task.config.score_on_error:
            raise InputError(
                "An error would end the task, or count as a score, while other models wait for it. Give "
                "fail_on_error=False, and leave out score_on_error."
            )
        _MANAGERS[task.eval_id] = self
        self._race.running += 1
        return NAME

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        """Wait until the round of a sample is open; stop it if it is not needed."""
        reason = await self._race.why_not(self.arm, str(id))
        return None if reason is None else EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(self, id: str | int, epoch: int, scores: dict[str, SampleScore]) -> None:
        """Take the score of a sample."""
        name = self._race.scorer or next(iter(scores), None)
        if name is None or name not in scores or (self._race.scorer is None and len(scores) > 1):
            raise InputError(f"Which score decides? Give `scorer`, one of: {', '.join(scores) or 'none'}.")
        value = scores[name].score.value
        self._race.add(self.arm, str(id), float(GRADES.get(value, value) if isinstance(value, str) else value))

    def failed(self, id: str | int) -> None:
        """Take a sample that ended in an error."""
        self._race.add(self.arm, str(id), self._race.failed_is)

    async def complete_task(self) -> dict[str, Any]:
        """Record what has come, if this was the last task; what the log says about the study."""
        self._race.running -= 1
        if not self._race.running:
            self._race.tell()
        return self._race.summary()


_MANAGERS: dict[str, ArmStopping] = {}  # by the id of the evaluation


@hooks(NAME, "Samples that end in an error have no result in a study of roundwise.")
class _Errors(Hooks):  # type: ignore[misc]
    async def on_sample_end(self, data: SampleEnd) -> None:
        manager = _MANAGERS.get(data.eval_id)
        if manager is not None and data.sample.error is not None:
            manager.failed(data.sample.id)
