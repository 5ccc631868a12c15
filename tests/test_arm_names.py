"""What other tools call arms: in files, said once or with the study, and in requests."""

import json

import pandas as pd
import pytest

from roundwise import BestArm, Binary, InputError, Reading, create_study
from roundwise.formats.requests import Request, render_requests

NAMES = {"org/small-2026": "small", "org/large": "large"}


def create(tmp_path, **settings):
    storage = f"sqlite:///{tmp_path}/studies.db"
    return create_study(
        "evals", question=BestArm(), arms=["small", "large"], noise=Binary(), list=20, storage=storage, **settings
    )


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("said", ["study", "file", "text"])
def test_rows_of_other_names(tmp_path, said, wide):
    study = create(tmp_path, **({"reading": Reading(arm_names=NAMES)} if said == "study" else {}))
    study.ask()
    words = {"file": {"arm_names": NAMES}, "text": {"arm_names": "org/small-2026=small, org/large=large"}}
    rows = [(theirs, str(item), int(arm == "large")) for theirs, arm in NAMES.items() for item in range(20)]
    frame = pd.DataFrame(rows, columns=["arm", "item", "outcome"])
    frame = frame.pivot(index="item", columns="arm", values="outcome").reset_index() if wide else frame
    report = study.tell(frame, **words.get(said, {}))
    assert report.answer == "large"
    assert report.results == 40


def test_an_inspect_log(tmp_path):
    study = create(tmp_path)
    study.ask()
    samples = [{"id": k, "epoch": 1, "scores": {"match": {"value": "C"}}} for k in range(20)]
    (tmp_path / "log.json").write_text(json.dumps({"eval": {"model": "org/large"}, "samples": samples}))
    report = study.tell(tmp_path / "log.json", arm_names=NAMES)
    assert report.remaining == {"small": 20}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"x": "tiny"}, "'tiny', which is not an arm"),
        ({"small": "large"}, "is itself an arm"),
        ("org/small", "Give them as THEIRS=ARM"),
    ],
)
def test_names_that_cannot_be(tmp_path, names, said):
    with pytest.raises(InputError, match=said):
        create(tmp_path, reading=Reading(arm_names=names))
    study = create(tmp_path)
    study.ask()
    with pytest.raises(InputError, match=said):
        study.tell(pd.DataFrame({"arm": ["small"], "item": ["1"], "outcome": [1]}), arm_names=names)


def test_requests_have_the_names_of_the_models(roundwise):
    new = ("new", "evals", "-q", "best-arm", "--arms", "small,large", "--binary", "--list-size", "20")
    assert roundwise(*new, "--arm-names", "org/small-2026=small,org/large=large")[0] == 0
    code, said, _ = roundwise("ask", "evals", "--as", "inspect")
    assert code == 0
    assert "--model org/small-2026 --sample-id" in said
    assert "--model org/xl " in roundwise("ask", "evals", "--as", "inspect", "--model-of", "large=org/xl")[1]


def test_inspect_takes_the_model_of_an_arm():
    found = render_requests("inspect", [Request(1, "a", "q,1", {})], models={"a": "org/a"})
    assert "model='org/a'" in "".join(found.values())
