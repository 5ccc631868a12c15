"""One declaration of a study: every surface has the settings of StudySpec."""

import inspect
from dataclasses import MISSING

import pytest

from roundwise import BestArm, Binary, InputError, create_study, plan
from roundwise.cli import commands
from roundwise.planning.request import PlanRequest
from roundwise.study.spec import StudySpec, settings_of

DECLARED = settings_of(StudySpec)


def test_create_study_takes_the_settings_of_the_spec():
    taken = inspect.signature(create_study).parameters
    assert set(taken) - {"name", "storage", "load_if_exists"} == set(DECLARED)
    for name, (_, default) in DECLARED.items():
        assert taken[name].default == (inspect.Parameter.empty if default is MISSING else default)


def test_plan_takes_the_settings_of_the_request():
    taken, declared = inspect.signature(plan).parameters, settings_of(PlanRequest)
    assert set(taken) - {"name", "quick", "progress"} == set(declared)
    for name, (_, default) in declared.items():
        assert taken[name].default == (inspect.Parameter.empty if default is MISSING else default)


@pytest.mark.parametrize(("command", "kind"), [("new", StudySpec), ("plan", PlanRequest)])
def test_the_command_line_has_an_option_for_every_setting(command, kind):
    options = {each.name: each for each in commands().commands[command].params}
    for name, (about, _) in settings_of(kind).items():
        if name not in ("columns", "reading", "metrics", "list"):  # which have several options
            assert options[name].help == about.help, name


def test_help_texts_are_one_line():
    for about, _ in settings_of(PlanRequest).values():
        assert about.help.endswith(".")
        assert "\n" not in about.help


def test_the_api_takes_the_settings_of_the_spec():
    bodies = pytest.importorskip("roundwise.web.bodies")
    assert set(bodies.NewStudy.model_fields) == {"name", *DECLARED}
    files = {name for name, (about, _) in settings_of(PlanRequest).items() if about.type == "path"}
    assert set(bodies.NewPlan.model_fields) == {"name", "quick", *settings_of(PlanRequest)} - files


def test_json_declares_the_same_study_as_objects():
    words = {
        "delta": "5 %",
        "budget": "20 000",
        "round_size": 200,
        "split": "2:1",
        "columns": {"id": "user"},
        "seed": 3,
    }
    spec = StudySpec.declare(question={"name": "best-arm"}, arms=["a ", "b"], noise={"name": "binary"}, **words)
    assert (spec.question, spec.noise, spec.arms) == (BestArm(), Binary(), ("a", "b"))
    assert (spec.delta, spec.budget, spec.split, spec.seed_given) == (0.05, 20_000, (2.0, 1.0), True)
    assert StudySpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 2.5}, "budget"),
        ({"round_size": "many"}, "round.*'many'"),
        ({"question": "best-arm"}, "question.*'best-arm'"),
        ({"split": "1:2:3"}, "split"),
    ],
)
def test_every_setting_is_checked(change, message):
    given = {"question": BestArm(), "arms": ["a", "b"], "noise": Binary()} | change
    with pytest.raises(InputError, match=message):
        StudySpec.declare(**given)
