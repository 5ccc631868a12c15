"""Results as they come in life: every form and dialect, every refusal, sums to the last bit, parts, large files."""

import csv
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roundwise import Binary, Bounded, DataError, Gaussian, InputError, Normal, Poisson, SubGaussian
from roundwise.arrays import pack_numbers, unpack_numbers
from roundwise.formats import readers
from roundwise.ingest import Results, batch_of, read_results, record
from roundwise.messages import FileNote

ARMS = ["red", "blue", "green"]
NOISE = Gaussian(1.0)
law = settings(
    deadline=None, derandomize=True, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def tell(tmp_path, monkeypatch):
    """Write contents to results.csv (or another name) and read it."""
    monkeypatch.chdir(tmp_path)

    def call(contents, noise=NOISE, arms=ARMS, name="results.csv", **options):
        Path(name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return read_results(name, arms, noise, **options)

    return call


def reference(arms, rows):
    """Counts and totals in plain Python, added in order; scatter exactly."""
    counts, totals, scatter = [], [], []
    for arm in arms:
        own = [value for name, value in rows if name == arm]
        total = 0.0
        for value in own:
            total += value
        exact = [Fraction(value) for value in own]
        mean = sum(exact) / len(own) if own else 0
        counts.append(float(len(own)))
        totals.append(total)
        scatter.append(float(sum((x - mean) ** 2 for x in exact)))
    return counts, totals, scatter


def same(one, other, but=("name", "digest", "notes")):
    one, other = one.payload(), other.payload()
    for key in but:
        one.pop(key, None), other.pop(key, None)
    assert one == other


# --- forms and dialects


def test_rows(tell):
    found = tell("arm,outcome\nred,1.5\nblue,2\nred,2.5\n")
    assert (found.name, found.form, found.rows) == ("results.csv", "rows", 3)
    assert found.digest == hashlib.sha256(b"arm,outcome\nred,1.5\nblue,2\nred,2.5\n").hexdigest()
    assert found.counts.tolist() == [2, 1, 0]
    assert found.totals.tolist() == [4, 2, 0]
    assert found.scatter.tolist() == [0.5, 0, 0]
    assert (found.values, found.parts, found.notes) == (None, 1, ())
    assert sorted(found.strata.totals.tolist()[:2]) == [1.5, 2.5]


def test_sums_of_one_arm_in_several_lines_are_added_up(tell):
    found = tell("arm,count,total,squares\nred,2,4,8.5\nblue,1,2,4\nred,1,7,49\ngreen,0,0,0\n")
    assert (found.form, found.rows) == ("sums", 4)
    assert found.counts.tolist() == [3, 1, 0]
    assert found.totals.tolist() == [11, 2, 0]
    np.testing.assert_allclose(found.scatter, [57.5 - 121 / 3, 0, 0])
    assert tell("arm,count,total\nred,2,4\n").scatter is None


def test_successes(tell):
    found = tell("arm,count,successes\nred,10,4\nred,10,1\nblue,5,5\n", Binary())
    assert found.form == "successes"
    assert found.totals.tolist() == [5, 5, 0]
    np.testing.assert_allclose(found.scatter, [5 - 25 / 20, 0, 0])


ROWS = "arm,outcome\nred,1.5\nblue,2\nred,2.5\n"


@pytest.mark.parametrize(
    "contents",
    [
        ROWS,
        ROWS.replace("\n", "\r\n"),
        ROWS.replace("\n", "\r"),
        ROWS.rstrip(),
        "\ufeff" + ROWS,
        "\n\n" + ROWS.replace("\n", "\n\n") + "\n,\n , \n",
        ROWS.replace("\n", ",\n"),
        ROWS.replace("\n", ",,\n"),
        ROWS.replace(",", ";"),
        ROWS.replace(",", "\t"),
        ROWS.replace(",", ";").replace(".", ","),
        "sep=;\n" + ROWS.replace(",", ";").replace(".", ","),
        ROWS.replace(",", ' , "').replace("\n", '"\n').replace(' "', '"'),
        ROWS.replace("arm,outcome", " ARM , Outcome "),
        ROWS.replace("outcome", "reward"),
        ROWS.replace("outcome", "Value"),
        ROWS.replace("outcome", "result"),
        ROWS.replace("red", ' "red" '.strip()),
        'arm,who,outcome\nred,"x, ""y""\nz",1.5\nblue,,2\nred,,+2.50e0\n',
    ],
)
def test_dialects_say_the_same(tell, contents):
    same(tell(contents), tell(ROWS))


def test_synonyms_of_sums(tell):
    same(tell("Arm;N;Sum\nred;2;3,5\n"), tell("arm,count,total\nred,2,3.5\n"))
    own_name_first = tell("arm,outcome,value\nred,1,9\n")
    assert own_name_first.totals[0] == 1
    assert own_name_first.notes == (FileNote("unused_columns", file="results.csv", columns=["value"]),)


def test_notes(tell):
    (unused,) = tell("arm,day,outcome,who\nred,1,2,x\n").notes
    assert unused == FileNote("unused_columns", file="results.csv", columns=["day", "who"])
    assert tell(ROWS.rstrip()).notes == (FileNote("possibly_cut", file="results.csv"),)


def test_names_are_trimmed_and_may_hold_anything(tell):
    arms = [" control ", "a, b", 'say "hi"', "two\nlines", "é"]
    body = io.StringIO()
    csv.writer(body).writerows([("arm", "outcome"), *((f" {arm} ", i) for i, arm in enumerate(arms))])
    assert tell(body.getvalue(), arms=arms).totals.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="arms"):
        tell(ROWS, arms=["a", "a "])


def test_values_in_the_order_read_where_the_noise_needs_rows(tell):
    found = tell("arm,outcome\nred,1\nblue,0.25\nred,0.5\nred,0\n", Bounded(0, 1))
    assert [each.tolist() for each in found.values] == [[1, 0.5, 0], [0.25], []]
    assert tell("arm,count,total\nred,2,1\n", Bounded(0, 1)).values is None


@pytest.mark.parametrize("suffix", ["xlsx", "parquet"])
def test_excel_and_parquet(tell, suffix):
    table = pd.DataFrame({"who": ["x", "y", "z"], "Arm": ["red", "blue", "red"], "outcome": [1.5, 2, 2.5]})
    name = f"more [1].{suffix}"
    _write(table, name)
    found = read_results(name, ARMS, NOISE)
    same(found, tell(ROWS))
    assert found.digest == hashlib.sha256(Path(name).read_bytes()).hexdigest()
    assert found.notes == (FileNote("unused_columns", file=name, columns=["who"]),)


def _write(table, name):
    if str(name).endswith("xlsx"):
        table.to_excel(name, index=False)
        return
    import duckdb

    with duckdb.connect() as connection:
        connection.register("found", table)
        connection.execute(f"copy found to '{name}' (format parquet)")


def test_excel_rows_are_numbered_as_in_excel_and_numbers_may_name_arms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pd.ExcelWriter("book.xlsx") as book:
        cells = [["", ""], ["arm", "outcome"], [1, 0.5], ["", ""], ["NA", 1.5], [2.0, "x"]]
        pd.DataFrame(cells).to_excel(book, sheet_name="May", header=False, index=False)
        pd.DataFrame([[1]]).to_excel(book, sheet_name="June")
    with pytest.raises(DataError, match=r"row 6.*'x'"):
        read_results("book.xlsx", ["1", "2", "NA"], NOISE)
    with pd.ExcelWriter("book.xlsx") as book:
        pd.DataFrame([*cells[:5], [2.0, 7]]).to_excel(book, sheet_name="May", header=False, index=False)
        pd.DataFrame([[1]]).to_excel(book, sheet_name="June")
    found = read_results("book.xlsx", ["1", "2", "NA"], NOISE)
    assert found.totals.tolist() == [0.5, 7, 1.5]
    assert found.notes == (FileNote("first_sheet", file="book.xlsx", sheets=2, sheet="May"),)


class Polars:
    """As much of a polars frame as is used."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return pd.Series(self._columns[name])


@pytest.mark.parametrize(
    "make",
    [
        dict,
        pd.DataFrame,
        Polars,
        lambda columns: pytest.importorskip("pyarrow").table(columns),
        lambda columns: pd.DataFrame(columns).assign(day=3),
        lambda columns: pd.DataFrame(columns).astype({"arm": "category", "outcome": "float32"}),
        lambda columns: pd.DataFrame(columns).astype({"outcome": "Float64", "arm": "string"}),
        lambda columns: pd.DataFrame(columns).astype({"outcome": str}),
        lambda columns: pd.DataFrame(columns).assign(outcome=[Decimal("1.5"), 2, "2.5"]),
    ],
)
def test_data_frames(tell, make):
    columns = {"arm": ["red", "blue", "red"], "outcome": [1.5, 2.0, 2.5]}
    found = read_results(make(columns), ARMS, NOISE)
    same(found, tell(ROWS))
    assert found.name == "data frame"
    assert found.digest == read_results(columns, ARMS, NOISE).digest
    other = read_results({**columns, "outcome": [1.5, 2.0, 2.25]}, ARMS, NOISE)
    assert other.digest != found.digest


def test_a_lazy_frame_is_refused():
    lazy = Polars({"arm": ["a"], "outcome": [1]})
    lazy.collect = lambda: None
    with pytest.raises(InputError, match=r"lazy.*collect\(\)"):
        read_results(lazy, ["a"], NOISE)


def test_data_frames_of_numbers(tell):
    table = pd.DataFrame({"arm": [3, 1, 3], "outcome": [True, False, True]})
    assert read_results(table, ["1", "3"], Binary()).totals.tolist() == [0, 2]
    with pytest.raises(DataError, match="row 2"):
        read_results(pd.DataFrame({"arm": ["a", "b"], "outcome": [1, None]}), ["a", "b"], NOISE)
    with pytest.raises(DataError, match="row 1"):
        read_results(pd.DataFrame({"arm": ["a"], "outcome": pd.array([None], "Float64")}), ["a"], NOISE)
    with pytest.raises(DataError, match=r"row 1.*'2024-01-02'"):
        read_results({"arm": ["a"], "outcome": [date(2024, 1, 2)]}, ["a"], NOISE)
    with pytest.raises(DataError, match=r"is infinite"):
        read_results({"arm": ["a"], "outcome": [10**400]}, ["a"], NOISE)
    with pytest.raises(DataError, match=r"'\[1\]'"):
        read_results({"arm": [[1], []], "outcome": [1, 1]}, ["a"], NOISE)
    with pytest.raises(DataError, match="column"):
        read_results({"arm": [[1]], "outcome": [1]}, ["a"], NOISE)
    with pytest.raises(DataError, match=r"different lengths"):
        read_results({"arm": ["a"], "outcome": [1, 2]}, ["a"], NOISE)
    with pytest.raises(DataError, match=r"'outcome'.*'arm'"):
        read_results(table.set_index("arm"), ["1", "3"], NOISE)
    with pytest.raises(DataError, match="header"):
        read_results(table.iloc[:0], ["1", "3"], NOISE)
    with pytest.raises(InputError, match="data"):
        read_results(3, ["1", "3"], NOISE)


# --- refusals: every message


def rows(*lines):
    return "arm,outcome\nred,1\n" + "".join(f"{line}\n" for line in lines)


REFUSED = [
    (NOISE, rows("blue,x"), "line 3.*'x'"),
    (NOISE, rows("blue,"), "line 3"),
    (NOISE, rows("blue,nan"), "line 3"),
    (NOISE, rows("blue,-inf"), "line 3.*'-inf'"),
    (NOISE, rows("blue,1e999"), "line 3"),
    (NOISE, rows("blue,1e101"), "line 3"),
    (NOISE, rows("blue,1_000"), "line 3.*'1_000'"),
    (NOISE, rows("blue,١"), "line 3.*'١'"),
    (NOISE, rows('blue,"1,5"'), "line 3.*'1,5'"),
    (NOISE, rows("blue," + "9x" * 60), "line 3.*'(9x)+9…'"),
    (NOISE, rows("blue,1,5"), "line 3"),
    (NOISE, rows("blue"), "line 3"),
    (NOISE, rows(",3"), "line 3"),
    (NOISE, rows("bleu,3"), "line 3.*'bleu'"),
    (NOISE, rows("BLUE,3"), "line 3.*'BLUE'"),
    (NOISE, rows("zzzz,3"), "line 3.*'zzzz'"),
    (NOISE, "arm,outcome\np1,1\np2,2\n", "line 2.*'p1'"),
    (NOISE, rows('blue,"3'), "line 3"),
    (NOISE, rows('"blue,3', *["red,1"] * 30_000), "line 3"),
    (NOISE, rows('"re"d,3'), "line 3"),
    (NOISE, rows('"blue\n\n",3', "x,3"), "line 6.*'x'"),
    (NOISE, rows('"bl\n\nue",3', "x,3"), "line 3"),
    (NOISE, rows('red," 3\n"', "", "x,3"), "line 6.*'x'"),
    (NOISE, rows('red,"3"', "", "", "x,3"), "line 6.*'x'"),
    (NOISE, b"arm,outcome\nred,1\nbl\xfce,2\n", "line 3"),
    (NOISE, b'arm,outcome\n"red",1\nbl\xfce,2\n', "line 3"),
    (NOISE, "arm;outcome\nred;1.500\nred;2,5\n", "line 3.*results.csv"),
    (NOISE, "", "results.csv"),
    (NOISE, "\ufeff \r\n,,\n", r"^results.csv is empty"),
    (NOISE, "arm,outcome\n", "results.csv"),
    (NOISE, "arm,outcome\n\n,\n", "results.csv"),
    (NOISE, '"arm,outcome\nred,1\n', "line 1"),
    (NOISE, "arm,score\nred,x\n", "line 1.*'arm'"),
    (NOISE, "arms,outcome\nx,1\n", "'arms'.*'outcome'"),
    (NOISE, "arm,outcomes\nred,x\n", "'outcome'.*'outcomes'"),
    (NOISE, "arm,count\nred,1\n", r"no column 'total'"),
    (NOISE, "arm,total\nred,1\n", r"no column 'count'"),
    (NOISE, "red,1\nblue,1\n", "line 1.*'red'"),
    (NOISE, "|".join(f"c{i}" for i in range(30)), r"line 1: found 'c0\|c1\|.*…', but no column 'arm'"),
    (NOISE, ",".join(f"c{i}" for i in range(30)), "'c7'.*'arm'"),
    (NOISE, "arm,outcome,count\nred,1,5\n", "line 1.*'outcome'"),
    (NOISE, "arm,count,total,successes\nred,1,1,1\n", "'count'.*'total'"),
    (NOISE, "arm,value,reward\nred,1,2\n", "line 1.*'value'"),
    (NOISE, "arm,Arm,outcome\nred,red,2\n", "line 1.*'arm'"),
    (Binary(), rows("blue,0.5"), "line 3.*'blue'"),
    (Bounded(0, 1), rows("blue,1.7").replace("outcome", "reward"), "line 3.*'blue'"),
    (Bounded(0, 1), rows("blue,-3"), "line 3.*'blue'"),
    (Poisson(), rows("blue,-1"), "line 3.*'blue'"),
    (Poisson(), rows("blue,1.5"), "line 3.*'blue'"),
    (NOISE, "arm,n,total\nred,1.5,2\n", "line 2.*'red'"),
    (NOISE, "arm,count,total\nred,-1,2\n", "line 2.*'red'"),
    (NOISE, "arm,count,total\nred,1e17,2\n", "line 2.*'red'"),
    (NOISE, "arm,count,total\nred,x,2\n", "line 2.*'x'"),
    (NOISE, "arm,count,total\nred,0,2\n", "line 2.*'red'"),
    (NOISE, "arm,count,successes\nred,5,6\n", "line 2.*'red'"),
    (Binary(), "arm,count,total\nred,5,2.5\n", "line 2.*'red'"),
    (Poisson(), "arm,count,total\nred,5,-1\n", "line 2"),
    (Bounded(1, 5), "arm,count,total\nred,5,4\n", "line 2.*'red'"),
    (Bounded(1, 5), "arm,count,successes\nred,5,5\n", "line 1.*'successes'"),
    (NOISE, "arm,count,total,squares\nred,4,8,15\n", "line 2.*'red'"),
    (NOISE, "arm,count,total,squares\nred,0,0,1\n", "line 2"),
    (Normal(), "arm,count,total\nred,4,8\n", "line 1.*'squares'"),
    (NOISE, b"\0\1\2\3" * 99, "results.csv"),
    (NOISE, rows("blue,1").encode() + b"red,\0", "results.csv"),
    (NOISE, b"\x1f\x8b\x08\x00junk", "results.csv"),
    (NOISE, gzip.compress(gzip.compress(b"arm", mtime=0), mtime=0), "results.csv"),
    (NOISE, gzip.compress(b"PAR1" * 99, mtime=0), "results.csv"),
    (NOISE, b"\xd0\xcf\x11\xe0\xa1\xb1", "results.csv"),
    (NOISE, b"%PDF-1.7", r"^results.csv is a PDF"),
    (NOISE, rows("blue,1").encode("utf-16"), "results.csv"),
    (NOISE, b"PK\x03\x04junk", "results.csv"),
    (NOISE, b"PAR1junk", "results.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("noise", "contents", "message"), REFUSED)
def test_refusals(tell, noise, contents, message):
    with pytest.raises(DataError, match=message):
        tell(contents, noise)


def test_lines_are_right_far_into_a_file(tell, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK", 1000)
    for quote in ("", '"'):
        body = "arm,outcome\n" + f"{quote}red{quote},1\n" * 7000
        with pytest.raises(DataError, match=r"line 7002.*'x'"):
            tell(body + "x,1\n" + body)
        with pytest.raises(DataError, match=r"line 7003.*'outcome'"):
            tell(body + "blue,1\nblue,outcome\n")
        with pytest.raises(DataError, match="line 7002"):
            tell(body.encode() + b"\xff,1\n" + b"red,1\n" * 9)
        with pytest.raises(DataError, match="line 7002: a quote"):
            tell(body + '"red,1\n' + "red,1\n" * 30_000)


def test_a_line_without_end(tell, monkeypatch):
    monkeypatch.setattr(readers, "_LONGEST", 10_000)
    monkeypatch.setattr(readers, "BLOCK", 1000)
    with pytest.raises(DataError, match="line 2"):
        tell("arm,outcome\nred," + "1" * 20_000)


def test_files_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results.csv").write_text(ROWS)
    with pytest.raises(DataError, match=r"resutls.csv.*results.csv"):
        read_results("resutls.csv", ARMS, NOISE)
    with pytest.raises(DataError, match="file"):
        read_results("qqq", ARMS, NOISE)
    with pytest.raises(DataError, match="directory"):
        read_results(Path("no/qqq"), ARMS, NOISE)
    with pytest.raises(DataError, match="directory"):
        read_results(tmp_path, ARMS, NOISE)
    with pytest.raises(DataError, match=r"cannot be read \(.*embedded null"):
        read_results("a\0b", ARMS, NOISE)
    Path("r.xlsx").write_text(ROWS)
    with pytest.raises(DataError, match=r"r.xlsx"):
        read_results("r.xlsx", ARMS, NOISE)
    Path("r.parquet").write_text(ROWS)
    with pytest.raises(DataError, match=r"r.parquet"):
        read_results("r.parquet", ARMS, NOISE)
    with pytest.raises(InputError, match="`parts` is 0"):
        read_results("results.csv", ARMS, NOISE, parts=0)


def test_a_disk_that_fails(tell, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(record.tempfile, "SpooledTemporaryFile", lambda max_size: Full())
    with pytest.raises(DataError, match=r"results.csv"):
        tell(ROWS, parts=4)


def test_parquet_with_texts_that_come_back_and_columns_that_are_no_cells(tmp_path):
    path, arrow = tmp_path / "r.parquet", pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    table = {
        "arm": arrow.array(["red", "blue", "red", None]).dictionary_encode(),
        "outcome": [1.5, 2.0, 0.5, None],
        "it's": [[{"a' || 'b": 1}]] * 4,
        "map": arrow.array([[("k", 1)]] * 4, arrow.map_(arrow.string(), arrow.int64())),
    }
    arrow.parquet.write_table(arrow.table(table).slice(0, 3), path)
    assert read_results(path, ARMS, NOISE).totals.tolist() == [2.0, 2.0, 0]
    with ExitStack() as stack:
        sheet = readers.sheet_of(path, str(path), "r", set(), stack)
        (chunk,) = sheet.chunks(range(4))
    assert list(sheet.header) == list(table)
    assert [list(column) for column in chunk.columns[2:]] == [["(nested)"] * 3] * 2


def test_an_uploaded_parquet_file_of_numbers_alone(tmp_path):
    path = tmp_path / "r.parquet"
    _write(pd.DataFrame({"arm": [1, 2, 1], "outcome": [1.5, 2.0, 0.5]}), path)
    with path.open("rb") as file:
        (chunk,) = readers.parquet_sheet("r", str(path), file, readers.Limits(1 << 20, 3)).chunks([0, 1])
        assert [list(column) for column in chunk.columns] == [[1, 2, 1], [1.5, 2.0, 0.5]]
        with pytest.raises(DataError, match="over 2 rows"):
            list(readers.parquet_sheet("r", str(path), file, readers.Limits(1 << 20, 2)).chunks([0, 1]))


def test_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"arm": ["red", "blue"], "outcome": [1.5, 2]})
    _write(table, "r.xlsx")
    _write(table, "r.parquet")
    assert read_results("r.parquet", ARMS, NOISE).totals.tolist() == [1.5, 2, 0]
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "r.parquet").read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cut.parquet"):
        read_results("cut.parquet", ARMS, NOISE)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DataError, match=r"roundwise\[frames\]"):
        read_results("r.parquet", ARMS, NOISE)
    assert read_results("r.xlsx", ARMS, NOISE).totals.tolist() == [1.5, 2, 0]  # needs nothing


def test_empty_workbook(tmp_path):
    pd.DataFrame().to_excel(tmp_path / "e.xlsx", index=False)
    with pytest.raises(DataError, match="is empty"):
        read_results(tmp_path / "e.xlsx", ARMS, NOISE)


def test_an_arm_among_very_many_that_is_not_there(tell):
    arms = [f"arm {i}" for i in range(100_000)]
    with pytest.raises(DataError, match="'Arm 3x'"):
        tell("arm,outcome\narm 5,1\nArm 3x,1\n", arms=arms)


def test_import_stays_light():
    heavy = "[m for m in ('pandas', 'duckdb', 'openpyxl') if m in sys.modules]"
    code = f"import sys, roundwise.ingest; print({heavy})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- laws

values = st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-5, 5).map(float)
some_rows = st.lists(st.tuples(st.sampled_from(ARMS), values), min_size=1, max_size=40)


@pytest.mark.long
@law
@given(some_rows, st.sampled_from([",", ";", "\t"]), st.sampled_from(["\n", "\r\n"]), st.data())
def test_any_dialect_reads_back_the_same_bits(tmp_path, table, delimiter, end, data):
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    comma = delimiter == ";" and data.draw(st.booleans())
    body = io.StringIO()
    writer = csv.writer(body, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["arm", "x", "outcome"])
    for arm, value in table:
        number = repr(value).replace(".", ",") if comma else repr(value)
        blank = data.draw(st.sampled_from(["", end]))
        body.write(blank)
        writer.writerow([data.draw(st.sampled_from([arm, f" {arm}"])), "?", number])
    path = tmp_path / "r.csv"
    path.write_bytes(data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + body.getvalue().encode())
    found = read_results(path, ARMS, NOISE, parts=3, seed=5)
    counts, totals, scatter = reference(ARMS, table)
    assert found.counts.tolist() == counts
    assert found.totals.tolist() == totals  # to the last bit
    scale = max(abs(value) for _, value in table) ** 2
    np.testing.assert_allclose(found.scatter, scatter, rtol=1e-9, atol=1e-11 * scale)
    frame = {"arm": [arm for arm, _ in table], "outcome": [value for _, value in table]}
    same(found, read_results(frame, ARMS, NOISE, parts=3, seed=5))
    _round_trip(found)


@pytest.mark.long
@law
@given(some_rows, st.integers(20, 300), st.booleans())
def test_fast_and_slow_reading_give_the_same_bits_in_blocks_of_any_size(tmp_path, table, block, blanks):
    body = "arm,outcome\n" + "".join(f"{arm},{value!r}\n" for arm, value in table)
    (tmp_path / "plain.csv").write_text(body)
    lines = [f'"{arm}",{value!r}\n' for arm, value in table]
    (tmp_path / "quoted.csv").write_text("arm,outcome\n" + ("\n" * blanks).join(lines))
    noise = Bounded(-1e6, 1e6)
    whole = read_results(tmp_path / "plain.csv", ARMS, noise, parts=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BLOCK", block)
        patch.setattr(readers, "ROWS", 7)
        patch.setattr(readers, "FRAME_ROWS", 3)
        same(whole, read_results(tmp_path / "plain.csv", ARMS, noise, parts=4))
        same(whole, read_results(tmp_path / "quoted.csv", ARMS, noise, parts=4))
        frame = pd.DataFrame(table, columns=["arm", "outcome"])
        same(whole, read_results(frame, ARMS, noise, parts=4))
    _round_trip(whole)


def _round_trip(found):
    written = json.dumps(found.payload(), allow_nan=False)
    back = Results.from_payload(json.loads(written))
    assert json.dumps(back.payload()) == written
    for name in ("counts", "totals", "scatter"):
        assert getattr(back, name).tobytes() == getattr(found, name).tobytes()
    if found.values is not None:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(back.values, found.values, strict=True))


@law
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=150) | st.lists(st.integers(0, 70_000)))
def test_packing_keeps_every_bit(numbers):
    array = np.array(numbers, dtype=np.float64)
    assert unpack_numbers(json.loads(json.dumps(pack_numbers(array)))).tobytes() == array.tobytes()
    many = np.resize(array, 200) if len(array) else np.zeros(200)
    assert unpack_numbers(json.loads(json.dumps(pack_numbers(many)))).tobytes() == many.tobytes()


def test_a_damaged_payload(tell):
    payload = tell(ROWS, Bounded(0, 5)).payload()
    assert payload["counts"] == [2, 1, 0]
    wrong = [
        *[("counts", each) for each in (None, [2, 1], [2, 1, -1], [2, 0.5, 0], [3, 1, 0], ["2", [], 0])],
        *[("totals", each) for each in ("<f8z:###", "<i3z:AA==", "<f8z:AAAA", [1, float("inf"), 0])],
        *[
            ("strata", each)
            for each in (3, {}, {**payload["strata"], "totals": [1]}, {**payload["strata"], "max_per_arm": 3})
        ],
        *[("form", "x"), ("distribution", "x"), ("parts", 0), ("seed", None), ("start", [1]), ("missing", [1])],
    ]
    for key, value in wrong:
        with pytest.raises(DataError, match="results"):
            Results.from_payload({**payload, key: value})
    with pytest.raises(DataError, match="KeyError"):
        Results.from_payload({})


@pytest.mark.long
@settings(deadline=None, derandomize=True, max_examples=400, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_contents_raise_anything_but_a_data_error(tmp_path, data):
    """Bytes changed, cut or put in anywhere: a DataError, or the sums of what `csv` finds in the same file."""
    body = bytearray(data.draw(st.sampled_from([
        b'arm,outcome\r\nred,1.5\r\n"blue",2\r\ngreen,0.25\r\n',
        b"\xef\xbb\xbfarm;outcome\nred;1,5\nblue;2\ngreen;3\n",
        b"arm\tcount\tsuccesses\nred\t5\t3\nblue\t2\t1\n",
        b"arm,count,total,squares\nred,5,3,9\nblue,2,1,1\n",
    ])))  # fmt: skip
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(body)))
        junk = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"\n", b",", b"\r", b";", b"-", b"e9", b"\xff"])
        )
        body[at : at + data.draw(st.integers(0, 3))] = junk
    body = bytes(body[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else body)
    path = tmp_path / "fuzz.csv"
    path.write_bytes(body)
    try:
        found = read_results(path, ARMS, data.draw(st.sampled_from([NOISE, Bounded(0, 5), Binary()])), parts=2)
    except DataError:
        return
    assert found.digest == hashlib.sha256(body).hexdigest()
    if any(note.code in ("guessed_column", "number_read") for note in found.notes):
        return
    assert _by_csv(body.decode("utf-8-sig"), found.form) == pytest.approx(found.totals.tolist())


def _by_csv(body, form):
    line = next(line for line in io.StringIO(body, newline="") if line.strip(" \t\r\n,;") and line[:4] != "sep=")
    delimiter = max(",;\t", key=line.count)
    column = {"rows": ("outcome", "value", "reward", "result"), "sums": ("total", "sum"), "successes": ("successes",)}
    header, totals = None, dict.fromkeys(ARMS, 0.0)
    for row in csv.reader(io.StringIO(body, newline=""), delimiter=delimiter):
        if not any(cell.strip() for cell in row) or row[0].startswith("sep="):
            continue
        if header is None:
            header = [cell.strip().casefold() for cell in row]
            place = next(header.index(name) for name in column[form] if name in header)
            continue
        totals[row[header.index("arm")].strip()] += float(row[place].replace(",", "."))
    return list(totals.values())


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["xlsx", "parquet"])
def test_damaged_books(tmp_path, suffix):
    path = tmp_path / f"r.{suffix}"
    _write(pd.DataFrame({"arm": ["red", "blue"] * 20, "outcome": np.arange(40.0)}), str(path))
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    right = read_results(path, ARMS, NOISE).totals.tolist()
    for _ in range(40):
        broken = bytearray(whole)
        for at in rng.integers(4, len(whole), size=3):
            broken[at] = rng.integers(256)
        path.write_bytes(broken[: rng.integers(1, len(whole))] if rng.random() < 0.5 else broken)
        try:
            assert read_results(path, ARMS, NOISE).totals.tolist() == right
        except DataError:
            pass
        except AssertionError:
            if suffix == "xlsx":
                raise  # a workbook has checksums; Parquet without them may hold another number


# --- batches


def test_files_of_one_batch_are_pooled_about_the_common_mean(tell):
    rng = np.random.default_rng(2)
    table = [(ARMS[i], v) for i, v in zip(rng.integers(0, 3, 60), rng.normal(50, 1, 60).tolist(), strict=True)]

    def body(some):
        return "arm,outcome\n" + "".join(f"{arm},{value!r}\n" for arm, value in some)

    noise = Normal()
    files = (table[:10], table[10:35], table[35:])
    together = batch_of([tell(body(some), noise, parts=4, file=i) for i, some in enumerate(files, 1)])
    whole = batch_of([tell(body(table), noise, parts=4)])
    np.testing.assert_array_equal(together.counts, whole.counts)
    np.testing.assert_allclose(together.totals, whole.totals, rtol=1e-14)
    np.testing.assert_allclose(together.scatter, reference(ARMS, table)[2], rtol=1e-11)
    assert together.parts.number == whole.parts.number == 4
    np.testing.assert_array_equal(together.parts.counts[0].sum(axis=-1), whole.counts)
    assert together.table is None


def test_files_that_know_less(tell):
    rows, sums = tell(ROWS, SubGaussian(1), parts=4), tell("arm,count,total\nred,2,1\n", SubGaussian(1), parts=4)
    batch = batch_of([rows, sums])
    assert batch.counts.tolist() == [4, 1, 0]
    assert (batch.scatter, batch.table, batch.parts) == (None, None, None)
    with pytest.raises(InputError, match="at least one file"):
        batch_of([])


def test_tables_of_values(tell):
    noise = Bounded(0, 5)
    one, two = tell(ROWS, noise, parts=2, file=1), tell("arm,outcome\ngreen,2\nred,5\n", noise, parts=2, file=2)
    batch = batch_of([one, two])
    assert batch.table.values.tolist() == [1.5, 2, 2.5, 5]
    assert batch.table.counts.tolist() == [[1, 0, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_array_equal(batch.parts.table.counts[0].sum(axis=-2), batch.table.counts)
    for part in (batch.parts.batch(p) for p in range(batch.parts.number)):
        np.testing.assert_array_equal(part.table.counts.sum(axis=-1), part.counts)
    wins = tell("arm,count,successes\nred,5,2\n", noise)
    assert batch_of([wins]).table.counts.tolist() == [[3, 2], [0, 0], [0, 0]]
    assert batch_of([one, wins]).table.counts.tolist() == [[3, 2, 1, 0, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
    assert batch_of([one, tell("arm,count,total\nred,5,2\n", noise)]).table is None


# --- size


@pytest.mark.long
def test_a_hundred_thousand_arms(tell):
    arms = [f"item {i}" for i in range(100_000)]
    rng = np.random.default_rng(0)
    lines = [f"{arm},{x}\n" for x in rng.integers(0, 2, 3).tolist() for arm in arms]
    found = tell("arm,outcome\n" + "".join(lines), Binary(), arms=arms, parts=4)
    batch = batch_of([found])
    written = json.dumps(found.payload())
    back = Results.from_payload(json.loads(written))
    assert len(written) < 12e6
    assert batch.counts.tolist() == [3.0] * 100_000
    np.testing.assert_array_equal(back.scatter, found.scatter)


def _large(path, megabytes):
    """A file of about this size, and its counts and totals."""
    rng = np.random.default_rng(megabytes)
    names = np.array([f"arm{i}" for i in range(10)])
    counts, totals = np.zeros(10), np.zeros(10)
    with path.open("w") as file:
        file.write("arm,outcome\n")
        while file.tell() < megabytes * 1e6:
            index, values = rng.integers(0, 10, 100_000), np.round(rng.random(100_000), 6)
            pairs = zip(names[index].tolist(), values.tolist(), strict=True)
            file.write("".join([f"{name},{value:.6f}\n" for name, value in pairs]))
            np.add.at(counts, index, 1.0)
            np.add.at(totals, index, values)
    return counts, totals


MEASURED = """
import json, resource, sys
from roundwise import Gaussian
from roundwise.ingest import read_results
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = read_results(sys.argv[1], [f"arm{i}" for i in range(10)], Gaussian(1.0), parts=4)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([found.counts.tolist(), found.totals.tolist(), (after - before) / 1024]))
"""


@pytest.mark.long
@pytest.mark.parametrize("megabytes", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_large_files_are_read_in_little_memory(tmp_path, megabytes):
    counts, totals = _large(tmp_path / "large.csv", megabytes)
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, os.fspath(tmp_path / "large.csv")], capture_output=True, text=True, check=True
    )
    found_counts, found_totals, memory = json.loads(run.stdout)
    assert found_counts == counts.tolist()
    assert found_totals == totals.tolist()
    assert memory < 200  # MB, whatever the size
