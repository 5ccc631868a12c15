"""Files of other tools: recognised by their contents, read as rows of arm, outcome and item; an error is no zero."""

import functools
import io
import json
import sqlite3
import zipfile
from contextlib import ExitStack, closing

import numpy as np
import pytest

import fuzz
from roundwise import Above, BestArm, Binary, Bounded, Columns, DataError, Normal, Reading, RoundwiseError, create_study
from roundwise.formats.paths import Absent, follow
from roundwise.formats.readers import sheet_of
from roundwise.formats.requests import LONGEST, arm_keys, parse_request_id, request_id
from roundwise.formats.sources import Pattern, Wanted
from roundwise.ingest import TellOptions, read_results
from roundwise.ingest.rows import preview_columns
from roundwise.messages import FileNote
from roundwise.study.guarantee import gather_notes


def lines(*objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


def inspect_sample(item, epoch, grade, **more):
    scores = {} if grade is None else {"match": {"value": grade, "answer": "x"}}
    return {"id": item, "epoch": epoch, "input": "?", "scores": scores, **more}


SAMPLES = [
    inspect_sample("q1", 1, "C"),
    inspect_sample("q1", 2, "I"),
    inspect_sample("q2", 1, "P"),
    inspect_sample("q3", 1, None, error={"message": "timeout", "traceback": ""}),
]
EVAL = {"task": "colours", "model": "mock/small", "dataset": {}}
INSPECT = json.dumps({"version": 2, "status": "success", "eval": EVAL, "samples": SAMPLES}, indent=1)


def packed(parts, compression=zipfile.ZIP_DEFLATED):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return target.getvalue()


def lm_eval(doc, filter="none", **values):
    return {"doc_id": doc, "doc": {}, "filter": filter, "metrics": list(values), "doc_hash": f"d{doc}", **values}


def promptfoo(prompt, vars, score, **more):
    result = {"prompt": {"raw": "...", "label": prompt}, "provider": {"id": "echo", "label": ""}, "vars": vars}
    return result | {"promptIdx": 0, "gradingResult": {"score": score}, "score": score, "failureReason": 0, **more}


PROMPTFOO = [
    promptfoo("polite", {"x": "hello", "a": 1}, 1),
    promptfoo("plain", {"a": 1, "x": "hello"}, 0.25, failureReason=1, error="Expected output to contain"),
    promptfoo("polite", {"x": "hello", "a": 1}, 0, failureReason=2, error="429 Too Many Requests", gradingResult=None),
]
EVERY_EVAL = {"model_id": "org/small", "evaluation_name": "colours", "interaction_type": "single_turn"}
OPENAI = [
    {"custom_id": "q1|a", "response": {"status_code": 200, "body": {"score": 1}}, "error": None},
    {"custom_id": "q1|b", "response": {"status_code": 500, "body": {}}, "error": None},
    {"custom_id": "q2|a", "response": None, "error": {"code": "batch_expired", "message": "too late"}},
]
ANTHROPIC = [
    {"custom_id": "q1__a", "result": {"type": "succeeded", "message": {"content": []}, "score": 0}},
    {"custom_id": "q2__a", "result": {"type": "expired"}},
    {"custom_id": "q3__a", "result": {"type": "errored", "error": {"error": {"message": "bad"}}}},
]
HYPERFINE = {
    "results": [
        {"command": "old", "mean": 0.02, "times": [0.02, 0.021], "exit_codes": [0, 0]},
        {"command": "new", "mean": 0.01, "times": [0.01, 0.011, 0.5], "exit_codes": [0, 0, 1]},
    ]
}
HYPERFINE_2 = {
    "schema_version": 2,
    "primary_metric": "wall",
    "results": [
        {"command": "./new", "name": "new", "measurements": [{"wall": {"value": 0.01}, "exit_code": 0}] * 2},
    ],
}
BENCHMARK = {
    "benchmarks": [
        {"name": "sort[a]", "fullname": "tests::sort[a]", "stats": {"mean": 2, "data": [3e-5, 2e-5]}},
        {"name": "sort[b]", "fullname": "tests::sort[b]", "stats": {"mean": 2, "data": [1e-5]}},
    ]
}
JOURNAL = [
    {"op_code": 0, "worker_id": "w", "study_name": "s", "directions": [1]},
    {"op_code": 4, "worker_id": "w", "study_id": 0},
    {"op_code": 5, "worker_id": "w", "trial_id": 0, "param_name": "x", "param_value_internal": 0.5},
    {"op_code": 6, "worker_id": "w", "trial_id": 0, "state": 1, "values": [0.83]},
]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Write a file and return its rows (arm, outcome, item, repeat) and its sheet."""
    monkeypatch.chdir(tmp_path)

    def call(contents, name="results.json", arms=(), **columns):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        with ExitStack() as stack:
            sheet = sheet_of(str(path), str(path), name, set(), stack, Wanted(arms, columns))
            found = [
                row for chunk in sheet.chunks(range(len(sheet.header))) for row in zip(*chunk.columns, strict=True)
            ]
            sheet.problems.refuse()
        return found, sheet

    return call


LM_NAME = "org__small/samples_parity_2026-01-05T09-00-00.000000.jsonl"
INSPECT_ROWS = [
    ("mock/small", 1, "q1", 1),
    ("mock/small", 0, "q1", 2),
    ("mock/small", 0.5, "q2", 1),
    ("mock/small", None, "q3", 1),
]
PROMPTFOO_ROWS = [
    ("polite", 1, '{"a":1,"x":"hello"}', 1),
    ("plain", 0.25, '{"a":1,"x":"hello"}', 1),
    ("polite", None, '{"a":1,"x":"hello"}', 2),
]
TIMES = [("old", 0.02), ("old", 0.021), ("new", 0.01), ("new", 0.011), ("new", None)]


@pytest.mark.parametrize(
    ("contents", "name", "columns", "rows", "reasons", "lower"),
    [
        (INSPECT, "log.json", {}, INSPECT_ROWS, {"timeout": 1}, None),
        (
            packed({"header.json": {"eval": EVAL}, "summaries.json": SAMPLES, "samples/q.json": "no JSON"}),
            "log.eval",
            {},
            INSPECT_ROWS,
            {"timeout": 1},
            None,
        ),
        (
            packed({"_journal/start.json": {"eval": EVAL}, **{f"samples/{k}.json": s for k, s in enumerate(SAMPLES)}}),
            "stopped.eval",
            {"arm": "task"},
            [("colours", *row[1:]) for row in INSPECT_ROWS],
            {"timeout": 1},
            None,
        ),
        (
            lines(lm_eval(3, acc=1.0), lm_eval(0, acc=0.0)),
            LM_NAME,
            {},
            [("org/small", 1, "parity/3"), ("org/small", 0, "parity/0")],
            {},
            None,
        ),
        (
            lines(lm_eval(3, acc=1.0, norm=0.0), lm_eval(3, "strict", acc=0.0, norm=1.0)),
            LM_NAME,
            {"outcome": "acc,strict"},
            [("org/small", 0, "parity/3")],
            {},
            None,
        ),
        (json.dumps({"results": {"results": PROMPTFOO}}, indent=1), "p.json", {}, PROMPTFOO_ROWS, None, None),
        (lines(*PROMPTFOO), "p.jsonl", {}, PROMPTFOO_ROWS, {"429 Too Many Requests": 1}, None),
        (
            lines(*({**EVERY_EVAL, "sample_id": f"q{s}", "evaluation": {"score": s}} for s in (0, 1))),
            "e.jsonl",
            {},
            [("org/small", 0, "colours/q0"), ("org/small", 1, "colours/q1")],
            {},
            None,
        ),
        (
            lines(*OPENAI),
            "o.jsonl",
            {"arm": 'custom_id:"{item}|{arm}"', "outcome": "response.body.score"},
            [("a", 1, "q1"), ("b", None, "q1"), ("a", None, "q2")],
            {"status 500": 1, "too late": 1},
            None,
        ),
        (
            lines(*ANTHROPIC),
            "a.jsonl",
            {"arm": "custom_id:{item}__{arm}", "outcome": "result.score"},
            [("a", 0, "q1"), ("a", None, "q2"), ("a", None, "q3")],
            {"expired": 1, "errored: bad": 1},
            None,
        ),
        (json.dumps(HYPERFINE, indent=1), "h.json", {}, TIMES, {"exit code 1": 1}, True),
        (json.dumps(HYPERFINE_2), "h2.json", {}, [("new", 0.01)] * 2, {}, True),
        (
            json.dumps(BENCHMARK),
            "b.json",
            {},
            [("sort[a]", 3e-5), ("sort[a]", 2e-5), ("sort[b]", 1e-5)],
            {},
            True,
        ),
    ],
    ids=lambda each: each if isinstance(each, str) and "." in each[-6:] and len(each) < 90 else "",
)
def test_rows_of_each_tool(read, contents, name, columns, rows, reasons, lower):
    found, sheet = read(contents, name, ("org/small",), **columns)
    assert found == rows
    assert reasons is None or sheet.reasons == reasons
    assert sheet.lower_is_better is lower


def test_an_item_may_be_named_by_a_path(read):
    """Where a file does not have the path, items are called as usual."""
    found, _ = read(lines(*PROMPTFOO), "p.jsonl", item="vars.x")
    assert found == [(*row[:2], "hello", row[3]) for row in PROMPTFOO_ROWS]
    found, _ = read(lines({**lm_eval(3, acc=1.0), "doc": {"id": "q7"}}), LM_NAME, ("org/small",), item="doc.id")
    assert found == [("org/small", 1, "q7")]
    samples = [{**each, "metadata": {"code": f"m{k}"}} for k, each in enumerate(SAMPLES)]
    for contents in (
        json.dumps({"eval": EVAL, "samples": samples}, indent=1),
        packed({"_journal/start.json": {"eval": EVAL}, **{f"samples/{k}.json": s for k, s in enumerate(samples)}}),
    ):
        found, _ = read(contents, "log.eval", item="metadata.code")
        assert found == [(*row[:2], f"m{k}", row[3]) for k, row in enumerate(INSPECT_ROWS)]
    for item in ("question", "metadata", "item"):
        assert read(INSPECT, "log.json", item=item)[0] == INSPECT_ROWS


def test_the_names_of_its_own_columns_are_no_metrics(read):
    """So the page sends them back."""
    found, _ = read(INSPECT, "log.json", arm="arm", outcome="outcome", item="item")
    assert found == INSPECT_ROWS


def test_logs_packed_with_zstandard(read):
    zstandard = pytest.importorskip("zstandard")
    parts = {"header.json": {"eval": EVAL}, "summaries.json": SAMPLES}
    plain = packed(parts, zipfile.ZIP_STORED)
    small = bytearray(packed(dict.fromkeys(parts, ""), zipfile.ZIP_STORED))
    assert len(small) < len(plain)
    # what zipfile cannot write: members of compression 93, put together by hand
    body, index = b"", b""
    for name, content in parts.items():
        raw = json.dumps(content).encode()
        data, at = zstandard.ZstdCompressor().compress(raw), len(body)
        fixed = b"\x2d\x00\x00\x00\x5d\x00" + bytes(4)
        sizes = (
            zipfile.crc32(raw).to_bytes(4, "little") + len(data).to_bytes(4, "little") + len(raw).to_bytes(4, "little")
        )
        lengths = len(name).to_bytes(2, "little") + bytes(2)
        body += b"PK\x03\x04" + fixed + sizes + lengths + name.encode() + data
        index += b"PK\x01\x02\x2d\x00" + fixed + sizes + lengths + bytes(10) + at.to_bytes(4, "little") + name.encode()
    end = b"PK\x05\x06" + bytes(4) + (2).to_bytes(2, "little") * 2 + len(index).to_bytes(4, "little")
    archive = body + index + end + len(body).to_bytes(4, "little") + bytes(2)
    found, _ = read(archive, "log.eval")
    assert found == INSPECT_ROWS
    cut = archive.replace(zstandard.ZstdCompressor().compress(json.dumps(SAMPLES).encode())[4:40], bytes(36))
    with pytest.raises(DataError, match="log.eval: cannot be read as an Inspect log"):
        read(cut, "log.eval")


def test_the_model_of_lm_eval_is_in_its_results(read, tmp_path):
    folder = tmp_path / "org__small"
    folder.mkdir()
    older = {"model_name": "other", "higher_is_better": {"parity": {"acc": True}}}
    newer = {"model_name": "org/own", "higher_is_better": {"parity": {"acc": False}}}
    (folder / "results_2026-01-04.json").write_text(json.dumps(older))
    (folder / "results_2026-01-05.json").write_text(json.dumps(newer))
    found, sheet = read(lines(lm_eval(3, acc=1.0)), LM_NAME)
    assert (found, sheet.lower_is_better) == ([("org/own", 1, "parity/3")], True)


def optuna_database(path):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            create table trials (trial_id integer, number integer, study_id integer, state text);
            create table trial_values (trial_id integer, value float);
            create table trial_params (trial_id integer, param_name text, param_value float, distribution_json text);
            create table study_directions (study_id integer, direction text);
            insert into study_directions values (1, 'MAXIMIZE');
            insert into trials values (1, 0, 1, 'COMPLETE'), (2, 1, 1, 'COMPLETE'), (3, 2, 1, 'FAIL');
            insert into trial_values values (1, 0.83), (2, 0.4), (3, 0.99);
            insert into trial_params values (1, 'x', 0.17, null), (2, 'x', 0.5, 'no JSON'), (3, 'x', 0.9, '{}'),
              (1, 'k', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["a", "b"]}}'),
              (1, 'n', 3.0, '{"name": "IntDistribution", "attributes": {"low": 1, "high": 9}}');
            """
        )
        database.commit()
    return path.read_bytes()


def test_trials_of_a_search_name_arms_but_are_no_results(read, tmp_path):
    with pytest.raises(DataError, match=r"o.db: .*Optuna.*\n.*: k=b, n=3, x=0.17 \(0.83\); x=0.5 \(0.4\)\."):
        read(optuna_database(tmp_path / "made.db"), "o.db")
    with pytest.raises(DataError, match=r"j.log: .*Optuna.*\n.*x=0.5 \(0.83\)"):
        read(lines(*JOURNAL), "j.log")
    with pytest.raises(DataError, match="df.csv: .*Optuna"):
        read("number,value,params_x,state\n0,0.8,0.1,COMPLETE\n", "df.csv")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("create table results (arm text)")
    with pytest.raises(DataError, match="SQLite database"):
        read((tmp_path / "other.db").read_bytes(), "copy.db")


TWO_SCORERS = json.dumps(
    {
        "eval": EVAL,
        "samples": [{"id": 1, "epoch": 1, "scores": {"match": {"value": 1}, "grade": {"value": {"x": 1, "y": 0}}}}],
    }
)


@pytest.mark.parametrize(
    ("contents", "name", "columns", "message"),
    [
        (TWO_SCORERS, "log.json", {}, "several scorers: 'match', 'grade.x', 'grade.y'"),
        (TWO_SCORERS, "log.json", {"outcome": "macth"}, "no scorer 'macth', only 'match'"),
        (json.dumps({"eval": EVAL, "samples": None}), "log.json", {}, "no samples"),
        (json.dumps({"eval": EVAL, "samples": [{"id": 1, "epoch": 1}]}), "log.json", {}, "no result has a scorer"),
        (packed({"header.json": {"eval": EVAL}, "samples/1.json": {}}), "log.eval", {}, "no result has a scorer"),
        (
            packed({"header.json": {"eval": EVAL}, "samples/1.json": {"scores": {"match": {"value": 1}}}}),
            "log.eval",
            {},
            "cannot be read as an Inspect log .*'id'",
        ),
        (json.dumps({"eval": EVAL}), "log.json", {}, "cannot be read as an Inspect log .*'samples'"),
        (lines(lm_eval(3, acc=1.0, norm=0.0)), LM_NAME, {}, "several metrics: 'acc', 'norm'"),
        (lines(lm_eval(3, acc=1.0), lm_eval(3, "b", acc=1)), LM_NAME, {}, "several metrics: 'acc,none', 'acc,b'"),
        (lines(lm_eval(3, acc=1.0)), "samples.jsonl", {}, "task is in the file's name"),
        (lines(lm_eval(3, acc=1.0)), LM_NAME.replace("small", "large"), {}, "results_"),
        (lines(*OPENAI), "o.jsonl", {}, "line 1: the custom_id 'q1|a' does not say"),
        (lines(*OPENAI), "o.jsonl", {"arm": "custom_id:{item}|{arm}"}, "not graded"),
        (lines(*ANTHROPIC), "a.jsonl", {"arm": "custom_id:{item}__{arm}", "outcome": "score"}, "'score'.*custom_id"),
        (json.dumps({"benchmarks": [{"name": "a", "fullname": "a", "stats": {}}]}), "b.json", {}, "no single times"),
        (
            packed({"notes.txt": "hello"}),
            "notes.zip",
            {},
            "neither a workbook nor an Inspect log; it holds 'notes.txt'",
        ),
        (INSPECT[:500], "log.json", {}, "this is not JSON"),
    ],
)
def test_what_is_refused(read, contents, name, columns, message):
    with pytest.raises(DataError, match=f"(?s){name}.*{message}".replace("|", r"\|")):
        read(contents, name, ("org/small",), **columns)


class TestPaths:
    def test_a_path_follows_names_and_numbers(self):
        given = {"a": [{"b.c": 1}, {"b": {"c": 2}}], "x.y": {"z": 3}}
        assert [follow(given, path) for path in ("a.0.b.c", "a.1.b.c", "x.y.z")] == [1, 2, 3]
        assert [follow(given, path) for path in ("a[0].b.c", "a[1].b.c")] == [1, 2]
        assert follow({"a[0]": 3, "a": [4]}, "a[0]") == 3
        assert all(follow(given, path) is Absent for path in ("a.2.b", "a.b", "q", "", "a.0.b.c.d", "a.-1.b"))

    def test_a_star_is_one_row_for_each_member(self, read):
        runs = [
            {"model": "a", "answers": [{"q": 1, "ok": 1}, {"q": 2, "ok": 0}]},
            {"model": "b", "answers": [{"q": 1}]},
        ]
        document = json.dumps({"done": {"runs": runs}})
        columns = {"arm": "done.runs.*.model", "outcome": "done.runs.*.answers.*.ok", "item": "done.runs.*.answers.*.q"}
        assert read(document, **columns)[0] == [("a", 1, 1), ("a", 0, 2), ("b", None, 1)]
        assert read(document, **{role: path.replace(".*", "[*]") for role, path in columns.items()})[0] == [
            ("a", 1, 1), ("a", 0, 2), ("b", None, 1)
        ]  # fmt: skip
        with pytest.raises(DataError, match="no list at 'done.rows.*'"):
            read(document, arm="done.rows.*.model", outcome="done.rows.*.ok")
        with pytest.raises(DataError, match="another list"):
            read(document, arm="done.runs.*.model", outcome="other.*.answers.*.ok")
        with pytest.raises(DataError, match=r"no row has 'done.runs.\*.modl', only 'model', 'answers'"):
            read(document, **columns | {"arm": "done.runs.*.modl"})

    def test_lines_of_nested_objects(self, read):
        text = lines({"run": {"arm": "a"}, "ok": 1}, {"run": {"arm": "b"}, "ok": 0})
        rows, sheet = read(text, arm="run.arm", outcome="ok")
        assert [(row[sheet.header.index("run.arm")], row[sheet.header.index("ok")]) for row in rows] == [
            ("a", 1),
            ("b", 0),
        ]

    def test_a_pattern_takes_names_apart_in_any_table(self, read):
        rows, sheet = read("key,score\nq1|a,1\nq|2|b,0\n", "r.csv", arm="key:{item}|{arm}")
        assert [row[2:] for row in rows] == [("a", "q1"), ("2|b", "q")]
        assert sheet.roles == {"arm": "arm in key", "item": "item in key"}
        with pytest.raises(DataError, match="r.csv, line 3: 'q2' is not of the form"):
            read("key,score\nq1|a,1\nq2,0\n", "r.csv", arm="key:{item}|{arm}")
        taken = {"a-b-c|d|e": {"arm": "d|e", "item": "b-c"}, "a-|d": None, "-b|d": None, "a-b|": None, "a|b": None}
        for text, names in taken.items():
            assert Pattern.parse("key:{}-{item}|{arm}").names(text) == names
        assert Pattern.parse("key:<{arm}>").names("<a>>") == {"arm": "a>"}
        assert Pattern.parse("key:aa{arm}aa").names("aaa") is None
        assert Pattern.parse("key:" + "{}|" * 50 + "{arm}").names("|" * 100_000) == {"arm": "|" * 99_900}
        repeats = Pattern.parse("key:{item}#{repeat}|{arm}")
        assert repeats.names("q#2|a") == {"item": "q", "repeat": "2", "arm": "a"}
        rows, sheet = read("key,score\nq1#2|a,1\n", "r.csv", arm="key:{item}#{repeat}|{arm}")
        assert (rows[0][2:], sheet.header[-1]) == (("a", "q1", "2"), "repeat")
        for wrong in ("key:{repeat}|{arm}", "key:{item}", "key:{arm}{item}", "key:{arm}|{arm}"):
            with pytest.raises(RoundwiseError, match="needs {arm} once"):
                Pattern.parse(wrong)


class TestRequests:
    def test_what_is_asked_for_is_told_back(self):
        arms = ["small", "org/large one", "größer"]
        keys = arm_keys(arms)
        for arm in arms:
            for item in ("q17", "a_b-c", "Frage 4?", "parity/3", "ü"):
                made = request_id(arm, item)
                assert len(made) <= LONGEST
                assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
                assert parse_request_id(made, keys) == {"arm": arm, "item": item}
        assert parse_request_id("rw-00000000-q1", keys) is None
        assert parse_request_id(request_id("small", "q1")[:-1] + "_f", keys) is None
        with pytest.raises(RoundwiseError, match="shorter ids"):
            request_id("small", "x" * 60)

    def test_a_row_with_an_arm_and_an_outcome_is_a_row_of_a_table(self, read):
        rows, sheet = read(lines({"custom_id": "x", "response": {}, "arm": "a", "outcome": 1}), "r.jsonl", ("a",))
        assert (rows, sheet.roles) == ([("x", {}, "a", 1)], {})

    def test_grades_by_custom_id(self, read):
        text = "custom_id,outcome\n" + "".join(f"{request_id(arm, 'q1')},1\n" for arm in ("a", "b"))
        rows, _ = read(text, "grades.csv", ("a", "b"))
        assert [row[2:] for row in rows] == [("a", "q1"), ("b", "q1")]


# --- as results of a study


def told(path, arms, noise, columns=None, **words):
    return read_results(str(path), arms, noise, columns=columns, options=TellOptions(), **words)


def test_epochs_of_an_item_are_not_independent(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(INSPECT)
    with pytest.raises(DataError, match="the item of an earlier row and the same arm"):
        told(path, ["mock/small"], Binary())
    found = told(path, ["mock/small"], Bounded(0, 1), reading=Reading(id_result="mean"))
    assert (found.counts.tolist(), found.totals.tolist()) == ([2], [1])  # q1: 1 and 0; q2: P


def test_an_error_is_missing_with_its_reason(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"eval": EVAL, "samples": [SAMPLES[0], *SAMPLES[2:]]}))
    found = told(path, ["mock/small", "mock/large"], Bounded(0, 1), columns=Columns(arm="variant", id="user"))
    assert (found.counts.tolist(), found.totals.tolist()) == ([2, 0], [1.5, 0])
    assert (found.missing.tolist(), found.missing_reason) == ([1, 0], "timeout")
    assert FileNote("missing_outcomes", file=found.name, arms={"mock/small": 1}, why="timeout") in found.notes


def test_one_of_several_metrics_is_chosen_on_the_page(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(TWO_SCORERS)

    def look(**named):
        options = TellOptions(columns=Columns(**named) if named else None)
        return preview_columns(path, ["mock/small"], Binary(), Columns(), Reading(), options)

    assert look().header == ("match", "grade.x", "grade.y")
    chosen = look(outcome="grade.x")
    assert chosen.taken == {"arm": "arm", "outcome": "grade.x", "item": "item"}
    assert look(**chosen.taken) == chosen  # so the page sends it back


def test_runs_are_results_and_times_have_a_direction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.json").write_text(json.dumps(HYPERFINE))
    for lower in (False, True):
        with create_study(
            f"s{lower}", question=BestArm(lower_is_better=lower), arms=["old", "new"], noise=Normal()
        ) as study:
            study.ask()
            if not lower:
                with pytest.raises(DataError, match="lower values are better in this file, but this study looks for h"):
                    study.tell("h.json")
                continue
            (results,), _ = study.preview("h.json")
            assert (results.counts.tolist(), results.missing.tolist()) == ([2, 2], [0, 1])
            assert [note.code for note in results.notes] == ["consecutive", "missing_outcomes"]
            sessions = [FileNote("consecutive", file=f"{i}.json") for i in range(3)]
            assert [len(gather_notes(sessions[:n])) for n in (1, 2, 3)] == [1, 1, 0]  # several were made
    with create_study("levels", question=Above(0.5), arms=["old", "new"], noise=Normal()) as study:  # either is asked
        study.ask()
        study.tell("h.json")


# --- hostile files

FILES = {
    "log.json": INSPECT.encode(),
    "log.eval": packed({"header.json": {"eval": EVAL}, "summaries.json": SAMPLES}, zipfile.ZIP_STORED),
    LM_NAME: lines(lm_eval(3, acc=1.0), lm_eval(0, acc=0.0)).encode(),
    "p.json": json.dumps({"results": {"results": PROMPTFOO}}).encode(),
    "e.jsonl": lines({**EVERY_EVAL, "sample_id": "q", "evaluation": {"score": 1}}).encode(),
    "o.jsonl": lines(*OPENAI).encode(),
    "a.jsonl": lines(*ANTHROPIC).encode(),
    "h.json": json.dumps(HYPERFINE).encode(),
    "h2.json": json.dumps(HYPERFINE_2).encode(),
    "b.json": json.dumps(BENCHMARK).encode(),
    "j.log": lines(*JOURNAL).encode(),
}
COLUMNS = {
    "o.jsonl": Columns(arm="custom_id:{item}|{arm}", outcome="response.body.score"),
    "a.jsonl": Columns(arm="custom_id:{item}__{arm}", outcome="result.score"),
}
ANY_ARMS = ["mock/small", "org/small", "polite", "plain", "a", "b", "old", "new", "sort[a]", "sort[b]"]


@functools.cache
def _places(name):
    """Every place of a JSON document, as a list of keys."""

    def walk(node, at):
        yield at
        members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, member in members:
            yield from walk(member, (*at, key))

    return list(walk([json.loads(line) for line in FILES[name].decode().splitlines()], ()))


def said_of(path, name):
    """The one error that a file may raise; empty if it is read."""
    try:
        told(path, ANY_ARMS, Bounded(0, 1), columns=COLUMNS.get(name))
    except RoundwiseError as error:
        return str(error)
    return ""


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_read_or_refused(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        path.write_bytes(fuzz._damaged(FILES[name], rng))
        assert len(said_of(path, name)) < 3000


WRONG = [None, 0, -1, 1e308, 10**400, "", "x" * 10_000, [], {}, [[]], [None], {"": None}, True, [{"a": []}] * 3]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FILES if name not in ("log.eval", "log.json")])
def test_a_value_of_another_type_is_read_or_refused(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    places = [at for at in _places(name) if at]
    rng = np.random.default_rng(3)
    for _ in range(150):
        objects = [json.loads(line) for line in FILES[name].decode().splitlines()]
        *outer, last = places[int(rng.integers(len(places)))]
        node = objects
        for key in outer:
            node = node[key]
        node[last] = WRONG[int(rng.integers(len(WRONG)))]
        try:
            path.write_text(lines(*objects))
        except ValueError:  # more digits than Python writes
            continue
        assert len(said_of(path, name)) < 3000


def test_an_archive_that_unpacks_to_more_than_allowed(tmp_path):
    from roundwise.formats.sources import archive_sheet

    content = packed({"header.json": {"eval": EVAL}, "summaries.json": "[" + " " * 3_000_000 + "]"})
    path = tmp_path / "log.eval"
    path.write_bytes(content)
    with path.open("rb") as file, pytest.raises(DataError, match="log.eval is too large when it is unpacked"):
        archive_sheet("log.eval", str(path), file, Wanted(), 1_000_000)
    nested = packed({"header.json": "[" * 200_000, "summaries.json": "[]"})
    path.write_bytes(nested)
    with pytest.raises(DataError, match="cannot be read as an Inspect log"):
        told(path, ANY_ARMS, Binary())
