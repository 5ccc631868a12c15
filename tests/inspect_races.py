"""Races in Inspect, end to end with mock models: samples complete out of order, one ends in an error.

`test_inspect.py` runs them in a process of their own: Inspect leaves streams open, which would fail other tests.
"""

import random
import sys
from pathlib import Path

import anyio
import pytest
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import match
from inspect_ai.solver import solver

from roundwise import BestArm, Binary, InputError, create_study
from roundwise.inspect import race, tasks
from roundwise.study.audit import verify_study

ITEMS = [f"q{i}" for i in range(200)]
RATES = {"small": 0.5, "medium": 0.6, "large": 0.85}
MODELS = dict.fromkeys(RATES, "mockllm/model")


def is_right(arm, item):
    return random.Random(f"{arm} {item}").random() < RATES[arm]


class World:
    """Answers that take a random time, and end in an error where `errors` says so, once."""

    def __init__(self, errors=()):
        self.errors, self.calls, self.arms = set(errors), [], iter(RATES)

    def task(self):
        arm, rng = next(self.arms), random.Random(1)

        @solver
        def answer():
            async def solve(state, generate):
                self.calls.append((arm, str(state.sample_id)))
                await anyio.sleep(rng.random() * 0.005)
                if (arm, state.sample_id) in self.errors:
                    self.errors.discard((arm, state.sample_id))
                    raise RuntimeError("the provider is down")
                state.output = ModelOutput.from_content("mock", "yes" if is_right(arm, state.sample_id) else "no")
                return state

            return solve

        return Task(
            dataset=MemoryDataset([Sample(id=item, input=item, target="yes") for item in ITEMS]),
            solver=answer(),
            scorer=match(),
        )


def study_in(folder, name="evals", **changes):
    settings = {"arms": list(RATES), "list": ITEMS, "storage": f"sqlite:///{folder}/studies.db", "seed": 3}
    return create_study(name, question=BestArm(), noise=Binary(), **settings | changes)


def raced(study, world, folder):
    return race(study, world.task, MODELS, log_dir=str(folder), display="none", max_samples=8)


def a_race(tmp_path):
    with study_in(tmp_path) as study:
        world = World()
        logs = raced(study, world, tmp_path)
        report = study.report()
        assert report.answer == "large"
        assert report.results == len(world.calls) == len(set(world.calls)) < 300  # of 600
        assert [log.status for log in logs] == ["success"] * 3
        assert all(log.results.early_stopping.metadata["headline"] == report.headline for log in logs)
        for log in logs:  # what was recorded is what the logs say
            told = {each.id: each.scores["match"].value == "C" for each in read_eval_log(log.location).samples}
            assert told == {item: is_right(log.eval.task, item) for item in told}
        assert study.ask() is None
    assert verify_study("evals", f"sqlite:///{tmp_path}/studies.db").sound


def what_ends_in_an_error_is_tried_again_by_the_next_race(tmp_path):
    with study_in(tmp_path) as study:
        first = study.ask().items["small"]
        raced(study, world := World([("small", first[3])]), tmp_path)
        assert study.ask().items == {"small": [first[3]]}
        raced(study, again := World(), tmp_path)
        assert again.calls[0] == ("small", first[3])
        assert study.report().answer == "large"
        assert study.report().results == len(set(world.calls + again.calls)) == len(world.calls + again.calls) - 1


def a_race_beside_a_known_arm(tmp_path):
    known = {"small": [float(is_right("small", item)) for item in ITEMS]}
    with study_in(tmp_path, list={"items": ITEMS, "known": known}) as study:
        world = World()
        next(world.arms)
        models = {arm: MODELS[arm] for arm in RATES if arm != "small"}
        race(study, world.task, models, log_dir=str(tmp_path), display="none", max_samples=8)
        assert study.report().answer == "large"
        assert {arm for arm, _ in world.calls} == set(models)


def what_a_race_needs(tmp_path):
    with study_in(tmp_path) as study:
        with pytest.raises(InputError, match="one model for each arm"):
            tasks(study, World().task, {"small": "mockllm/model"})
        logs = race(study, World().task, MODELS, log_dir=str(tmp_path), display="none", limit=10)
        assert all("other samples" in log.error.message for log in logs)
        logs = race(study, World().task, MODELS, log_dir=str(tmp_path), display="none", score_on_error=True)
        assert all("count as a score" in log.error.message for log in logs)
    with (
        study_in(tmp_path, list=[*ITEMS, "q200"], name="longer") as study,
        pytest.raises(InputError, match="no sample 'q200'"),
    ):
        tasks(study, World().task, MODELS)


if __name__ == "__main__":
    for case in (
        a_race,
        a_race_beside_a_known_arm,
        what_ends_in_an_error_is_tried_again_by_the_next_race,
        what_a_race_needs,
    ):
        place = Path(sys.argv[1]) / case.__name__
        place.mkdir()
        case(place)
