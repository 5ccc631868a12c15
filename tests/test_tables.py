"""One reader for tables: forms, features, outcomes, wide tables and scenarios of any kind of file, as results are."""

import csv
import gzip
import io
import json
import math

import numpy as np
import pytest

import fuzz
from roundwise import DataError
from roundwise.arena.contests import replayed
from roundwise.arena.run import Times
from roundwise.formats.small_table import read_rows
from roundwise.planning.request import read_scenarios
from roundwise.simulation.tables import read_features, read_forms, read_outcomes, read_wide

ARMS = ("red", "blue")
FORMS = {"name": ["x", "y"], "red": [1, 0.25], "blue": [-1.5, 1e-3], "above": [0.5, 0]}
FEATURES = {"arm": ["blue", "red"], "u": [0.125, 2], "v": [3, -4.5]}
OUTCOMES = {"arm": ["red", "red", "blue", "blue"], "outcome": [0, 0.5, 0, 0.5], "count": [3, 4, 5, 6]}
WIDE = {"item": [7, 8, 9], "red": [0, 1, 0.5], "blue": [1, 0, 0.25]}
SCENARIOS = {"scenario": ["good", "bad"], "red": [0.125, 0.1], "blue": [0.25, 0.1]}


def text(columns, delimiter=",", comma=False, start=b"", quotes=csv.QUOTE_MINIMAL):
    """The columns as a text table."""
    target = io.StringIO(newline="")
    writer = csv.writer(target, delimiter=delimiter, quoting=quotes)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([str(each).replace(".", ",") if comma else each for each in row])
    return start + target.getvalue().encode()


def parquet(columns):
    duckdb = pytest.importorskip("duckdb")
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.register("t", {name: np.array(column) for name, column in columns.items()})
        connection.execute(f"copy t to '{folder}/t' (format parquet)")
        return (Path(folder) / "t").read_bytes()


KINDS = {
    "commas": text,
    "semicolons": lambda columns: text(columns, ";"),
    "decimal commas": lambda columns: text(columns, ";", comma=True),
    "tabs": lambda columns: text(columns, "\t"),
    "a byte order mark": lambda columns: text(columns, ";", start=b"\xef\xbb\xbf"),
    "as Excel says it": lambda columns: text(columns, ";", comma=True, start=b"sep=;\r\n"),
    "quotes": lambda columns: text(columns, quotes=csv.QUOTE_ALL),
    "gzip": lambda columns: gzip.compress(text(columns, ";")),
    "JSON lines": lambda columns: fuzz.written(columns, "lines"),
    "a JSON list": lambda columns: fuzz.written(columns, "json"),
    "JSON columns": lambda columns: json.dumps(columns).encode(),
    "gzipped JSON lines": lambda columns: gzip.compress(fuzz.written(columns, "lines")),
    "Excel": lambda columns: fuzz.written(columns, "xlsx"),
    "Parquet": parquet,
}


@pytest.fixture(params=KINDS)
def kept(request, tmp_path):
    """Write columns to a file of each kind."""

    def call(columns):
        path = tmp_path / "table"
        path.write_bytes(KINDS[request.param](columns))
        return path

    return call


class TestEveryKind:
    def test_forms(self, kept):
        assert read_forms(kept(FORMS), "above", True, ARMS) == (["x", "y"], [[1, -1.5], [0.25, 1e-3]], [0.5, 0])

    def test_features(self, kept):
        assert read_features(kept(FEATURES), ARMS).tolist() == [[2, -4.5], [0.125, 3]]

    def test_outcomes(self, kept):
        arms, outcomes, counts = read_outcomes(kept(OUTCOMES), None)
        assert (arms, outcomes.tolist(), counts.tolist()) == (ARMS, [0, 0.5], [[3, 4], [5, 6]])

    def test_wide(self, kept):
        values, arms = read_wide(kept(WIDE))
        assert (values.tolist(), arms) == ([[0, 1], [1, 0], [0.5, 0.25]], ARMS)

    def test_scenarios(self, kept):
        found = read_scenarios(kept(SCENARIOS), ARMS)
        assert [(each.label, each.means) for each in found] == [("good", (0.125, 0.25)), ("bad", (0.1, 0.1))]

    def test_a_number_that_is_none(self, kept):
        """The place is said as the kind counts: lines of text, rows of the others."""
        path = kept(OUTCOMES | {"outcome": ["0", "0", "many", "1"]})
        with pytest.raises(DataError, match=r"table, (line|row) [345]: the outcome 'many' is not a number"):
            read_outcomes(path, None)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("commas", "line 4"),
        ("semicolons", "line 4"),
        ("as Excel says it", "line 5"),
        ("gzip", "line 4"),
        ("JSON lines", "line 3"),
        ("a JSON list", "row 3"),
        ("Excel", "row 4"),
        ("Parquet", "row 3"),
    ],
)
def test_where_it_is(kind, place, tmp_path):
    (tmp_path / "table").write_bytes(KINDS[kind](OUTCOMES | {"count": [1, 2, -3, 4]}))
    with pytest.raises(DataError, match=f"table, {place}: the count '-3' is not a whole number"):
        read_outcomes(tmp_path / "table", None)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b'arm,outcome,count\nred,0,3\n"bl\nue",1,2\n\nred,x,1\n', "line 6.*'x'"),
        (b"\n\narm;outcome;count\nred;0;3\nblue;1\n", "line 5"),
        (b"arm,outcome,count\nred,0,3,4\n", "line 2"),
        (b"\narm,count\nred,0\n", "line 2.*'outcome'"),
        (b"arm,outcome,outcome,count\nred,0,1,2\n", "line 1.*'outcome'"),
        (b"arm,,outcome,count\nred,,0,1\nred,9,1,2\n", "line 3"),
        (b"arm;outcome;count\nred;0,5;1\nblue;0.5;1\n", "line 3"),
        (b'arm,outcome,count\nred,"0,500",1\n', "line 2.*'0,500'"),
        (b"arm,outcome,count\nred,1_0,1\n", "line 2.*'1_0'"),
        (b"arm,outcome,count\nred,\x1b[2J,1\n", r"line 2.*'\\x1b\[2J'"),
        (b"arm,outcome,count\nred," + b"9" * 10_000_000 + b",1\n", "line 2.*'9{39}…'"),
        (b"arm,outcome,count\nred,1," + b"9" * 5000 + b"\n", "line 2.*'9{39}…'"),
        (b'{"arm": "red", "outcome": ' + b"[" * 100_000, "this is not JSON"),
        (b'{"arm": "red", "outcome": 1, "count": 2}\n{"arm": 3', "line 2"),
        (b'{"arm": "red", "outcome": null, "count": 2}\n', "line 1"),
        (b"arm,outcome,count\nred,1,2\nbl\xfce,1,2\n", "line 3"),
        (b'arm,outcome,count\nred,1,2\n"blue,1,2\n', "line 3"),
        (b"\x1f\x8b rubbish", "file"),
        (b"PK\x03\x04 rubbish", "workbook"),
        (b"PAR1 rubbish", "Parquet"),
    ],
    ids=range(20),
)
def test_what_is_refused(contents, message, tmp_path):
    if contents.startswith(b"PAR1"):
        pytest.importorskip("duckdb")
    (tmp_path / "table").write_bytes(contents)
    with pytest.raises(DataError, match=message) as error:
        read_outcomes(tmp_path / "table", None)
    assert len(str(error.value)) < 1000


def test_features_of_an_arm_twice(tmp_path):
    (tmp_path / "table").write_text("arm,u\nred,1\nblue,2\nred,3\n")
    with pytest.raises(DataError, match=r"line 2.*'red'"):
        read_features(tmp_path / "table", ARMS)


@pytest.mark.parametrize("contents", ['""\n1\n', "{}\n{}\n", '{"": 1}\n', '" ";""\n1;2\n'])
def test_columns_without_names(contents, tmp_path):
    (tmp_path / "table").write_text(contents)
    with pytest.raises(DataError, match="line 1"):
        read_wide(tmp_path / "table")


def test_a_directory_and_no_file(tmp_path):
    with pytest.raises(DataError, match="directory"):
        read_wide(tmp_path)
    with pytest.raises(DataError, match=r"absent.csv"):
        read_wide(tmp_path / "absent.csv")


def test_empty_cells_rows_and_columns(tmp_path):
    """Columns without a name and rows without a value are no part of the table; a wide row with a gap is left out."""
    for contents in (
        b"item,red,blue,,\n1,0,1,,\n,,,,\n2,,1,,\n3,1,0,,\n",
        b'{"item": 1, "red": 0, "blue": 1}\n{}\n{"red": null, "blue": 1}\n{"item": 3, "red": true, "blue": 0}\n',
    ):
        (tmp_path / "table").write_bytes(contents)
        values, arms = read_wide(tmp_path / "table")
        assert (values.tolist(), arms) == ([[0, 1], [1, 0]], ARMS)


def test_numbers_keep_their_bits(tmp_path):
    """Whatever the kind: what was written as the shortest decimal is the same double again."""
    rng = np.random.default_rng(0)
    column = [*(rng.standard_normal(50) * 10.0 ** rng.integers(-300, 300, 50)).tolist(), 5e-324, 0.1 + 0.2, math.pi]
    for kind, written in KINDS.items():
        (tmp_path / "table").write_bytes(written({"red": column, "blue": column[::-1]}))
        assert read_wide(tmp_path / "table")[0].tolist() == np.array([column, column[::-1]]).T.tolist(), kind


def test_more_rows_than_one_chunk(tmp_path):
    wide = {"red": list(range(5001)), "blue": [0] * 5001}
    for kind in ("quotes", "JSON lines", "Excel"):
        (tmp_path / "table").write_bytes(KINDS[kind](wide))
        _, rows = read_rows(tmp_path / "table", ARMS)
        top = 1 if kind == "JSON lines" else 2
        assert [row.line for row in rows] == list(range(top, top + 5001)), kind
        assert [row.number("red") for row in rows] == wide["red"], kind


def test_percentages_of_scenarios(tmp_path):
    (tmp_path / "table").write_text("name;red;blue\nx;12,5 %;2 points\n")
    assert read_scenarios(tmp_path / "table", ARMS)[0].means == (0.125, 0.02)
    (tmp_path / "table").write_text("name;red;blue\nx;1;y\n")
    with pytest.raises(DataError, match=r"line 2.*blue"):
        read_scenarios(tmp_path / "table", ARMS)


def test_contests_of_semicolons(tmp_path):
    (tmp_path / "instances.csv").write_text("file;instance;question;param\nt.csv;x;best arm;\nt.csv;x;threshold;0.5\n")
    (tmp_path / "t.csv").write_bytes(gzip.compress(text({"instance": ["x"] * 4} | OUTCOMES, ";", comma=True)))
    assert [each.name for each in replayed(tmp_path)] == ["x: best arm", "x: threshold 0.5"]
    (tmp_path / "instances.csv").write_text("file;instance;question;param\nt.csv;x;best arm;\nt.csv;x;top-k;two\n")
    with pytest.raises(DataError, match=r"line 3.*'two'"):
        replayed(tmp_path)


def test_times_that_are_no_numbers(tmp_path):
    (tmp_path / "times.csv").write_text("cell,ms_a_run\nab,1.5\n1e5,2\ncd,\n")
    with pytest.raises(DataError, match=r"line 4.*'ms_a_run'"):
        Times(tmp_path / "times.csv")
