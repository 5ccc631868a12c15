"""`ask --as`: what to run next in the form of a tool, and told back without a pattern."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from roundwise import BestArm, Binary, Columns, DataError, InputError, create_study
from roundwise.formats.requests import FORMATS, Request, render_requests
from roundwise.study.next_items import choose_items, read_items

ITEMS = [f"parity/{i}" for i in range(400)]


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.csv").write_text("item,question\n" + "".join(f"{each},Is {each} even?\n" for each in ITEMS))
    noise, columns = Binary().with_items(), Columns(item="item")
    with create_study("evals", question=BestArm(), arms=["a", "b one"], noise=noise, columns=columns, seed=4) as made:
        yield made


def chosen(study, path="items.csv"):
    asked, state = study.asking()
    return asked, *choose_items(state, asked, read_items(state, Path(path)))


def test_arms_get_the_first_items_in_a_drawn_order(study, tmp_path):
    asked, requests, lacking = chosen(study)
    assert lacking == 0
    for arm, pulls in zip(asked.arms, asked.pulls, strict=True):
        assert [each.place for each in requests if each.arm == arm] == list(range(1, int(pulls) + 1))
    places = {each.place: each.item for each in requests}
    assert all(places[each.place] == each.item for each in requests)  # the same item for all arms
    numbers = [ITEMS.index(places[place]) for place in sorted(places)]
    assert numbers != sorted(numbers)
    lines = (tmp_path / "items.csv").read_text().splitlines()
    (tmp_path / "turned.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    assert chosen(study, "turned.csv")[1] == requests  # whatever the order of the table


def test_what_was_told_is_not_asked_for_again(study):
    asked, requests, _ = chosen(study)
    first = requests[: len(requests) // 2]
    columns = {"arm": [r.arm for r in first], "item": [r.item for r in first], "outcome": [1 for _ in first]}
    study.tell(columns)
    _, rest, _ = chosen(study)
    assert rest == requests[len(first) :]
    study.tell({"arm": [r.arm for r in rest], "item": [r.item for r in rest], "outcome": [0 for _ in rest]})
    again, later, lacking = chosen(study)
    assert again.number == asked.number + 1
    assert not {r.item for r in later} & {r.item for r in requests}
    assert lacking == max(int(again.pulls.max()) - (len(ITEMS) - int(asked.pulls.max())), 0)


def test_batches_are_told_back_without_a_pattern(study, tmp_path):
    _, requests, _ = chosen(study)
    body = {"messages": [{"role": "user", "content": "{question} {not a column}"}], "temperature": 0}
    files = render_requests("openai-batch", requests, body, {"a": "org/small"})
    assert list(files) == ["a.jsonl", "b_one.jsonl"]
    asked = [json.loads(line) for text in files.values() for line in text.splitlines()]
    assert asked[0]["body"]["model"] == "org/small"
    assert asked[0]["body"]["messages"][0]["content"] == f"Is {requests[0].item} even? {{not a column}}"
    answers = [{"custom_id": each["custom_id"], "response": {"status_code": 200, "body": {"ok": 1}}} for each in asked]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(each) + "\n" for each in answers))
    (read,), _ = study.preview("out.jsonl", columns=Columns(outcome="response.body.ok"))
    assert read.counts.tolist() == [sum(r.arm == arm for r in requests) for arm in ("a", "b one")]
    anthropic = render_requests("anthropic-batch", requests, body | {"max_tokens": 5})
    keys = [each["custom_id"] for text in anthropic.values() for each in json.loads(text)["requests"]]
    (tmp_path / "grades.csv").write_text("custom_id,outcome\n" + "".join(f"{key},1\n" for key in keys))
    (graded,), _ = study.preview("grades.csv")
    assert np.array_equal(graded.counts, read.counts)


def test_harnesses(study):
    _, requests, _ = chosen(study)
    rows = list(csv.reader(render_requests("ids", requests)["ids.csv"].splitlines()))
    assert rows[0] == ["place", "item", "arm"]
    assert rows[1:] == [[str(r.place), r.item, r.arm] for r in requests]
    samples = json.loads(render_requests("lm-eval", requests)["b_one.json"])
    assert [f"parity/{doc}" for doc in samples["parity"]] == [r.item for r in requests if r.arm == "b one"]
    lines = render_requests("inspect", requests)["inspect.sh"].splitlines()
    assert lines[1].startswith("inspect eval TASK --model 'b one' --sample-id parity/")
    long = render_requests("inspect", [Request(k, "a", f"item {k}" * 9, {}) for k in range(3000)])
    script = next(name for name in long if name != "inspect.sh")
    assert long["inspect.sh"] == f"python {script}\n"
    compile(long[script], script, "exec")
    same = render_requests("lm-eval", [Request(1, arm, "t/1", {}) for arm in ("x/y", "x:y")])
    assert len(same) == 2


def test_repeats_of_a_list_are_epochs_of_inspect(tmp_path):
    storage, items = f"sqlite:///{tmp_path / 's.db'}", {"items": ["q1", "q2", "q,3"], "repeats": 2}
    made = create_study("evals", question=BestArm(), arms=["a", "b"], noise=Binary(), list=items, storage=storage)
    asked, state = made.asking()
    requests, _ = choose_items(state, asked, read_items(state, None))
    assert {(each.item, each.sample, each.cells["item"]) for each in requests} >= {("q1#2", "q1", "q1")}
    plain = [each for each in requests if each.sample != "q,3"]
    line = render_requests("inspect", plain)["inspect.sh"].splitlines()[0].split()
    assert sorted(line[6].split(",")) == ["q1", "q2"]
    assert line[7:] == ["--epochs", "2"]
    assert "epochs=2)" in render_requests("inspect", requests)["a.py"]
    with pytest.raises(InputError, match="answers a document once"):
        render_requests("lm-eval", requests)


@pytest.mark.parametrize(
    ("form", "template", "item", "message"),
    [
        ("csv", None, "t/1", "no form 'csv'"),
        ("lm-eval", None, "q1", "'q1' is not a document"),
        ("openai-batch", None, "q1", "--template"),
        ("openai-batch", {"input": "hello"}, "q1", "All requests are the same"),
        ("anthropic-batch", {"messages": "{item}"}, "x" * 80, "shorter ids"),
    ],
)
def test_what_cannot_be_rendered(form, template, item, message):
    with pytest.raises((InputError, DataError), match=message):
        render_requests(form, [Request(k, "a", item, {"item": str(k)}) for k in (1, 2)], template)


def test_the_command(study, roundwise, tmp_path):
    for form in FORMATS:
        (tmp_path / "body.json").write_text('{"messages": "{question}"}')
        more = ["--template", "body.json"] if form.endswith("batch") else []
        code, said, _ = roundwise("ask", "evals", "--as", form, "--items", "items.csv", "--out", f"out-{form}", *more)
        assert code == 0
        assert "The requests of round 1 are in" in said
    assert roundwise("ask", "evals", "--as", "ids", "--items", "items.csv")[1].startswith("place,item,arm\n1,parity/")
    (tmp_path / "twice.csv").write_text("item\nq1\nq1\n")
    for wrong, message in (
        (["--items", "items.csv"], "--as FORMAT"),
        (["--as", "ids"], "--items FILE"),
        (["--as", "csv", "--items", "items.csv"], "no form 'csv'"),
        (["--as", "lm-eval", "--items", "items.csv"], "--out FOLDER"),
        (["--as", "ids", "--items", "items.csv", "--json"], "--json"),
        (["--as", "ids", "--items", "nothing.csv"], "no file nothing.csv"),
        (["--as", "ids", "--items", "items.csv", "--model-of", "a=b"], "names no models"),
        (["--as", "ids", "--items", "twice.csv"], "line 3"),
    ):
        code, said, error = roundwise("ask", "evals", *wrong)
        assert (code, said) == (2, "")
        assert message in error.replace("\n", " ")


def test_arms_that_are_prompts(study, tmp_path, roundwise):
    """Their texts come from a table; the model is that of the template."""
    body = {"model": "small", "messages": [{"role": "user", "content": "{prompt} {question} ({arm})"}]}
    (tmp_path / "body.json").write_text(json.dumps(body))
    (tmp_path / "prompts.csv").write_text("arm,prompt\na,Think.\nb one,Be brief: {question}.\n")
    words = ("--as", "openai-batch", "--items", "items.csv", "--template", "body.json", "--out", "out")
    code, _, error = roundwise("ask", "evals", *words, "--prompts", "prompts.csv")
    assert code == 0, error
    row = json.loads((tmp_path / "out" / "a.jsonl").read_text().splitlines()[0])["body"]
    assert row["model"] == "small"
    text = row["messages"][0]["content"]
    assert text.startswith("Think. Is parity/")
    assert text.endswith("even? (a)")
    (tmp_path / "prompts.csv").write_text("arm,prompt\na,Think.\n")
    code, _, error = roundwise("ask", "evals", *words, "--prompts", "prompts.csv")
    assert code != 0
    assert "has no row of the arm 'b one'" in " ".join(error.split())
